"""Classes of curves, tables about personal models, and plots over settings."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from fl_server.reports.figures.plot import Plot, save
from fl_server.reports.figures.settings import setting_plots
from fl_server.reports.groups import Group, group_runs
from fl_server.reports.run_data import RunData
from fl_server.reports.tables.curves import curve_table, kind_of, largest_fall
from fl_server.reports.tables.personal import personal, rounds_to_own
from fl_server.run.metrics.summary import summarize
from fl_server.watch.facts.derived import value_in
from fl_server.watch.facts.lines import parse_line, with_tests
from tests.fl_server.reports.test_tables import run
from tests.some_sums import classification


def curve(*values: float) -> list[tuple[int, float]]:
    return [(5 * at, value) for at, value in enumerate(values, start=1)]


@pytest.mark.parametrize(
    ("values", "number"),
    [
        ((0.94, 0.96, 0.97, 0.98), 1),
        ((0.5, 0.7, 0.9, 0.97), 2),  # good, but not within ten rounds
        ((0.97, 0.97, 0.7, 0.9), 2),  # soon, but it does not stay there
        ((0.5, 0.8, 0.85, 0.88), 2),
        ((0.3, 0.5, 0.7, 0.7), 3),
        ((0.6, 0.2, 0.7, 0.45), 4),
        ((0.1, 0.1, 0.1, 0.11), 5),
        ((0.9, 0.95, 0.96, 0.1), 5),
    ],
)
def test_a_curve_is_of_the_class_of_its_end_and_its_beginning(
    values: Sequence[float], number: int
) -> None:
    assert kind_of(curve(*values)).at == number


def test_the_largest_fall_is_from_one_test_to_the_next() -> None:
    assert largest_fall(curve(0.1, 0.9, 0.6, 0.5)) == pytest.approx(0.3)
    assert largest_fall(curve(0.1, 0.9)) == 0
    assert largest_fall(curve(0.1)) == 0


def test_short_curves_have_no_class() -> None:
    assert curve_table(group_runs([run(0.1, 0.5)])) is None
    table = curve_table(group_runs([run(0.1, 0.5, 0.6, 0.96, 0.97, 0.98)]))
    assert table is not None
    assert table.rows[0][1:4] == (1, "fast and stable", 0.98)


def personal_run(*means: float, **settings: Any) -> RunData:
    one = run(*means, **settings)
    lines = tuple(
        with_tests(
            line, {"mean_l1": mean, "union_l1": mean / 2, "rho_l1": 3, "tested_clients": 5}
        )
        for line, mean in zip(one.lines, means, strict=True)
    )
    return RunData(
        one.name, one.experiment, True, lines, (), summarize(lines, classification())
    )


def test_the_sum_of_both_accuracies_is_of_one_round() -> None:
    line = parse_line(
        {"round": 1, "mean_l1": 0.9, "union_l1": 0.3, "rho_l1": 7, "tested_clients": 10}
    )
    assert value_in(line, "sum_l1") == pytest.approx(1.2)
    assert value_in(line, "below_l1") == 3
    assert value_in(line, "sum_l2") is None
    assert value_in(line, "mean_l1") == 0.9


def test_personal_tables_have_sums_and_clients_below_and_rounds() -> None:
    groups = group_runs([personal_run(0.1, 0.8, 0.95)])
    table = personal(groups)
    cells = dict(zip([column.name for column in table.columns], table.rows[0], strict=True))
    assert cells["L1 Acc"].mean == pytest.approx(0.95 * 1.5)  # type: ignore[union-attr]
    assert cells["L1 below"].mean == 2  # type: ignore[union-attr]
    reached = rounds_to_own(groups)
    assert reached is not None
    cells = dict(zip([column.name for column in reached.columns], reached.rows[0], strict=True))
    assert cells["90 %"].mean == 2  # type: ignore[union-attr]
    assert cells["80 %"].mean == 1  # type: ignore[union-attr]


def keys(groups: list[Group]) -> dict[str, Plot]:
    return {plot.key: plot for plot in setting_plots(groups)}


@pytest.mark.slow
def test_plots_over_settings_are_drawn_where_runs_differ_in_them(tmp_path: Path) -> None:
    assert keys(group_runs([run(0.1, 0.5)])) == {}
    grid = [
        personal_run(
            *(0.1, 0.5),
            name=f"c{clients}-a{alpha}-r{rate}",
            data={"clients": clients, "alpha": alpha},
            selection={"rate": rate, "gamma": 0.5 if rate == 1.0 else 0.0},
        )
        for clients in (4, 8)
        for alpha in (0.1, 1.0)
        for rate in (0.5, 1.0)
    ]
    drawn = keys(group_runs(grid))
    assert drawn.keys() == {"overall", "heat-map", "below", "chances"}
    for plot in drawn.values():
        save(plot, tmp_path)
    assert "50.0" in (tmp_path / "heat-map.svg").read_text()
    assert "gamma = 0.5" in (tmp_path / "chances.svg").read_text()
