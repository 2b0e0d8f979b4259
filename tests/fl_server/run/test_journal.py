from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from common.errors import StoreError
from fl_server.run.journal import Journal, read_records

values = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text() | st.floats(-1, 1)
records_of_any_kind = st.lists(st.dictionaries(st.text(max_size=5), values, max_size=4))


def write(path: Path, records: list[dict[str, Any]]) -> None:
    journal = Journal(path)
    for record in records:
        journal.append(record, sync=len(records) < 3)
    journal.close()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(records_of_any_kind)
def test_whatever_was_appended_is_read_in_order(
    tmp_path: Path, records: list[dict[str, Any]]
) -> None:
    path = tmp_path / "events.jsonl"
    path.unlink(missing_ok=True)
    write(path, records)
    assert read_records(path) == records


def test_a_journal_that_is_not_there_has_no_records(tmp_path: Path) -> None:
    assert read_records(tmp_path / "none.jsonl") == []


def test_every_line_is_with_the_system_at_once(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "deep" / "events.jsonl")
    journal.append({"a": 1})
    assert read_records(journal.path) == [{"a": 1}]
    journal.close()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 200))
def test_a_torn_tail_is_left_out_and_the_next_start_goes_on_behind_the_last_whole_line(
    tmp_path: Path, cut: int
) -> None:
    path = tmp_path / "events.jsonl"
    path.unlink(missing_ok=True)
    lines = [{"round_number": round_number, "text": "x\ny" * 5} for round_number in range(5)]
    write(path, lines)
    data = path.read_bytes()
    path.write_bytes(data[: max(len(data) - cut, 0)])
    whole = read_records(path)
    assert whole == lines[: len(whole)]
    assert len(whole) >= 5 - -(-cut // (len(data) // 5))
    write(path, [{"after": True}])
    assert read_records(path) == [*whole, {"after": True}]


def test_a_second_start_keeps_what_is_there(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    write(path, [{"a": 1}])
    write(path, [{"b": 2}])
    assert path.read_bytes() == b'{"a":1}\n{"b":2}\n'


def test_a_journal_where_a_folder_is_in_the_way_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=str(tmp_path)):
        Journal(tmp_path)
