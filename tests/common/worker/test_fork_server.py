"""What a forked training process has of its own, and what its parent is."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from common.config import AlgorithmSection, Experiment
from common.errors import UsageError
from common.worker.children import TRAINING, TUNING, Child, ForkedChild, Source
from common.worker.forking import INHERITED, ForkServer, make_source, shared
from common.worker.orders import Prepare, Prepared, Report
from common.worker.pool import ProcessPool

PATIENCE = 60.0


def what_it_has(source: Source, folder: Path) -> dict[str, Any]:
    """Of a new process of this source."""
    reports: queue.SimpleQueue[Report] = queue.SimpleQueue()
    pool = ProcessPool(1, reports.put, source)
    experiment = Experiment(
        algorithm=AlgorithmSection(name="tests.common.worker.what_it_has:what_it_has")
    )
    place = str(folder)
    pool.prepare(
        Prepare(
            run="r",
            experiment=experiment,
            shards=place,
            snapshots=place,
            clients=(0,),
            code=str(Path.cwd()),
        )
    )
    report = reports.get(timeout=PATIENCE)
    assert isinstance(report, Prepared)
    found: dict[str, Any] = json.loads(report.problem)
    assert pool.pids() == (found["pid"],)
    pool.release()
    return found


@pytest.mark.slow
def test_what_must_not_be_shared_is_not(tmp_path: Path) -> None:
    with contextlib.closing(ForkServer(keep=True)) as forks:
        first, second = (what_it_has(forks, tmp_path) for _ in range(2))
        parent = forks.pid
        assert len(list(Path(f"/proc/{parent}/task").iterdir())) == 1
        links = [str(file.readlink()) for file in Path(f"/proc/{parent}/fd").iterdir()]
    for child in (first, second):
        assert child["parent"] == parent
        assert child["imported_by"] == child["pid"], "users' code is imported after the fork"
        assert child["signals"] == [True, True, True]
        assert child["torch_threads"] == 1
        assert child["malloc"] == "1000000000"
        assert set(child["files"]) == {"0", "1", "2", "3"}, "orders, twice stderr, reports"
        assert child["files"]["1"] == child["files"]["2"]
        for file in ("0", "3"):
            assert child["files"][file].startswith("pipe:")
            assert child["files"][file] not in links, "the parent has closed it"
    for own in ("pid", "random", "numpy"):
        assert first[own] != second[own]
    assert first["torch"] == second["torch"], "as in processes that are started"


class _Starting:
    """A server that starts its children, as on a board with a GPU."""

    def __init__(self) -> None:
        self._ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        arguments = (str(theirs.fileno()), "start")
        with theirs:
            self._server = subprocess.Popen(
                (sys.executable, "-m", "common.worker.fork_server", *arguments),
                stdout=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                env={**os.environ, **TUNING},
            )

    @property
    def pid(self) -> int:
        return self._server.pid

    def start(self, program: str = TRAINING) -> Child:
        return ForkedChild(self._ours, program)

    def release(self) -> None:
        pass

    def close(self) -> None:
        self._ours.close()
        assert self._server.wait(PATIENCE) == 0


@pytest.mark.slow
def test_a_board_with_a_gpu_starts_its_processes(tmp_path: Path) -> None:
    with contextlib.closing(_Starting()) as starting:
        child = what_it_has(starting, tmp_path)
        parent = Path(f"/proc/{starting.pid}")
        assert "torch" not in (parent / "maps").read_text()
    assert (child["parent"], child["imported_by"]) == (starting.pid, child["pid"])
    assert child["torch_threads"] == 1


@pytest.mark.slow
def test_a_board_whose_inherited_server_is_gone_starts_its_processes(tmp_path: Path) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    theirs.close()
    with contextlib.closing(make_source({INHERITED: str(ours.detach())}, keep=True)) as source:
        child = what_it_has(source, tmp_path)
    assert child["parent"] == os.getpid()


@pytest.mark.slow
def test_processes_that_cannot_inherit_a_server_share_one_at_a_path(tmp_path: Path) -> None:
    path = tmp_path / "forks"
    with shared(path):
        parents = set()
        for number in range(2):
            with contextlib.closing(make_source({INHERITED: str(path)}, keep=True)) as source:
                parents.add(what_it_has(source, tmp_path / str(number))["parent"])
    assert len(parents) == 1
    assert os.getpid() not in parents
    with pytest.raises(UsageError, match="not an open socket"):
        make_source({INHERITED: str(path)}, keep=True)


def test_an_inherited_server_that_is_none_is_named() -> None:
    with pytest.raises(Exception, match="FEDBED_FORK_SERVER is 'x', not an open socket"):
        make_source({INHERITED: "x"}, keep=True)
    with pytest.raises(Exception, match="FEDBED_FORK_SERVER is '999', not an open socket"):
        make_source({INHERITED: "999"}, keep=True)
