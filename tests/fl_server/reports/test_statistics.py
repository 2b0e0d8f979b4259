"""Intervals and the paired test, against scipy's (`stats.t`, `ttest_rel`) and by hand."""

from __future__ import annotations

import csv
import io
import math

import pytest

from fl_server.reports import tables
from fl_server.reports.groups import group_runs
from fl_server.reports.output.render import texts, to_csv, to_latex
from fl_server.reports.run_data import RunData
from fl_server.reports.statistics import half_width, holm, paired, t_quantile, two_sided
from fl_server.reports.tables.differences import differences_table
from fl_server.watch import facts
from tests.fl_server.reports.test_tables import run

OURS = {1: 71.2, 2: 73.5, 3: 72.1, 4: 70.9}
OTHERS = {1: 70.1, 2: 71.0, 3: 71.8, 4: 69.0}


def test_students_distribution_is_that_of_scipy() -> None:
    assert t_quantile(0.975, 2) == pytest.approx(4.302652729749462, rel=1e-12)
    assert t_quantile(0.975, 9) == pytest.approx(2.262157162798205, rel=1e-12)
    assert two_sided(3.3, 5) == pytest.approx(0.021475500299997993, rel=1e-12)
    assert two_sided(0.4, 1) == pytest.approx(0.7577621168183132, rel=1e-12)


def test_the_paired_test_and_its_interval_are_those_of_scipy() -> None:
    found = paired(OURS, OTHERS)
    assert found is not None
    assert found.pairs == 4
    assert found.p == pytest.approx(0.05635778865809595, rel=1e-9)
    assert found.mean - found.half_width == pytest.approx(-0.0734801808288108, rel=1e-9)
    assert found.mean + found.half_width == pytest.approx(2.9734801808288163, rel=1e-9)


def test_the_paired_test_of_three_seeds_is_that_worked_out_by_hand() -> None:
    """Differences 1, 2 and 3: mean 2, deviation 1, t = 2 √3 with two degrees of freedom.

    For these Student's distribution has a closed form: p = 1 - t / √(2 + t²), and its 97.5 %
    quantile is 0.95 / √(2 · 0.975 · 0.025).
    """
    found = paired({1: 71.0, 2: 72.0, 3: 73.0}, {1: 70.0, 2: 70.0, 3: 70.0})
    assert found is not None
    assert found.mean == 2
    assert found.p == pytest.approx(1 - math.sqrt(12) / math.sqrt(14), rel=1e-9)
    quantile = 0.95 / math.sqrt(2 * 0.975 * 0.025)
    assert found.half_width == pytest.approx(quantile / math.sqrt(3), rel=1e-9)


def test_only_seeds_that_both_have_are_paired() -> None:
    found = paired(OURS, {**OTHERS, 5: 99.0})
    assert found == paired({**OURS, 6: 0.0}, OTHERS)
    assert paired(OURS, {1: 70.1, 2: 71.0}) is None


def test_equal_and_equally_shifted_numbers_have_an_answer() -> None:
    same = paired(OURS, OURS)
    assert same is not None
    assert same.p == 1
    shifted = paired({1: 0.5, 2: 0.5, 3: 0.5}, {1: 0.25, 2: 0.25, 3: 0.25})
    assert shifted is not None
    assert (shifted.p, shifted.mean) == (0, 0.25)


def test_holms_correction_keeps_the_order() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.6, 0.9]) == [1.0, 1.0]


def three_seeds(name: str, *best: float) -> list[RunData]:
    return [run(0.1, value, seed=at + 1, name=name) for at, value in enumerate(best)]


def test_the_same_seed_run_twice_counts_once_and_is_named() -> None:
    again = run(0.1, 0.5, seed=1, name="e")
    again = RunData("e-again", again.experiment, True, again.lines, again.events, again.summary)
    (group,) = group_runs([*three_seeds("e", 0.5, 0.6, 0.7), again])
    assert [one.seed for one in group.runs] == [1, 2, 3]
    assert group.left_out == ("e-s1 (seed 1 again, as e-again, with the same model)",)
    table = tables.results([group])
    assert table.rows[0][1] == 3
    assert "Left out: e-s1 (seed 1 again" in table.note
    best = group.figure("accuracy_global", "best")
    assert best is not None
    assert best.std == pytest.approx(0.1)


def test_two_runs_of_one_seed_with_different_models_are_said_to_differ() -> None:
    first, second = (
        RunData(name, made.experiment, True, made.lines, (end,), made.summary)
        for name, made, end in (
            ("a", run(0.1, 0.5), facts.Finished("done", "11")),
            ("b", run(0.1, 0.6), facts.Finished("done", "22")),
        )
    )
    (group,) = group_runs([first, second])
    assert group.left_out == ("b (seed 1 again, as a, with another model)",)


def test_unfinished_runs_do_not_mix_with_finished_ones() -> None:
    runs = [*three_seeds("e", 0.5, 0.6, 0.7), run(0.1, 0.9, seed=4, finished=False)]
    groups = group_runs(runs)
    assert [(group.label, len(group.runs)) for group in groups] == [
        ("e", 3),
        ("e (unfinished)", 1),
    ]


def test_a_number_is_bold_only_if_the_test_tells_it_from_all_others() -> None:
    clear = group_runs([*three_seeds("a", 0.80, 0.82, 0.81), *three_seeds("b", 0.6, 0.62, 0.6)])
    assert (0, 3) in tables.results(clear).winners
    assert r"\textbf{81.00" in to_latex(tables.results(clear))
    close = group_runs([*three_seeds("a", 0.80, 0.60, 0.81), *three_seeds("b", 0.6, 0.79, 0.6)])
    assert tables.results(close).winners == frozenset()
    assert r"\textbf" not in to_latex(tables.results(close))


def test_with_two_seeds_nothing_is_bold_and_the_note_says_why() -> None:
    groups = group_runs([*three_seeds("a", 0.8, 0.81), *three_seeds("b", 0.6, 0.6)])
    table = tables.results(groups)
    assert table.winners == frozenset()
    assert "a test needs 3 seeds" in table.note
    assert differences_table(groups) is None


def test_the_table_of_differences_has_test_and_interval() -> None:
    groups = group_runs(
        [*three_seeds("a", 0.71, 0.73, 0.72), *three_seeds("b", 0.70, 0.70, 0.70)]
    )
    table = differences_table(groups)
    assert table is not None
    assert texts(table)[0] == [
        *("global best", "a", "b", "3", "+2.00", "-0.48 to +4.48", "0.074", "not told apart")
    ]


def test_the_interval_stands_beside_the_deviation() -> None:
    groups = group_runs(three_seeds("a", 0.71, 0.73, 0.72))
    table = tables.results(groups)
    assert texts(table)[0][3] == "72.00 ± 1.00 [± 2.48]"
    head, row = csv.reader(io.StringIO(to_csv(table)))
    at = head.index("global best ci95")
    assert float(row[at]) == pytest.approx(half_width(0.01, 3))


def test_the_untrained_model_is_not_among_the_last_ten() -> None:
    (group,) = group_runs([run(0.1, 0.5, 0.7)])
    found = group.figure("accuracy_global", "mean_last")
    assert found is not None
    assert found.mean == pytest.approx(0.6)
