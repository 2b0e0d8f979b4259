"""A stolen account floods a running experiment: it ends as if nothing had happened."""

from __future__ import annotations

import signal
from collections.abc import Callable
from contextlib import ExitStack

import pytest

from broker.acl import Account, written
from common.access.credentials import Credentials
from tests.broker.intruder import NOT_AUTHORIZED, Intruder, intruder
from tests.conftest import Guarded
from tests.e2e.fuzzing import Fuzzer, Shot, all_topics
from tests.e2e.guarded_rig import GuardedRig
from tests.e2e.rig import TINY, Rig, eventually, memory

MESSAGES = 10_000  # tests/attacks has ten times as many, without a broker
BATCH = 500
GROWTH = 300_000_000


def fire(thief: Intruder, shots: list[Shot]) -> None:
    """Send a batch and wait until the broker has answered what it answers."""
    answered = sum(thief.codes.values())
    for shot in shots:
        thief.client.publish(shot.topic, shot.payload, shot.qos, shot.retain)
    answered += len(shots)  # paho reports those of QoS 0 as well, once they are sent
    eventually(lambda: sum(thief.codes.values()) >= answered, "the broker has answered")


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_ten_thousand_hostile_messages_change_nothing(guarded_rig: GuardedRig) -> None:
    rig, guarded = guarded_rig, guarded_rig.guarded
    rig.write_experiment(TINY.replace("rounds = 2", "rounds = 8"))
    ear = guarded.enroll("ear", role="coordinator")
    ghost = guarded.enroll("ghost", "90-91")
    with ExitStack() as stack:
        spy = stack.enter_context(intruder(ear))
        spy.subscribe(["fl/#"])
        b1 = rig.daemon("b1", "0-1")
        b2 = rig.daemon("b2", "2-3")
        server = rig.coordinator()
        eventually(lambda: rounds_closed(rig) >= 1, "a round to learn messages from")
        b1.send_signal(signal.SIGSTOP)  # so that the run cannot end before the flood does
        eventually(lambda: spy.heard.qsize() > 20, "messages to learn from")
        heard = [spy.heard.get() for _ in range(spy.heard.qsize())]
        spy.client.on_message = None
        before = memory(server.pid)

        def go_on() -> None:
            assert server.poll() is None, rig.log("server")
            assert memory(server.pid) - before < GROWTH
            b1.send_signal(signal.SIGCONT)

        sent = flood(stack, guarded, ghost, heard, go_on)
        rig.finish(server)
    assert sent >= MESSAGES
    assert rig.digest() == rig.simulate()
    assert (b1.poll(), b2.poll()) == (None, None)
    check_counts(rig)


def rounds_closed(rig: Rig) -> int:
    return (
        rig.kinds().count("round_closed") if (rig.runs / "r" / "events.jsonl").exists() else 0
    )


def flood(
    stack: ExitStack,
    guarded: Guarded,
    ghost: Credentials,
    heard: list[tuple[str, bytes]],
    go_on: Callable[[], None],
) -> int:
    """Everything to everywhere, with a board that takes part and with one that does not.

    `go_on` is called once, when enough was sent: the rest meets the last rounds.
    """
    fuzzer = Fuzzer(7, heard)
    b2 = guarded.enroll("b2", "2-3")
    sent = 0
    for credentials, ids in ((b2, (2, 3)), (ghost, (90, 91))):
        thief = stack.enter_context(intruder(credentials))
        allowed = set(written(Account(credentials.name, "board", "fl", ids)))
        topics = [topic for topic in all_topics() if topic not in allowed]
        topics += 4 * sorted(allowed)  # more where it may hurt
        forbidden, shots = 0, []
        for shot in fuzzer.shots(MESSAGES * 11 // 20, topics):
            forbidden += shot.qos and shot.topic not in allowed
            shots.append(shot)
            if len(shots) == BATCH:
                fire(thief, shots)
                sent, shots = sent + len(shots), []
                if sent - BATCH < MESSAGES <= sent:
                    go_on()
        fire(thief, shots)
        sent += len(shots)
        assert thief.codes[NOT_AUTHORIZED] == forbidden, "the broker stopped all others"
    return sent


def check_counts(rig: Rig) -> None:
    events = [e for e in rig.events() if e["event"] == "refused"]
    assert {"b2", "ghost"} <= {event["board"] for event in events}
    assert sum(event["count"] for event in events) > MESSAGES / 10
    for event in events:
        assert event["count"] == sum(event["kinds"].values())
    assert "messages dropped or rejected, per board:" in rig.log("server")
    for path in (rig.runs / "r" / "events.jsonl", rig.runs / "r" / "server.log"):
        assert path.stat().st_size < 1_000_000, "what is sent to us decides what we write"
    assert len(rig.log("server")) < 1_000_000
