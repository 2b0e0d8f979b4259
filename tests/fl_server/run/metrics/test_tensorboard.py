"""Event files, read back by TensorBoard."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader
from tensorboard.compat.proto.event_pb2 import Event

from common.errors import UsageError
from fl_server.run.journal import Journal
from fl_server.run.metrics.tensorboard import EventFile, tag_of
from fl_server.watch.facts.making import evaluated
from tests.fl_server.watch.some_facts import closed, described

LINE = {"round": 0, "accuracy_global": 0.25, "accuracy_l2": None, "time": 5.0}


def read(run: Path) -> list[Any]:
    """The events of the one file in a run folder, as TensorBoard reads them."""
    (path,) = (run / "tensorboard").iterdir()
    return [Event.FromString(data) for data in RawEventFileLoader(str(path)).Load()]


def scalars(event: Any) -> dict[str, float]:
    return {value.tag: value.simple_value for value in event.summary.value}


def make(run: Path) -> EventFile:
    journal = Journal(run / "metrics.jsonl")
    journal.append(LINE)
    journal.close()
    return EventFile(run, 1234.5)


def test_a_file_begins_with_what_the_run_already_has(tmp_path: Path) -> None:
    make(tmp_path).close()
    version, first = read(tmp_path)
    assert version.file_version == "brain.Event:2"
    assert (first.step, first.wall_time) == (0, 5.0)
    assert scalars(first) == {"accuracy/global": 0.25}


def test_facts_of_a_run_are_added_and_a_new_start_makes_a_new_file(tmp_path: Path) -> None:
    file = make(tmp_path)
    file.observe(described())
    for fact in closed(1, 6.0):
        file.observe(fact)
    file.close()
    _, _, trained, tested = read(tmp_path)
    assert scalars(trained)["round/updates"] == 300
    assert set(scalars(tested)) == {"accuracy/global", "accuracy/l1", "accuracy/l2"}
    EventFile(tmp_path, 99.0).close()
    assert len(read(tmp_path)) == 2


def test_what_was_written_is_there_before_the_file_is_closed(tmp_path: Path) -> None:
    file = make(tmp_path)
    file.observe(evaluated({"round": 1, "accuracy_global": 0.5, "time": 7.0}))
    assert scalars(read(tmp_path)[-1]) == {"accuracy/global": 0.5}
    file.close()


def test_numbers_are_grouped() -> None:
    names = ("accuracy_global", "union_l1", "rho_l2", "bytes_up")
    assert [tag_of(name) for name in names] == [
        "accuracy/global",
        "union/l1",
        "rho/l2",
        "round/bytes_up",
    ]


def test_without_the_package_one_sentence_names_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    with pytest.raises(UsageError, match=r"pip install 'fedbed\[tensorboard\]'"):
        EventFile(tmp_path, 1.0)
    assert not (tmp_path / "tensorboard").exists()
