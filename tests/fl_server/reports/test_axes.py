"""Curves over costs, spreads over clients and classes, and baselines, on lines made by hand."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from common.experiment.file import write_text
from fl_server.reports.axes import AXES, Axis, along, unit_of
from fl_server.reports.build import tables_of
from fl_server.reports.central_run import read_central
from fl_server.reports.figures.every import plots_of
from fl_server.reports.groups import Group, group_runs
from fl_server.reports.run_data import RunData
from fl_server.reports.tables.clients import class_values, classes_table, clients_table
from fl_server.run.journal import Journal
from tests.fl_server.reports.test_tables import run

TIME, BYTES, ENERGY = AXES[:3]


def points(group: Group, axis: Axis) -> list[tuple[float, float]]:
    return [(at, found.mean) for at, found in along(group, "accuracy_global", axis)]


def test_a_curve_over_a_cost_stands_where_the_rounds_so_far_have_brought_it() -> None:
    (group,) = group_runs([run(0.1, 0.5, 0.7)])
    assert points(group, TIME) == [(0, 0.1), (2, 0.5), (4, 0.7)]
    assert points(group, BYTES) == [(0, 0.1), (4000, 0.5), (8000, 0.7)]


def test_seeds_that_cost_differently_meet_in_the_middle() -> None:
    slow = run(0.1, 0.7, seed=2)
    lines = (slow.lines[0], replace(slow.lines[1], seconds=6.0))
    (group,) = group_runs([run(0.1, 0.5), dataclasses.replace(slow, lines=lines)])
    assert points(group, TIME) == [(0, 0.1), (4, pytest.approx(0.6))]


def test_a_cost_that_nobody_measured_has_no_figure() -> None:
    groups = group_runs([run(0.1, 0.5)])
    assert points(groups[0], ENERGY) == []
    assert {"over-time", "over-bytes"} <= {plot.key for plot in plots_of(groups)}
    assert "over-energy" not in {plot.key for plot in plots_of(groups)}


def test_a_figure_over_a_cost_shows_all_of_it() -> None:
    groups = group_runs([run(0.1, 0.5, 0.7)])
    (plot,) = [one for one in plots_of(groups) if one.key == "over-time"]
    left, right = plot.draw().axes[0].get_xlim()
    assert left == 0
    assert right >= 4.0  # seconds of both rounds


def test_units_fit_the_largest_number() -> None:
    assert unit_of(TIME, 100) == ("s", 1)
    assert unit_of(TIME, 600) == ("min", 60)
    assert unit_of(BYTES, 5e9) == ("GB", 1e9)
    assert unit_of(BYTES, 0) == ("B", 1)


def with_clients(found: RunData, *values: float) -> RunData:
    return dataclasses.replace(found, clients={"global": values, "l1": values})


def test_the_distribution_over_clients_takes_the_clients_of_all_seeds() -> None:
    runs = [with_clients(run(0.1), 0.2, 0.4, 0.6), with_clients(run(0.1, seed=2), 0.8, 1.0)]
    table = clients_table(group_runs(runs))
    assert table is not None
    assert table.rows[0][:4] == ("e", "global", 5, 0.2)
    cells = dict(zip([column.name for column in table.columns], table.rows[0], strict=True))
    assert (cells["median"], cells["best"]) == (0.6, 1.0)
    assert cells["deviation"] == pytest.approx(0.08**0.5)  # (0.16 + 0.04 + 0 + 0.04 + 0.16) / 5
    assert clients_table(group_runs([run(0.1)])) is None


def with_classes(found: RunData, *values: float | None) -> RunData:
    last = found.lines[-1]
    tests = {**last.tests, "class_accuracy_global": list(values)}
    return dataclasses.replace(found, lines=(*found.lines[:-1], replace(last, tests=tests)))


def test_classes_are_those_of_the_last_test_and_one_without_samples_has_no_number() -> None:
    runs = [with_classes(run(0.1, 0.5), 0.5, None), with_classes(run(0.1, seed=2), 0.7, None)]
    groups = group_runs(runs)
    first, second = class_values(groups[0], "global")
    assert first is not None
    assert first.mean == pytest.approx(0.6)
    assert second is None
    assert classes_table(group_runs([run(0.1)])) is None


def central(folder: Path, *epochs: dict[str, Any]) -> RunData:
    folder.mkdir()
    (folder / "experiment.toml").write_text(write_text(run(0.1).experiment))
    journal = Journal(folder / "metrics.jsonl")
    for number, epoch in enumerate(epochs, start=1):
        journal.append({"epoch": number, "learning_rate": 0.1, "train_loss": 1.0, **epoch})
    journal.close()
    return read_central(folder)


def test_a_centralized_training_is_a_run_whose_rounds_are_epochs(tmp_path: Path) -> None:
    found = central(
        tmp_path / "c", {"accuracy": 0.5, "loss": 2.0}, {"accuracy": 0.7, "loss": 1}
    )
    assert found.central
    assert not found.finished
    assert found.summary.figures["accuracy_global"].best == 0.7
    assert found.summary.figures["loss_global"].last == 1


def test_what_counts_is_the_epoch_that_validation_chose(tmp_path: Path) -> None:
    found = central(
        tmp_path / "c",
        {"accuracy": 0.5, "validation": 0.6},
        {"accuracy": 0.9, "validation": 0.5},
    )
    assert found.summary.figures["accuracy_global"].last == 0.5


def test_a_baseline_is_the_last_row_and_beside_the_same_experiment(tmp_path: Path) -> None:
    baseline = central(tmp_path / "c", {"accuracy": 0.9})
    groups = group_runs([dataclasses.replace(baseline, finished=True), run(0.1, 0.5)])
    assert [group.label for group in groups] == ["fedavg", "centralized"]
    tables = {table.key: table for table in tables_of(groups, None)}
    assert [row[0] for row in tables["results"].rows] == ["fedavg", "centralized"]
    assert [row[0] for row in tables["costs"].rows] == ["fedavg"]


def test_a_report_of_baselines_alone_is_drawn_over_epochs(tmp_path: Path) -> None:
    groups = group_runs([central(tmp_path / "c", {"accuracy": 0.5}, {"accuracy": 0.6})])
    assert [table.key for table in tables_of(groups, None)] == ["results", "runs"]
    figure = plots_of(groups)[0].draw()
    assert figure.axes[0].get_xlabel() == "epoch"
