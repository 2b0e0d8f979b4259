from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bench.light import light_boards
from bench.testbed import PROTOCOL_ONLY, coordinate, serve
from broker.process import Broker
from common.access.address import Address
from common.experiment.file import parse_experiment, write_text
from fl_server.run.journal import read_records

BOARDS, CLIENTS = 15, 2
TABLE: dict[str, dict[str, Any]] = {
    **{name: dict(section) for name, section in PROTOCOL_ONLY.items()},
    "experiment": {"rounds": 2, "grace": "forever"},
    "model": {"name": "dnn"},
    "data": {"clients": BOARDS * CLIENTS, "partition": "iid"},
    "selection": {"rate": 1.0},
}


def finished(run: Path) -> dict[str, Any]:
    return next(event for event in read_records(run / "events.jsonl") if "digest" in event)


@pytest.mark.slow
def test_a_run_with_light_boards_ends_with_the_model_of_a_simulation(
    own_broker: Broker, tmp_path: Path
) -> None:
    experiment = parse_experiment(TABLE)
    address = Address(own_broker.host, own_broker.port)
    with light_boards(own_broker.port, 0, BOARDS, CLIENTS) as boards:
        boards.go()
        run = coordinate(tmp_path, "run", experiment, address)
        assert boards.end().again == 0
    updates = [e for e in read_records(run / "events.jsonl") if e["event"] == "update"]
    everybody = {(at, client) for at in (1, 2) for client in range(BOARDS * CLIENTS)}
    assert {(event["round"], event["client"]) for event in updates} == everybody
    assert len(updates) == len(everybody)
    file = tmp_path / "simulated.toml"
    file.write_text(write_text(experiment))
    where = ("--runs", str(tmp_path), "--run", "simulated")
    serve("simulate", str(file), *where, seconds=300)
    assert finished(run)["digest"] == finished(tmp_path / "simulated")["digest"]
