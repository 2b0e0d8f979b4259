"""Ports for brokers of our own."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from common.program.ports import FIRST_PORT, PORTS, free_port

RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")


def test_a_free_port_can_be_bound() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", free_port()))


@pytest.mark.skipif(not RANGE.exists(), reason="only Linux tells its range")
def test_free_ports_are_not_those_of_outgoing_connections() -> None:
    first, last = map(int, RANGE.read_text().split())
    ours = range(FIRST_PORT, FIRST_PORT + PORTS)
    assert free_port() in ours
    assert ours[-1] < first or last < ours[0]
