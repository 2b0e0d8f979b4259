"""Groups of runs, their tables, and how those look; on lines made by hand."""

from __future__ import annotations

import csv
import dataclasses
import io
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from common.errors import ConfigError
from common.experiment.file import parse_experiment
from fl_server.reports import tables
from fl_server.reports.groups import Group, Spread, group_runs, spread
from fl_server.reports.output.render import show, to_csv, to_html, to_latex, to_markdown
from fl_server.reports.reference import Reference
from fl_server.reports.run_data import RunData
from fl_server.reports.runs import read_reference
from fl_server.reports.tables import Column, Table, reach
from fl_server.reports.tables.compare import comparison
from fl_server.reports.tables.computed import computed_table
from fl_server.reports.timing import board_times, faults
from fl_server.run.metrics.summary import summarize
from fl_server.watch import facts
from fl_server.watch.facts import Fact
from fl_server.watch.facts.lines import MetricsLine, parse_line
from tests.some_sums import classification


def line(round_number: int, accuracy: float) -> MetricsLine:
    tests = {"accuracy_global": accuracy, "accuracy_l1": accuracy}
    tested = parse_line({"round": round_number, **tests, "tested_clients": 2})
    if round_number == 0:
        return tested
    return replace(tested, bytes_up=1000, bytes_down=3000, seconds=2.0, train_seconds=1.0)


def run(
    *accuracies: float, seed: int = 1, name: str = "e", finished: bool = True, **settings: Any
) -> RunData:
    table: dict[str, Any] = {"experiment": {"name": name, "seed": seed}, **settings}
    table.setdefault("model", {"name": "dnn"})
    lines = tuple(line(number, value) for number, value in enumerate(accuracies))
    return RunData(
        name=f"{name}-s{seed}",
        experiment=parse_experiment(table),
        finished=finished,
        lines=lines,
        events=(),
        summary=summarize(lines, classification()),
    )


def labels(*runs: RunData) -> list[str]:
    return [group.label for group in group_runs(runs)]


def test_runs_that_differ_only_in_their_seed_are_one_group() -> None:
    (group,) = group_runs([run(0.1, 0.5, seed=2), run(0.1, 0.7, seed=1)])
    assert group.label == "e"
    assert [one.seed for one in group.runs] == [1, 2]
    best = group.figure("accuracy_global", "best")
    assert best is not None
    assert best.mean == pytest.approx(0.6)
    assert best.std == pytest.approx(0.1414, abs=1e-4)


def test_groups_are_called_by_what_tells_them_apart() -> None:
    assert labels(run(0.1, name="a"), run(0.1, name="b")) == ["a", "b"]
    prox: dict[str, Any] = {"algorithm": {"name": "fedprox"}}
    assert labels(run(0.1), run(0.1, **prox)) == ["fedavg", "fedprox"]
    fast: dict[str, Any] = {"training": {"learning_rate": 0.5}}
    assert labels(run(0.1), run(0.1, **fast)) == ["learning_rate=0.01", "learning_rate=0.5"]
    assert labels(run(0.1), run(0.1, **prox), run(0.1, **prox, **fast)) == [
        "fedavg",
        "fedprox learning_rate=0.01",
        "fedprox learning_rate=0.5",
    ]


def test_one_value_has_no_deviation_and_none_has_no_spread() -> None:
    assert spread([0.5]) == Spread(0.5, None, 1, 1)
    assert spread([None, 0.5]) == Spread(0.5, None, 1, 2)
    assert spread([None]) is None


def test_a_curve_has_the_mean_of_each_round() -> None:
    (group,) = group_runs([run(0.1, 0.5, seed=1), run(0.3, 0.7, 0.9, seed=2)])
    curve = [(number, found.mean, found.known) for number, found in group.curve("accuracy_l1")]
    assert curve == [(0, 0.2, 2), (1, 0.6, 2), (2, 0.9, 1)]


def test_an_accuracy_that_only_some_runs_reach_says_so() -> None:
    groups = group_runs([run(0.1, 0.55, seed=1), run(0.1, 0.2, 0.65, seed=2)])
    table = reach.rounds_to(groups, "global")
    assert table is not None
    assert [column.name for column in table.columns] == ["run", "50 %", "60 %"]
    assert show(table.rows[0][1], "count") == "1.5 ± 0.7"
    assert show(table.rows[0][2], "count") == "2 (1/2)"
    assert reach.rounds_to(group_runs([run(0.1)]), "global") is None


def test_time_and_energy_to_a_level_are_of_all_rounds_until_then() -> None:
    plain = run(0.1, 0.2, 0.55, 0.9)
    assert reach.energy_to(group_runs([plain])) is None  # no board measures it
    lines = tuple(
        replace(one, energy_joules=7.0, idle_joules=3.0) if one.round else one
        for one in plain.lines
    )
    summary = summarize(lines, classification())
    groups = group_runs([dataclasses.replace(plain, lines=lines, summary=summary)])
    seconds, energy = reach.time_to(groups), reach.energy_to(groups)
    assert seconds is not None
    assert energy is not None
    assert [show(table.rows[0][1], "count") for table in (seconds, energy)] == ["4", "20"]


def test_costs_are_per_round_and_in_all() -> None:
    table = tables.costs(group_runs([run(0.1, 0.2, 0.3)]))
    shown = dict(zip([c.name for c in table.columns], table.rows[0], strict=True))
    assert shown["up / round"] == Spread(1000.0, None, 1, 1)
    assert shown["down"] == Spread(6000, None, 1, 1)
    assert "energy" not in shown


def test_the_results_say_that_the_last_ten_are_tests_and_from_which_round_on() -> None:
    table = tables.results(group_runs([run(*[0.1] * 15)]))
    assert {"global last 10 tests", "personal last 10 tests"} <= {c.name for c in table.columns}
    assert "last 10 tests is their mean (rounds 5 and later)" in table.note


def test_a_run_that_goes_on_is_marked() -> None:
    table = tables.results(group_runs([run(0.1, finished=False)]))
    assert table.rows[0][0] == "e (unfinished)"


@pytest.mark.parametrize(
    ("cell", "unit", "text"),
    [
        (Spread(0.8412, 0.0031, 2, 2), "percent", "84.12 ± 0.31"),
        (Spread(1_300_000.0, 100_000.0, 2, 2), "bytes", "1.3 ± 0.1 MB"),
        (Spread(12.0, 0.0, 2, 3), "count", "12 (2/3)"),
        (-0.05, "number", "-0.050"),
        (1.5, "seconds", "1.50 s"),
        (None, "percent", "-"),
        ("word", "text", "word"),
    ],
)
def test_cells_as_people_read_them(cell: tables.Cell, unit: tables.Unit, text: str) -> None:
    assert show(cell, unit) == text


TABLE = Table(
    "t",
    "A <table>",
    (Column("run"), Column("best", "percent")),
    (("a_b & <c>", Spread(0.5, 0.25, 2, 2)), ("d", Spread(0.75, None, 1, 1)), ("e", None)),
    "A note.",
    frozenset({(1, 1)}),
)


def test_csv_has_raw_numbers_and_the_deviation_beside_them() -> None:
    rows = list(csv.reader(io.StringIO(to_csv(TABLE))))
    assert rows[0] == ["run", "best", "best std"]
    assert rows[1:] == [["a_b & <c>", "0.5", "0.25"], ["d", "0.75", ""], ["e", "", ""]]


def test_markdown_and_latex_and_html_escape_what_is_special_there() -> None:
    assert r"| a\_b \& \<c\> | 50.00 ± 25.00 |" in to_markdown(TABLE)
    plain = r"a\_b \& \textless{}c\textgreater{}"
    assert rf"{plain} & 50.00 $\pm$ 25.00 \\" in to_latex(TABLE)
    page = to_html(TABLE)
    assert "a_b &amp; &lt;c&gt;" in page
    assert "<strong>75.00</strong>" in page
    assert "| d | **75.00** |" in to_markdown(TABLE)
    assert r"d & \textbf{75.00} \\" in to_latex(TABLE)


def test_where_the_time_of_a_board_went() -> None:
    trained = facts.Trained(board="b1", client=3, round=1, seconds=2.0, samples=9, time=13.0)
    times = board_times(
        [
            facts.RoundOpened(1, (3,), (), time=10.0),
            trained,
            replace(trained, time=14.0),  # reported again
            facts.Update(3, 1, time=13.5),
        ]
    )
    assert times.keys() == {"b1"}
    assert (times["b1"].trainings, times["b1"].waits) == ([2.0], [1.0])
    assert times["b1"].sendings == [0.5]


def test_the_others_have_waited_for_the_board_whose_update_came_last() -> None:
    def done(board: str, client: int, time: float) -> tuple[Fact, Fact]:
        trained = facts.Trained(board, client, 1, seconds=2.0, samples=9, time=time)
        return trained, facts.Update(client, 1, time=time + 1)

    times = board_times([*done("fast", 0, 3.0), *done("slow", 1, 9.0)])
    assert (times["fast"].last, times["slow"].last) == (0, 1)


def test_faults_are_counted_with_clients_dropped_and_restarts() -> None:
    start = facts.Started(run="r", folder="f", rounds=1, done=0, participants=1)
    events: list[Fact] = [start, facts.Lost("x"), facts.Back("x"), facts.Lost("x"), start]
    lines = [MetricsLine(1, dropped=(1, 2)), MetricsLine(2, dropped=()), MetricsLine(3)]
    found = faults(events, lines)
    wanted = {"lost": 2, "back": 1, "restarts": 1, "dropped": 2, "late": 0}
    assert wanted.items() <= found.items()


REFERENCE = Reference(
    title="Theirs",
    source="A paper.",
    columns={"global": "accuracy_global"},
    rows={"fedavg": {"global": 60.0}, "fedprox": {"global": 70.0}},
)


def test_our_numbers_stand_beside_published_ones() -> None:
    table = comparison(group_runs([run(0.1, 0.5)]), REFERENCE)
    row, missing = table.rows
    assert row[:3] == ("fedavg", 0.6, Spread(0.5, None, 1, 1))
    assert show(row[3], "points") == "-10.00"
    assert missing == ("fedprox", 0.7, None, None)
    assert "A paper." in table.note
    assert "best of 2 tests, 1 rounds, 1 seed(s)" in table.note


def test_a_reference_that_names_no_metric_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "r.toml"
    text = "title = 't'\nsource = 's'\n[columns]\ng = 'acuracy_global'\n[rows]\n"
    path.write_text(text)
    with pytest.raises(ConfigError, match="did you mean 'accuracy_global'"):
        read_reference(path)
    path.write_text(text.replace("acu", "accu") + "a = { h = 1.0 }\n")
    with pytest.raises(ConfigError, match=r"rows\.a names 'h'"):
        read_reference(path)
    path.write_text("title = 't'\n")
    with pytest.raises(ConfigError, match="source"):
        read_reference(path)


def test_every_single_run_is_listed() -> None:
    groups: list[Group] = group_runs([run(0.1, 0.5), run(0.1, 0.6, seed=2)])
    table = tables.runs_table(groups)
    assert [row[0] for row in table.rows] == ["e-s1", "e-s2"]
    assert [row[4:6] for row in table.rows] == [(0.5, 1), (0.6, 1)]


def test_what_computed_the_clients_is_a_table_if_it_is_known() -> None:
    known = dataclasses.replace(run(0.1), computed={"A72, torch 2.9.1": (0, 1, 2)})
    table = computed_table(group_runs([known]))
    assert table is not None
    assert table.rows == (("e-s1", "A72, torch 2.9.1", "0-2"),)
    assert computed_table(group_runs([run(0.1)])) is None
