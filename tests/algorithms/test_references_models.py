"""Rounds of algorithms in which clients have models of their own against the same rounds,
written down straight from their formulas.

The references share no code with the algorithms but the addresses of the shuffles.
"""

from __future__ import annotations

import math
from pathlib import Path

import msgspec
import numpy as np
import torch

from common.data.samples import Samples
from common.rng import generator
from tests.algorithms.federation import HEAVY, PLAIN, THREE
from tests.algorithms.reference import (
    SIZES,
    Values,
    agree,
    assert_same,
    base,
    batches,
    entropy,
    federation,
    gradients,
    head,
    inputs,
    mean,
    named,
    pull,
    sgd,
    shuffled,
    trained_all,
    values,
    with_grad,
)


def test_ditto(tmp_path: Path) -> None:
    lam = 0.4
    fed = federation(tmp_path, "ditto", lam=lam, personal_epochs=3)
    w = values(fed.first)
    own_models = [w for _ in THREE]
    for round_number in (1, 2):
        fed.round()
        for k, own in enumerate(THREE):
            own_models[k] = sgd(
                own_models[k],
                own,
                batches("personal", round_number, k, SIZES[k], HEAVY, 3),
                HEAVY,
                momentum=0.0,
                terms=pull(w, lam),
            )
            agree(fed.state_of(k), own_models[k])
        w = mean(trained_all(w, round_number, HEAVY), SIZES)
        agree(fed.global_model, w)


def test_apfl_blended(tmp_path: Path) -> None:
    """Variant (a): both by themselves, alpha in every step, then the blend."""
    rate = PLAIN.learning_rate
    fed = federation(tmp_path, "apfl", PLAIN, alpha=0.4)
    shared = values(fed.first)
    own_models, alphas = [shared for _ in THREE], [0.4] * 3
    for round_number in (1, 2):
        fed.round()
        models = []
        for k, own in enumerate(THREE):
            w, v, alpha = dict(shared), dict(own_models[k]), alphas[k]
            x, y = inputs(own), torch.from_numpy(own.targets)
            for batch in shuffled(round_number, k, PLAIN):
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
    for round_number in (1, 2, 3):
        fed.round()
        models = []
        for k, own in enumerate(THREE):
            w, v, alpha = dict(shared), dict(own_models[k]), alphas[k]
            x, y = inputs(own), torch.from_numpy(own.targets)
            for at, batch in enumerate(shuffled(round_number, k, PLAIN)):
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
    for round_number in (1, 2, 3):
        fed.round()
        for k, own in enumerate(THREE):
            start = {n: 0.3 * own_models[k][n] + 0.7 * w[n] for n in w}
            own_models[k] = sgd(start, own, shuffled(round_number, k, HEAVY), HEAVY)
            agree(fed.state_of(k), own_models[k])
        w = mean(own_models, [1, 1, 1])
        agree(fed.global_model, w)


def test_per_fedavg(tmp_path: Path) -> None:
    rate = PLAIN.learning_rate
    twice = msgspec.structs.replace(PLAIN, batch_size=2 * PLAIN.batch_size)
    fed = federation(tmp_path, "perfedavg", PLAIN)
    w = values(fed.first)
    for round_number in (1, 2):
        fed.round()
        models = []
        for k, own in enumerate(THREE):
            p, x, y = dict(w), inputs(own), torch.from_numpy(own.targets)
            for batch in shuffled(round_number, k, twice):
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
    for round_number in (2, 3):
        before = [values(fed.state_of(k)) for k in range(3)]
        fed.round()
        for k, own in enumerate(THREE):
            learn, judge = halves(own, k)
            x, y = inputs(judge), torch.from_numpy(judge.targets)
            loss = [float(entropy(model, x, y)) for model in before]
            far = [distance(model, before[k]) for model in before]
            q = [(loss[k] - loss[j]) / (far[j] + 1e-5) for j in range(3)]
            affinity[k] += q
            useful = [max(value, 0.0) for value in q]
            start = mean(before, useful) if sum(useful) else before[k]
            order = batches("shuffle", round_number, k, len(learn), HEAVY, HEAVY.epochs)
            agree(fed.state_of(k), sgd(start, learn, order, HEAVY), 2e-6)
        assert np.abs(fed.state["affinity"] - affinity).max() < 1e-5


def halves(own: Samples, client: int) -> tuple[Samples, Samples]:
    order = generator(1, "validation", 0, client).permutation(len(own))
    cut = len(own) - round(0.2 * len(own))
    return own.take(order[:cut]), own.take(order[cut:])


def distance(one: Values, other: Values) -> float:
    return math.sqrt(sum(float(((one[n] - other[n]) ** 2).sum()) for n in one))
