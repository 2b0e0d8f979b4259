"""Many clients for many rounds: nothing grows."""

from __future__ import annotations

import pytest

from broker.process import Broker
from tests.e2e.rig import Rig, boards, eventually, family, memory

HUNDRED = """
[experiment]
rounds = 14
[model]
name = "dnn"
[data]
clients = 100
partition = "iid"
[training]
epochs = 1
"""
SLACK = 12 * 1024 * 1024
WAITING = 100 * 330 * 1024  # updates of a round, which may wait in the broker at any moment


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_hundred_clients_for_many_rounds_need_no_more_memory_at_the_end(
    rig: Rig, own_broker: Broker
) -> None:
    rig.write_experiment(HUNDRED)
    rig.fork_server = None
    daemons = boards(rig, ["0-49", "50-99"])
    server = rig.coordinator()

    def closed() -> int:
        return rig.kinds().count("round_closed") if rig.runs.exists() else 0

    def look() -> dict[str, int]:
        found = {"server": memory(server.pid), "broker": memory(own_broker.pid)}
        for at, daemon in enumerate(daemons):
            found[f"b{at + 1}"] = memory(daemon.pid)
            for depth, worker in enumerate(family(daemon.pid)[1:]):
                found[f"b{at + 1} worker {depth}"] = memory(worker)
        return found

    eventually(lambda: closed() >= 4, "four rounds", 200)
    early = look()
    eventually(lambda: closed() >= 12, "two rounds before its end", 300)
    late = look()
    rig.finish(server)
    print({name: f"{early[name] >> 20} -> {late[name] >> 20} MB" for name in early})  # noqa: T201
    for name, before in early.items():
        more = SLACK + (WAITING if name == "broker" else 0)
        assert late[name] < before * 1.1 + more, f"{name}: {before} -> {late[name]}"
    assert all(line["updates"] == 100 for line in rig.metrics()[1:])
