"""Streams of facts for tests of what people see."""

from __future__ import annotations

from typing import Any

from common.wire.messages import Info as InfoMessage
from common.wire.messages import Telemetry
from fl_server.watch import facts
from fl_server.watch.facts import Fact
from fl_server.watch.facts.making import evaluated

EXPERIMENT = {
    "experiment": {"name": "big", "seed": 1, "rounds": 30, "grace": 120.0},
    "algorithm": {"name": "scaffold", "options": {"weighting": "samples", "server_step": 1.0}},
    "data": {"dataset": "cifar10", "clients": 300, "partition": "dirichlet", "alpha": 0.1},
}


def described(run: str = "big-1.0a1b2c3d", rounds: int = 30, time: float = 0.0) -> Fact:
    return facts.Described(run, rounds, EXPERIMENT, f"run {run}: {rounds} rounds", time=time)


def present(board: str, clients: tuple[int, ...], time: float, *, here: bool = True) -> Fact:
    number = clients[0] // max(1, len(clients))
    telemetry = Telemetry(
        celsius=48.0 + number % 23, throttled=number % 23 == 22,
        memory_used=(900 + 17 * number) * 10**6, memory_total=4 * 10**9,
        load=1.0 + number % 7 / 3, cpus=4, disk_free=21 * 10**9,
    )  # fmt: skip
    host, hardware = f"{board}.local", telemetry if here else None
    return facts.Presence(board, here, clients, host, telemetry=hardware, time=time)


def info(
    board: str, client: int, state: Any, round_number: int, time: float, **more: Any
) -> Fact:
    message = InfoMessage(
        run="big-1.0a1b2c3d",
        round=round_number,
        client=client,
        board=board,
        state=state,
        **more,
    )
    return facts.Info(message, time=time)


def closed(round_number: int, time: float) -> list[Fact]:
    share = 1 - 0.9 * 0.86**round_number
    line: dict[str, Any] = {
        "round": round_number, "seconds": 21.0 + round_number % 5, "bytes_up": 311_000_000,
        "bytes_down": 104_000_000, "updates": 300, "train_loss": 2.3 * 0.9**round_number,
        "energy_joules": 2100.0 - 13 * round_number, "time": time,
    }  # fmt: skip
    tested: dict[str, Any] = {
        "accuracy_global": 0.62 * share, "accuracy_l1": 0.7 * share,
        "accuracy_l2": 0.2 + 0.62 * share, "tested_clients": 300,
    }  # fmt: skip
    return [facts.RoundClosed(**line), evaluated({**line, **tested})]


def big_run(boards: int = 100, rounds: int = 8, start: float = 1000.0) -> list[Fact]:
    """A run of many boards with three clients each, in the middle of its last round."""
    names = {f"pi-{at + 1}": tuple(range(3 * at, 3 * at + 3)) for at in range(boards)}
    everybody = tuple(range(3 * boards))
    found = [described(time=start)]
    found.append(facts.Coordinator(connected=True, since=start, run="big", time=start))
    found += [present(name, clients, start) for name, clients in names.items()]
    now = start
    for round_number in range(1, rounds + 1):
        found.append(facts.RoundOpened(round_number, everybody, everybody, time=now))
        for at, (name, clients) in enumerate(names.items()):
            begun = now + 0.5 + at % 5 / 4
            for order, client in enumerate(clients):
                if round_number == rounds and order == 1 + at % 2:
                    found.append(info(name, client, "training", round_number, begun + 3 * order,
                                      epoch=1 + at % 4, epochs=5))  # fmt: skip
                    break
                took = 3.0 + (7 * at + order) % 9 / 4
                found.append(info(name, client, "training", round_number, begun))
                begun += took
                found.append(info(name, client, "trained", round_number, begun, seconds=took))
                found.append(facts.Update(client, round_number, time=begun))
        now += 21.0
        if round_number < rounds:
            found += closed(round_number, now)
    lost = f"pi-{boards // 2}"
    found.append(present(lost, names[lost], now, here=False))
    found.append(facts.Lost(f"board {lost} is lost", lost, time=now))
    return sorted(found, key=lambda fact: fact.time)
