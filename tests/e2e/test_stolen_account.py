"""One board's bundle is stolen: runs go on, and end with the bits of an undisturbed one."""

from __future__ import annotations

import pytest

from broker.accounts import revoke
from common.access.credentials import read_credentials
from tests.broker.raw import USER, data, raw, user_property
from tests.e2e.guarded_rig import GuardedRig
from tests.e2e.rig import eventually


@pytest.mark.slow
def test_a_run_survives_hostile_properties_and_the_revocation_of_their_sender(
    guarded_rig: GuardedRig,
) -> None:
    rig = guarded_rig
    broker = rig.guarded.broker
    thief = read_credentials(rig.bundle("thief", "9"))
    many = (bytes([USER]) + data(b"") + data(b"")) * 200_000
    with raw(broker, thief) as attacker:
        for properties in (user_property("\ufeff", "\ufeff"), many):
            for topic in ("client/connected/thief", "server/receive_info/9"):
                attacker.publish(f"fl/{topic}", b"x", properties=properties, retain=True)
        for board, clients in (("b1", "0-1"), ("b2", "2-3")):
            rig.daemon(board, clients)
        server = rig.coordinator()
        eventually(lambda: (rig.runs / "r" / "events.jsonl").exists(), "the run")
        eventually(lambda: "round_opened" in rig.kinds(), "a round")
        attacker.publish("fl/server/receive_info/9", b"x", properties=many)
    revoke(rig.guarded.folder, "thief")
    broker.forget()  # as the supervisor does
    rig.finish(server)
    assert rig.digest() == rig.simulate()
    private = (rig.folder / "b1", rig.folder / "b2", rig.runs / "r")
    assert {path.stat().st_mode & 0o777 for path in private} == {0o700}
