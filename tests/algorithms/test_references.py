"""Rounds of algorithms with one global model against the same rounds,
written down straight from their formulas.

The references share no code with the algorithms but the addresses of the shuffles.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from common.arrays import from_under
from common.config import TrainingSection
from tests.algorithms.federation import CLASSES, HEAVY, PLAIN, THREE, Federation
from tests.algorithms.reference import (
    SIZES,
    agree,
    federation,
    mean,
    pull,
    sgd,
    shuffled,
    trained_all,
    values,
)


@pytest.mark.parametrize("settings", [PLAIN, HEAVY], ids=["plain", "momentum"])
@pytest.mark.parametrize("weighting", ["samples", "uniform"])
def test_fedavg(tmp_path: Path, weighting: str, settings: TrainingSection) -> None:
    fed = federation(tmp_path, "fedavg", settings, weighting=weighting)
    w = values(fed.first)
    for round_number in (1, 2):
        fed.round()
        models = trained_all(w, round_number, settings)
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
        x, y = own.inputs[0].reshape(-1, 4) / 127.5 - 1, np.eye(CLASSES)[own.targets]
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
    for round_number in (1, 2):
        fed.round()
        models = [
            sgd(
                w,
                own,
                shuffled(round_number, k, HEAVY),
                HEAVY,
                terms=pull(w, mu),
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
    for round_number, (selected, used) in enumerate(
        [((0, 1, 2), (0, 1, 2)), ((0, 1), (1,))] * 2, 1
    ):
        fed.round(selected, used)
        models = {
            k: sgd(
                w,
                THREE[k],
                shuffled(round_number, k, HEAVY),
                HEAVY,
                terms=pull(w, alpha, g[k]),
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
        agree(fed.global_model, w, 2e-6 if round_number > 2 else 1e-6)
        for k in range(clients):
            agree(fed.state_of(k), {name: -g[k][name] / alpha for name in w}, 2e-6)


def test_scaffold(tmp_path: Path) -> None:
    server_rate, clients = 0.8, 3
    fed = federation(tmp_path, "scaffold", HEAVY, server_rate=server_rate)
    w = values(fed.first)
    c = {name: torch.zeros_like(value) for name, value in w.items()}
    own = [dict(c) for _ in THREE]
    for round_number, used in enumerate([(0, 1, 2), (0, 2), (0, 1, 2)], 1):
        fed.round(used)
        way, change = {}, {}
        for k in used:
            steps = shuffled(round_number, k, HEAVY)
            model = sgd(
                w,
                THREE[k],
                steps,
                HEAVY,
                momentum=0.0,
                terms=pull(w, 0.0, {name: own[k][name] - c[name] for name in c}),
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
    for round_number in (1, 2, 3):
        fed.round()
        average = mean(trained_all(w, round_number, HEAVY), SIZES)
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
    for round_number in (1, 2, 3):
        fed.round()
        average = mean(trained_all(w, round_number, HEAVY), SIZES)
        for key in w:
            g = w[key] - average[key]
            m[key] = 0.6 * m[key] + (0.4 if dampening else 1) * g
            w[key] = w[key] - 0.5 * m[key]
        agree(fed.global_model, w)
