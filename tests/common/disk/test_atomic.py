from __future__ import annotations

import contextlib
import errno
import os
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from common.disk.atomic import disk_errors, explain, remove_leftovers, write_atomic
from common.disk.flusher import Flusher
from common.disk.lock import FolderLock
from common.errors import StoreError
from fl_server.run.journal import Journal, read_records
from tests.common.disk.children import child

KILLS = 8


def test_a_file_is_replaced_and_nothing_else_stays(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "file"
    for content in (b"one", b"", b"three"):
        write_atomic(path, content)
        assert path.read_bytes() == content
        assert list(path.parent.iterdir()) == [path]


def test_a_private_file_is_private_from_the_moment_it_exists(tmp_path: Path) -> None:
    path, beside = tmp_path / "key", tmp_path / f"key.tmp{os.getpid()}"
    beside.write_bytes(b"left by an earlier process of this number, readable by all")
    write_atomic(path, b"secret", mode=0o600)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.chmod(0o644)
    write_atomic(path, b"another", mode=0o600)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [path]


WRITE_FOR_EVER = """
import sys
from pathlib import Path
from common.disk.atomic import write_atomic
path, number = Path(sys.argv[1]), 0
while True:
    write_atomic(path, bytes([number % 251]) * 300_000)
    if number == 0:
        print("writing", flush=True)
    number += 1
"""


def wait_for_a_change(path: Path, rate: float) -> None:
    """Until the file is another one; then a little more, so that any moment can be hit."""
    first, end = path.stat().st_ino, time.monotonic() + 10
    while path.stat().st_ino == first and time.monotonic() < end:
        pass
    end = time.monotonic() + rate
    while time.monotonic() < end:
        pass


def test_a_file_is_whole_whenever_its_writer_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "file"
    for number in range(KILLS):
        with child(WRITE_FOR_EVER, path) as process:
            wait_for_a_change(path, number * 0.0007)
            process.kill()
            process.wait()
        content = path.read_bytes()
        assert len(content) == 300_000
        assert len(set(content)) == 1
    remove_leftovers(tmp_path)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("durable", [True, False])
def test_a_file_is_written_from_its_pieces(tmp_path: Path, durable: bool) -> None:
    path = tmp_path / "deep" / "step"
    write_atomic(path, b"line\n", b"", bytes(200_000), durable=durable)
    assert path.read_bytes() == b"line\n" + bytes(200_000)
    assert list(path.parent.iterdir()) == [path]


def test_a_flusher_takes_files_that_are_there_and_files_that_are_gone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    flusher = Flusher()
    write_atomic(tmp_path / "there", b"1", durable=False)
    flusher.add(tmp_path / "there")
    flusher.add(tmp_path / "gone")
    flusher.wait()
    assert caplog.records == []


def test_a_flusher_says_what_it_could_not_flush_and_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    flusher = Flusher()
    flusher.add(tmp_path)  # a folder cannot be opened for writing
    flusher.add(tmp_path / "gone")
    flusher.wait()
    (record,) = caplog.records
    assert "may not survive a power cut" in record.getMessage()


def test_leftovers_are_removed_and_nothing_else(tmp_path: Path) -> None:
    write_atomic(tmp_path / "kept", b"")
    write_atomic(tmp_path / "client" / "step", b"")
    (tmp_path / "client" / "file.tmp123").write_bytes(b"half")
    (tmp_path / "client" / "step.tmp9").mkdir()
    (tmp_path / "client" / "step.tmp9" / "half").write_bytes(b"")
    remove_leftovers(tmp_path)
    names = sorted(path.name for path in tmp_path.rglob("*") if path.is_file())
    assert names == ["kept", "step"]


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system with room for 256 KiB."""
    folder = tmp_path / "tiny"
    folder.mkdir()
    if sys.platform != "linux" or os.geteuid() != 0:
        pytest.skip("mounting a small disk needs root on Linux")
    command = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"cannot mount a small disk here: {done.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)


FULL = "the disk is full; free some space, then start again: nothing is lost"


def test_on_a_full_disk_the_old_file_stays_and_the_error_says_what_to_do(
    tiny_disk: Path,
) -> None:
    path = tiny_disk / "file"
    write_atomic(path, b"old")
    with pytest.raises(StoreError) as caught:
        write_atomic(path, bytes(300_000))
    assert str(caught.value) == f"{path}: {FULL}"
    with pytest.raises(StoreError, match=FULL):
        write_atomic(tiny_disk / "step", b"1", bytes(300_000), durable=False)
    assert list(tiny_disk.iterdir()) == [path]
    assert path.read_bytes() == b"old"


def test_a_journal_on_a_full_disk_keeps_its_lines_whole_and_goes_on_when_there_is_room(
    tiny_disk: Path,
) -> None:
    filler = tiny_disk / "filler"
    filler.write_bytes(bytes(200_000))
    journal = Journal(tiny_disk / "events.jsonl")
    written = 0
    with contextlib.suppress(StoreError):
        while written < 1000:
            journal.append({"number": written, "text": "x" * 1000}, sync=True)
            written += 1
    assert 0 < written < 1000
    filler.unlink()
    journal.append({"number": written, "text": "after"})
    journal.close()
    records = read_records(tiny_disk / "events.jsonl")
    assert [record["number"] for record in records] == list(range(written + 1))
    assert records[-1]["text"] == "after"


def test_a_journal_on_a_full_disk_can_be_closed(tiny_disk: Path) -> None:
    journal = Journal(tiny_disk / "events.jsonl")
    with pytest.raises(StoreError, match=FULL):
        journal.append({"text": "x" * 300_000})
    journal.close()
    assert read_records(tiny_disk / "events.jsonl") == []


def test_a_folder_where_a_file_is_in_the_way_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    for write in (
        lambda: write_atomic(tmp_path / "file" / "x", b""),
        lambda: Journal(tmp_path / "file" / "x"),
        lambda: FolderLock(tmp_path / "file", "x").__enter__(),
    ):
        with pytest.raises(StoreError, match=r"file"):
            write()


NOT_OURS = """
import os, sys
from pathlib import Path
from common.errors import StoreError
from common.disk.atomic import write_atomic
from common.disk.lock import FolderLock
folder = Path(sys.argv[1])
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
try:
    write_atomic(folder / "file", b"x")
except StoreError as error:
    print(error, flush=True)
try:
    FolderLock(folder, "x").__enter__()
except StoreError as error:
    print(error, flush=True)
"""


def test_a_folder_that_is_not_ours_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "theirs"
    folder.mkdir(mode=0o555)
    command = [sys.executable, "-c", NOT_OURS, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    lines = done.stdout.splitlines()
    assert len(lines) == 2
    for line, name in zip(lines, ("file", "lock"), strict=True):
        assert line == f"{folder}/{name}: permission denied; choose a folder you may write to"


@pytest.mark.parametrize(
    ("number", "hint"),
    [
        (errno.ENOSPC, "the disk is full"),
        (errno.EDQUOT, "quota"),
        (errno.EROFS, "read-only"),
        (errno.EIO, "input/output error"),
    ],
)
def test_an_error_of_the_disk_says_what_to_do(number: int, hint: str) -> None:
    assert hint in explain(OSError(number, os.strerror(number)))
    with (
        pytest.raises(StoreError, match=f"place: .*{hint}"),
        disk_errors(Path("place")),
    ):
        raise OSError(number, os.strerror(number))
