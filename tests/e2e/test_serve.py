"""The coordinator that stays, as a process: killed, and asked for something."""

from __future__ import annotations

import subprocess

import pytest

from fl_server.queue import Queue
from tests.e2e.rig import PATIENCE, TINY, Rig, boards, eventually

pytestmark = pytest.mark.slow

SHORT = TINY.replace("rounds = 2", "rounds = 4")


def serve(rig: Rig, name: str) -> subprocess.Popen[bytes]:
    where = ("--broker", f"127.0.0.1:{rig.port}", "--runs", str(rig.runs), "--plain")
    return rig.start(name, "fl_server", "serve", *where)


def submit(rig: Rig, *words: str) -> None:
    command = ("submit", str(rig.folder / "tiny.toml"), "--runs", str(rig.runs), *words)
    process = rig.start("submit", "fl_server", *command)
    assert process.wait(PATIENCE) == 0, rig.log("submit")


def states(rig: Rig) -> list[tuple[str | None, str]]:
    return [(entry.run, entry.state) for entry in Queue(rig.runs).entries()]


@pytest.mark.timeout(600)
def test_a_coordinator_killed_in_the_second_of_three_experiments_ends_all_three(
    rig: Rig,
) -> None:
    rig.write_experiment(SHORT)
    boards(rig, ["0-1", "2-3"])
    submit(rig, "--run", "one")
    submit(rig, "--seeds", "2-3")  # a sweep
    names = ["one", "tiny-s2", "tiny-s3"]
    assert states(rig) == [(name, "waiting") for name in names]
    first = serve(rig, "first")
    path = rig.runs / names[1] / "events.jsonl"
    eventually(lambda: path.exists() and "round_closed" in rig.kinds(names[1]), "the second")
    first.kill()
    first.wait(PATIENCE)
    assert states(rig)[:2] == [("one", "done"), ("tiny-s2", "running")]

    second = serve(rig, "second")
    done = [(name, "done") for name in names]
    eventually(lambda: states(rig) == done or second.poll() is not None, "all have ended")
    assert states(rig) == done, rig.log("second")
    assert rig.kinds(names[1]).count("started") == 2
    assert "goes on with run tiny-s2" in rig.log("second")
    for name, seed in zip(names, (1, 2, 3), strict=True):
        expected = rig.simulate(f"experiment.seed={seed}", name=f"sim-{seed}")
        assert rig.digest(name) == expected, name

    submit(rig, "--set", "experiment.rounds=500")  # comes while it waits for more
    run = rig.runs / "tiny-1" / "events.jsonl"
    eventually(lambda: run.exists() and "round_closed" in rig.kinds("tiny-1"), "the fourth")
    stop = rig.start("stop", "fl_server", "stop", "tiny-1", "--runs", str(rig.runs))
    assert stop.wait(PATIENCE) == 0, rig.log("stop")
    eventually(lambda: states(rig)[-1] == ("tiny-1", "stopped"), "it was stopped")
    assert second.poll() is None
    second.terminate()
    assert second.wait(PATIENCE) == 130
