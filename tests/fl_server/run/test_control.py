from __future__ import annotations

from pathlib import Path

import pytest

from fl_server.rounds.state import Gathering, State
from fl_server.run.control import Wish, WishReader, read_wish, write_wish


def test_a_run_that_nobody_asked_for_anything_runs(tmp_path: Path) -> None:
    assert read_wish(tmp_path) == "run"


@pytest.mark.parametrize("wish", ["run", "pause", "stop"])
def test_a_wish_is_kept_in_the_folder(wish: Wish, tmp_path: Path) -> None:
    write_wish(tmp_path, wish)
    assert read_wish(tmp_path) == wish


@pytest.mark.parametrize("content", [b"", b"paus", b"\xff" * 100, b"stop or not"])
def test_a_damaged_file_lets_the_run_go_on(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "wish").write_bytes(content)
    assert read_wish(tmp_path) == "run"


def test_a_reader_reports_every_change_once(tmp_path: Path) -> None:
    reader = WishReader(tmp_path)
    assert reader.changed() is None
    write_wish(tmp_path, "pause")
    assert [reader.changed(), reader.changed()] == ["pause", None]
    assert WishReader(tmp_path).changed() == "pause"  # of the next process


def test_a_stop_is_done_with_once_the_run_has_stopped(tmp_path: Path) -> None:
    write_wish(tmp_path, "stop")
    reader = WishReader(tmp_path)
    assert not reader.is_fulfilled(State(Gathering(0.0)))
    assert read_wish(tmp_path) == "stop"
    assert reader.is_fulfilled(State(Gathering(0.0), wish="stop"))
    assert read_wish(tmp_path) == "run"
