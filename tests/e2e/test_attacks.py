"""One stolen bundle against real processes on a guarded broker; kill and resume follow."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import msgspec
import pytest

from common.access.credentials import reach, read_credentials
from common.wire.json_codec import decode
from common.wire.messages import Connected
from common.wire.paho_link import PahoLink
from common.wire.topics import packet
from tests.attacks.forges import counting, enormous_shape, honestly, many_values, not_finite
from tests.attacks.forging import Forge
from tests.attacks.stage import STOLEN, Thief
from tests.broker.intruder import intruder
from tests.e2e.guarded_rig import GuardedRig
from tests.e2e.rig import PATIENCE, TINY, Rig, eventually


@contextmanager
def thief_of(rig: GuardedRig, forge: Forge) -> Iterator[Thief]:
    """A thief with the bundle of board t, which has client 3."""
    address = reach(None, rig.bundle("t", str(STOLEN)), None, "board").address
    link = PahoLink(address)
    yield Thief(link, "t", (STOLEN,), forge)
    link.close(forget_session=True)


def attack(rig: GuardedRig, run: str, forge: Forge) -> str:
    """The digest of a run whose coordinator is killed after the first forged message."""
    where = ("--runs", str(rig.runs), "--plain", "--credentials", str(rig.bundle("server")))
    with thief_of(rig, forge) as thief:
        server = rig.coordinator("--run", run, name="server")
        until(thief, lambda: thief.fired or "update" in kinds(rig, run), "an attack")
        until(thief, lambda: {"update", "rejected"} & {*kinds(rig, run)}, "its effect")
        server.kill()
        server.wait()
        again = rig.start(f"again-{run}", "fl_server", "resume", run, *where)
        until(thief, lambda: again.poll() is not None, "the end")
    assert again.returncode == 0, rig.log(f"again-{run}")
    return rig.digest(run)


def kinds(rig: Rig, run: str) -> list[str]:
    return rig.kinds(run) if (rig.runs / run / "events.jsonl").exists() else []


def until(thief: Thief, condition: Callable[[], object], what: str) -> None:
    def step() -> object:
        for _ in range(20):
            thief.step()
        return condition()

    eventually(step, what)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_hostile_updates_and_counts_are_rejected_and_a_killed_run_goes_on(
    guarded_rig: GuardedRig,
) -> None:
    """Rows 3, 7 and 14: an enormous shape, 300 KB of values, totals of 2^60."""
    rig = guarded_rig
    rig.write_experiment(TINY.replace('name = "dnn"', 'name = "dnn"\nhidden = 1'))
    rig.daemon("b1", "0-2")
    honest = attack(rig, "honest", honestly)
    without = attack(rig, "without", not_finite)
    assert honest != without
    assert attack(rig, "shape", enormous_shape) == without
    assert attack(rig, "values", many_values) == without
    assert attack(rig, "counts", counting(2**60)) == honest
    for run in ("without", "shape", "values", "counts"):
        texts = [e["text"] for e in rig.events(run) if e["event"] == "rejected"]
        assert all(f"of client {STOLEN} in round" in text for text in texts)
        assert len(texts) >= 2, "one of every round"
    honest_lines, lines = rig.metrics("honest"), rig.metrics("counts")
    assert [line["tested_clients"] for line in lines] == [3, 3, 3]
    assert all(line["accuracy_global"] < 1.0 for line in (*lines, *honest_lines))


def is_ready(rig: Rig, board: str, times: int = 1) -> None:
    text = f"board {board} is ready"
    eventually(lambda: rig.log(board).count(text) >= times, f"{board} is ready")


@pytest.mark.slow
def test_a_claim_of_a_thief_who_is_gone_drives_no_daemon_out(guarded_rig: GuardedRig) -> None:
    """Row 9: the daemon goes on, also after a kill, and ends its run with the same bits."""
    rig = guarded_rig
    b1 = rig.daemon("b1", "0-3")
    is_ready(rig, "b1")
    stolen = read_credentials(rig.bundle("b1", "0-3"))
    claims: list[Connected] = []
    with intruder(stolen) as thief:
        thief.subscribe(["fl/client/connected/b1"])
        own = decode(thief.heard.get(timeout=PATIENCE)[1], Connected)
        claim = msgspec.structs.replace(own, instance="thief", since=0.0, session=(9, 9))
        ready = packet("fl", claim)
        thief.publish(ready.topic, ready.payload, retain=True)

        def answered() -> bool:
            while not thief.heard.empty():
                claims.append(decode(thief.heard.get()[1], Connected))
            return bool(claims) and claims[-1].instance == own.instance

        eventually(answered, "the daemon defends its claim")
    assert b1.poll() is None, rig.log("b1")
    b1.send_signal(signal.SIGKILL)
    b1.wait()
    again = rig.daemon("b1", "0-3")
    is_ready(rig, "b1", 2)
    rig.finish(rig.coordinator())
    assert rig.digest() == rig.simulate()
    assert again.poll() is None


@pytest.mark.slow
def test_of_two_daemons_with_one_name_whoever_is_left_may_start_again(rig: Rig) -> None:
    """Without an attacker: the refused one stayed refused, and then the first was, too."""
    where = ("--broker", f"127.0.0.1:{rig.port}", "--board", "b1", "--clients", "0-3")

    def start(name: str) -> subprocess.Popen[bytes]:
        state = ("--state", str(rig.folder / f"state-{name}"))
        words = ("fl_client", "run", *where, *state)
        return rig.start(name, *words, files=rig.shared_files())

    def ready(name: str) -> int:
        return rig.log(name).count("board b1 is ready")

    first = start("first")
    eventually(lambda: ready("first"), "the first")
    second = start("second")
    assert second.wait(PATIENCE) == 1
    assert "board name 'b1' is already used" in rig.log("second")
    assert first.poll() is None
    running = first
    for name in ("second", "first", "second"):
        running.send_signal(signal.SIGTERM)
        assert running.wait(PATIENCE) == 0
        before = ready(name)
        running = start(name)
        eventually(lambda: ready(name) > before, f"{name} again")  # noqa: B023 - called here
    rig.finish(rig.coordinator())
    assert rig.digest() == rig.simulate()
