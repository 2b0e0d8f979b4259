from __future__ import annotations

from pathlib import Path

import pytest

from fl_server.rounds.state import Gathering, State
from fl_server.run.control import Request, RequestReader, read_request, write_request


def test_a_run_that_nobody_asked_for_anything_runs(tmp_path: Path) -> None:
    assert read_request(tmp_path) == "run"


@pytest.mark.parametrize("wanted", ["run", "pause", "stop"])
def test_a_request_is_kept_in_the_folder(wanted: Request, tmp_path: Path) -> None:
    write_request(tmp_path, wanted)
    assert read_request(tmp_path) == wanted


@pytest.mark.parametrize("content", [b"", b"paus", b"\xff" * 100, b"stop or not"])
def test_a_damaged_file_lets_the_run_go_on(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "request").write_bytes(content)
    assert read_request(tmp_path) == "run"


def test_a_reader_reports_every_change_once(tmp_path: Path) -> None:
    reader = RequestReader(tmp_path)
    assert reader.changed() is None
    write_request(tmp_path, "pause")
    assert [reader.changed(), reader.changed()] == ["pause", None]
    assert RequestReader(tmp_path).changed() == "pause"  # of the next process


def test_a_stop_is_done_with_once_the_run_has_stopped(tmp_path: Path) -> None:
    write_request(tmp_path, "stop")
    reader = RequestReader(tmp_path)
    assert not reader.is_fulfilled(State(Gathering(0.0)))
    assert read_request(tmp_path) == "stop"
    assert reader.is_fulfilled(State(Gathering(0.0), request="stop"))
    assert read_request(tmp_path) == "run"
