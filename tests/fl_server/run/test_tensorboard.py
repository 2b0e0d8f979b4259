"""Event files, read back by TensorBoard where it is installed, and by hand."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from fl_server.run.journal import Journal
from fl_server.run.tensorboard import EventFile, masked_crc, tag_of

LINE = {"round": 0, "accuracy_global": 0.25, "accuracy_l2": None, "time": 5.0}


def read(folder: Path) -> list[bytes]:
    """The records of the one event file in a run folder, their checksums verified."""
    (path,) = (folder / "tensorboard").iterdir()
    data, found = path.read_bytes(), []
    while data:
        (length,) = struct.unpack("<Q", data[:8])
        assert struct.unpack("<I", data[8:12])[0] == masked_crc(data[:8])
        body = data[12 : 12 + length]
        assert struct.unpack("<I", data[12 + length : 16 + length])[0] == masked_crc(body)
        found.append(body)
        data = data[16 + length :]
    return found


def make(run: Path) -> EventFile:
    journal = Journal(run / "metrics.jsonl")
    journal.append(LINE)
    journal.close()
    return EventFile(run, 1234.5)


def test_the_checksum_is_that_of_the_published_example() -> None:
    crc = 0xE3069283  # CRC-32C of "123456789"
    assert masked_crc(b"123456789") == ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def test_a_file_begins_with_what_the_run_already_has(tmp_path: Path) -> None:
    make(tmp_path).close()
    version, first = read(tmp_path)
    assert version.endswith(b"brain.Event:2")
    assert b"accuracy/global" in first
    assert b"accuracy/l2" not in first
    assert struct.pack("<f", 0.25) in first


def test_facts_of_a_run_are_added_and_a_new_start_makes_a_new_file(tmp_path: Path) -> None:
    file = make(tmp_path)
    file.observe({"event": "info", "round": 1})
    file.observe({"event": "round_closed", "round": 1, "train_loss": 0.5, "time": 6.0})
    file.observe({"event": "evaluated", "round": 1, "accuracy_global": 0.5, "time": 7.0})
    file.close()
    assert len(read(tmp_path)) == 4
    EventFile(tmp_path, 99.0).close()
    assert len(read(tmp_path)) == 2


def test_numbers_are_grouped() -> None:
    names = ("accuracy_global", "union_l1", "rho_l2", "bytes_up")
    assert [tag_of(name) for name in names] == [
        "accuracy/global",
        "union/l1",
        "rho/l2",
        "round/bytes_up",
    ]


@pytest.mark.filterwarnings("ignore")
def test_tensorboard_reads_what_is_written(tmp_path: Path) -> None:
    loader = pytest.importorskip(
        "tensorboard.backend.event_processing.event_file_loader",
        reason="the extra 'tensorboard' is not installed",
    )
    make(tmp_path).close()
    (path,) = (tmp_path / "tensorboard").iterdir()
    _, event = loader.RawEventFileLoader(str(path)).Load()
    assert b"accuracy/global" in event
