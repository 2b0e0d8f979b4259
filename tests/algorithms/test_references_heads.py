"""Rounds of algorithms in which clients have heads of their own against the same rounds,
written down straight from their formulas.

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

from common.arrays import parts
from tests.algorithms.federation import CLASSES, HEAVY, PLAIN, THREE, Federation
from tests.algorithms.reference import (
    SIZES,
    Values,
    agree,
    assert_same,
    base,
    batches,
    federation,
    gradients,
    head,
    inputs,
    mean,
    named,
    part,
    sgd,
    shuffled,
    values,
    with_grad,
)

MODEL = ("base", "head")


def test_fedper(tmp_path: Path) -> None:
    fed = federation(tmp_path, "fedper")
    w = values(fed.first)
    heads = [part(w, "head") for _ in THREE]
    for round_number, selected in enumerate([(0, 1), (0, 2), (1, 2)], 1):
        fed.round(selected)
        models = [
            sgd(
                {**part(w, "base"), **heads[k]},
                THREE[k],
                shuffled(round_number, k, HEAVY),
                HEAVY,
            )
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
    for round_number in (1, 2):
        fed.round()
        models = []
        for k, own in enumerate(THREE):
            start = {**part(w, "base"), **heads[k]}
            first = batches("head", round_number, k, SIZES[k], HEAVY, 3)
            second = batches("base", round_number, k, SIZES[k], HEAVY, 2)
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
    for round_number in (1, 2):
        fed.round()
        models = []
        for k, own in enumerate(THREE):
            first = batches("head", round_number, k, SIZES[k], PLAIN, 3)[:3]
            model = sgd(w, own, first, PLAIN, only=["head"])
            models.append(sgd(model, own, shuffled(round_number, k, PLAIN)[:1], PLAIN))
        w = mean(models, [1, 1, 1])
        agree(fed.global_model, w)


def test_fedbabu(tmp_path: Path) -> None:
    fed = federation(tmp_path, "fedbabu")
    w = values(fed.first)
    for round_number in (1, 2):
        fed.round()
        models = [
            sgd(w, own, shuffled(round_number, k, HEAVY), HEAVY, only=["base"])
            for k, own in enumerate(THREE)
        ]
        w = {**mean(models, SIZES), **part(w, "head")}
        agree(fed.global_model, w)
    tuned = sgd(
        w, THREE[1], batches("fine-tuning", 3, 1, SIZES[1], HEAVY, 10), HEAVY, only=["head"]
    )
    expected = head(tuned, base(tuned, inputs(THREE[1]))).argmax(1)
    correct = int((expected == torch.from_numpy(THREE[1].targets)).sum())
    last = Federation(tmp_path, "fedbabu", {"tune_every": 1}, training=HEAVY).run(2)
    assert last.count(1)["L1"] == correct


@pytest.mark.parametrize("first_head", ["initial", "current"])
def test_fedrod(tmp_path: Path, first_head: str) -> None:
    fed = federation(tmp_path, "fedrod", first_head=first_head)
    w = values(fed.first)
    first_model = w
    own_heads: dict[int, Values] = {}
    for round_number, selected in enumerate([(0, 1), (0, 2), (1, 2)], 1):
        fed.round(selected)
        models = []
        for k in selected:
            own = THREE[k]
            source = first_model if first_head == "initial" else w
            own_heads.setdefault(k, named(source, "head", "personal"))
            counts = np.bincount(own.targets, minlength=CLASSES)
            prior = torch.tensor(np.log(np.maximum(counts, 1e-9)))
            p = {**w, **own_heads[k]}
            speed: Values = {}
            x, y = inputs(own), torch.from_numpy(own.targets)
            for batch in shuffled(round_number, k, HEAVY):
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
        w = mean(models, [SIZES[k] for k in selected])
        agree(fed.global_model, w)


@pytest.mark.parametrize("first_head", ["initial", "current"])
@pytest.mark.parametrize("agg_weights", ["split", "origin"])
@pytest.mark.parametrize("statistic", ["mean", "max", "secmin"])
def test_fedreg(tmp_path: Path, agg_weights: str, statistic: str, first_head: str) -> None:
    fed = federation(
        tmp_path,
        "fedreg",
        agg_weights=agg_weights,
        statistic=statistic,
        first_head=first_head,
    )
    w = values(fed.first)
    first_model = w
    own_heads: dict[int, Values] = {}
    for round_number, selected in enumerate([(0, 1), (0, 2), (1, 2)], 1):
        sets = [fed.client(k).rebalanced.samples for k in range(3)]
        fed.round(selected)
        models, effective = [], []
        for k in selected:
            own = THREE[k]
            source = first_model if first_head == "initial" else w
            own_heads.setdefault(k, named(source, "head", "personal"))
            counts = np.bincount(own.targets)
            counts = counts[counts > 0]
            target = {
                "mean": math.floor(counts.sum() / len(counts) + 0.5),
                "max": counts.max(),
                "secmin": sorted(counts)[1],
            }[statistic]
            effective.append(sum(min(count, target) for count in counts))
            assert set(np.bincount(sets[k].targets)) == {target}
            first = sgd(
                {**w, **own_heads[k]},
                own,
                shuffled(round_number, k, HEAVY),
                HEAVY,
                only=["base", "personal"],
                loss=lambda p, x, y: functional.cross_entropy(
                    head(p, base(p, x)) + head(p, base(p, x), "personal"), y
                ),
            )
            order = batches("rebalanced", round_number, k, len(sets[k]), HEAVY, HEAVY.epochs)
            second = sgd(first, sets[k], order, HEAVY)
            own_heads[k] = part(second, "personal")
            agree(fed.state_of(k), own_heads[k])
            models.append({name: second[name] for name in w})
            answers = head(second, base(second, inputs(own)))
            answers = answers + head(second, base(second, inputs(own)), "personal")
            assert_same(fed.history[-1].trained[k].personal, answers, own)
        bases, heads = ([part(model, name) for model in models] for name in MODEL)
        sizes = [SIZES[k] for k in selected]
        w = {
            **mean(bases, sizes),
            **mean(heads, effective if agg_weights == "split" else sizes),
        }
        agree(fed.global_model, w)


def test_fedreg_with_interleaved_phases(tmp_path: Path) -> None:
    fed = federation(tmp_path, "fedreg", interleave=True)
    w = values(fed.first)
    own_heads = [named(w, "head", "personal") for _ in THREE]
    for round_number in (1, 2):
        sets = [fed.client(k).rebalanced.samples for k in range(3)]
        fed.round()
        for k, own in enumerate(THREE):
            p = {**w, **own_heads[k]}
            speeds: tuple[Values, Values] = ({}, {})  # of the two phases, through all epochs
            for epoch in range(HEAVY.epochs):
                p = sgd(
                    p,
                    own,
                    batches(f"shuffle-{epoch}", round_number, k, SIZES[k], HEAVY, 1),
                    HEAVY,
                    only=["base", "personal"],
                    loss=lambda p, x, y: functional.cross_entropy(
                        head(p, base(p, x)) + head(p, base(p, x), "personal"), y
                    ),
                    velocity=speeds[0],
                )
                order = batches(f"rebalanced-{epoch}", round_number, k, len(sets[k]), HEAVY, 1)
                p = sgd(p, sets[k], order, HEAVY, velocity=speeds[1])
            own_heads[k] = part(p, "personal")
            agree(fed.state_of(k), own_heads[k])
            agree(fed.history[-1].update(k), {name: p[name] for name in w})
        w = values(fed.global_model)


@pytest.mark.parametrize("name", ["fedrod", "fedreg"])
def test_the_first_head_travels_only_where_clients_start_from_it(
    tmp_path: Path, name: str
) -> None:
    initial = federation(tmp_path / "initial", name).run(2)
    sent = {part_name.split(".")[0] for part_name in initial.download}
    assert sent == {"base", "head", "initial"}
    current = federation(tmp_path / "current", name, first_head="current").run(2)
    assert current.download.keys() == current.first.keys()


def test_gpfl(tmp_path: Path) -> None:
    lam, mu = 0.05, 0.1
    # small steps, for LayerNorm magnifies the rounding of nearly equal numbers
    settings = msgspec.structs.replace(HEAVY, learning_rate=0.01)
    fed = federation(tmp_path, "gpfl", settings, lam=lam, mu=mu)
    w = {n: v for n, v in values(fed.state).items() if not n.startswith("initial")}
    heads = [part(w, "head") for _ in THREE]
    for round_number in (1, 2):
        fed.round()
        models = []
        for k, own in enumerate(THREE):
            table = w["gce.table"]
            counts = torch.tensor(np.bincount(own.targets, minlength=CLASSES))
            mine = (counts / counts.sum()).double() @ table
            everybody = table.mean(0)
            p = {**w, **heads[k]}
            names = [n for n in p if not n.startswith("condition")]
            speed: Values = {}
            x, y = inputs(own), torch.from_numpy(own.targets)
            for batch in shuffled(round_number, k, settings):
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
