"""Children end with their parent, however it ends."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

PARENT = """
import subprocess, sys
from common.program.child import dies_with_parent
child = subprocess.Popen(["sleep", "60"], preexec_fn=dies_with_parent())
print(child.pid, flush=True)
child.wait()
"""

ORPHAN = """
import os
from common.program.child import dies_with_parent
ask = dies_with_parent()
if os.fork() == 0:  # stands for whoever adopts an orphan: not the parent that was asked about
    if os.fork() == 0:
        ask()
        os._exit(0)
    os._exit(os.waitstatus_to_exitcode(os.wait()[1]))
os._exit(os.waitstatus_to_exitcode(os.wait()[1]))
"""


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


@pytest.mark.skipif(sys.platform != "linux", reason="Linux only")
def test_a_child_of_a_killed_parent_ends() -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert is_running(child)
        parent.kill()
    end = time.monotonic() + 20
    while is_running(child) and time.monotonic() < end:
        os.sched_yield()
    assert not is_running(child)


@pytest.mark.skipif(sys.platform != "linux", reason="Linux only")
def test_a_child_whose_parent_is_already_gone_does_not_start() -> None:
    done = subprocess.run([sys.executable, "-c", ORPHAN], check=False, timeout=60)
    assert done.returncode == 1
