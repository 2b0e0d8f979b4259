from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from common.errors import ConfigError, UsageError
from common.experiment.file import parse_text
from fl_server.queue import Queue, Wanted
from fl_server.run.find import find_or_create

ONE = '[experiment]\nname = "one"\nrounds = 2\n'
TWO = '[experiment]\nname = "two"\nrounds = 2\n'


def test_experiments_wait_in_the_order_in_which_they_were_submitted(tmp_path: Path) -> None:
    first, second = Queue(tmp_path).submit(ONE), Queue(tmp_path).submit(TWO, "two-now")
    assert (first.name, first.state, first.run) == ("one", "waiting", None)
    assert (second.name, second.state, second.run) == ("two-now", "waiting", "two-now")
    assert Queue(tmp_path).entries() == (first, second)
    assert Queue(tmp_path).next() == first


def test_what_was_interrupted_comes_first(tmp_path: Path) -> None:
    queue = Queue(tmp_path)
    _, second = queue.submit(ONE), queue.submit(TWO)
    queue.mark(second.id, "running", "two-1")
    assert Queue(tmp_path).next() == dataclasses.replace(second, state="running", run="two-1")


def test_what_has_ended_stays_listed_and_is_not_run_again(tmp_path: Path) -> None:
    queue = Queue(tmp_path)
    first, second = queue.submit(ONE), queue.submit(TWO)
    queue.mark(first.id, "done", "one-1")
    queue.mark(second.id, "failed", "two-1", "it rained")
    assert queue.next() is None
    assert [(e.state, e.problem) for e in queue.entries()] == [
        ("done", ""),
        ("failed", "it rained"),
    ]


def test_an_experiment_can_be_taken_out_unless_it_runs(tmp_path: Path) -> None:
    queue = Queue(tmp_path)
    first, second = queue.submit(ONE), queue.submit(TWO)
    queue.mark(first.id, "running", "one-1")
    queue.remove(second.id)
    with pytest.raises(UsageError, match="fl-server stop one-1"):
        queue.remove(first.id)
    assert [entry.id for entry in queue.entries()] == [first.id]
    with pytest.raises(UsageError, match=r"'2' is not in the queue .*; there is 1"):
        queue.remove(second.id)


def test_a_wrong_experiment_is_refused_at_once(tmp_path: Path) -> None:
    queue = Queue(tmp_path)
    with pytest.raises(ConfigError, match=r"experiment.toml:2: experiment.rounds is 0"):
        queue.submit("[experiment]\nrounds = 0\n")
    with pytest.raises(ConfigError, match="not valid TOML"):
        queue.submit("rounds =")
    assert queue.entries() == ()


@pytest.mark.parametrize(
    "text",
    [
        '[algorithm]\nname = "os:abort"',
        '[model]\nname = "evil.py:model"',
        '[data]\ndataset = "csv:/etc/passwd"',
        '[task]\nloss = "evil.py:loss"',
    ],
)
def test_a_text_names_no_code_and_no_files(text: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="submit the file: fl-server submit"):
        Queue(tmp_path).submit(text)


def test_the_name_of_another_run_is_refused(tmp_path: Path) -> None:
    queue = Queue(tmp_path)
    find_or_create(tmp_path, parse_text(ONE), "mine")
    with pytest.raises(UsageError, match="'mine' is unfinished and of another experiment"):
        queue.submit(TWO, "mine")
    assert queue.submit(ONE, "mine").run == "mine"  # to go on with it
    with pytest.raises(UsageError, match="in the queue already"):
        queue.submit(ONE, "mine")


def test_of_several_experiments_all_are_queued_or_none(tmp_path: Path) -> None:
    queue, experiment = Queue(tmp_path), parse_text(ONE)
    with pytest.raises(UsageError, match="letters"):
        queue.add([Wanted(experiment, "good"), Wanted(experiment, "no/good")])
    assert queue.entries() == ()


def test_a_damaged_entry_does_not_hide_the_others(tmp_path: Path) -> None:
    queue = Queue(tmp_path)
    first, second = queue.submit(ONE), queue.submit(TWO)
    (tmp_path / ".queue" / "000002.json").write_bytes(b"{")
    assert Queue(tmp_path).entries() == (first,)
    assert Queue(tmp_path).submit(ONE).id not in (first.id, second.id)
