"""Rounds of the algorithms against the same rounds written down straight from their formulas.

The references share no code with the algorithms but the addresses of the shuffles.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import msgspec
import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from common.arrays import from_under, parts
from common.config import Option, TrainingSection
from common.samples import Samples
from tests.algorithms.federation import CLASSES, HEAVY, PLAIN, THREE, Federation
from tests.algorithms.reference import (
    Values,
    agree,
    base,
    batches,
    entropy,
    gradients,
    head,
    inputs,
    mean,
    named,
    part,
    sgd,
    values,
    with_grad,
)

SIZES = [len(own) for own in THREE]
MODEL = ("base", "head")


def federation(
    folder: Path, name: str, training: TrainingSection = HEAVY, **options: Option
) -> Federation:
    return Federation(folder, name, options, training=training)


def shuffled(number: int, client: int, settings: TrainingSection) -> list[Tensor]:
    return batches("shuffle", number, client, SIZES[client], settings, settings.epochs)


def trained_all(start: Values, number: int, settings: TrainingSection) -> list[Values]:
    """Everybody's model after plain training from one start."""
    return [
        sgd(start, own, shuffled(number, k, settings), settings) for k, own in enumerate(THREE)
    ]


# global algorithms


@pytest.mark.parametrize("settings", [PLAIN, HEAVY], ids=["plain", "momentum"])
@pytest.mark.parametrize("weighting", ["samples", "uniform"])
def test_fedavg(tmp_path: Path, weighting: str, settings: TrainingSection) -> None:
    fed = federation(tmp_path, "fedavg", settings, weighting=weighting)
    w = values(fed.first)
    for number in (1, 2):
        fed.round()
        models = trained_all(w, number, settings)
        for k, model in enumerate(models):
            agree(fed.history[-1].update(k), model)
        w = mean(models, SIZES if weighting == "samples" else [1, 1, 1])
        agree(fed.global_model, w)


def test_fedavg_in_numpy_on_a_convex_problem(tmp_path: Path) -> None:
    """Softmax regression by hand: no torch, no autograd."""
    fed = Federation(tmp_path, "fedavg", model="all_head", training=PLAIN).run(1)
    start_w = fed.first["head.0.weight"].astype(np.float64)
    start_b = fed.first["head.0.bias"].astype(np.float64)
    ws, bs = [], []
    for k, own in enumerate(THREE):
        w, b = start_w.copy(), start_b.copy()
        x, y = own.images.reshape(-1, 4) / 127.5 - 1, np.eye(CLASSES)[own.labels]
        for batch in (step.numpy() for step in shuffled(1, k, PLAIN)):
            logits = x[batch] @ w.T + b
            odds = np.exp(logits - logits.max(axis=1, keepdims=True))
            error = (odds / odds.sum(axis=1, keepdims=True) - y[batch]) / len(batch)
            w -= PLAIN.learning_rate * error.T @ x[batch]
            b -= PLAIN.learning_rate * error.sum(axis=0)
        ws.append(w)
        bs.append(b)
    shares = np.array(SIZES) / sum(SIZES)
    expected_w, expected_b = np.tensordot(shares, ws, 1), np.tensordot(shares, bs, 1)
    assert np.abs(fed.global_model["head.0.weight"] - expected_w).max() < 1e-6
    assert np.abs(fed.global_model["head.0.bias"] - expected_b).max() < 1e-6


def test_fedprox(tmp_path: Path) -> None:
    mu = 0.7
    fed = federation(tmp_path, "fedprox", mu=mu)
    w = values(fed.first)
    for number in (1, 2):
        fed.round()
        models = [
            sgd(
                w,
                own,
                shuffled(number, k, HEAVY),
                HEAVY,
                terms=lambda p, w=w: {name: mu * (p[name] - w[name]) for name in w},
            )
            for k, own in enumerate(THREE)
        ]
        w = mean(models, SIZES)
        agree(fed.global_model, w)


def test_feddyn(tmp_path: Path) -> None:
    """With g_k and h of the paper; one client is lost in the second round."""
    alpha, clients = 0.3, 3
    fed = federation(tmp_path, "feddyn", alpha=alpha)
    w = values(fed.first)
    h = {name: torch.zeros_like(value) for name, value in w.items()}
    g = [dict(h) for _ in THREE]
    for number, (selected, used) in enumerate([((0, 1, 2), (0, 1, 2)), ((0, 1), (1,))] * 2, 1):
        fed.round(selected, used)
        models = {
            k: sgd(
                w,
                THREE[k],
                shuffled(number, k, HEAVY),
                HEAVY,
                terms=lambda p, k=k, w=w: {
                    name: alpha * (p[name] - w[name]) - g[k][name] for name in w
                },
            )
            for k in used
        }
        for k, model in models.items():
            g[k] = {name: g[k][name] - alpha * (model[name] - w[name]) for name in w}
        h = {
            name: h[name] - alpha / clients * sum(models[k][name] - w[name] for k in used)
            for name in w
        }
        average = mean(list(models.values()), [1] * len(used))
        w = {name: average[name] - h[name] / alpha for name in w}
        agree(fed.global_model, w, 2e-6 if number > 2 else 1e-6)
        for k in range(clients):
            agree(fed.state_of(k), {name: -g[k][name] / alpha for name in w}, 2e-6)


def test_scaffold(tmp_path: Path) -> None:
    server_rate, clients = 0.8, 3
    fed = federation(tmp_path, "scaffold", HEAVY, server_rate=server_rate)
    w = values(fed.first)
    c = {name: torch.zeros_like(value) for name, value in w.items()}
    own = [dict(c) for _ in THREE]
    for number, used in enumerate([(0, 1, 2), (0, 2), (0, 1, 2)], 1):
        fed.round(used)
        way, change = {}, {}
        for k in used:
            steps = shuffled(number, k, HEAVY)
            model = sgd(
                w,
                THREE[k],
                steps,
                HEAVY,
                momentum=0.0,
                terms=lambda _p, k=k, c=c: {name: c[name] - own[k][name] for name in c},
            )
            way[k] = {name: model[name] - w[name] for name in w}
            new = {
                name: own[k][name] - c[name] - way[k][name] / (len(steps) * HEAVY.learning_rate)
                for name in w
            }
            change[k] = {name: new[name] - own[k][name] for name in w}
            own[k] = new
        w = {
            name: w[name] + server_rate * sum(way[k][name] for k in used) / len(used)
            for name in w
        }
        c = {name: c[name] + sum(change[k][name] for k in used) / clients for name in c}
        agree(fed.global_model, w)
        agree(from_under("control", fed.state), c, 5e-6)  # a difference over a short way


@pytest.mark.parametrize("name", ["fedyogi", "fedadam", "fedadagrad"])
def test_adaptive_servers(tmp_path: Path, name: str) -> None:
    rate, beta_1, beta_2, tau = 0.01, 0.9, 0.99, 1e-3
    fed = federation(tmp_path, name)
    w = values(fed.first)
    m = {key: torch.zeros_like(value) for key, value in w.items()}
    v = {key: torch.full_like(value, tau**2) for key, value in w.items()}
    for number in (1, 2, 3):
        fed.round()
        average = mean(trained_all(w, number, HEAVY), SIZES)
        for key in w:
            d = average[key] - w[key]
            m[key] = beta_1 * m[key] + (1 - beta_1) * d
            if name == "fedyogi":
                v[key] = v[key] - (1 - beta_2) * d**2 * torch.sign(v[key] - d**2)
            elif name == "fedadam":
                v[key] = beta_2 * v[key] + (1 - beta_2) * d**2
            else:
                v[key] = v[key] + d**2
            w[key] = w[key] + rate * m[key] / (torch.sqrt(v[key]) + tau)
        agree(fed.global_model, w)


@pytest.mark.parametrize("dampening", [True, False])
def test_fedavgm(tmp_path: Path, dampening: bool) -> None:
    fed = federation(tmp_path, "fedavgm", beta=0.6, server_rate=0.5, dampening=dampening)
    w = values(fed.first)
    m = {key: torch.zeros_like(value) for key, value in w.items()}
    for number in (1, 2, 3):
        fed.round()
        average = mean(trained_all(w, number, HEAVY), SIZES)
        for key in w:
            g = w[key] - average[key]
            m[key] = 0.6 * m[key] + (0.4 if dampening else 1) * g
            w[key] = w[key] - 0.5 * m[key]
        agree(fed.global_model, w)


# a base for all, heads of their own


def test_fedper(tmp_path: Path) -> None:
    fed = federation(tmp_path, "fedper")
    w = values(fed.first)
    heads = [part(w, "head") for _ in THREE]
    for number, selected in enumerate([(0, 1), (0, 2), (1, 2)], 1):
        fed.round(selected)
        models = [
            sgd({**part(w, "base"), **heads[k]}, THREE[k], shuffled(number, k, HEAVY), HEAVY)
            for k in selected
        ]
        for k, model in zip(selected, models, strict=True):
            heads[k] = part(model, "head")
            agree(fed.state_of(k), heads[k])
        w = mean(models, [SIZES[k] for k in selected])
        agree(fed.global_model, w)


def test_fedrep(tmp_path: Path) -> None:
    fed = federation(tmp_path, "fedrep", head_epochs=3, base_epochs=2)
    w = values(fed.first)
    heads = [part(w, "head") for _ in THREE]
    for number in (1, 2):
        fed.round()
        models = []
        for k, own in enumerate(THREE):
            start = {**part(w, "base"), **heads[k]}
            first = batches("head", number, k, SIZES[k], HEAVY, 3)
            second = batches("base", number, k, SIZES[k], HEAVY, 2)
            model = sgd(start, own, first, HEAVY, only=["head"])
            model = sgd(model, own, second, HEAVY, only=["base"])
            heads[k] = part(model, "head")
            models.append(model)
            agree(fed.state_of(k), heads[k])
        w = mean(models, SIZES)
        agree(fed.global_model, w)


def test_fedrep_by_steps(tmp_path: Path) -> None:
    fed = federation(tmp_path, "fedrep", PLAIN, variant="steps", steps=4, weighting="uniform")
    w = values(fed.first)
    for number in (1, 2):
        fed.round()
        models = []
        for k, own in enumerate(THREE):
            first = batches("head", number, k, SIZES[k], PLAIN, 3)[:3]
            model = sgd(w, own, first, PLAIN, only=["head"])
            models.append(sgd(model, own, shuffled(number, k, PLAIN)[:1], PLAIN))
        w = mean(models, [1, 1, 1])
        agree(fed.global_model, w)


def test_fedbabu(tmp_path: Path) -> None:
    fed = federation(tmp_path, "fedbabu")
    w = values(fed.first)
    for number in (1, 2):
        fed.round()
        models = [
            sgd(w, own, shuffled(number, k, HEAVY), HEAVY, only=["base"])
            for k, own in enumerate(THREE)
        ]
        w = {**mean(models, SIZES), **part(w, "head")}
        agree(fed.global_model, w)
    tuned = sgd(
        w, THREE[1], batches("fine-tuning", 3, 1, SIZES[1], HEAVY, 10), HEAVY, only=["head"]
    )
    expected = head(tuned, base(tuned, inputs(THREE[1]))).argmax(1)
    correct = int((expected == torch.from_numpy(THREE[1].labels)).sum())
    last = Federation(tmp_path, "fedbabu", {"tune_every": 1}, training=HEAVY).run(2)
    assert last.count(1)["L1"] == correct


def test_fedrod(tmp_path: Path) -> None:
    fed = federation(tmp_path, "fedrod")
    w = values(fed.first)
    own_heads = [named(w, "head", "personal") for _ in THREE]
    for number in (1, 2):
        fed.round()
        models = []
        for k, own in enumerate(THREE):
            counts = np.bincount(own.labels, minlength=CLASSES)
            prior = torch.tensor(np.log(np.maximum(counts, 1e-9)))
            p = {**w, **own_heads[k]}
            speed: Values = {}
            x, y = inputs(own), torch.from_numpy(own.labels)
            for batch in shuffled(number, k, HEAVY):
                p = with_grad(p, p)
                z = base(p, x[batch])
                o = head(p, z)
                first = functional.cross_entropy(o + prior, y[batch])
                both = o.detach() + head(p, z.detach(), "personal")
                second = functional.cross_entropy(both, y[batch])
                g = {
                    **gradients(first, p, list(w)),
                    **gradients(second, p, list(own_heads[k])),
                }
                for name, value in g.items():
                    speed[name] = HEAVY.momentum * speed.get(name, 0 * value) + value
                    p[name] = p[name].detach() - HEAVY.learning_rate * speed[name]
            own_heads[k] = part(p, "personal")
            models.append({name: p[name].detach() for name in w})
            agree(fed.state_of(k), own_heads[k])
            answers = head(p, base(p, x)) + head(p, base(p, x), "personal")
            assert_same(fed.history[-1].trained[k].personal, answers, own)
        w = mean(models, SIZES)
        agree(fed.global_model, w)


def assert_same(predictor: object, expected: Tensor, own: Samples) -> None:
    """A personal model gives these logits."""
    assert callable(predictor)
    images = inputs(own).float().reshape(-1, 1, 2, 2)
    assert (predictor(images) - expected.detach()).abs().max() < 1e-5


@pytest.mark.parametrize("agg_weights", ["split", "origin"])
@pytest.mark.parametrize("statistic", ["mean", "max", "secmin"])
def test_fedreg(tmp_path: Path, agg_weights: str, statistic: str) -> None:
    options = {"agg_weights": agg_weights, "statistic": statistic}
    fed = federation(tmp_path, "fedreg", **options)
    w = values(fed.first)
    own_heads = [named(w, "head", "personal") for _ in THREE]
    for number in (1, 2):
        sets = [fed.client(k).rebalanced.samples for k in range(3)]
        fed.round()
        models, effective = [], []
        for k, own in enumerate(THREE):
            counts = np.bincount(own.labels)
            counts = counts[counts > 0]
            target = {
                "mean": math.floor(counts.sum() / len(counts) + 0.5),
                "max": counts.max(),
                "secmin": sorted(counts)[1],
            }[statistic]
            effective.append(sum(min(count, target) for count in counts))
            assert set(np.bincount(sets[k].labels)) == {target}
            first = sgd(
                {**w, **own_heads[k]},
                own,
                shuffled(number, k, HEAVY),
                HEAVY,
                only=["base", "personal"],
                loss=lambda p, x, y: functional.cross_entropy(
                    head(p, base(p, x)) + head(p, base(p, x), "personal"), y
                ),
            )
            order = batches("rebalanced", number, k, len(sets[k]), HEAVY, HEAVY.epochs)
            second = sgd(first, sets[k], order, HEAVY)
            own_heads[k] = part(second, "personal")
            agree(fed.state_of(k), own_heads[k])
            models.append({name: second[name] for name in w})
            answers = head(second, base(second, inputs(own)))
            answers = answers + head(second, base(second, inputs(own)), "personal")
            assert_same(fed.history[-1].trained[k].personal, answers, own)
        bases, heads = ([part(model, name) for model in models] for name in MODEL)
        w = {
            **mean(bases, SIZES),
            **mean(heads, effective if agg_weights == "split" else SIZES),
        }
        agree(fed.global_model, w)


# a whole model of their own


def test_ditto(tmp_path: Path) -> None:
    lam = 0.4
    fed = federation(tmp_path, "ditto", lam=lam, personal_epochs=3)
    w = values(fed.first)
    own_models = [w for _ in THREE]
    for number in (1, 2):
        fed.round()
        for k, own in enumerate(THREE):
            own_models[k] = sgd(
                own_models[k],
                own,
                batches("personal", number, k, SIZES[k], HEAVY, 3),
                HEAVY,
                momentum=0.0,
                terms=lambda p, w=w: {name: lam * (p[name] - w[name]) for name in w},
            )
            agree(fed.state_of(k), own_models[k])
        w = mean(trained_all(w, number, HEAVY), SIZES)
        agree(fed.global_model, w)


def test_apfl_blended(tmp_path: Path) -> None:
    """Variant (a): both by themselves, alpha in every step, then the blend."""
    rate = PLAIN.learning_rate
    fed = federation(tmp_path, "apfl", PLAIN, alpha=0.4)
    shared = values(fed.first)
    own_models, alphas = [shared for _ in THREE], [0.4] * 3
    for number in (1, 2):
        fed.round()
        models = []
        for k, own in enumerate(THREE):
            w, v, alpha = dict(shared), dict(own_models[k]), alphas[k]
            x, y = inputs(own), torch.from_numpy(own.labels)
            for batch in shuffled(number, k, PLAIN):
                w, v = with_grad(w, w), with_grad(v, v)
                at_w = gradients(entropy(w, x[batch], y[batch]), w, list(w))
                at_v = gradients(entropy(v, x[batch], y[batch]), v, list(v))
                w = {name: w[name].detach() - rate * at_w[name] for name in w}
                v = {name: v[name].detach() - rate * at_v[name] for name in v}
                slope = sum(
                    float(((v[n] - w[n]) * (alpha * at_v[n] + (1 - alpha) * at_w[n])).sum())
                    for n in w
                )
                alpha = min(1.0, max(0.0, alpha - rate * (slope + 0.02 * alpha)))
            own_models[k] = {n: (1 - alpha) * w[n] + alpha * v[n] for n in w}
            alphas[k] = alpha
            models.append(w)
            expected = {**as_own(own_models[k]), "alpha": torch.tensor(alpha)}
            agree(fed.state_of(k), expected)
        shared = mean(models, SIZES)
        agree(fed.global_model, shared)
    assert len({round(alpha, 4) for alpha in alphas}) == 3


def as_own(model: Values) -> Values:
    return {**named(model, "base", "own_base"), **named(model, "head", "own_head")}


def test_apfl_through_the_mixture(tmp_path: Path) -> None:
    """Variant (b): v through the mixture, alpha in the first step only, v stays apart."""
    rate = PLAIN.learning_rate
    fed = federation(tmp_path, "apfl", PLAIN, alpha=0.4, variant="mixture")
    shared = values(fed.first)
    own_models, alphas = [shared for _ in THREE], [0.4] * 3
    for number in (1, 2, 3):
        fed.round()
        models = []
        for k, own in enumerate(THREE):
            w, v, alpha = dict(shared), dict(own_models[k]), alphas[k]
            x, y = inputs(own), torch.from_numpy(own.labels)
            for at, batch in enumerate(shuffled(number, k, PLAIN)):
                w = with_grad(w, w)
                at_w = gradients(entropy(w, x[batch], y[batch]), w, list(w))
                w = {name: value.detach() for name, value in w.items()}
                mix = with_grad({n: alpha * v[n] + (1 - alpha) * w[n] for n in w}, w)
                at_mix = gradients(entropy(mix, x[batch], y[batch]), mix, list(mix))
                slope = sum(float(((v[n] - w[n]) * at_mix[n]).sum()) for n in w)
                v = {n: v[n] - rate * alpha * at_mix[n] for n in w}
                w = {n: w[n] - rate * at_w[n] for n in w}
                if at == 0:
                    alpha = min(1.0, max(0.0, alpha - rate * slope))
            own_models[k], alphas[k] = v, alpha
            models.append(w)
            agree(fed.state_of(k), {**as_own(v), "alpha": torch.tensor(alpha)})
            mix = {n: alpha * v[n] + (1 - alpha) * w[n] for n in w}
            answers = head(mix, base(mix, inputs(own)))
            assert_same(fed.history[-1].trained[k].personal, answers, own)
        shared = mean(models, SIZES)
        agree(fed.global_model, shared)
    assert len({round(alpha, 6) for alpha in alphas}) == 3


def test_fliu(tmp_path: Path) -> None:
    fed = federation(tmp_path, "fliu", gamma=0.3)
    w = values(fed.first)
    own_models = [w for _ in THREE]
    for number in (1, 2, 3):
        fed.round()
        for k, own in enumerate(THREE):
            start = {n: 0.3 * own_models[k][n] + 0.7 * w[n] for n in w}
            own_models[k] = sgd(start, own, shuffled(number, k, HEAVY), HEAVY)
            agree(fed.state_of(k), own_models[k])
        w = mean(own_models, [1, 1, 1])
        agree(fed.global_model, w)


def test_per_fedavg(tmp_path: Path) -> None:
    rate = PLAIN.learning_rate
    twice = msgspec.structs.replace(PLAIN, batch_size=2 * PLAIN.batch_size)
    fed = federation(tmp_path, "perfedavg", PLAIN)
    w = values(fed.first)
    for number in (1, 2):
        fed.round()
        models = []
        for k, own in enumerate(THREE):
            p, x, y = dict(w), inputs(own), torch.from_numpy(own.labels)
            for batch in shuffled(number, k, twice):
                one, two = batch[: len(batch) // 2], batch[len(batch) // 2 :]
                if not len(one):
                    continue
                p = with_grad(p, p)
                g = gradients(entropy(p, x[one], y[one]), p, list(p))
                ahead = with_grad({n: p[n].detach() - rate * g[n] for n in p}, p)
                g = gradients(entropy(ahead, x[two], y[two]), ahead, list(p))
                p = {n: p[n].detach() - rate * g[n] for n in p}
            models.append(p)
        w = mean(models, SIZES)
        agree(fed.global_model, w)


def test_fedfomo(tmp_path: Path) -> None:
    """The mix by usefulness, and the affinities that the server adds up."""
    fed = federation(tmp_path, "fedfomo", models=3)
    fed.round()
    affinity = np.eye(3)
    for number in (2, 3):
        before = [values(fed.state_of(k)) for k in range(3)]
        fed.round()
        for k, own in enumerate(THREE):
            learn, judge = halves(own, k)
            x, y = inputs(judge), torch.from_numpy(judge.labels)
            loss = [float(entropy(model, x, y)) for model in before]
            far = [distance(model, before[k]) for model in before]
            q = [(loss[k] - loss[j]) / (far[j] + 1e-5) for j in range(3)]
            affinity[k] += q
            useful = [max(value, 0.0) for value in q]
            start = mean(before, useful) if sum(useful) else before[k]
            order = batches("shuffle", number, k, len(learn), HEAVY, HEAVY.epochs)
            agree(fed.state_of(k), sgd(start, learn, order, HEAVY), 2e-6)
        assert np.abs(fed.state["affinity"] - affinity).max() < 1e-5


def halves(own: Samples, client: int) -> tuple[Samples, Samples]:
    from common.rng import generator

    order = generator(1, "validation", 0, client).permutation(len(own))
    cut = len(own) - round(0.2 * len(own))
    return own.take(order[:cut]), own.take(order[cut:])


def distance(one: Values, other: Values) -> float:
    return math.sqrt(sum(float(((one[n] - other[n]) ** 2).sum()) for n in one))


def test_gpfl(tmp_path: Path) -> None:
    lam, mu = 0.05, 0.1
    # small steps, for LayerNorm magnifies the rounding of nearly equal numbers
    settings = msgspec.structs.replace(HEAVY, learning_rate=0.01)
    fed = federation(tmp_path, "gpfl", settings, lam=lam, mu=mu)
    w = {n: v for n, v in values(fed.state).items() if not n.startswith("initial")}
    heads = [part(w, "head") for _ in THREE]
    for number in (1, 2):
        fed.round()
        models = []
        for k, own in enumerate(THREE):
            table = w["gce.table"]
            counts = torch.tensor(np.bincount(own.labels, minlength=CLASSES))
            mine = (counts / counts.sum()).double() @ table
            everybody = table.mean(0)
            p = {**w, **heads[k]}
            names = [n for n in p if not n.startswith("condition")]
            speed: Values = {}
            x, y = inputs(own), torch.from_numpy(own.labels)
            for batch in shuffled(number, k, settings):
                p = with_grad(p, names)
                z = base(p, x[batch])
                shared = valve(p, z, everybody)
                angles = functional.cosine_similarity(
                    shared[:, None, :], p["gce.table"][None, :, :], dim=2
                )
                loss = (
                    functional.cross_entropy(head(p, valve(p, z, mine)), y[batch])
                    + functional.cross_entropy(angles, y[batch])
                    + lam * torch.sqrt(((shared - table[y[batch]]) ** 2).sum())
                )
                g = gradients(loss, p, names)
                for n in names:
                    value = p[n].detach()
                    if n.split(".")[0] in MODEL:
                        speed[n] = settings.momentum * speed.get(n, 0 * g[n]) + g[n]
                        p[n] = value - settings.learning_rate * speed[n]
                    else:
                        p[n] = value - settings.learning_rate * (g[n] + mu * value)
            heads[k] = part(p, "head")
            agree(fed.state_of(k), heads[k], 2e-6)
            models.append({**{n: p[n] for n in names}, "condition.own": mine})
        w = mean(models, SIZES)
        agree(parts(fed.state, {n.split(".")[0] for n in w}), w, 2e-6)


def valve(p: Mapping[str, Tensor], z: Tensor, condition: Tensor) -> Tensor:
    """ReLU(f (gamma + 1) + beta), each LayerNorm(ReLU(Linear))."""

    def branch(name: str) -> Tensor:
        bent = p[f"cov.{name}_weight"] @ condition + p[f"cov.{name}_bias"]
        bent = torch.relu(bent)
        spread = torch.sqrt(bent.var(unbiased=False) + 1e-5)
        normal = (bent - bent.mean()) / spread
        return normal * p[f"cov.{name}_scale"] + p[f"cov.{name}_shift"]

    return torch.relu(z * (branch("gamma") + 1) + branch("beta"))
