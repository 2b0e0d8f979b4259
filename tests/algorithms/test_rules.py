"""The rules that every algorithm keeps: odd clients, running statistics, empty and broken
rounds; and that nothing a process did before has a part in what it does next."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path

import msgspec
import numpy as np
import pytest

from common.algorithms import BUILDERS
from common.algorithms.base import Trained
from common.algorithms.local_norm import norms
from common.arrays import Array, Arrays, digest, part_of
from common.errors import ProtocolError
from common.experiment.file import parse_experiment
from common.experiment.resolve import first_model
from common.wire.tensors import UpdateMeta, decode_tensors, encode_tensors
from fl_server.coordinator.local_clients import make_local_clients
from fl_server.coordinator.simulate import Simulation
from fl_server.rounds.state import Close, Open
from fl_server.run.aggregator import Aggregator
from fl_server.run.journal import read_records
from fl_server.run.model.file import read_model
from fl_server.run.store import RunStore, create_run
from tests.algorithms.federation import HEAVY, HERE, THREE, Federation, Round, samples

ODD = (samples(1), samples(0, 5), samples(4, 4, 1, seed=2), samples(0, 0, 0, 2))
TRIES = {
    "fedrep": {"head_epochs": 2},
    "fedbabu": {"tune_epochs": 2, "tune_every": 1},
    "ditto": {"personal_epochs": 1},
    "fedavg2rep": {"first_rounds": 1, "variant": "heads"},
    "clt": {"report_mean": True},
    "fedfomo": {"models": 2},
}
ONE_EPOCH = msgspec.structs.replace(HEAVY, epochs=1)
AVERAGING = [  # those whose new model is a mean, or moves towards one
    *("fedavg", "fedprox", "feddyn", "scaffold", "fedavgm", "fedadagrad", "fedadam", "fedyogi"),
    *("fedper", "fedrep", "fedrod", "fedreg", "gpfl", "ditto", "apfl", "fliu", "perfedavg"),
]
every_algorithm = pytest.mark.parametrize("name", BUILDERS)


def federation(folder: Path, name: str, **more: object) -> Federation:
    settings = {"options": TRIES.get(name, {}), "training": ONE_EPOCH, **more}
    return Federation(folder, name, **settings)  # type: ignore[arg-type]


def is_finite(arrays: Arrays) -> bool:
    return all(np.isfinite(array).all() for array in arrays.values())


# odd clients


@pytest.mark.parametrize("model", ["linear", "normed"])
@every_algorithm
def test_clients_with_one_sample_or_one_class_take_part(
    tmp_path: Path, name: str, model: str
) -> None:
    """Among them the only one of its class; the last batch may have a single sample."""
    fed = federation(tmp_path, name, model=model, clients=ODD).run(2)
    assert is_finite(fed.state)
    for client in range(len(ODD)):
        assert is_finite(fed.state_of(client))
        assert all(count <= len(ODD[client]) for count in fed.count(client).values())
    assert all(weight > 0 for weight in fed.history[0].trained[0].weights.values())


@every_algorithm
def test_a_client_that_only_others_know_has_a_model_to_test(tmp_path: Path, name: str) -> None:
    fed = federation(tmp_path, name)
    fed.round((0, 1))
    found = fed.count(2)
    assert set(found) <= {"G", "L1"}
    assert name == "fedfomo" or "L1" in found


# running statistics


def mean_of(done: Round, name: str) -> Array:
    weights = [trained.weights[part_of(name)] for _, trained in sorted(done.trained.items())]
    values = [t.arrays[name].astype(np.float64) for _, t in sorted(done.trained.items())]
    return np.average(values, axis=0, weights=weights)


@pytest.mark.parametrize("name", AVERAGING)
def test_running_statistics_are_averaged_as_their_part_is_and_counters_are_the_largest(
    tmp_path: Path, name: str
) -> None:
    clients = (*THREE, samples(3, 9, 5, seed=5))
    fed = federation(tmp_path, name, model="normed", clients=clients)
    for _ in range(2):
        done = fed.round()
        for part in ("base.2", "head.0"):
            for statistic in ("running_mean", "running_var"):
                key = f"{part}.{statistic}"
                assert np.allclose(fed.state[key], mean_of(done, key), atol=1e-6)
            key = f"{part}.num_batches_tracked"
            assert fed.state[key] == max(done.update(k)[key] for k in range(len(clients)))
            assert fed.state[key].dtype == np.int64


def test_what_is_frozen_keeps_its_running_statistics(tmp_path: Path) -> None:
    fed = federation(tmp_path, "fedbabu", model="normed")
    bench = fed.client(0)
    for only in ("base", "head"):
        trained = bench.train(fed.first, only=(only,)).arrays
        other = {name for name in fed.first if part_of(name) != only}
        assert all(np.array_equal(trained[name], fed.first[name]) for name in other)
        assert any(
            not np.array_equal(trained[name], fed.first[name])
            for name in trained.keys() - other
            if "running" in name
        )


# nothing is left of what was done before


class BrokenOffError(Exception):
    """Somebody has stopped a training."""


@every_algorithm
def test_neither_other_processes_nor_tests_nor_turns_broken_off_leave_a_trace(
    tmp_path: Path, name: str
) -> None:
    """Each client's turn, with all of that before it, has the bits of an undisturbed one."""
    fed, plain = federation(tmp_path, name), federation(tmp_path, name)

    def stop(*_: object) -> None:
        raise BrokenOffError

    for selected in ((0, 2), (2, 0, 1)):
        done = plain.round(sorted(selected))
        trained = {}
        for client in selected:
            fed.bench = fed.new_bench()
            for tested in range(3):
                fed.count(tested)  # fine-tunes, for those who do
            with pytest.raises(BrokenOffError):
                fed.train(client, stop)
            trained[client] = digest(fed.train(client).arrays)
        assert trained == {client: digest(done.update(client)) for client in selected}
        fed.round(selected)
        assert fed.digest == plain.digest


# the server: order of arrival, empty rounds, what is not finite


def everybody_trained(fed: Federation) -> dict[int, Trained]:
    return {client: fed.train(client) for client in range(len(fed.clients))}


def blobs(fed: Federation, run: str, updates: Mapping[int, Trained]) -> dict[int, bytes]:
    """The updates of the next round, as they come over the wire."""
    found = {}
    for client, trained in updates.items():
        meta = UpdateMeta(
            run=run,
            round=fed.done + 1,
            client=client,
            samples=len(fed.clients[client]),
            steps=trained.steps,
            weights=dict(trained.weights),
            loss=trained.loss,
            values=dict(trained.values),
        )
        found[client] = encode_tensors(trained.arrays, meta)
    return found


def closed(
    store: RunStore, fed: Federation, order: tuple[int, ...], updates: Mapping[int, Trained]
) -> str:
    """The model after one round in which updates come in this order."""
    aggregator = Aggregator(store, fed.experiment)
    everybody = tuple(range(len(fed.clients)))
    aggregator.open_round(Open(1, everybody, ()))
    found = blobs(fed, store.run, updates)
    for client in order:
        aggregator.accept(1, client, found[client])
    aggregator.close_round(Close(1, order, (), training=True), 1.0)
    aggregator.close()
    loaded = store.load_checkpoint()
    assert loaded is not None
    return digest(loaded[0])


@every_algorithm
def test_neither_the_order_of_updates_nor_a_round_without_any_changes_the_model(
    tmp_path: Path, name: str
) -> None:
    fed = federation(tmp_path, name)
    updates = everybody_trained(fed)
    orders = [(0, 1, 2), (2, 0, 1), ()]
    one, other, nothing = (
        closed(create_run(tmp_path, f"r{at}", fed.experiment), fed, order, updates)
        for at, order in enumerate(orders)
    )
    assert nothing == digest(fed.state)
    fed.round()
    assert one == other == digest(fed.state)


@every_algorithm
def test_an_update_that_is_not_finite_is_refused(tmp_path: Path, name: str) -> None:
    fed = federation(tmp_path, name)
    aggregator = Aggregator(create_run(tmp_path, "r", fed.experiment), fed.experiment)
    aggregator.open_round(Open(1, (0, 1, 2), ()))
    arrays, meta = decode_tensors(
        blobs(fed, aggregator.store.run, {0: fed.train(0)})[0], UpdateMeta
    )
    aggregator.accept(1, 0, encode_tensors(arrays, meta))
    for key, value in itertools.product(arrays, (np.nan, np.inf, -np.inf)):
        bad = arrays[key].copy()
        bad.flat[-1] = value
        with pytest.raises(ProtocolError, match="not finite"):
            aggregator.accept(1, 0, encode_tensors({**arrays, key: bad}, meta))
    aggregator.close()


def test_what_diverges_never_enters_the_model_and_the_events_say_who_and_when(
    tmp_path: Path,
) -> None:
    experiment = parse_experiment(
        {
            "experiment": {"rounds": 2},
            "algorithm": {"name": f"{HERE}:diverging"},
            "model": {"name": "dnn", "hidden": 4},
            "data": {"clients": 300},
            "training": {"epochs": 1},
            "selection": {"participants": "0-2"},
        }
    )
    store = create_run(tmp_path, "r", experiment)
    Simulation(
        store, clients=make_local_clients(1), shards=tmp_path, observe=lambda _: None
    ).run()
    model = read_model(store.folder / "model.safetensors")
    assert is_finite(model)
    assert digest(model) != digest(first_model(experiment))
    rejected = [
        event
        for event in read_records(store.folder / "events.jsonl")
        if event["event"] == "rejected"
    ]
    assert [event["client"] for event in rejected] == [1, 1]
    for round_number, event in enumerate(rejected, 1):
        assert f"client 1 in round {round_number}" in event["text"]
        assert "not finite" in event["text"]


def test_clients_can_keep_their_own_running_statistics() -> None:
    download = {
        "base.1.weight": np.ones(3, np.float32),
        "base.2.weight": np.ones(3, np.float32),
        "base.2.running_mean": np.zeros(3, np.float32),
        "base.2.num_batches_tracked": np.array(0),
        "head.0.weight": np.ones((2, 3), np.float32),
    }
    assert set(norms(download)) == {
        "base.2.weight",
        "base.2.running_mean",
        "base.2.num_batches_tracked",
    }
    assert norms({"base.1.weight": download["base.1.weight"]}) == {}


@pytest.mark.parametrize("name", ["fedavg", "fedper", "feddyn"])
def test_with_local_norm_a_client_starts_from_its_own_layers_and_the_global_rest(
    name: str, tmp_path: Path
) -> None:
    federation = Federation(tmp_path, name, model="normed", batch_norm="local").run(2)
    kept = {
        word.removeprefix("norm."): array
        for word, array in federation.state_of(0).items()
        if word.startswith("norm.")
    }
    assert {word.rpartition(".")[2] for word in kept} == {
        "weight",
        "bias",
        "running_mean",
        "running_var",
        "num_batches_tracked",
    }
    for word, array in kept.items():
        if word.endswith("running_mean"):
            assert not np.array_equal(array, federation.global_model[word])
