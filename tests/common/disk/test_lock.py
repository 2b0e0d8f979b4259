from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from common.disk.lock import FolderLock
from common.errors import StoreError
from tests.common.disk.children import child

HOLD = """
import sys
from pathlib import Path
from common.disk.lock import FolderLock
with FolderLock(Path(sys.argv[1]), "the daemon of board attic"):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_folder_is_for_one_process_which_is_named_to_the_second(tmp_path: Path) -> None:
    with child(HOLD, tmp_path) as holder:
        with (
            pytest.raises(StoreError) as caught,
            FolderLock(tmp_path, "the daemon of board cellar"),
        ):
            pytest.fail("two hold one lock")
        assert str(caught.value) == (
            f"{tmp_path} is in use by the daemon of board attic (process {holder.pid}); "
            "stop that one first"
        )
        holder.kill()
        holder.wait()
        with FolderLock(tmp_path, "the daemon of board cellar"):
            text = (tmp_path / "lock").read_text()
            assert text == f"the daemon of board cellar (process {os.getpid()})"
        with FolderLock(tmp_path, "again"):
            pass


def test_a_lock_that_waits_comes_after_the_process_before_it(tmp_path: Path) -> None:
    entered = threading.Event()

    def wait() -> None:
        with FolderLock(tmp_path, "the second", wait=True):
            entered.set()

    with child(HOLD, tmp_path) as holder:
        thread = threading.Thread(target=wait)
        thread.start()
        assert not entered.wait(0.2)
        holder.kill()
        assert entered.wait(60)
        thread.join()


def test_a_link_in_place_of_the_lock_is_not_followed(tmp_path: Path) -> None:
    """In a folder that another user made, it could lead to any file of ours."""
    precious = tmp_path / "precious"
    precious.write_text("kept")
    folder = tmp_path / "shared"
    folder.mkdir()
    (folder / "lock").symlink_to(precious)
    with (
        pytest.raises(StoreError, match=r"shared/lock: a symbolic link is in the way"),
        FolderLock(folder, "a test"),
    ):
        pass
    assert precious.read_text() == "kept"


def test_a_folder_made_for_a_lock_is_its_owners_alone(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        with FolderLock(tmp_path / "state", "a test"):
            modes = [path.stat().st_mode & 0o777 for path in (tmp_path / "state").rglob("*")]
            assert (tmp_path / "state").stat().st_mode & 0o777 == 0o700
            assert modes == [0o600]
    finally:
        os.umask(before)
