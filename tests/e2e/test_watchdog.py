"""The daemon as systemd sees it: ready, beating while its loop turns, stopping."""

from __future__ import annotations

import os
import signal
import socket
from pathlib import Path

import pytest

from tests.e2e.rig import Rig

pytestmark = pytest.mark.slow  # real processes


def test_the_daemon_tells_systemd_that_it_is_ready_alive_and_stopping(
    rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
    monkeypatch.setenv("WATCHDOG_USEC", "1000000")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "notify"))
        systemd.settimeout(60)
        heard: list[str] = []

        def until(word: str) -> None:
            heard.clear()
            while not heard or word not in heard[-1]:
                heard.append(systemd.recv(4096).decode())

        daemon = rig.daemon("b1", "0-1")
        until("READY=1")
        until("STATUS=connected")
        until("WATCHDOG=1")
        os.kill(daemon.pid, signal.SIGSTOP)
        _drain(systemd, heard)
        before = len(heard)
        systemd.settimeout(3)  # three intervals in which a turning loop would have beaten
        with pytest.raises(TimeoutError):
            heard.append(systemd.recv(4096).decode())
        assert len(heard) == before, "a hung daemon does not beat"
        systemd.settimeout(60)
        os.kill(daemon.pid, signal.SIGCONT)
        until("WATCHDOG=1")
        daemon.terminate()
        until("STOPPING=1")
        assert daemon.wait(30) == 0


def _drain(systemd: socket.socket, heard: list[str]) -> None:
    """What was sent before the daemon was stopped."""
    systemd.settimeout(0.5)
    try:
        while True:
            heard.append(systemd.recv(4096).decode())
    except TimeoutError:
        return
