"""Data that only a board has: where it is found, what of it is refused, what is reported."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from common.config import Experiment
from common.data.local_shards import make_local_shard
from common.data.shards import ShardSet
from common.errors import ConfigError, DataError
from common.experiment.file import load_experiment

SCHEMA = """
[data.schema]
kind = "classification"
outputs = 2
names = ["no", "yes"]
columns = [{name = "volt"}, {name = "site", categories = ["in", "out"]}]
"""
ROWS = [f"{at / 2},{('in', 'out')[at % 2]},{('no', 'yes', 'yes')[at % 3]}" for at in range(40)]
GOOD = ["volt,site,fault", *ROWS]


def experiment(
    folder: Path, *settings: str, schema: str = SCHEMA, more: str = "", place: str = "r.csv"
) -> Experiment:
    file = folder / "local.toml"
    lines = [f'dataset = "csv:{place}"', 'target = "fault"', "clients = 3", *settings]
    text = "\n".join(["[data]", 'partition = "local"', *lines, schema, more])
    file.write_text(f'{text}\n[model]\nname = "dnn"\n', encoding="utf-8")
    return load_experiment(file)


def put(path: Path, lines: list[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def test_a_client_has_a_folder_or_a_file_of_its_own_or_shares_one(tmp_path: Path) -> None:
    board = tmp_path / "board"
    put(board / "r.csv", GOOD)
    put(board / "1" / "r.csv", GOOD[:21])
    put(board / "r-2.csv", GOOD[:31])
    found = experiment(tmp_path).data
    assert len(make_local_shard(found, board, 0, 1)[1].targets) == 40
    assert len(make_local_shard(found, board, 1, 1)[1].targets) == 20
    named = experiment(tmp_path, place="r-{client}.csv").data
    assert len(make_local_shard(named, board, 2, 1)[1].targets) == 30
    with pytest.raises(DataError, match=r"client 0 has no data: there is no .*r-0\.csv"):
        make_local_shard(named, board, 0, 1)


def test_clients_that_share_a_file_test_on_the_same_samples(tmp_path: Path) -> None:
    put(tmp_path / "r.csv", GOOD)
    found = experiment(tmp_path, "stratify = true").data
    one, again = (make_local_shard(found, tmp_path, 0, 1)[0] for _ in range(2))
    other = make_local_shard(found, tmp_path, 1, 1)[0]
    assert np.array_equal(one.test.inputs[0], again.test.inputs[0])
    assert np.array_equal(one.test.inputs[0], other.test.inputs[0])
    trained = {tuple(row) for row in other.train.inputs[0]}
    assert not trained & {tuple(row) for row in one.test.inputs[0]}


def test_a_run_goes_on_with_the_samples_it_began_with(tmp_path: Path) -> None:
    put(tmp_path / "r.csv", GOOD)
    found = experiment(tmp_path)
    before = ShardSet(tmp_path / "run", found, local=tmp_path).ensure([0]).load(0)
    put(tmp_path / "r.csv", [*GOOD, "nonsense"])
    after = ShardSet(tmp_path / "run", found, local=tmp_path).ensure([0]).load(0)
    assert np.array_equal(before.train.inputs[0], after.train.inputs[0])


WRONG: dict[str, tuple[list[str], str]] = {
    "another column": (
        ["voltage,site,fault", *ROWS],
        "r.csv has no column 'volt', which the schema has; it has 'voltage', 'site', 'fault'",
    ),
    "no target": (["volt,site,x", *ROWS], "data.target is 'fault', which "),
    "an unknown category": (
        [*GOOD, "1,roof,no"],
        "line 42, column 'site': 'roof' is not one of the categories of the schema",
    ),
    "a class never seen": (
        [*GOOD, "1,in,maybe"],
        "line 42, column 'fault': 'maybe' is not one of the classes of the schema",
    ),
    "a text among numbers": ([*GOOD, "x,in,no"], "column 'volt': 'x' is not a number"),
    "a missing value": ([*GOOD, ",in,no"], "line 42, column 'volt': a value is missing"),
    "an empty client": (GOOD[:1], "r.csv has a header, but no samples"),
    "too few": (GOOD[:5], "it has 4 samples; data.min_size expects at least 10"),
}


@pytest.mark.parametrize("case", WRONG)
def test_data_that_does_not_fit_is_refused_with_its_client_and_line(
    case: str, tmp_path: Path
) -> None:
    lines, sentence = WRONG[case]
    put(tmp_path / "r.csv", lines)
    with pytest.raises(DataError) as error:
        make_local_shard(experiment(tmp_path).data, tmp_path, 2, 1)
    assert sentence in str(error.value)
    assert str(error.value).startswith("the data of client 2 does not fit: ")
    assert "\n" not in str(error.value)


def test_a_board_without_data_says_how_to_give_it_some(tmp_path: Path) -> None:
    found = experiment(tmp_path).data
    with pytest.raises(DataError, match="expected 'fl-client run --data FOLDER'"):
        make_local_shard(found, None, 0, 1)
    with pytest.raises(DataError, match="which is not a folder"):
        make_local_shard(found, tmp_path / "nowhere", 0, 1)


REFUSED: dict[str, tuple[tuple[str, ...], dict[str, str], str]] = {
    "no schema": ((), {"schema": ""}, "expected a section [data.schema]"),
    "shared samples": (("share = 0.1",), {}, "data.share is 0.1, which needs samples of all"),
    "a union": (
        (),
        {"more": "[evaluation]\nunion_samples = 5"},
        "evaluation.union_samples is 5, which needs samples of all clients in one place",
    ),
    "sizes of all": (
        (),
        {"more": '[algorithm]\nname = "fedreg"\nscope = "all"'},
        "algorithm.scope is 'all', which needs all clients' sizes; expected 'client'",
    ),
    "a test part like the training": (
        ('test = "official-like"',),
        {},
        "data.test is 'official-like', but data.partition is 'local'",
    ),
    "names and outputs": (
        (),
        {"schema": SCHEMA.replace("outputs = 2", "outputs = 3")},
        "data.schema.outputs is 3, but it has 2 names",
    ),
    "a schema of nothing": (
        (),
        {"schema": '[data.schema]\nkind = "regression"'},
        "data.schema of 'csv:r.csv' has no columns",
    ),
    "a key nobody knows": (
        (),
        {"schema": SCHEMA + "colums = 3"},
        "object contains unknown field colums",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_needs_the_data_of_all_is_refused(case: str, tmp_path: Path) -> None:
    settings, more, sentence = REFUSED[case]
    with pytest.raises(ConfigError) as error:
        experiment(tmp_path, *settings, **more)
    assert sentence in str(error.value)
