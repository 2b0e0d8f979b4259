"""What systemd would hear, on a real datagram socket."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from common.program.systemd import Notifier, notifier_from


@pytest.fixture
def systemd(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(tmp_path / "notify"))
        listener.settimeout(10)
        yield listener


def heard(systemd: socket.socket) -> str:
    return systemd.recv(4096).decode()


def test_a_service_says_that_it_is_ready_what_it_does_and_that_it_ends(
    systemd: socket.socket,
) -> None:
    notifier = Notifier(systemd.getsockname())
    notifier.ready("waiting")
    notifier.status("waiting")
    notifier.status("training")
    notifier.stopping()
    assert [heard(systemd) for _ in range(3)] == [
        "READY=1\nSTATUS=waiting",
        "STATUS=training",
        "STOPPING=1",
    ]


def test_the_watchdog_is_fed_twice_per_interval_and_not_at_every_turn(
    systemd: socket.socket,
) -> None:
    notifier = notifier_from(
        {"NOTIFY_SOCKET": systemd.getsockname(), "WATCHDOG_USEC": "20000000"}
    )
    for now in (100.0, 101.0, 109.9, 110.0, 111.0, 120.5):
        notifier.beat(now)
    notifier.stopping()
    said = [heard(systemd) for _ in range(4)]
    assert said == ["WATCHDOG=1"] * 3 + ["STOPPING=1"]


def test_a_watchdog_of_another_process_is_not_fed(systemd: socket.socket) -> None:
    notifier = notifier_from(
        {
            "NOTIFY_SOCKET": systemd.getsockname(),
            "WATCHDOG_USEC": "20000000",
            "WATCHDOG_PID": str(os.getpid() + 1),
        }
    )
    notifier.beat(1.0)
    notifier.stopping()
    assert heard(systemd) == "STOPPING=1"


def test_an_abstract_socket_is_found_by_its_at_sign() -> None:
    name = f"fedbed-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind("\0" + name)
        listener.settimeout(10)
        Notifier("@" + name).stopping()
        assert heard(listener) == "STOPPING=1"


def test_without_systemd_nothing_is_said_and_nothing_fails() -> None:
    notifier = notifier_from({})
    notifier.ready("x")
    notifier.beat(1.0)
    notifier.stopping()


def test_a_supervisor_that_is_gone_does_not_end_the_service(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    Notifier(str(tmp_path / "nobody")).ready("x")
    assert "cannot notify systemd of 'READY=1'" in caplog.text
