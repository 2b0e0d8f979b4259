"""A board with too little memory: its training process stops by its own limit, and says why."""

from __future__ import annotations

import pytest

from tests.e2e.rig import TINY, Rig, alive, eventually

pytestmark = pytest.mark.slow

HUNGRY = TINY.replace('name = "dnn"', 'name = "mcmahan"').replace(
    'grace = "forever"', "grace = 2\nmin_updates = 1"
)


def test_a_round_goes_on_without_a_client_whose_memory_ran_out_and_the_event_says_why(
    rig: Rig,
) -> None:
    rig.write_experiment(HUNGRY.replace("rounds = 2", "rounds = 1"))
    rig.fork_server = None
    small = rig.daemon("small", "0", "--memory", "240")
    rig.daemon("large", "1-3")
    rig.finish(rig.coordinator())
    failed = [event for event in rig.events() if event["event"] == "failed"]
    assert {event["client"] for event in failed} == {0}
    assert "memory ran out (240 MB for each process)" in failed[0]["text"]
    assert {client for _, client in rig.updates()} == {1, 2, 3}
    assert "dropped" in rig.kinds()
    assert alive(small.pid)
    eventually(lambda: "is over on this board" in rig.log("small"), "it waits for the next run")
