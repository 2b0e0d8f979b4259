"""What a run has learnt: aggregation, metrics, and going on after a crash."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest

from common.arrays import Arrays, digest
from common.errors import ProtocolError, StrayUpdateError
from common.experiment.file import parse_experiment
from common.experiment.resolve import first_model
from common.wire.messages import ClientMetrics, Info
from common.wire.tensors import ModelMeta, UpdateMeta, decode_tensors, encode_tensors
from fl_server.rounds.state import Close, Open
from fl_server.run.aggregator import Aggregator
from fl_server.run.journal import read_records
from fl_server.run.metrics.summary import Summary
from fl_server.run.store import RunStore, create_run
from tests.some_sums import counted

EXPERIMENT = parse_experiment({"model": {"name": "dnn"}, "data": {"clients": 4}})


@pytest.fixture
def store(tmp_path: Path) -> RunStore:
    return create_run(tmp_path, "r", EXPERIMENT)


def blob(
    store: RunStore,
    client: int,
    arrays: Arrays,
    round_number: int = 1,
    weight: float = 1.0,
    samples: int = 10,
) -> bytes:
    meta = UpdateMeta(
        run=store.run,
        round=round_number,
        client=client,
        samples=samples,
        steps=3,
        weights={"base": weight, "head": weight},
        loss=0.5,
    )
    return encode_tensors(arrays, meta)


def shifted(amount: float) -> Arrays:
    model = first_model(EXPERIMENT)
    return {name: (array + np.float32(amount)) for name, array in model.items()}


def tell(store: RunStore, client: int, correct: int, round_number: int = 1) -> ClientMetrics:
    counts = {"G": counted(correct, 10), "L1": counted(correct, 10)}
    return ClientMetrics(run=store.run, round=round_number, client=client, own=counts)  # type: ignore[arg-type]


def do_round(aggregator: Aggregator, round_number: int) -> None:
    aggregator.open_round(Open(round_number, (0, 1), (0, 1)))
    for client in (0, 1):
        aggregator.tally.count(tell(aggregator.store, client, 4 + client, round_number))
        update = blob(
            aggregator.store,
            client,
            shifted(round_number + client),
            round_number,
            1.0 + 2 * client,
        )
        aggregator.accept(round_number, client, update)
    aggregator.close_round(Close(round_number, (0, 1), (), training=True), 1.5)


def test_the_first_download_is_the_first_model(store: RunStore) -> None:
    aggregator = Aggregator(store, EXPERIMENT)
    arrays, meta = decode_tensors(aggregator.downloads.blob(1), ModelMeta)
    assert (meta.run, meta.round) == (store.run, 1)
    assert digest(arrays) == digest(first_model(EXPERIMENT))
    aggregator.close()


def test_a_round_averages_by_weight_and_tells_accuracy_of_the_model_it_tested(
    store: RunStore,
) -> None:
    aggregator = Aggregator(store, EXPERIMENT)
    do_round(aggregator, 1)
    arrays, _ = decode_tensors(aggregator.downloads.blob(2), ModelMeta)
    wanted = shifted(0)["base.0.1.bias"].astype(np.float64) + (1 * 1 + 3 * 2) / 4
    assert np.allclose(arrays["base.0.1.bias"], wanted, atol=1e-6)
    (line,) = read_records(store.folder / "metrics.jsonl")
    assert (line["round"], line["accuracy_global"], line["tested_samples"]) == (0, 0.45, 20)
    assert line["accuracy_l2"] is None
    aggregator.close()


def test_a_client_that_reports_twice_counts_once(store: RunStore) -> None:
    aggregator = Aggregator(store, EXPERIMENT)
    aggregator.open_round(Open(1, (0,), (0,)))
    aggregator.tally.count(tell(store, 0, 4))
    aggregator.tally.count(tell(store, 0, 4))
    assert aggregator.tally.tests(aggregator.task)["tested_samples"] == 10
    aggregator.close()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"head.1.0.bias": np.full(10, np.nan, np.float32)}, "not finite"),
        ({"head.1.0.bias": np.zeros(11, np.float32)}, "expected float32"),
        ({"head.1.0.bias": np.zeros(10, np.float64)}, "expected float32"),
        ({"extra": np.zeros(1, np.float32)}, "missing or unknown"),
    ],
)
def test_an_update_that_cannot_be_used_is_refused(
    store: RunStore, change: Arrays, words: str
) -> None:
    aggregator = Aggregator(store, EXPERIMENT)
    aggregator.open_round(Open(1, (0,), ()))
    with pytest.raises(ProtocolError, match=words):
        aggregator.accept(1, 0, blob(store, 0, {**shifted(1), **change}))
    with pytest.raises(StrayUpdateError, match="another client"):
        aggregator.accept(1, 1, blob(store, 0, shifted(1)))
    with pytest.raises(StrayUpdateError):
        aggregator.accept(1, 0, b"no update at all")
    with pytest.raises(ProtocolError, match="expected more than 0"):
        aggregator.accept(1, 0, blob(store, 0, shifted(1), weight=-1.0))
    assert aggregator.progress().safe == ()
    aggregator.close()


def test_a_client_whose_number_of_samples_changes_is_refused(store: RunStore) -> None:
    aggregator = Aggregator(store, EXPERIMENT)
    do_round(aggregator, 1)
    aggregator.open_round(Open(2, (0, 1), ()))
    aggregator.accept(2, 0, blob(store, 0, shifted(1), round_number=2, samples=10))
    with pytest.raises(ProtocolError, match="999 samples; the client had 10 before"):
        aggregator.accept(2, 0, blob(store, 0, shifted(1), round_number=2, samples=999))
    with pytest.raises(ProtocolError, match="20000 samples; the dataset has 10000 in all"):
        aggregator.accept(2, 1, blob(store, 1, shifted(1), round_number=2, samples=20_000))
    aggregator.close()


def test_going_on_after_any_round_gives_the_same_model_and_the_same_lines(
    tmp_path: Path, store: RunStore
) -> None:
    straight = Aggregator(store, EXPERIMENT)
    for round_number in (1, 2, 3):
        do_round(straight, round_number)
    other = create_run(tmp_path / "other", "r", EXPERIMENT)
    for round_number in (1, 2, 3):
        aggregator = Aggregator(RunStore(other.folder), EXPERIMENT)
        do_round(aggregator, round_number)
        aggregator.close()
    last = Aggregator(RunStore(other.folder), EXPERIMENT)
    assert last.finish() == straight.finish()

    def lines(run: RunStore) -> list[tuple[int, float]]:
        found = read_records(run.folder / "metrics.jsonl")
        return [(line["round"], line["accuracy_global"]) for line in found]

    assert lines(other) == lines(store)
    straight.close()
    last.close()


def test_a_line_of_metrics_lost_after_its_checkpoint_is_written_again(store: RunStore) -> None:
    aggregator = Aggregator(store, EXPERIMENT)
    do_round(aggregator, 1)
    aggregator.close()
    path = store.folder / "metrics.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    Aggregator(RunStore(store.folder), EXPERIMENT).close()
    assert path.read_bytes() == whole


def test_energy_of_the_open_round_is_in_its_line_and_that_of_another_is_not(
    store: RunStore,
) -> None:
    aggregator = Aggregator(store, EXPERIMENT)
    do_round(aggregator, 1)
    assert aggregator.lines()[-1].energy_joules is None
    aggregator.open_round(Open(2, (0, 1), (0, 1)))
    for client, round_number, joules in ((0, 2, 4.0), (1, 2, 2.5), (1, 1, 9.0), (0, 2, None)):
        aggregator.note_energy(
            Info(
                run=store.run,
                round=round_number,
                client=client,
                board="b",
                state="trained",
                joules=joules,
            )
        )
    do_round(aggregator, 2)
    assert aggregator.lines()[-1].energy_joules == 6.5
    assert [line.round for line in aggregator.lines()] == [0, 1, 2]
    aggregator.close()


def test_counts_of_each_client_are_kept_and_never_twice(store: RunStore) -> None:
    for round_number in (1, 2):
        aggregator = Aggregator(RunStore(store.folder), EXPERIMENT)
        do_round(aggregator, round_number)
        aggregator.close()
    path = store.folder / "clients.jsonl"
    whole = path.read_bytes()
    lines = read_records(path)
    assert [line["round"] for line in lines] == [0, 1]
    assert lines[0]["clients"] == {
        str(client): {
            stage: {"samples": 10, "correct": 4 + client, "loss": 10} for stage in ("G", "L1")
        }
        for client in (0, 1)
    }
    path.write_bytes(whole[:-5])  # torn by a crash right after the checkpoint
    Aggregator(RunStore(store.folder), EXPERIMENT).close()
    assert path.read_bytes() == whole
    assert "by_client" not in (store.folder / "metrics.jsonl").read_text()


def test_a_finished_run_has_a_summary(store: RunStore) -> None:
    aggregator = Aggregator(store, EXPERIMENT)
    do_round(aggregator, 1)
    aggregator.finish()
    aggregator.close()
    summary = msgspec.json.decode((store.folder / "summary.json").read_bytes(), type=Summary)
    assert summary.figures["accuracy_global"].best == 0.45
    assert summary.personal_stage == "L1"


def test_an_exact_round_is_the_same_in_every_order_and_after_a_restart(tmp_path: Path) -> None:
    exact = {"aggregation": {"arithmetic": "exact"}, "data": {"clients": 4}}
    experiment = parse_experiment({"model": {"name": "dnn"}, **exact})
    digests = set()
    for at, order in enumerate([(0, 1, 2), (2, 0, 1), (1, 2, 0)]):
        store = create_run(tmp_path, f"r{at}", experiment)
        aggregator = Aggregator(store, experiment)
        aggregator.open_round(Open(1, (0, 1, 2), ()))
        for arrived, client in enumerate(order):
            if at == 2 and arrived == 2:  # killed and resumed
                aggregator.close()
                aggregator = Aggregator(RunStore(store.folder), experiment)
                assert aggregator.progress().safe == (1, 2)
            update = blob(store, client, shifted(0.1 * client), weight=1.0 + client)
            aggregator.accept(1, client, update)
        aggregator.close_round(Close(1, (0, 1, 2), (), training=True), 1.0)
        arrays, _ = decode_tensors(aggregator.downloads.blob(2), ModelMeta)
        assert aggregator.lines()[-1].samples == 30
        digests.add(digest(arrays))
        aggregator.close()
        for name, array in shifted((0.2 + 0.6) / 6).items():
            assert arrays[name] == pytest.approx(array, abs=1e-6)
    assert len(digests) == 1


def test_an_update_that_no_exact_sum_holds_is_rejected(tmp_path: Path) -> None:
    experiment = parse_experiment(
        {
            "model": {"name": "dnn"},
            "aggregation": {"arithmetic": "exact"},
            "data": {"clients": 4},
        }
    )
    store = create_run(tmp_path, "r", experiment)
    aggregator = Aggregator(store, experiment)
    aggregator.open_round(Open(1, (0, 1), ()))
    with pytest.raises(ProtocolError, match="beyond 4096"):
        aggregator.accept(1, 0, blob(store, 0, shifted(5000.0)))
    assert aggregator.progress().safe == ()
    aggregator.close()
