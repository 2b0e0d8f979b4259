"""What is remembered of others, and read from files, has a bound."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest

from common.errors import StoreError
from common.wire.messages import Connected, TrainEnd
from common.worker.snapshot_store import SnapshotRecord, SnapshotStore
from fl_client.agent import machine as agent
from fl_client.agent.state import Policy as AgentPolicy
from fl_client.agent.state import Received
from fl_client.agent.state import State as AgentState
from fl_server.coordinator.refusals import MOST_PROBLEMS, Refusals
from fl_server.rounds import machine as rounds
from fl_server.rounds.boards import most_boards, note_presence
from fl_server.rounds.state import Policy
from fl_server.watch import facts

POLICY = Policy(run="r", seed=1, rounds=2, participants=(0, 1), start_with=2)


def claim(board: str, clients: tuple[int, ...]) -> Connected:
    return Connected(
        protocol=2, version="1", board=board, instance=f"i-{board}", session=(1, 1),
        connected=True, settled=True, since=1.0, clients=clients, host="h",
    )  # fmt: skip


@pytest.mark.parametrize("lengths", [{"update_bytes": 10**9}, {"state_bytes": 10**9}])
def test_a_snapshot_that_announces_a_billion_bytes_is_damaged(
    tmp_path: Path, lengths: dict[str, int]
) -> None:
    """The old code asked for the memory first: MemoryError on a board."""
    store = SnapshotStore(tmp_path, "r")
    state = {"x": np.zeros(3, np.float32)}
    store.write(0, 1, state=state, update=b"u" * 10, tests=None, durable=False)
    path = store.path(0, 1)
    line, _, rest = path.read_bytes().partition(b"\n")
    record = msgspec.json.decode(line, type=SnapshotRecord)
    crafted = msgspec.structs.replace(record, **lengths)
    path.write_bytes(msgspec.json.encode(crafted) + b"\n" + rest)
    with pytest.raises(StoreError, match="is damaged"):
        store.state(0, 1)
    assert store.scan() == {0: frozenset()}


def test_boards_without_a_client_of_the_run_give_way_to_one_that_has_one() -> None:
    state = rounds.start(incarnation=1, now=0.0)
    for at in range(500):
        state, _ = note_presence(POLICY, state, claim(f"x{at}", (7,)), 0.0)
    assert len(state.boards) == most_boards(POLICY)
    state, _ = note_presence(POLICY, state, claim("real", (0, 1)), 0.0)
    assert len(state.boards) == most_boards(POLICY)
    assert (state.owner(0), state.owner(1)) == ("real", "real")


def test_a_late_update_of_a_client_that_nobody_knows_is_not_remembered() -> None:
    state = msgspec.structs.replace(rounds.start(incarnation=1, now=0.0), done=2)
    late = [
        client
        for client in range(1000)
        if rounds.missed(POLICY, state, run="r", round_number=1, client=client)
    ]
    assert late == [0, 1]


def test_problems_of_invented_boards_are_counted_and_not_all_reported() -> None:
    reported: list[facts.Fact] = []
    refusals = Refusals("fl", reported.append, lambda _client: None)
    for at in range(5 * MOST_PROBLEMS):
        refusals.problem(f"x{at}", "my board hurts")
    assert len(reported) == MOST_PROBLEMS
    refusals.problem("x0", "")  # it is well again, which makes room
    refusals.problem("y", "mine, too")
    assert len(reported) == MOST_PROBLEMS + 1


def test_the_ends_of_many_runs_are_not_all_remembered() -> None:
    state, policy = AgentState(), AgentPolicy("b", (0,))
    for at in range(1000):
        end = TrainEnd(run=f"r{at}", reason="finished")
        state, _ = agent.step(policy, state, Received(end, 0.0))
    assert len(state.ended) <= agent.MOST_ENDED
    assert "r999" in state.ended
