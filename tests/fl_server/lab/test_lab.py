"""A testbed on one machine: its boards, its broker."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.access.address import Address
from common.config import Experiment
from common.program.ports import FIRST_PORT, PORTS, free_port
from common.wire.link import Up
from fl_server.lab.lab import Lab, LabBoard, descendants, share_out
from fl_server.lab.server_process import ServerProcess
from fl_server.run.store import create_run
from fl_server.watch.topic_reader import MessageReader, Reading


@given(clients=st.sets(st.integers(0, 999), min_size=1), boards=st.integers(1, 50))
def test_every_client_is_on_one_board_and_boards_are_equally_full(
    clients: set[int], boards: int
) -> None:
    shares = share_out(sorted(clients), boards)
    assert sorted(c for share in shares.values() for c in share.clients) == sorted(clients)
    sizes = [len(share.clients) for share in shares.values()]
    assert max(sizes) - min(sizes) <= 1
    assert min(sizes) >= 1
    assert len(shares) == min(boards, len(clients))


def test_neighbours_stay_together() -> None:
    assert share_out(range(5), 2) == {"b1": LabBoard((0, 1)), "b2": LabBoard((2, 3, 4))}


@pytest.mark.slow
def test_a_killed_broker_comes_back_on_a_port_that_no_outgoing_connection_takes(
    tmp_path: Path,
) -> None:
    with Lab(tmp_path, share_out((0,), 1)) as lab:
        port = lab.address.port
        assert port in range(FIRST_PORT, FIRST_PORT + PORTS)
        for pid in descendants(lab.pid("broker")):
            os.kill(pid, signal.SIGKILL)
        lab.wait("broker")
        lab.start_broker_again()
        reader = MessageReader(lab.address, "fl")
        found: list[Reading] = []
        while not any(isinstance(reading, Up) for reading in found):
            found += reader.read(0.5)
        reader.close()
    assert lab.address.port == port


def test_a_coordinator_that_runs_is_not_started_a_second_time(tmp_path: Path) -> None:
    """Two faults that overlap both start it again; the second would find the folder in use."""
    store = create_run(tmp_path, "r", Experiment())
    server = ServerProcess(store.folder, Address("127.0.0.1", free_port()))
    try:
        server.start()
        first = server.pid
        server.start()
        assert first is not None
        assert server.pid == first
    finally:
        server.end()
    assert server.pid is None
