"""Streams of facts for tests of what people see."""

from __future__ import annotations

from typing import Any

Fact = dict[str, Any]
EXPERIMENT = {
    "experiment": {"name": "big", "seed": 1, "rounds": 30, "grace": 120.0},
    "algorithm": {"name": "scaffold", "options": {"weighting": "samples", "server_step": 1.0}},
    "data": {"dataset": "cifar10", "clients": 300, "partition": "dirichlet", "alpha": 0.1},
}


def described(run: str = "big-1.0a1b2c3d", rounds: int = 30, time: float = 0.0) -> Fact:
    return {"event": "described", "run": run, "rounds": rounds, "experiment": EXPERIMENT,
            "text": f"run {run}: {rounds} rounds", "time": time}  # fmt: skip


def present(board: str, clients: tuple[int, ...], time: float, *, here: bool = True) -> Fact:
    number = clients[0] // max(1, len(clients))
    telemetry = {
        "celsius": 48.0 + number % 23, "throttled": number % 23 == 22, "why": "",
        "memory_used": (900 + 17 * number) * 10**6, "memory_total": 4 * 10**9,
        "load": 1.0 + number % 7 / 3, "cpus": 4, "disk_free": 21 * 10**9,
    }  # fmt: skip
    return {"event": "presence", "board": board, "connected": here, "clients": clients,
            "host": f"{board}.local", "problem": "", "telemetry": telemetry if here else None,
            "time": time}  # fmt: skip


def info(board: str, client: int, state: str, number: int, time: float, **more: Any) -> Fact:
    return {"event": "info", "board": board, "client": client, "state": state,
            "round": number, "time": time, **more}  # fmt: skip


def closed(number: int, time: float) -> list[Fact]:
    share = 1 - 0.9 * 0.86**number
    line = {"round": number, "seconds": 21.0 + number % 5, "bytes_up": 311_000_000,
            "bytes_down": 104_000_000, "updates": 300, "train_loss": 2.3 * 0.9**number,
            "energy_joules": 2100.0 - 13 * number, "time": time}  # fmt: skip
    tested = {"accuracy_global": 0.62 * share, "accuracy_l1": 0.7 * share,
              "accuracy_l2": 0.2 + 0.62 * share, "tested_clients": 300}  # fmt: skip
    return [
        {"event": "round_closed", **line},
        {"event": "evaluated", **line, **tested},
    ]


def big_run(boards: int = 100, rounds: int = 8, start: float = 1000.0) -> list[Fact]:
    """A run of many boards with three clients each, in the middle of its last round."""
    names = {f"pi-{at + 1}": tuple(range(3 * at, 3 * at + 3)) for at in range(boards)}
    everybody = tuple(range(3 * boards))
    facts = [described(time=start)]
    facts.append({"event": "coordinator", "connected": True, "since": start, "time": start})
    facts += [present(name, clients, start) for name, clients in names.items()]
    now = start
    for number in range(1, rounds + 1):
        facts.append({"event": "round_opened", "round": number, "selected": everybody,
                      "testers": everybody, "time": now})  # fmt: skip
        for at, (name, clients) in enumerate(names.items()):
            begun = now + 0.5 + at % 5 / 4
            for order, client in enumerate(clients):
                if number == rounds and order == 1 + at % 2:
                    facts.append(info(name, client, "training", number, begun + 3 * order,
                                      epoch=1 + at % 4, epochs=5))  # fmt: skip
                    break
                took = 3.0 + (7 * at + order) % 9 / 4
                facts.append(info(name, client, "training", number, begun))
                begun += took
                facts.append(info(name, client, "trained", number, begun, seconds=took))
                facts.append({"event": "update", "client": client, "round": number,
                              "time": begun})  # fmt: skip
        now += 21.0
        if number < rounds:
            facts += closed(number, now)
    lost = f"pi-{boards // 2}"
    facts.append(present(lost, names[lost], now, here=False))
    facts.append({"event": "lost", "text": f"board {lost} is lost", "time": now})
    return sorted(facts, key=lambda fact: float(fact["time"]))
