"""Looking at a run from a terminal: without touching it, and from the middle."""

from __future__ import annotations

import json
import signal
from typing import Any

import pytest

from broker.process import Broker
from tests.e2e.rig import PATIENCE, TINY, Rig, boards, eventually

pytestmark = pytest.mark.slow

LONG = TINY.replace("rounds = 2", "rounds = 500")


def status(rig: Rig, *more: str) -> tuple[int, str]:
    name = f"status-{len(rig.processes)}"
    where = ("--broker", f"127.0.0.1:{rig.port}", "--federation", rig.federation)
    process = rig.start(name, "fl_server", "status", *where, *more)
    code = process.wait(PATIENCE)
    return code, rig.log(name)


def test_status_of_a_broker_where_nothing_runs_says_so(rig: Rig) -> None:
    code, text = status(rig)
    assert code == 1
    assert "no experiment was ever started here" in text
    code, text = status(rig, "--json")
    assert code == 1
    assert json.loads(text)["now"]["going_on"] is False


@pytest.mark.timeout(600)
def test_who_watches_sees_all_and_is_noticed_by_nobody(rig: Rig, own_broker: Broker) -> None:
    rig.write_experiment(LONG)
    boards(rig, ["0-1", "2-3"])
    server = rig.coordinator()
    eventually(lambda: len(rig.metrics()) > 3, "some rounds")

    def recalled() -> tuple[int, dict[str, Any]] | None:
        code, text = status(rig, "--json")
        found = json.loads(text)
        lines = [key for key in found if key.startswith("line:")]
        return (code, found) if len(lines) > 2 else None

    code, seen = eventually(recalled, "the rounds before we looked")
    assert code == 0
    assert seen["run"]["title"] == "r"
    assert seen["now"]["round"] > 1
    assert seen["board:b1"]["clients"] == "0-1"
    assert seen["board:b1"]["telemetry"]["cpus"] >= 1
    assert "b2" in status(rig)[1]

    ear = rig.listen()
    where = ("--broker", f"127.0.0.1:{rig.port}", "--plain")
    watch = rig.start("watch", "fl_server", "watch", *where)
    eventually(lambda: "after round" in rig.log("watch"), "what was before")
    own_broker.kill()
    eventually(lambda: "lost the broker" in rig.log("watch"), "says that it is away")
    own_broker.start()
    eventually(lambda: rig.log("watch").count("broker at") >= 2, "finds it again")
    known = len(rig.metrics())
    eventually(lambda: len(rig.metrics()) > known + 2, "the run goes on")
    watch.send_signal(signal.SIGINT)
    assert watch.wait(PATIENCE) == 0, rig.log("watch")
    assert not any("watch" in topic for topic in ear.topics())
    server.send_signal(signal.SIGTERM)
    assert server.wait(PATIENCE) == 130
    eventually(lambda: status(rig)[0] == 1, "nothing is going on any more")
