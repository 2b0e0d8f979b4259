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
