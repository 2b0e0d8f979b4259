"""Run folders: whole or absent, damage found, formats told apart."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import numpy as np
import pytest

from common.arrays import digest
from common.config import Experiment
from common.errors import StoreError, UsageError
from common.experiment.file import load_experiment, parse_experiment
from common.wire.chunks import blob_digest
from common.wire.tensors import UpdateMeta, encode_tensors
from fl_server.rounds.state import Open
from fl_server.run import store as store_module
from fl_server.run.find import free_name
from fl_server.run.store import CheckpointMeta, RunStore, create_run
from fl_server.watch.facts.lines import TrainingLine

EXPERIMENT = parse_experiment({"model": {"name": "dnn"}, "data": {"clients": 4}})


@pytest.fixture
def store(tmp_path: Path) -> RunStore:
    return create_run(tmp_path, "r-1", EXPERIMENT)


def meta(store: RunStore, round_number: int) -> CheckpointMeta:
    record = TrainingLine(round=round_number)
    return CheckpointMeta(run=store.run, round=round_number, accepted={}, record=record)


def model(value: float) -> dict[str, np.ndarray[tuple[int], np.dtype[np.float32]]]:
    return {"base.w": np.full(100, value, np.float32)}


def update(store: RunStore, client: int, round_number: int = 1) -> bytes:
    about = UpdateMeta(
        run=store.run,
        round=round_number,
        client=client,
        samples=5,
        steps=1,
        weights={"base": 5.0},
        loss=0.5,
    )
    return encode_tensors(model(client), about)


def test_a_new_run_keeps_its_experiment_and_gets_an_id_of_its_own(tmp_path: Path) -> None:
    first = create_run(tmp_path / "a", "same", EXPERIMENT)
    second = create_run(tmp_path / "b", "same", EXPERIMENT)
    assert first.experiment() == EXPERIMENT
    assert first.run != second.run
    assert first.run.startswith("same.")


def test_a_taken_name_is_refused_and_free_names_count_up(
    tmp_path: Path, store: RunStore
) -> None:
    with pytest.raises(UsageError, match="already there"):
        create_run(tmp_path, "r-1", EXPERIMENT)
    assert free_name(tmp_path, "r") == "r-2"
    assert free_name(tmp_path / "nowhere", "r") == "r-1"


def test_the_newest_whole_checkpoint_is_used_and_damage_is_said(
    store: RunStore, caplog: pytest.LogCaptureFixture
) -> None:
    for round_number in range(5):
        store.save_checkpoint(model(round_number), meta(store, round_number))
        store.close_round(round_number)
    paths = sorted((store.folder / "checkpoints").iterdir())
    assert len(paths) == 3
    paths[-1].write_bytes(paths[-1].read_bytes()[:-7])
    paths[-2].write_bytes(b"")
    with caplog.at_level(logging.WARNING):
        found = RunStore(store.folder).load_checkpoint()
    assert found is not None
    assert found[1].round == 2
    assert digest(found[0]) == digest(model(2))
    assert caplog.text.count("passed over checkpoint") == 2
    assert all(path.exists() for path in paths), "nothing that cannot be read is deleted"


def test_one_changed_byte_of_a_checkpoint_is_noticed(store: RunStore) -> None:
    store.save_checkpoint(model(1), meta(store, 1))
    (path,) = (store.folder / "checkpoints").iterdir()
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(StoreError, match=r"none of the 1 checkpoints .* nothing was deleted"):
        store.load_checkpoint()
    assert path.exists()


def test_the_open_round_and_its_safe_updates_survive_and_damaged_ones_do_not(
    store: RunStore,
) -> None:
    store.open_round(Open(1, (0, 2, 3), (0, 1, 2, 3)))
    for client in (3, 2, 0):
        blob = update(store, client)
        store.updates.path(1, client, blob_digest(blob)).write_bytes(blob)
    torn = next(store.folder.glob("journal/*/client-000002-*"))
    torn.write_bytes(torn.read_bytes()[:50])
    again = RunStore(store.folder)
    assert again.opened(1) == Open(1, (0, 2, 3), (0, 1, 2, 3))
    assert again.opened(2) is None
    assert again.updates.safe(1) == (3, 0)  # in the order in which they came
    assert again.updates.path(1, 2, "d").name == "client-000002-000004-d.safetensors"
    assert again.updates.load(1, 3) == update(again, 3)
    again.close_round(1)
    assert again.opened(1) is None
    with pytest.raises(StoreError, match="is gone"):
        again.updates.load(1, 3)


def test_a_torn_list_of_the_open_round_is_discarded(store: RunStore) -> None:
    store.open_round(Open(1, (0,), (0,)))
    (store.folder / "journal" / "round-000001" / "open.json").write_bytes(b'{"number":1,"sel')
    assert store.opened(1) is None


def test_a_folder_of_another_format_is_refused_not_misread(store: RunStore) -> None:
    path = store.folder / "run.json"
    record = json.loads(path.read_text())
    path.write_text(json.dumps({**record, "format": 99, "new": "field"}))
    with pytest.raises(StoreError, match="has run format 99, this fedbed reads 3"):
        RunStore(store.folder)


def test_a_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="is not a run folder"):
        RunStore(tmp_path)


def test_incarnations_count_and_the_end_is_remembered(store: RunStore) -> None:
    assert [store.next_incarnation(), RunStore(store.folder).next_incarnation()] == [1, 2]
    again = RunStore(store.folder)
    again.mark_finished()
    assert RunStore(store.folder).finished


def test_an_experiment_is_parsed_once_on_the_way_to_its_first_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed: list[Path] = []

    def counted(path: Path) -> Experiment:
        parsed.append(path)
        return load_experiment(path)

    monkeypatch.setattr(store_module, "load_experiment", counted)
    new = create_run(tmp_path, "new", EXPERIMENT)
    assert new.experiment() is new.experiment() is EXPERIMENT
    assert parsed == [], "a new run has the experiment that it was made with"
    again = RunStore(new.folder)
    assert again.experiment() is again.experiment()
    assert again.experiment() == EXPERIMENT
    assert parsed == [new.folder / "experiment.toml"]
