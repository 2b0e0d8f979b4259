from __future__ import annotations

import logging
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from common.arrays import Array, digest
from common.errors import StoreError
from common.worker.snapshot_choice import base_snapshot, snapshots_to_keep
from common.worker.snapshot_store import SnapshotStore
from tests.some_sums import counted

COUNT = counted(3, 4)


def state(round_number: int) -> dict[str, Array]:
    return {"base.w": np.full((3, 2), round_number, np.float32)}


def filled(folder: Path) -> SnapshotStore:
    store = SnapshotStore(folder, "run-1")
    for client in (0, 7):
        for round_number in (1, 2):
            update = b"update %d" % round_number
            store.write(
                client, round_number, state=state(round_number), update=update, tests=COUNT
            )
    return store


def test_a_snapshot_is_read_as_it_was_written(tmp_path: Path) -> None:
    store = filled(tmp_path)
    assert store.update(7, 2) == b"update 2"
    assert digest(store.state(7, 2)) == digest(state(2))
    assert store.record(7, 2).tests == COUNT
    assert store.scan() == {0: frozenset({1, 2}), 7: frozenset({1, 2})}
    assert store.rounds(3) == frozenset()


def test_a_snapshot_without_state_and_counts_is_kept_too(tmp_path: Path) -> None:
    store = SnapshotStore(tmp_path, "run-1")
    store.write(0, 1, state={}, update=b"", tests=None)
    assert store.scan() == {0: frozenset({1})}
    assert (store.state(0, 1), store.update(0, 1), store.record(0, 1).tests) == ({}, b"", None)


def test_writing_a_snapshot_again_changes_nothing(tmp_path: Path) -> None:
    store = filled(tmp_path)
    store.write(7, 2, state=state(9), update=b"other", tests=None)
    assert store.update(7, 2) == b"update 2"
    assert digest(store.state(7, 2)) == digest(state(2))


@pytest.mark.parametrize("damage", ["torn", "empty", "changed", "longer line", "folder"])
def test_a_damaged_snapshot_is_discarded_and_logged_and_the_others_stay(
    tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    store = filled(tmp_path)
    path = tmp_path / "client-000007" / "round-000002"
    data = path.read_bytes()
    match damage:
        case "torn":
            path.write_bytes(data[: len(data) // 2])
        case "empty":
            path.write_bytes(b"")
        case "changed":
            path.write_bytes(data[:-1] + bytes([data[-1] ^ 255]))
        case "longer line":
            path.write_bytes(data.replace(b"\n", b" \n", 1).replace(b"update 2", b"update 3"))
        case _:
            path.unlink()
            path.mkdir()
    with pytest.raises(StoreError):
        (store.update(7, 2), store.state(7, 2))
    with caplog.at_level(logging.WARNING):
        assert store.scan() == {0: frozenset({1, 2}), 7: frozenset({1})}
    assert [record.getMessage()[:9] for record in caplog.records] == ["discarded"]
    assert "client-000007/round-000002" in caplog.text
    assert store.rounds(7) == frozenset({1})
    store.write(7, 2, state=state(2), update=b"again", tests=None)
    assert store.update(7, 2) == b"again"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_any_changed_byte_of_a_snapshot_is_noticed_or_harmless(
    tmp_path: Path, data: st.DataObject
) -> None:
    store = SnapshotStore(tmp_path, "run-1")
    store.write(0, 1, state=state(1), update=b"update", tests=COUNT)
    path = store.path(0, 1)
    before = path.read_bytes()
    place = data.draw(st.integers(0, len(before) - 1))
    changed = bytes([before[place] ^ data.draw(st.integers(1, 255))])
    path.write_bytes(before[:place] + changed + before[place + 1 :])
    if store.scan() == {0: frozenset({1})}:  # only the counts have no digest of their own
        assert place < before.index(b"\n")
        assert digest(store.state(0, 1)) == digest(state(1))
        assert store.update(0, 1) == b"update"
    store.prune(0, frozenset())


def test_a_snapshot_of_another_run_client_or_round_is_not_taken_for_ours(
    tmp_path: Path,
) -> None:
    filled(tmp_path)
    with pytest.raises(StoreError, match="belongs to another snapshot"):
        SnapshotStore(tmp_path, "run-2").update(7, 2)
    home = tmp_path / "client-000007"
    (home / "round-000002").rename(home / "round-000003")
    assert SnapshotStore(tmp_path, "run-1").scan()[7] == frozenset({1})


def test_what_interrupted_writes_left_is_removed(tmp_path: Path) -> None:
    store = filled(tmp_path)
    half = tmp_path / "client-000007" / "round-000003.tmp4711"
    half.write_bytes(b"half")
    assert store.scan()[7] == frozenset({1, 2})
    assert not half.exists()


def test_a_folder_that_is_no_clients_is_left_alone(tmp_path: Path) -> None:
    store = filled(tmp_path)
    (tmp_path / "client-notes").mkdir()
    (tmp_path / "client-000007" / "round-old").mkdir()
    assert store.scan() == {0: frozenset({1, 2}), 7: frozenset({1, 2})}
    assert (tmp_path / "client-notes").is_dir()


def test_pruning_keeps_what_it_is_asked_to(tmp_path: Path) -> None:
    store = filled(tmp_path)
    store.prune(7, frozenset({2, 5}))
    assert store.scan() == {0: frozenset({1, 2}), 7: frozenset({2})}
    store.prune(7, frozenset())
    store.prune(99, frozenset())
    assert store.scan() == {0: frozenset({1, 2}), 7: frozenset()}


def test_the_record_of_a_snapshot_is_readable_by_people(tmp_path: Path) -> None:
    filled(tmp_path)
    text = (tmp_path / "client-000007" / "round-000001").read_bytes()
    found = msgspec.json.decode(text.splitlines()[0], type=dict[str, object])
    assert (found["run"], found["client"], found["round"]) == ("run-1", 7, 1)


THERE = frozenset({1, 3, 5})


@pytest.mark.parametrize(
    ("round_number", "coupled", "accepted", "base"),
    [
        (6, False, None, 5),
        (5, False, 1, 3),
        (1, False, None, None),
        (6, True, 3, 3),
        (6, True, 4, None),
        (6, True, None, None),
    ],
)
def test_a_client_continues_from_its_newest_snapshot_or_the_one_the_server_used(
    round_number: int, coupled: bool, accepted: int | None, base: int | None
) -> None:
    assert base_snapshot(THERE, round_number, coupled=coupled, accepted=accepted) == base


@given(st.frozensets(st.integers(1, 9)), st.integers(1, 9), st.none() | st.integers(1, 9))
def test_what_a_client_may_go_on_from_is_never_pruned(
    there: frozenset[int], round_number: int, accepted: int | None
) -> None:
    kept = snapshots_to_keep(there, round_number, accepted)
    assert kept <= there | {round_number}
    assert round_number in kept
    for coupled in (True, False):
        needed = base_snapshot(
            there | {round_number}, round_number, coupled=coupled, accepted=accepted
        )
        assert needed is None or needed in kept
        following = base_snapshot(
            there | {round_number}, round_number + 1, coupled=coupled, accepted=accepted
        )
        assert following is None or following in kept
