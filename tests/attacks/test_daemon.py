"""One stolen account, or no attacker at all, against the daemon of a board."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from common.errors import ClaimError
from common.wire.claims import ANSWER_SECONDS, PATIENCE_SECONDS
from common.wire.messages import Connected
from common.wire.topics import Packet, packet
from fl_client.agent import machine
from tests.fl_client.board_rig import Rig, current, detail, selected, weights


def thief_of(rig: Rig, **changes: object) -> Packet:
    """A claim to be the board of a rig, older than its own and settled."""
    fields = {"instance": "thief", "since": 0.0, "settled": True, "session": (9, 9)}
    return packet("fl", msgspec.structs.replace(rig.presence(), **{**fields, **changes}))


def wait_with(rig: Rig, claim: Packet) -> None:
    """Time passes, and a rival defends its claim."""
    for _ in range(round(ANSWER_SECONDS)):
        rig.broker.publish(claim)
        rig.wait(1.0)


def work_both(second: Rig, first: Rig) -> None:
    for _ in range(100):
        second.work()
        first.work()


@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("retain", [True, False])
def test_a_claim_of_somebody_who_is_gone_drives_no_daemon_out(
    tmp_path: Path, retain: bool, times: int
) -> None:
    """Row 9: the daemon ended, and every later start got the same message again."""
    rig = Rig(tmp_path)
    rig.work()
    claim = thief_of(rig)
    for _ in range(times):
        rig.broker.publish(Packet(claim.topic, claim.payload, retain))
    rig.work()
    assert rig.presence().instance == rig.identity.instance, "its claim stands again"
    rig.restart()
    rig.wait(PATIENCE_SECONDS + 1)
    assert rig.presence().session == (2, 1)
    rig.open_round(clients=(0,))
    rig.work()
    assert len(set(rig.updates())) == 1


@pytest.mark.parametrize("times", [1, 40])
def test_claims_that_came_while_the_daemon_was_away_refuse_no_later_start(
    tmp_path: Path, times: int
) -> None:
    rig = Rig(tmp_path)
    rig.work()
    claim = thief_of(rig)
    rig.daemon.close()
    for _ in range(times):
        rig.broker.publish(claim)
    rig.start()
    rig.wait(PATIENCE_SECONDS + 1)
    assert rig.presence().settled
    rig.restart()
    rig.wait(PATIENCE_SECONDS + 1)
    assert rig.presence().session == (3, 1)


def test_a_rival_that_stays_is_real_and_ends_the_daemon_which_can_start_again(
    tmp_path: Path,
) -> None:
    rig = Rig(tmp_path)
    rig.work()
    claim = thief_of(rig)
    with pytest.raises(ClaimError, match="board name 'attic' is already used"):
        wait_with(rig, claim)
    rig.daemon.close()
    rig.start()  # the rival has gone
    rig.wait(PATIENCE_SECONDS + 1)
    assert rig.presence().instance == rig.identity.instance
    assert rig.presence().settled


def test_of_two_daemons_with_one_name_whoever_is_left_may_start_again(tmp_path: Path) -> None:
    """Without an attacker: the refused one stayed refused, and then the first was, too."""
    first = Rig(tmp_path / "a")
    first.work()
    second = Rig(tmp_path / "b", first.broker)
    with pytest.raises(ClaimError):
        work_both(second, first)
    second.daemon.close()
    first.wait(40.0)  # its claims wait in the session of the second
    first.daemon.close()
    for rig in (second, first, second, first):
        rig.start()
        rig.wait(1.0)
        assert rig.presence().instance == rig.identity.instance
        assert rig.presence().settled, "the other one has left, so there is nothing to wait for"
        rig.wait(40.0)
        rig.daemon.close()


def test_a_killed_rival_is_waited_for_but_not_for_ever(tmp_path: Path) -> None:
    first = Rig(tmp_path / "a")
    first.work()
    second = Rig(tmp_path / "b", first.broker)
    with pytest.raises(ClaimError):
        work_both(second, first)
    second.daemon.close()
    first.link.kill()
    second.start()
    second.wait(PATIENCE_SECONDS + 1)
    assert second.presence().instance == second.identity.instance
    assert second.presence().settled


def test_no_message_ends_the_daemon_and_none_is_delivered_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A message that we fail to handle is our error, and one of many."""
    rig = Rig(tmp_path)
    rig.work()

    def broken(*_: object) -> None:
        raise ZeroDivisionError("oops")

    with monkeypatch.context() as patched:
        patched.setattr(machine, "_note_message", broken)
        for _ in range(5):
            rig.publish(detail())
        rig.work()
    assert caplog.text.count("Traceback") == 1, "the kind is logged once"
    rig.broker.retained.clear()
    rig.restart()
    rig.publish(detail(), current(), selected(clients=(0,)), *weights())
    rig.work()
    assert len(rig.updates()) == 1


def test_the_presence_of_a_board_has_no_more_than_it_claims(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.work()
    own = rig.presence()
    for changes in (
        {"connected": False, "session": (10**9, 10**9)},
        {"session": (10**9, 10**9), "clients": tuple(range(1000))},
        {"settled": False},
    ):
        rig.broker.publish(packet("fl", msgspec.structs.replace(own, **changes)))
        rig.work()
    rig.wait(20.0)
    assert isinstance(rig.presence(), Connected)
    assert (rig.presence().clients, rig.presence().session) == (own.clients, own.session)
