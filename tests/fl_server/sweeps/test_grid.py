"""Which runs a sweep has, and how far it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from common.errors import ConfigError, UsageError
from common.experiment.file import load_experiment
from fl_server.sweeps.grid import name_of, parse_seeds, plan
from fl_server.sweeps.pace import Pace

SWEEP = """
[experiment]
name = "e"
rounds = 2
[model]
name = "dnn"
[sweep]
"algorithm.name" = ["fedavg", "fedprox"]
"training.learning_rate" = [0.1, 0.01]
"""


def write(folder: Path, text: str, name: str = "e.toml") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_a_sweep_has_every_combination_and_finishes_one_seed_before_the_next(
    tmp_path: Path,
) -> None:
    runs = plan([write(tmp_path, SWEEP)], seeds=(2, 1))
    assert [run.name for run in runs][:4] == [
        "e-fedavg-learning_rate_0.1-s1",
        "e-fedavg-learning_rate_0.01-s1",
        "e-fedprox-learning_rate_0.1-s1",
        "e-fedprox-learning_rate_0.01-s1",
    ]
    assert [run.experiment.experiment.seed for run in runs] == [1] * 4 + [2] * 4
    assert runs[1].experiment.training.learning_rate == 0.01


def test_a_file_without_a_sweep_section_is_one_run_for_each_seed(tmp_path: Path) -> None:
    path = write(tmp_path, "[experiment]\nseed = 7\n[model]\nname = 'dnn'\n", "plain.toml")
    assert [run.name for run in plan([path])] == ["plain-s7"]
    assert [run.name for run in plan([path], seeds=(1, 2))] == ["plain-s1", "plain-s2"]


def test_a_key_that_is_no_setting_is_refused_with_the_nearest_name(tmp_path: Path) -> None:
    path = write(tmp_path, '[model]\nname = "dnn"\n[sweep]\n"training.learning_rat" = [1.0]\n')
    with pytest.raises(ConfigError, match=r"\[sweep\] .*did you mean training.learning_rate"):
        plan([path])


@pytest.mark.parametrize("value", ["0.1", "[]", "{ a = 1 }"])
def test_what_is_swept_is_a_list(tmp_path: Path, value: str) -> None:
    path = write(tmp_path, f'[sweep]\n"training.learning_rate" = {value}\n')
    with pytest.raises(ConfigError, match="expected a list of values"):
        plan([path])


def test_two_runs_of_the_same_name_are_refused(tmp_path: Path) -> None:
    text = "[experiment]\nname = 'same'\n[model]\nname = 'dnn'\n"
    with pytest.raises(UsageError, match="same-s1"):
        plan([write(tmp_path, text, "a.toml"), write(tmp_path, text, "b.toml")])


def test_a_file_with_a_sweep_is_not_run_as_one_experiment(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="fl-server sweep"):
        load_experiment(write(tmp_path, SWEEP))


def test_long_names_stay_short_and_different(tmp_path: Path) -> None:
    experiment = load_experiment(write(tmp_path, "[experiment]\nname = 'x'\n", "x.toml"))
    names = {
        name_of(experiment, {"algorithm.name": "my_package.my_module:algorithm" * 2, "a.b": at})
        for at in range(3)
    }
    assert len(names) == 3
    assert all(len(name) <= 64 and name.endswith("-s1") for name in names)


def test_seeds_as_people_write_them() -> None:
    assert parse_seeds("3, 1-2,2") == (3, 1, 2)
    for text in ("", "a", "3-1", "1,,2"):
        with pytest.raises(UsageError, match="--seeds"):
            parse_seeds(text)


def test_the_time_left_is_that_of_the_rounds_left() -> None:
    pace = Pace([10, 10, 20])
    assert pace.seconds_left((), 0) is None
    assert pace.seconds_left((2.0, 4.0), 2) == 3.0 * 38
    pace = pace.after(seconds=[3.0] * 10, ok=False)
    assert (pace.done, pace.failed, pace.share(5)) == (1, 1, 15 / 40)
    assert pace.seconds_left((), 0) == 90.0
