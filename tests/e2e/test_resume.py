"""Ctrl-C ends with the command to go on, and `fl-server resume` knows how a run was started."""

from __future__ import annotations

import signal
from pathlib import Path

import click
import pytest

from fl_server.cli.options import broker_options, run_options, started_by
from fl_server.run.find import resume_command
from fl_server.run.provenance import Start
from tests.e2e.rig import Rig, eventually


def last_line(rig: Rig, name: str) -> str:
    return rig.log(name).splitlines()[-1]


@pytest.mark.slow
def test_a_simulation_stopped_by_ctrl_c_is_resumed_as_it_was_started(rig: Rig) -> None:
    settings = ("training.epochs=8", "experiment.rounds=2")
    more = [word for setting in settings for word in ("--set", setting)]
    command = ("simulate", str(rig.folder / "tiny.toml"), "--processes", "2")
    where = ("--runs", str(rig.runs), "--plain")
    process = rig.start("one", "fl_server", *command, "--run", "one", *where, *more)
    eventually(lambda: rig.runs.exists() and "update" in rig.kinds("one"), "an update")
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130, rig.log("one")
    go_on = f"Go on with: fl-server resume one --runs {rig.runs}"
    assert last_line(rig, "one") == f"stopped; nothing is lost. {go_on}"
    assert "Traceback" not in rig.log("one")
    rig.finish(rig.start("again", "fl_server", "resume", "one", *where), "again")
    assert rig.digest("one") == rig.simulate(*settings)
    process = rig.start("over", "fl_server", "resume", "one", *where)
    assert process.wait(60) == 0
    assert "this run is finished; its results are in" in last_line(rig, "over")


@pytest.mark.slow
def test_a_centralized_training_stopped_by_ctrl_c_goes_on_with_resume(rig: Rig) -> None:
    file, metrics = str(rig.folder / "tiny.toml"), rig.runs / "c" / "metrics.jsonl"
    where = ("--run", "c", "--runs", str(rig.runs))
    process = rig.start("c", "fl_server", "central", file, *where, "--set", "central.epochs=9")
    eventually(lambda: metrics.exists() and metrics.read_bytes(), "an epoch")
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130, rig.log("c")
    assert last_line(rig, "c").endswith(f"Go on with: fl-server resume c --runs {rig.runs}")
    rig.finish(rig.start("again", "fl_server", "resume", *where[1:]), "again")
    assert [line["epoch"] for line in rig.metrics("c")] == list(range(1, 10))


@pytest.mark.slow
def test_a_sweep_stopped_by_ctrl_c_names_itself_and_so_does_resume(rig: Rig) -> None:
    file = str(rig.folder / "tiny.toml")
    words = ("sweep", file, "--seeds", "1,2", "--simulate", "--runs", str(rig.runs))
    process = rig.start("sweep", "fl_server", *words, "--set", "training.epochs=20")
    eventually(lambda: rig.runs.exists() and "update" in rig.kinds("tiny-s1"), "an update")
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130, rig.log("sweep")
    typed = f"sweep {file} --seeds 1,2 --simulate --runs {rig.runs} --set training.epochs=20"
    assert last_line(rig, "sweep").endswith(f"Go on with: python -m fl_server {typed}")
    resumed = rig.start("again", "fl_server", "resume", "tiny-s1", "--runs", str(rig.runs))
    assert resumed.wait(60) == 2
    assert "was started by 'fl-server sweep'; go on with: fl-server sweep" in rig.log("again")


def start_of(words: list[str]) -> Start:
    """What is noted about a command line."""

    @click.command("run")
    @click.argument("file")
    @click.option("--run", "name")
    @click.option("--boards", type=int, default=4)
    @click.option("--data", type=click.Path(path_type=Path))
    @click.option("--cold", is_flag=True)
    @broker_options
    @run_options
    def command(**_others: object) -> None: ...

    return started_by(command.make_context("run", words))


def test_what_says_where_a_run_is_computed_is_noted_and_nothing_else() -> None:
    assert start_of(["x.toml", "--run", "me", "--plain", "-v", "--runs", "there"]) == Start(
        "run", ("--boards", "4")
    )
    words = ["x.toml", "--data", "mine", "--cold", "--broker", "pi:1"]
    expected = ("--boards", "4", "--data", str(Path("mine").absolute()), "--cold")
    assert start_of(words) == Start("run", (*expected, "--broker", "pi:1"))


@pytest.mark.parametrize(
    ("folder", "command"),
    [
        ("runs/demo-1", "fl-server resume demo-1"),
        ("/data/my runs/demo-1", "fl-server resume demo-1 --runs '/data/my runs'"),
    ],
)
def test_the_command_to_go_on_can_be_pasted(folder: str, command: str) -> None:
    assert resume_command(Path(folder)) == command
