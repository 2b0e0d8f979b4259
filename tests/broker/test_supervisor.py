from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

from broker.accounts import enroll, prepare_files
from broker.acl import Account
from broker.authority import ensure_certificate
from broker.config import BrokerConfig
from broker.process import Broker
from broker.supervisor import Deaths, supervise
from common.access.credentials import join_address, read_credentials
from common.program.ports import free_port
from tests.broker.mqtt import login_answer


def test_one_death_is_answered_at_once_and_more_with_growing_pauses() -> None:
    deaths, pauses = Deaths(), []
    for now in range(4):
        deaths = deaths.after(float(now))
        pauses.append(deaths.pause_seconds)
    assert pauses == [0.0, 0.5, 1.0, 2.0]
    assert not deaths.too_many


def test_five_deaths_within_the_window_are_too_many() -> None:
    deaths = Deaths()
    for now in (0.0, 5.0, 10.0, 15.0, 29.0):
        deaths = deaths.after(now)
    assert deaths.too_many


def test_old_deaths_are_forgotten() -> None:
    deaths = Deaths()
    for now in (0.0, 10.0, 20.0, 30.0, 40.0, 50.0):
        deaths = deaths.after(now)
    assert not deaths.too_many
    assert deaths.times == (30.0, 40.0, 50.0)


def test_who_is_enrolled_the_moment_the_broker_is_ready_can_log_in(tmp_path: Path) -> None:
    ensure_certificate(tmp_path, ["127.0.0.1"])
    prepare_files(tmp_path)
    broker = Broker(BrokerConfig(port=free_port(), guarded=True), tmp_path)
    answers: list[str] = []

    def ready() -> None:
        place = join_address(broker.host, broker.port)
        bundle = enroll(tmp_path, Account("pi", "board", "fl", (0,)), place).bundle

        def log_in() -> None:
            login, end = read_credentials(bundle), time.monotonic() + 20
            while answers[-1:] != ["Success"] and time.monotonic() < end:
                answers.append(login_answer("127.0.0.1", broker.port, login))
            os.kill(os.getpid(), signal.SIGTERM)

        threading.Thread(target=log_in).start()

    supervise(broker, ready)
    assert answers[-1] == "Success"
