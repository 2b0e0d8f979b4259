"""Disks that are full: said clearly, nothing lost, and the run goes on when there is room."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.rig import Rig, boards, eventually

pytestmark = pytest.mark.slow


@pytest.fixture
def small_disk() -> Iterator[Callable[[Path, int], None]]:
    """Mounts a disk of so many megabytes somewhere; again to make it larger."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small disk")
    mounted: list[Path] = []

    def mount(path: Path, megabytes: int) -> None:
        options = f"size={megabytes}m" + (",remount" if path in mounted else "")
        path.mkdir(parents=True, exist_ok=True)
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", options, "tmpfs", path],
            capture_output=True,
            text=True,
        )
        if done.returncode != 0:
            pytest.skip(f"no small disk can be mounted here: {done.stderr.strip()}")
        if path not in mounted:
            mounted.append(path)

    yield mount
    for path in mounted:
        subprocess.run(["umount", "--lazy", path], check=True)


def test_a_coordinator_without_room_stops_and_can_be_resumed(
    rig: Rig, small_disk: Callable[[Path, int], None]
) -> None:
    small_disk(rig.runs, 1)
    boards(rig, ["0-1", "2-3"])
    server = rig.coordinator()
    assert server.wait(90) == 1, rig.log("server")
    assert "the disk is full; free some space, then start again: nothing is lost" in rig.log(
        "server"
    )
    small_disk(rig.runs, 50)
    where = ("--broker", f"127.0.0.1:{rig.port}", "--runs", str(rig.runs), "--plain")
    rig.finish(rig.start("again", "fl_server", "resume", "r", *where), "again")
    assert rig.digest() == rig.simulate()


def test_a_board_without_room_says_so_and_goes_on_when_there_is_some(
    rig: Rig, small_disk: Callable[[Path, int], None]
) -> None:
    small_disk(rig.folder / "b1", 9)  # enough for the shards, not for what training makes
    boards(rig, ["0-3"])
    server = rig.coordinator()
    eventually(lambda: rig.runs.exists() and "failed" in rig.kinds(), "the failure is told")
    eventually(lambda: "the disk is full" in rig.log("server"), "and printed")
    small_disk(rig.folder / "b1", 60)
    rig.finish(server)
    assert rig.digest() == rig.simulate()
