"""Slow links, boards that hang and come back too late, boards that come back after the end."""

from __future__ import annotations

import re
import signal

import pytest

from fl_server.lab.relay import Relay, Shape
from tests.e2e.rig import PATIENCE, TINY, Rig, boards, children, eventually

pytestmark = pytest.mark.slow


@pytest.mark.timeout(600)
def test_a_model_of_25_megabytes_gets_through_a_slow_link(rig: Rig) -> None:
    """2 MB/s and 200 ms, with a keepalive far shorter than the transfer."""
    big = TINY.replace("rounds = 2", "rounds = 1").replace("clients = 4", "clients = 40")
    big = big.replace('name = "dnn"', 'name = "dnn"\nhidden = 7900')
    rig.write_experiment(big + '[selection]\nparticipants = "0"\n')
    relay = Relay(rig.port)
    relay.shape = Shape(delay=0.2, rate=2e6)
    try:
        where = ("--broker", f"127.0.0.1:{relay.port}", "--board", "far", "--clients", "0")
        words = ("fl_client", "run", *where, "--state", str(rig.folder / "far"))
        rig.start("far", *words, files=rig.shared_files())
        server = rig.coordinator()
        eventually(lambda: "update" in rig.kinds(), "both ways", 200)
        relay.shape = Shape()  # what it tests now takes the same way once more
        assert server.wait(200) == 0, rig.log("server")
    finally:
        relay.close()
    assert rig.metrics()[1]["bytes_up"] > 24_000_000
    assert "lost" not in rig.kinds(), "the link was slow, not broken"
    assert rig.digest() == rig.simulate()


@pytest.mark.timeout(600)
def test_a_board_that_hangs_is_given_up_and_its_late_update_is_rejected_by_name(
    rig: Rig,
) -> None:
    rig.write_experiment(TINY.replace('grace = "forever"', "grace = 1.0"))
    ear = rig.listen()
    b1, _ = boards(rig, ["0-1", "2-3"])
    server = rig.coordinator("--set", "training.epochs=15", "--set", "experiment.rounds=200")
    eventually(
        lambda: [m for m in ear.messages("receive_info/0") if m["epoch"] > 1], "training"
    )
    b1.send_signal(signal.SIGSTOP)
    eventually(lambda: "lost" in rig.kinds(), "its will, 1.5 keepalives later")
    eventually(lambda: "dropped" in rig.kinds(), "grace is over")
    dropped = next(e for e in rig.events() if e["event"] == "dropped")
    assert re.search("goes on without clients [01]", dropped["text"])
    b1.send_signal(signal.SIGCONT)
    eventually(lambda: "late" in rig.kinds(), "the late update")
    late = next(e for e in rig.events() if e["event"] == "late")
    assert "rejected: round" in late["text"]
    assert late["client"] in (0, 1)

    def takes_part_again() -> bool:
        closed = [e for e in rig.events() if e["event"] == "round_closed"]
        return any(0 in e["clients"] and e["round"] > late["round"] for e in closed)

    eventually(takes_part_again, "the board joins a later round")
    server.send_signal(signal.SIGTERM)
    assert server.wait(PATIENCE) == 130


@pytest.mark.timeout(600)
def test_a_board_that_comes_back_after_the_end_does_not_start_anything(rig: Rig) -> None:
    rig.write_experiment(TINY.replace('grace = "forever"', "grace = 1.0"))
    ear = rig.listen()
    b1, _ = boards(rig, ["0-1", "2-3"])
    server = rig.coordinator("--set", "training.epochs=5")
    eventually(lambda: "round_opened" in rig.kinds(), "the first round")
    b1.kill()
    b1.wait()
    rig.finish(server)
    assert "dropped" in rig.kinds()
    before = len(ear.messages("receive_info/0"))
    rig.fork_server = None
    again = rig.daemon("b1", "0-1", "--cold")
    eventually(
        lambda: [m for m in ear.messages("connected/b1") if m["session"][0] == 2], "back"
    )
    # a new experiment is the proof that the old one does not hold it up or mix with it
    rig.finish(rig.coordinator("--run", "next", name="next"), "next")
    infos = ear.messages("receive_info/0")[before:]
    assert {m["run"].split(".")[0] for m in infos} == {"next"}
    assert "dropped" not in rig.kinds("next")
    eventually(lambda: not children(again.pid), "all of torch is released")
