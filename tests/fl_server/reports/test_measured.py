"""A fleet file from a run: speeds, rates, absences and watts as its events show them."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from common.experiment.file import parse_experiment
from common.experiment.tasks import task_of
from fl_server.fleet.file import parse_fleet
from fl_server.reports.measured import fleet_text, measured_boards
from fl_server.reports.run_data import RunData
from fl_server.run.metrics.summary import summarize
from fl_server.watch import facts
from fl_server.watch.facts.lines import parse_lines

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

MODEL = 250_000  # bytes: a second at 2 Mbit/s
BEGAN = 1000.0


def trained(client: int, board: str, round_number: int, time: float, **more: Any) -> facts.Fact:
    """A training of 300 samples in 4 seconds, reported at that time."""
    wanted: dict[str, Any] = {"seconds": 4.0, "samples": 300, **more}
    return facts.Trained(board=board, client=client, round=round_number, time=time, **wanted)


def stored(client: int, round_number: int, time: float) -> facts.Fact:
    return facts.Update(client=client, round=round_number, bytes=MODEL, time=time)


def opened(round_number: int, time: float) -> facts.Fact:
    return facts.RoundOpened(round=round_number, selected=(0, 1), testers=(), time=time)


def run_of(*events: facts.Fact) -> RunData:
    experiment = parse_experiment(
        {"data": {"clients": 2}, "training": {"epochs": 2}, "evaluation": {"stages": ["G"]}}
    )
    lines = parse_lines([{"round": n, "bytes_down": 2 * MODEL} for n in (1, 2)])
    return RunData(
        name="demo-1",
        experiment=experiment,
        finished=True,
        lines=lines,
        events=events,
        summary=summarize(lines, task_of(experiment)),
    )


EVENTS = (
    opened(1, BEGAN),
    trained(1, "B_2", 1, BEGAN + 30.0, seconds=12.0),
    trained(0, "b-1", 1, BEGAN + 20.0, joules=20.0),
    stored(0, 1, BEGAN + 22.0),
    facts.Lost("board B_2 is lost", "B_2", time=BEGAN + 31.0),
    facts.Back("board B_2 is back", "B_2", time=BEGAN + 35.5),
    stored(1, 1, BEGAN + 36.0),
    opened(2, BEGAN + 40.0),
    trained(0, "b-1", 2, BEGAN + 45.0, joules=28.0),
    stored(0, 2, BEGAN + 46.0),
    trained(1, "B_2", 2, BEGAN + 54.0, seconds=12.0),
    stored(1, 2, BEGAN + 55.0),
)


def test_speeds_rates_watts_and_absences_are_those_of_the_run() -> None:
    first, second = measured_boards(run_of(*EVENTS))
    assert (first.name, second.name) == ("b-1", "B_2")
    assert first.speed == pytest.approx(2 * 300 / 4.0)
    assert second.speed == pytest.approx(2 * 300 / 12.0)
    assert first.up == pytest.approx((1.0 + 2.0) / 2)  # one update took two seconds, one one
    assert first.down == pytest.approx(2.0)  # not from the first round
    assert first.watts == pytest.approx(48.0 / 8.0)
    assert (second.watts, second.away) == (None, [(31.0, 35.5)])
    assert (first.workers, second.workers) == (1, 1)


def test_trainings_side_by_side_are_workers() -> None:
    both = (trained(0, "b", 1, BEGAN + 9.0), trained(1, "b", 1, BEGAN + 9.5))
    (board,) = measured_boards(run_of(opened(1, BEGAN), *both))
    assert board.workers == 2


def test_an_update_that_shared_the_link_says_nothing_about_its_rate() -> None:
    events = (
        *(trained(0, "b", 1, BEGAN + 5.0), trained(1, "b", 1, BEGAN + 5.1)),
        *(stored(0, 1, BEGAN + 7.0), stored(1, 1, BEGAN + 9.0)),
    )
    (board,) = measured_boards(run_of(opened(1, BEGAN), *events))
    assert board.up == pytest.approx(1.0)


def test_the_file_is_a_fleet_file_that_names_its_assumptions() -> None:
    run = run_of(*EVENTS)
    text = fleet_text(run, measured_boards(run))
    fleet = parse_fleet(tomllib.loads(text))
    assert [group.name for group in fleet.group] == ["b-1", "b-2"]
    assert [g.hardware.samples_per_second for g in fleet.group] == [150.0, 50.0]
    assert fleet.machine == 100.0
    assert fleet.group[0].hardware.training == 6.0
    assert fleet.group[1].presence.away == ((31.0, 35.5),)
    assert text.count("assumption") == 5  # cores and idle of both, training of one


def test_a_run_without_a_training_has_no_boards() -> None:
    assert measured_boards(run_of(opened(1, BEGAN))) == []
