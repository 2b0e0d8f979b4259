"""Simulations of a fleet: the same bits, times and joules of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from common.experiment.file import parse_experiment
from fl_server.coordinator.local_clients import make_local_clients
from fl_server.coordinator.simulate import Simulation
from fl_server.coordinator.virtual import VirtualSimulation
from fl_server.fleet.kinds import Fleet
from fl_server.run.aggregator import Aggregator
from fl_server.run.journal import read_records
from fl_server.run.store import RunStore, create_run, has_run
from tests.fl_server.fleet.fleets import fleet_of, group

EXPERIMENT: dict[str, Any] = {
    "experiment": {"rounds": 3, "grace": "forever"},
    "model": {"name": "dnn", "hidden": 8},
    "data": {"clients": 4, "partition": "iid", "max_samples": 40},
    "training": {"epochs": 1},
    "evaluation": {"every": 2},
}
SLOW = {"samples_per_second": 20.0}


def simulated(
    folder: Path, name: str, fleet: Fleet | None = None, **sections: dict[str, Any]
) -> tuple[str, list[dict[str, Any]]]:
    """The digest of the last model, and the metrics without what the wall clock says."""
    table = {key: {**EXPERIMENT.get(key, {}), **sections.get(key, {})} for key in
             {*EXPERIMENT, *sections}}  # fmt: skip
    experiment = parse_experiment(table)
    known = has_run(folder, name)
    store = RunStore(folder / name) if known else create_run(folder, name, experiment)
    clients = make_local_clients(1)
    settings = {"clients": clients, "shards": folder / "shards", "observe": lambda _: None}
    if fleet is None:
        Simulation(store, **settings).run()  # type: ignore[arg-type]
    else:
        VirtualSimulation(store, fleet, **settings).run()  # type: ignore[arg-type]
    (end,) = [
        e for e in read_records(store.folder / "events.jsonl") if e["event"] == "finished"
    ]
    lines = read_records(store.folder / "metrics.jsonl")
    mine = {"time", "aggregate_seconds"}
    return str(end["digest"]), [
        {key: value for key, value in line.items() if key not in mine} for line in lines
    ]


def arrivals(run: Path) -> dict[tuple[int, int], float]:
    """When each update arrived."""
    found = [e for e in read_records(run / "events.jsonl") if e["event"] == "update"]
    return {(event["round"], event["client"]): event["time"] for event in found}


HASTY = {"experiment": {"deadline": 2.5, "grace": 60.0, "rounds": 5}}
BUFFERED = {"experiment": {"grace": 60.0, "rounds": 7}, "aggregation": {"buffer": 2}}


class Killed(BaseException):
    """Like kill -9: nothing is finished, nothing is written any more."""


@pytest.mark.slow
@pytest.mark.parametrize("after", [1, 9, 12])
@pytest.mark.parametrize("settings", [HASTY, BUFFERED], ids=["deadline", "buffered"])
def test_a_run_that_was_killed_goes_on_in_virtual_time_to_the_same_bits(
    tmp_path: Path,
    settings: dict[str, dict[str, Any]],
    after: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fleet = fleet_of(
        group("fast", network={"jitter": 400.0}),
        group("away", presence={"away": [[0.5, 2.0], [4.0, 4.5]]}),
        group("slow", hardware=SLOW),
    )
    whole = simulated(
        tmp_path, "whole", fleet, **settings
    )  # the names of runs are in the models, and count as bytes
    accept, counted = Aggregator.accept, iter(range(1000))

    def killed(self: Aggregator, *args: Any) -> None:
        accept(self, *args)
        if next(counted) == after:
            raise Killed

    monkeypatch.setattr(Aggregator, "accept", killed)
    with pytest.raises(Killed):
        simulated(tmp_path, "again", fleet, **settings)
    assert simulated(tmp_path, "again", fleet, **settings) == whole
    assert arrivals(tmp_path / "again") == arrivals(tmp_path / "whole")


@pytest.mark.slow
def test_virtual_time_changes_no_bit_unless_somebody_is_dropped(tmp_path: Path) -> None:
    fleet = fleet_of(
        group("fast", boards=2, network={"jitter": 50.0}), group("slow", hardware=SLOW)
    )
    plain, _ = simulated(tmp_path, "plain")
    timed, lines = simulated(tmp_path, "timed", fleet)
    assert timed == plain
    assert lines[1]["seconds"] > 1.0
    assert lines[1]["energy_joules"] > 0
    assert lines[1]["idle_joules"] > 0
    hasty = {"deadline": 1.5, "grace": 60.0}
    first, second = (
        simulated(tmp_path, name, fleet, experiment=hasty) for name in ("one", "two")
    )
    assert first == second
    assert first[0] != plain
    assert first[1][1]["dropped"]
    assert first[1][1]["seconds"] == pytest.approx(1.5, abs=0.01)
