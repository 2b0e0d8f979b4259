"""Boards and coordinators that die, and people who press Ctrl-C."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence

import pytest

from tests.e2e.rig import Rig, alive, boards, children, command_of, eventually, family

pytestmark = pytest.mark.slow
SILENCE_SECONDS = 15.0  # after which a board that hangs is lost: 1.5 keepalives


def test_a_killed_daemon_is_lost_within_seconds_and_the_run_goes_on_when_it_is_back(
    rig: Rig,
) -> None:
    ear = rig.listen()
    rig.fork_server = None
    b1, _ = boards(rig, ["0-1", "2-3"])
    long = ("training.epochs=40", "experiment.rounds=1")
    server = rig.coordinator("--set", long[0], "--set", long[1])
    eventually(lambda: [m for m in ear.messages("receive_info") if m["epoch"]], "training")
    eventually(lambda: len(family(b1.pid)) == 3, "a parent and its training process")
    workers = family(b1.pid)[1:]
    b1.kill()
    killed = time.monotonic()

    def wills() -> list[float]:
        return [at for topic, body, _, at in list(ear.heard)
                if topic.endswith("connected/b1") and b'"connected":false' in body]  # fmt: skip

    eventually(wills, "the last will")
    assert wills()[0] - killed < SILENCE_SECONDS
    eventually(lambda: "lost" in rig.kinds(), "the server notices")
    eventually(lambda: not any(alive(pid) for pid in workers), "both end with their daemon")
    rig.daemon("b1", "0-1")
    rig.finish(server)
    assert "back" in rig.kinds()
    assert rig.digest() == rig.simulate(*long)


def test_sigterm_ends_a_training_daemon_cleanly_and_at_once(rig: Rig) -> None:
    ear = rig.listen()
    rig.fork_server = None
    (b1,) = boards(rig, ["0-3"])
    rig.coordinator("--set", "training.epochs=500")
    eventually(lambda: [m for m in ear.messages("receive_info") if m["epoch"]], "training")
    eventually(lambda: len(family(b1.pid)) == 3, "a parent and its training process")
    workers = family(b1.pid)[1:]
    b1.send_signal(signal.SIGTERM)
    assert b1.wait(10) == 0
    eventually(
        lambda: [m for m in ear.messages("connected/b1") if not m["connected"]], "its farewell"
    )
    eventually(lambda: not any(alive(pid) for pid in workers), "both end with their daemon")


def test_a_killed_coordinator_goes_on_in_the_same_round_with_the_same_result(rig: Rig) -> None:
    boards(rig, ["0-1", "2-3"])
    server = rig.coordinator("--set", "training.epochs=10")
    eventually(lambda: rig.runs.exists() and "update" in rig.kinds(), "an update")
    server.kill()
    server.wait()
    where = ("--runs", str(rig.runs), "--plain")  # the broker is that of then
    rig.finish(rig.start("again", "fl_server", "resume", "r", *where), "again")
    assert rig.digest() == rig.simulate("training.epochs=10")
    assert len(rig.updates()) == 8
    assert rig.kinds().count("update") <= 8, "an update was counted twice"


def test_an_interrupted_lab_leaves_nothing_running_and_can_be_resumed(rig: Rig) -> None:
    command = (
        *("fl_server", "lab", str(rig.folder / "tiny.toml"), "--boards", "2", "--plain"),
        *("--run", "lab", "--runs", str(rig.runs), "--set", "training.epochs=10"),
    )
    lab = rig.start("lab", *command)
    eventually(lambda: rig.runs.exists() and "update" in rig.kinds("lab"), "an update")
    everybody = family(lab.pid)
    assert len(everybody) > 4, "a broker, two boards and their training processes"
    lab.send_signal(signal.SIGINT)
    assert lab.wait(20) == 130, rig.log("lab")
    eventually(lambda: not any(alive(pid) for pid in everybody), "all have ended")
    assert f"Go on with: fl-server resume lab --runs {rig.runs}" in rig.log("lab")
    again = ("fl_server", "resume", "lab", "--runs", str(rig.runs), "--plain")
    rig.finish(rig.start("lab", *again), "lab")
    assert rig.digest("lab") == rig.simulate("training.epochs=10")


def test_a_lab_goes_on_without_its_training_processes_and_their_parent(rig: Rig) -> None:
    long = ("training.epochs=40", "experiment.rounds=1")
    lab = rig.start(
        *("lab", "fl_server", "lab", str(rig.folder / "tiny.toml"), "--boards", "2"),
        *("--plain", "--run", "lab", "--runs", str(rig.runs)),
        *("--set", long[0], "--set", long[1]),
    )

    def forked(parents: Sequence[int] = ()) -> list[int]:
        """The parent and the training processes of both boards, when they are there."""
        for pid in children(lab.pid):
            workers = [] if pid in parents else children(pid)
            if len(workers) == 2 and b"fork_server" in command_of(pid):
                return [pid, *workers]
        return []

    parent, *workers = eventually(forked, "training processes")
    os.kill(parent, signal.SIGKILL)
    eventually(lambda: not any(alive(pid) for pid in workers), "they end with their parent")
    _, worker, *_ = eventually(lambda: forked([parent]), "new ones")
    os.kill(worker, signal.SIGKILL)
    rig.finish(lab, "lab")
    assert rig.digest("lab") == rig.simulate(*long)


def test_a_killed_lab_takes_everything_with_it(rig: Rig) -> None:
    lab = rig.start(
        *("lab", "fl_server", "lab", str(rig.folder / "tiny.toml"), "--boards", "2"),
        *("--plain", "--run", "lab", "--runs", str(rig.runs), "--set", "training.epochs=500"),
    )
    eventually(lambda: rig.runs.exists() and "round_opened" in rig.kinds("lab"), "a round")
    everybody = family(lab.pid)
    lab.kill()
    eventually(lambda: not any(alive(pid) for pid in everybody), "all have ended")
