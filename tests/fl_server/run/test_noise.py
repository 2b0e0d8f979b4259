"""Differential privacy of the global model: what is spent, and noise that is drawn once."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from common.algorithms.aggregation import move_length
from common.arrays import Arrays, digest
from common.errors import ConfigError, ProtocolError
from common.experiment.file import parse_experiment
from common.experiment.resolve import first_model
from common.wire.tensors import ModelMeta, UpdateMeta, decode_tensors, encode_tensors
from fl_server.coordinator.local_clients import make_local_clients
from fl_server.coordinator.simulate import Simulation
from fl_server.rounds.state import Close, Open
from fl_server.run.accountant import epsilon
from fl_server.run.aggregator import Aggregator
from fl_server.run.journal import read_records
from fl_server.run.model.file import read_model
from fl_server.run.noise import Noise, draw_key
from fl_server.run.store import RunStore, create_run

SETTINGS: dict[str, Any] = {
    "model": {"name": "dnn", "hidden": 1},
    "data": {"clients": 4},
    "privacy": {"clip": 2.0, "noise": 1.5},
}
NOISE = Noise(2.0, 1.5, 1e-5, "fixed", 4, 4)


def needs_accountant() -> None:
    pytest.importorskip("dp_accounting", reason="the extra fedbed[accounting] is not installed")


@pytest.mark.parametrize(
    ("examples", "batch", "noise", "epochs", "delta", "published"),
    [
        (60_000, 150, 1.3, 15, 1e-5, 0.7242234026109595),
        (100_000, 100, 1.0, 30, 1e-7, 1.4154988495444845),
    ],
)
def test_epsilon_is_that_of_the_accountants_published_examples(
    examples: int, batch: int, noise: float, epochs: int, delta: float, published: float
) -> None:
    """ComputeDpSgdPrivacyTest in tensorflow_privacy/privacy/analysis/
    compute_dp_sgd_privacy_test.py (github.com/tensorflow/privacy), which uses the same
    accountant: Poisson sampling of batches is that of clients here."""
    needs_accountant()
    same = Noise(1.0, noise, delta, "poisson", batch, examples)
    assert epsilon(same, epochs * examples // batch) == pytest.approx(published, rel=1e-9)


def test_epsilon_of_what_really_happens_is_larger_and_grows_with_every_round() -> None:
    needs_accountant()
    fixed = Noise(1.0, 4.0, 1e-5, "fixed", 10, 100)
    poisson = dataclasses.replace(fixed, sampling="poisson")
    spent = [epsilon(fixed, rounds) or 0.0 for rounds in (0, 1, 10, 100)]
    assert spent == sorted(spent)
    assert spent[0] == 0
    assert spent[-1] == pytest.approx(5.379, rel=1e-3)
    assert (epsilon(poisson, 100) or 0) < spent[-1]
    everybody = dataclasses.replace(fixed, expected=100)
    assert (epsilon(everybody, 100) or 0) > spent[-1], "no amplification by sampling"
    assert epsilon(dataclasses.replace(fixed, noise=0.0), 100) is None


def test_noise_has_the_deviation_that_the_accountant_assumes() -> None:
    zero: Arrays = {"base.w": np.zeros(200_000, np.float32)}
    found = NOISE.released(dict(zero), zero, 4, b"k" * 32)["base.w"]
    assert found.std() == pytest.approx(1.5 * 2.0 / 4, rel=0.02)
    assert abs(found.mean()) < 0.01
    assert not np.array_equal(found, NOISE.released(dict(zero), zero, 4, b"l" * 32)["base.w"])


def test_the_sum_is_divided_by_the_expected_number_whoever_has_come() -> None:
    quiet = dataclasses.replace(NOISE, noise=0.0)
    start: Arrays = {"base.w": np.full(3, 1.0, np.float32)}
    mean = {"base.w": np.full(3, 5.0, np.float32)}
    assert quiet.released(mean, start, 1, b"")["base.w"].tolist() == [2.0] * 3


def test_a_key_is_drawn_once(tmp_path: Path) -> None:
    first = draw_key(tmp_path)
    assert draw_key(tmp_path) == first
    (tmp_path / "noise.key").write_bytes(b"torn")
    assert draw_key(tmp_path) not in (first, b"torn")


def update_of(store: RunStore, client: int, length: float, weight: float = 1.0) -> bytes:
    model = first_model(store.experiment())
    size = sum(array.size for array in model.values())
    step = np.float32(length / np.sqrt(size))
    arrays = {name: array + step for name, array in model.items()}
    meta = UpdateMeta(
        run=store.run,
        round=1,
        client=client,
        samples=10,
        steps=1,
        weights={"base": weight, "head": weight},
        loss=0.5,
    )
    return encode_tensors(arrays, meta)


def opened(store: RunStore) -> Aggregator:
    aggregator = Aggregator(store, store.experiment())
    aggregator.progress()
    aggregator.open_round(Open(1, (0, 1, 2, 3), ()))
    return aggregator


def closed(aggregator: Aggregator) -> str:
    aggregator.close_round(Close(1, (0, 1, 2, 3), (), training=True), 1.0)
    return digest(decode_tensors(aggregator.downloads.blob(2), ModelMeta)[0])


@pytest.mark.parametrize("arithmetic", ["float", "exact"])
def test_a_coordinator_killed_between_drawing_and_checkpoint_makes_the_same_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arithmetic: str
) -> None:
    needs_accountant()
    settings = {**SETTINGS, "aggregation": {"arithmetic": arithmetic}}
    models = []
    for name in ("one", "other"):
        store = create_run(tmp_path, name, parse_experiment(settings))
        first = opened(store)
        for client in range(4):
            first.accept(1, client, update_of(store, client, 1.0))
        drawn = list[Arrays]()

        def die(_store: RunStore, state: Arrays, *_: object) -> None:
            drawn.append(dict(state))  # noqa: B023 - called in this turn
            raise KeyboardInterrupt

        with monkeypatch.context() as patched:
            patched.setattr(RunStore, "save_checkpoint", die)
            with pytest.raises(KeyboardInterrupt):
                closed(first)
        first.close()
        keys = list(store.folder.glob("journal/*/noise.key"))
        assert len(keys) == 1
        again = opened(RunStore(store.folder))
        model = closed(again)
        assert model == digest(drawn[0]), "the noise that was drawn before"
        again.close()
        assert not list(store.folder.rglob("noise.key")), "or it could be taken away again"
        models.append(model)
    assert models[0] != models[1], "noise of no seed"


def test_a_move_that_no_board_has_shortened_is_rejected(tmp_path: Path) -> None:
    needs_accountant()
    store = create_run(tmp_path, "r", parse_experiment(SETTINGS))
    aggregator = opened(store)
    aggregator.accept(1, 0, update_of(store, 0, 1.99))
    with pytest.raises(ProtocolError, match=r"a move of length 2\.1\d*; privacy\.clip is 2"):
        aggregator.accept(1, 1, update_of(store, 1, 2.1))
    with pytest.raises(ProtocolError, match="at most 1"):
        aggregator.accept(1, 2, update_of(store, 2, 1.0, weight=2.0))
    aggregator.close()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"privacy": {"noise": 1.0}}, "set privacy.clip"),
        ({"privacy": {"clip": 1.0}, "algorithm": {"name": "scaffold"}}, "expected one like"),
        ({"privacy": {"clip": 1.0}, "aggregation": {"rule": "median"}}, "expected 'mean'"),
        ({"privacy": {"clip": 1.0}, "communication": {"encoding": "int8"}}, "'float32'"),
        ({"privacy": {"clip": 1.0}, "selection": {"gamma": 0.5}}, "epsilon would not be true"),
    ],
)
def test_what_noise_would_not_protect_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        parse_experiment({"data": {"clients": 10}, **changes})


def test_boards_shorten_moves_and_the_metrics_have_epsilon(tmp_path: Path) -> None:
    needs_accountant()
    settings = {
        **SETTINGS,
        "experiment": {"rounds": 1},
        "training": {"epochs": 1},
        "privacy": {"clip": 0.25, "noise": 1e-6, "sampling": "poisson"},
    }
    experiment = parse_experiment(settings)
    store = create_run(tmp_path, "r", experiment)
    Simulation(
        store,
        clients=make_local_clients(1),
        shards=tmp_path / "shards",
        observe=lambda _: None,
    ).run()
    model = read_model(store.folder / "model.safetensors")
    assert 0 < move_length(model, first_model(experiment)) < 0.2501
    last = read_records(store.folder / "metrics.jsonl")[-1]
    assert last["epsilon"] > 1e6, "so little noise hides nothing"
