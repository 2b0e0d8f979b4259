"""Who does not belong: second daemons, second coordinators, garbage, other versions."""

from __future__ import annotations

import json

import pytest

from common.wire.chunks import MAX_FRAME
from common.wire.json_codec import decode
from common.wire.messages import Connected
from tests.e2e.rig import PATIENCE, TINY, Rig, boards, eventually

pytestmark = pytest.mark.slow  # real processes


def test_a_second_daemon_with_the_same_name_or_the_same_client_is_refused(rig: Rig) -> None:
    ear = rig.listen()
    first = rig.daemon("b1", "0-2")
    eventually(lambda: [m for m in ear.messages("connected/b1") if m["settled"]], "the first")
    where = ("--broker", f"127.0.0.1:{rig.port}", "--board", "b1", "--clients", "9")
    words = ("fl_client", "run", *where, "--state", str(rig.folder / "s2"))
    second = rig.start("second", *words, files=rig.shared_files())
    other = rig.daemon("b2", "2-4")
    assert (second.wait(PATIENCE), other.wait(PATIENCE)) == (1, 1)
    assert "board name 'b1' is already used by the daemon on" in rig.log("second")
    assert f"process {first.pid}" in rig.log("second")
    assert "board 'b2' claims clients 2, but board 'b1'" in rig.log("b2")
    assert first.poll() is None
    last = ear.messages("connected/b1")[-1]
    assert (last["connected"], last["clients"]) == (True, [0, 1, 2]), "it is not forgotten"
    third = rig.daemon("b3", "3-4")
    eventually(lambda: [m for m in ear.messages("connected/b3") if m["settled"]], "the third")
    assert third.poll() is None


def test_a_server_says_for_whom_it_waits_and_who_does_not_belong(rig: Rig) -> None:
    """A second coordinator, foreign clients, boards of another protocol or version."""
    ear = rig.listen()
    first = rig.coordinator()
    eventually(lambda: "fl/client/train_detail" in ear.topics(), "the first announces its run")
    second = rig.coordinator("--run", "other", name="second")
    eventually(lambda: "waiting for boards with clients 0-3" in rig.log("server"), "the line")
    rig.daemon("b1", "0-1,9")
    claim = {
        "protocol": 99,
        "version": "9.9",
        "board": "new",
        "anything": "else",
    }
    ear.say("fl/client/connected/new", json.dumps(claim).encode(), retain=True)
    eventually(lambda: "board new: speaks protocol 99 (fedbed 9.9)" in rig.log("server"), "it")
    own = next(m for m in ear.messages("connected/@coordinator") if m["settled"])
    other = {**own, "board": "old", "instance": "old", "version": "0.0.9", "clients": [7]}
    decode(json.dumps(other).encode(), Connected)
    ear.say("fl/client/connected/old", json.dumps(other).encode())
    eventually(lambda: "board old: has fedbed 0.0.9" in rig.log("server"), "the version")
    words = "board b1 offers clients 9, which are not in this experiment: not used"
    eventually(lambda: words in rig.log("server"), "the foreign client")
    assert second.wait(PATIENCE) == 1
    assert "another coordinator (run r on" in rig.log("second")
    assert first.poll() is None


def test_a_coordinator_of_another_protocol_is_refused_by_the_board(rig: Rig) -> None:
    ear = rig.listen()
    rig.daemon("b1", "0")
    eventually(lambda: [m for m in ear.messages("connected/b1") if m["settled"]], "the board")
    detail = {"protocol": 99, "version": "9.9", "run": "x", "experiment": {}}
    ear.say("fl/client/train_detail", json.dumps(detail).encode(), retain=True)
    said = eventually(lambda: [m for m in ear.messages("connected/b1") if m["problem"]], "why")
    assert "speaks protocol 99 (fedbed 9.9), this side speaks 2" in said[0]["problem"]


def test_garbage_on_every_topic_is_counted_and_changes_nothing(rig: Rig) -> None:
    ear = rig.listen()
    boards(rig, ["0-1", "2-3"])
    server = rig.coordinator("--set", "training.epochs=10")
    eventually(lambda: [m for m in ear.messages("receive_info") if m["epoch"]], "training")
    bodies = [
        b"",
        b"\xff\x00garbage",
        b"{}",
        b"[" * 10_000,
        b"x" * MAX_FRAME,
        b"FBC1\0\0\0\2{}",
    ]
    foreign = {"run": "other.1", "round": 1, "client": 0, "board": "b1", "state": "failed"}
    bodies.append(json.dumps(foreign).encode())
    topics = [
        *("fl/client/connected/ghost", "fl/client/connected/b1", "fl/server/receive_info/0"),
        *("fl/server/receive_weights/0", "fl/server/receive_weights/zero", "fl/unknown/0"),
        *("fl/client/test_metrics/0", "fl/client/test_metrics/99", "fl/server/receive_info/-1"),
        *("fl/server/send_weights/0", "fl/client/selected", "fl/server/current_round"),
        *("fl/client/train_detail", "fl/train/end"),
    ]
    for topic in topics:
        for body in bodies:
            ear.say(topic, body)
    rig.finish(server)
    assert rig.digest() == rig.simulate("training.epochs=10")
    dropped = [e for e in rig.events() if e["event"] == "message_dropped"]
    assert dropped
    assert "logged once per kind" in (rig.runs / "r" / "server.log").read_text()
    eventually(lambda: "dropped a message on" in rig.log("b1"), "the board's line")


def test_a_board_that_cannot_write_says_so_and_the_run_waits_for_it(rig: Rig) -> None:
    """Its client folder is a file: training works, keeping the result does not."""
    ear = rig.listen()
    rig.write_experiment(TINY.replace("rounds = 2", "rounds = 1"))
    server = rig.coordinator()
    detail = eventually(lambda: ear.messages("train_detail"), "the run's name")[0]
    home = rig.folder / "b1" / "runs" / detail["run"]
    home.mkdir(parents=True)
    (home / "client-000000").write_text("in the way")
    b1 = rig.daemon("b1", "0-3")
    eventually(lambda: "failed" in rig.kinds(), "the failure reaches the server")
    failed = next(e for e in rig.events() if e["event"] == "failed")
    assert "client 0 on board b1 failed" in failed["text"]
    (home / "client-000000").unlink()
    rig.finish(server)
    assert b1.poll() is None
    assert rig.digest() == rig.simulate()
