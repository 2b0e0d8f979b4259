"""Studies: what their files may say, which runs they have, and what their tables show."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import msgspec
import pytest

from common.errors import ConfigError, UsageError
from fl_server.reports.run_data import RunData
from fl_server.run.metrics.summary import summarize
from fl_server.studies.catalog import find_study, read_study, study_names
from fl_server.studies.costs import Speed, answers_per_round, seconds_of, trained_per_round
from fl_server.studies.found import is_same, without_name
from fl_server.studies.listing import about, line_of
from fl_server.studies.plan import plan_study
from fl_server.studies.runs import FoundRun, StudyRun
from fl_server.studies.study import Study
from fl_server.studies.table import study_table
from fl_server.watch.facts.lines import parse_line
from tests.some_sums import classification

STUDY = """
title = "A table"
source = "a paper."
seeds = 2
columns = { global = "accuracy_global", rounds = "accuracy_global >= 0.8" }

[experiment]
rounds = 4
[model]
name = "dnn"
[data]
clients = 4

[settings]
few = { set = { "data.clients" = 4 } }
many = { title = "many clients", set = { "data.clients" = 8 } }

[rows]
fedprox = { set = { "algorithm.mu" = 0.5 }, published = [80.0, 3, 70.0, nan] }
plain = { title = "FedAvg", set = { "algorithm.name" = "fedavg" }, only = ["few"] }
"""


def study_in(folder: Path, text: str = STUDY, name: str = "own") -> Study:
    path = folder / f"{name}.toml"
    path.write_text(text)
    return read_study(path)


def found(run: StudyRun, *accuracies: float, finished: bool = True) -> FoundRun:
    lines = tuple(
        parse_line(
            {
                "round": at,
                "accuracy_global": value,
                "tested_clients": 1,
                "seconds": 2.0 if at else 0.0,
            }
        )
        for at, value in enumerate(accuracies)
    )
    data = RunData(
        run.name, run.experiment, finished, lines, (), summarize(lines, classification())
    )
    return FoundRun(run, data)


@pytest.mark.parametrize("name", study_names())
def test_every_study_has_runs_that_could_begin(name: str) -> None:
    study = find_study(name)
    runs = plan_study(study, Path("runs"), seeds=(1,))
    assert {run.row for run in runs} == study.rows.keys()
    assert len({run.name for run in runs}) == len(runs)
    different = {msgspec.json.encode(without_name(run.experiment)) for run in runs}
    assert len(different) == len(runs), "two rows are the same"


def test_runs_are_ordered_by_seed_then_setting_then_row(tmp_path: Path) -> None:
    runs = plan_study(study_in(tmp_path), tmp_path)
    assert [run.name for run in runs] == [
        "own-fedprox-few-s1",
        "own-plain-few-s1",
        "own-fedprox-many-s1",
        "own-fedprox-few-s2",
        "own-plain-few-s2",
        "own-fedprox-many-s2",
    ]
    assert runs[2].experiment.data.clients == 8
    assert runs[0].experiment.algorithm.options["mu"] == 0.5


def test_rows_settings_and_seeds_can_be_chosen(tmp_path: Path) -> None:
    study = study_in(tmp_path)
    chosen = plan_study(study, tmp_path, rows=["fedprox"], settings=["many"], seeds=(7,))
    assert [run.name for run in chosen] == ["own-fedprox-many-s7"]
    with pytest.raises(
        UsageError, match="--rows names 'fedrpox'; the study has fedprox, plain"
    ):
        plan_study(study, tmp_path, rows=["fedrpox"])


def test_what_is_trained_centrally_comes_first_and_others_start_from_it(tmp_path: Path) -> None:
    text = STUDY + 'base = { central = true, only = ["few"] }\n'
    text += 'warm = { set = { "algorithm.name" = "fedavg" }, start = "base", only = ["few"] }\n'
    runs = plan_study(study_in(tmp_path, text), tmp_path, seeds=(1,))
    assert runs[0].name == "own-base-few-s1"
    warm = next(run for run in runs if run.row == "warm")
    assert warm.experiment.model.init_weights == str(
        tmp_path / "own-base-few-s1" / "model.safetensors"
    )


def test_a_study_may_lie_over_another_one(tmp_path: Path) -> None:
    study_in(tmp_path)
    more = study_in(tmp_path, 'base = "own"\ntitle = "B"\n[model]\nhidden = 7\n', "more")
    assert more.rows.keys() == {"fedprox", "plain"}
    (run, *_) = plan_study(more, tmp_path)
    assert (run.name, run.experiment.model.hidden) == ("more-fedprox-few-s1", 7)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("70.0, nan]", "70.0]", "rows.fedprox.published has 3 numbers; expected 4"),
        ('"accuracy_global"', '"acuracy_global"', "did you mean 'accuracy_global'"),
        ('["few"]', '["fewer"]', "rows.plain.only names 'fewer'; did you mean 'few'"),
        ("seeds = 2", "seed = 2", "seed is no key of a study .* did you mean seeds"),
        ('"algorithm.mu"', '"algorithm.nu"', "own, row fedprox, setting few: .*nu"),
        ("[model]", 'rows2 = "x"\n[model]', "rows2"),
    ],
)
def test_a_wrong_file_is_refused_with_the_place(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        plan_study(study_in(tmp_path, STUDY.replace(old, new)), tmp_path)


def test_a_name_that_nobody_knows_is_answered_with_the_nearest() -> None:
    with pytest.raises(UsageError, match="no study 'tabel6'; did you mean 'table6'"):
        find_study("tabel6")


def test_the_table_has_what_is_printed_what_is_here_and_what_is_missing(tmp_path: Path) -> None:
    study = study_in(tmp_path)
    runs = plan_study(study, tmp_path)
    there = {
        "own-fedprox-few-s1": found(runs[0], 0.1, 0.7, 0.9),
        "own-fedprox-few-s2": found(runs[3], 0.1, 0.85, 0.7),
        "own-fedprox-many-s1": found(runs[2], 0.1, 0.6, finished=False),
    }
    table = study_table(study, [there.get(run.name, FoundRun(run)) for run in runs])
    few, plain, many = table.rows
    assert few[:3] == ("fedprox", "few", 0.8)
    assert few[3].mean == pytest.approx(0.875)  # type: ignore[union-attr]
    assert few[4] == pytest.approx(7.5)
    assert (few[5], few[6].mean, few[7], few[8]) == (3, 1.5, -1.5, "2 of 2")  # type: ignore[union-attr]
    assert plain == ("FedAvg", "few", *[None] * 6, "not run")
    assert many[1:3] == ("many clients", 0.7)
    assert many[8] == "0 of 2, at round 1 of 4"
    assert "4 of 6 runs are missing or unfinished" in table.note


def test_a_study_without_published_numbers_shows_only_ours(tmp_path: Path) -> None:
    study = study_in(tmp_path, STUDY.replace(", published = [80.0, 3, 70.0, nan]", ""))
    table = study_table(study, [FoundRun(run) for run in plan_study(study, tmp_path)])
    assert [column.name for column in table.columns] == [
        *("row", "setting", "global", "rounds", "runs")
    ]


def test_time_is_taken_from_rounds_done_and_before_that_from_steps(tmp_path: Path) -> None:
    study = study_in(tmp_path)
    run = plan_study(study, tmp_path)[0]
    experiment = run.experiment
    assert trained_per_round(experiment) == 4 * 5 * 7500 / 4
    assert answers_per_round(experiment) == 2500 * 3

    def measure(_: object) -> Speed:
        return Speed(0.001, 0.0001)

    assert seconds_of(FoundRun(run), measure) == pytest.approx(4 * (37.5 + 0.75))
    assert seconds_of(found(run, 0.1, 0.2, finished=False), measure) == pytest.approx(6.0)
    assert seconds_of(found(run, 0.1, 0.2), measure) == 0
    line = line_of(study, [found(run, 0.1), FoundRun(run)], measure)
    assert (line.runs, line.finished) == (2, 1)
    texts = [about(seconds) for seconds in (0, 40, 600, 9000, 3e5)]
    assert texts == ["-", "40 s", "10 min", "2.5 h", "3 days"]


def test_runs_are_the_same_whatever_they_are_called(tmp_path: Path) -> None:
    runs = plan_study(study_in(tmp_path), tmp_path)
    other = plan_study(study_in(tmp_path, name="renamed"), tmp_path)
    assert is_same(runs[0].experiment, other[0].experiment)
    assert not is_same(runs[0].experiment, runs[3].experiment)
    assert dataclasses.replace(runs[0], experiment=other[0].experiment) != runs[0]
