from __future__ import annotations

import builtins
import dataclasses
import hashlib
import io
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from rich.console import Console

from common.algorithms.base import Algorithm
from common.algorithms.fedavg import fedavg
from common.data.rebalance import Rebalance
from common.data.rebalance_file import read_rebalanced
from common.data.shard_file import read_shard
from common.data.shards import ShardSet
from common.experiment.file import load_experiment
from fl_server.cli import main
from fl_server.data.distribution import Distribution, rebalanced
from fl_server.data.sheet import sheet_of
from fl_server.data.terminal_bars import draw_bars, palette

ROOT = Path(__file__).resolve().parents[3]
PNG = b"\x89PNG\r\n"


def fl_server(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, [str(word) for word in arguments])


@pytest.mark.slow
def test_a_sheet_shows_what_augmentation_makes_of_images(tmp_path: Path) -> None:
    demo, out = ROOT / "examples" / "demo.toml", tmp_path / "sheet.png"
    done = fl_server("data", "show", demo, "--augmented", "-o", out)
    assert done.exit_code == 0, done.output
    assert out.read_bytes().startswith(PNG)
    unnamed = fl_server("data", "show", demo, "--augmented")
    assert "name its file: -o sheet.png" in unnamed.output + unnamed.stderr


def test_a_sheet_has_the_originals_first() -> None:
    experiment = load_experiment(ROOT / "examples" / "demo.toml")
    sheet = sheet_of(experiment, Rebalance(augmentation="duplicate"))
    assert sheet.shape == (10, 11, 1, 28, 28)
    assert (sheet[:, :1] == sheet).all()
    changed = sheet_of(experiment, Rebalance(augmentation="five_step"))
    assert (changed[:, 0] == sheet[:, 0]).all()
    assert (changed[:, 1:] != sheet[:, 1:]).any()


def rebalancing() -> Algorithm:
    """FedAvg whose clients also have a rebalanced set."""
    return dataclasses.replace(fedavg(), rebalance=Rebalance(augmentation="duplicate"))


@pytest.fixture
def experiment(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.toml"
    path.write_text("[data]\nclients = 4\nalpha = 1.0\n")
    return path


def test_prepared_shards_are_what_a_daemon_makes_itself(
    experiment: Path, tmp_path: Path
) -> None:
    done = fl_server("data", "prepare", experiment, "-o", tmp_path / "out")
    assert done.exit_code == 0, done.output
    own = ShardSet(tmp_path / "own", load_experiment(experiment)).ensure(range(4)).folder
    prepared = tmp_path / "out" / own.name
    assert {path.name for path in prepared.iterdir()} == {path.name for path in own.iterdir()}
    for path in own.iterdir():
        assert (prepared / path.name).read_bytes() == path.read_bytes()


def test_the_manifest_says_what_is_there(experiment: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    more = ("--set", "evaluation.union_samples=50", "--set", "data.share=0.1")
    name = ("--set", f"algorithm.name={__name__}:rebalancing")
    fl_server("data", "prepare", experiment, "-o", out, "--clients", "1-2", *more, *name)
    manifest = json.loads((out / "manifest.json").read_text())
    folder = out / manifest["key"]
    assert (manifest["seed"], manifest["union_samples"], manifest["shared"]) == (1, 50, 750)
    assert manifest["data"]["share"] == 0.1
    assert manifest["rebalance"]["statistic"] == "mean"
    sums = {path.name: hashlib.sha256(path.read_bytes()) for path in folder.iterdir()}
    assert manifest["sha256"] == {name: sums[name].hexdigest() for name in sorted(sums)}
    assert sorted(sums) == [
        *(f"client-1{end}.safetensors" for end in (".rebalanced-client-mean-duplicate", "")),
        *(f"client-2{end}.safetensors" for end in (".rebalanced-client-mean-duplicate", "")),
        "shared.safetensors",
    ]
    assert [client["client"] for client in manifest["clients"]] == [0, 1, 2, 3]
    said, shard = manifest["clients"][2], read_shard(folder / "client-2.safetensors")
    made = read_rebalanced(folder / "client-2.rebalanced-client-mean-duplicate.safetensors")
    assert said["train"] == shard.counts.tolist()
    assert said["test"] == np.bincount(shard.test.targets, minlength=10).tolist()
    assert said["samples"] == len(shard.train)
    assert said["rebalanced"] == {"samples": len(made.samples), "effective": made.effective}


def test_a_second_prepare_changes_nothing_and_may_add_clients(
    experiment: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    fl_server("data", "prepare", experiment, "-o", out, "--clients", "0")
    before = {path: path.stat().st_ino for path in out.rglob("client-*")}
    done = fl_server("data", "prepare", experiment, "-o", out)
    assert done.exit_code == 0
    after = {path: path.stat().st_ino for path in out.rglob("client-*")}
    assert len(after) == 4
    assert before.items() <= after.items()
    assert len(json.loads((out / "manifest.json").read_text())["sha256"]) == 4


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("--clients", "3-4"), "clients 4 have no data; expected 0-3"),
        (("--clients", "x"), "'x' is not a list of client ids"),
        (("--set", "experiment.seed=2"), "already holds"),
    ],
)
def test_prepare_refuses_what_does_not_fit(
    experiment: Path, tmp_path: Path, arguments: tuple[str, ...], problem: str
) -> None:
    out = tmp_path / "out"
    fl_server("data", "prepare", experiment, "-o", out, "--clients", "0")
    before = sorted(out.rglob("*"))
    done = fl_server("data", "prepare", experiment, "-o", out, *arguments)
    assert (done.exit_code, problem in done.output) == (2, True), done.output
    assert sorted(out.rglob("*")) == before


def test_the_bars_say_who_has_how_much(experiment: Path) -> None:
    done = fl_server("data", "show", experiment)
    assert done.exit_code == 0, done.output
    lines = done.output.splitlines()
    assert lines[0] == "fmnist-mini, 4 clients, Dirichlet(1)"
    assert [line.split()[0] for line in lines[1:5]] == ["0", "1", "2", "3"]
    assert "7,501 samples to train" in lines[6]
    assert (
        "rebalanced to the mean" in fl_server("data", "show", experiment, "--rebalanced").output
    )


@pytest.mark.parametrize("clients", [1, 20, 100])
@pytest.mark.parametrize("coloured", [True, False])
@pytest.mark.parametrize("classes", [2, 10, 100])
def test_bars_fit_into_80_columns(clients: int, coloured: bool, classes: int) -> None:
    rng = np.random.default_rng(clients)
    counts = rng.integers(0, 300, (clients, classes)) * (rng.random((clients, classes)) < 0.3)
    counts[:, 0] += 1
    notes = [f"{size:,} (9,999)" for size in counts.sum(1)]
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(draw_bars(counts, notes, 80, coloured=coloured))
    lines = console.export_text().splitlines()
    assert max(map(len, lines)) <= 80
    bars = [line for line in lines if "(9,999)" in line]
    assert len(bars) == (50 if clients == 100 else clients)
    assert len(set(palette(classes))) == classes


def test_a_bar_shows_the_classes_in_proportion() -> None:
    counts = np.array([[10, 0, 30], [0, 20, 0]])
    console = Console(width=27, record=True, file=io.StringIO())
    console.print(draw_bars(counts, ["40", "20"], 26, coloured=False))
    first, second, *_ = console.export_text().splitlines()
    assert first.split() == ["0", "0" * 5 + "2" * 15, "40"]
    assert second.split() == ["1", "1" * 10, "20"]


@pytest.mark.slow
def test_pictures_are_written_and_the_same_again(experiment: Path, tmp_path: Path) -> None:
    for name in ("one.png", "two.png", "three.svg"):
        done = fl_server("data", "show", experiment, "--rebalanced", "-o", tmp_path / name)
        assert done.exit_code == 0, done.output
    assert (tmp_path / "one.png").read_bytes().startswith(PNG)
    assert (tmp_path / "one.png").read_bytes() == (tmp_path / "two.png").read_bytes()
    assert "<svg" in (tmp_path / "three.svg").read_text()


def test_a_picture_of_another_kind_is_refused(experiment: Path, tmp_path: Path) -> None:
    done = fl_server("data", "show", experiment, "-o", tmp_path / "picture.gif")
    assert (done.exit_code, list(tmp_path.glob("*.gif"))) == (2, [])
    assert "ends in .png or .svg" in done.output


def test_without_matplotlib_it_is_said_what_to_install(
    experiment: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ordinary = builtins.__import__

    def refuse(name: str, *more: Any) -> Any:
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return ordinary(name, *more)

    monkeypatch.setattr(builtins, "__import__", refuse)
    done = fl_server("data", "show", experiment, "-o", tmp_path / "picture.png")
    assert (done.exit_code, "fedbed[plots]" in done.output) == (1, True)


def test_the_rebalanced_distribution_is_that_of_the_sets() -> None:
    there = Distribution(np.array([[10, 0, 2], [4, 4, 4]]), np.zeros((2, 3), np.int64), 0)
    made = rebalanced(there, Rebalance())
    assert made.train.tolist() == [[6, 0, 6], [4, 4, 4]]
    assert made.effective.tolist() == [8, 12]
    everybody = rebalanced(there, Rebalance(scope="all", statistic="max"))
    assert everybody.sizes.tolist() == [12, 12]


def test_the_pictures_of_the_docs_are_small() -> None:
    for path in (ROOT / "docs" / "pictures").iterdir():
        assert path.stat().st_size < 60_000


def test_a_folder_of_prepared_shards_can_be_copied(experiment: Path, tmp_path: Path) -> None:
    fl_server("data", "prepare", experiment, "-o", tmp_path / "out")
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    shutil.copytree(tmp_path / "out" / manifest["key"], tmp_path / "b" / manifest["key"])
    assert len(read_shard(tmp_path / "b" / manifest["key"] / "client-2.safetensors").train) > 0
