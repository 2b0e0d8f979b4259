"""Event files for TensorBoard: the numbers of a run, written while it goes on.

The format is small (records with checksums around a protocol buffer of four fields), so it is
written here; the package `tensorboard` is needed only to look at the files.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

from common.disk.atomic import disk_errors
from fl_server.run.journal import read_records
from fl_server.run.summary import METRICS

FOLDER = "tensorboard"
_NAME = "events.out.tfevents.{time:010d}.fedbed"
_TRAINING = ("train_loss", "updates", "seconds", "train_seconds", "bytes_up", "bytes_down")
_POLYNOMIAL = 0x82F63B78  # CRC-32C, bits reversed


class _Writable(Protocol):
    def write(self, data: bytes, /) -> object: ...


class EventFile:
    """The event file of one run; made anew at every start from what the run has on disk."""

    def __init__(self, run: Path, now: float) -> None:
        self._folder = run / FOLDER
        with disk_errors(self._folder):
            self._folder.mkdir(parents=True, exist_ok=True)
            for old in self._folder.glob("events.out.tfevents.*"):
                old.unlink()
            path = self._folder / _NAME.format(time=int(now))
            self._file = path.open("wb", buffering=0)
        self._write(_version(now))
        for line in read_records(run / "metrics.jsonl"):
            self.add(line, METRICS)
            self.add(line, _TRAINING)

    def observe(self, fact: Mapping[str, Any]) -> None:
        """Take a fact of the run; accuracies and training are told by different ones."""
        if fact["event"] == "evaluated":
            self.add(fact, METRICS)
        elif fact["event"] == "round_closed":
            self.add(fact, _TRAINING)

    def add(self, line: Mapping[str, Any], names: tuple[str, ...]) -> None:
        """Write those numbers of a line that it has."""
        found = {name: line[name] for name in names if line.get(name) is not None}
        if found:
            self._write(_scalars(line["round"], line.get("time") or 0.0, found))

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _write(self, event: bytes) -> None:
        with disk_errors(self._folder):
            write_record(self._file, event)


def tag_of(name: str) -> str:
    """How TensorBoard groups a number: accuracy/global, rho/l1, round/seconds, ..."""
    return name.replace("_", "/", 1) if name in METRICS else f"round/{name}"


def write_record(file: _Writable, data: bytes) -> None:
    """One record: length and content, each with its checksum."""
    length = struct.pack("<Q", len(data))
    check = struct.pack("<I", masked_crc(length))
    file.write(length + check + data + struct.pack("<I", masked_crc(data)))


def masked_crc(data: bytes) -> int:
    """The checksum of TensorBoard's records."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def _table() -> Iterator[int]:
    for round_number in range(256):
        value = round_number
        for _ in range(8):
            value = value >> 1 ^ (_POLYNOMIAL if value & 1 else 0)
        yield value


_TABLE = tuple(_table())


# protocol buffers: Event {1: wall_time, 2: step, 3: file_version, 5: summary}


def _version(now: float) -> bytes:
    return _double(1, now) + _bytes(3, b"brain.Event:2")


def _scalars(step: int, now: float, found: Mapping[str, float]) -> bytes:
    values = b"".join(
        _bytes(1, _bytes(1, tag_of(name).encode()) + _float(2, value))
        for name, value in found.items()
    )
    return _double(1, now) + _key(2, 0) + _varint(step) + _bytes(5, values)


def _key(field: int, kind: int) -> bytes:
    return _varint(field << 3 | kind)


def _varint(round_number: int) -> bytes:
    out = bytearray()
    while round_number > 0x7F:
        out.append(round_number & 0x7F | 0x80)
        round_number >>= 7
    out.append(round_number)
    return bytes(out)


def _bytes(field: int, data: bytes) -> bytes:
    return _key(field, 2) + _varint(len(data)) + data


def _double(field: int, value: float) -> bytes:
    return _key(field, 1) + struct.pack("<d", value)


def _float(field: int, value: float) -> bytes:
    return _key(field, 5) + struct.pack("<f", value)
