"""PURE: facts that are made in more than one place, and facts as lines of events.jsonl."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar, cast

import msgspec

from common.ids import brief_ids
from common.texts import shortened
from common.wire.messages import Connected, Info, RoundLine
from fl_server.watch import facts
from fl_server.watch.facts import Fact
from fl_server.watch.facts.lines import MainMetric, fields_of, parse_as

HOST_LETTERS = 100
PROBLEM_LETTERS = 300
SILENCE_SECONDS = 60.0  # then a board counts as lost: a last will can die with the broker

AnyFact = TypeVar("AnyFact", bound=facts.Base | facts.RoundClosed | facts.Evaluated)


def is_kept(fact: Fact) -> bool:
    """Whether a fact belongs into events.jsonl."""
    return kind_of(fact) in facts.KEPT_KINDS


def kind_of(fact: Fact) -> str:
    """The kind of a fact: the value of `event`."""
    return str(fact.__struct_config__.tag)


def stamped(fact: AnyFact, now: float) -> AnyFact:
    """The fact with the time at which it is reported."""
    return msgspec.structs.replace(fact, time=round(now, 3))


def as_object(fact: Fact) -> Mapping[str, Any] | Fact:
    """A fact as what becomes a JSON object: the tests of a round beside its other keys."""
    if not isinstance(fact, facts.Evaluated):
        return fact
    found = fields_of(fact)
    return {"event": kind_of(fact), **found, "time": found.pop("time")}


def encode(fact: Fact) -> bytes:
    """A fact as one line of JSON, without its end."""
    return msgspec.json.encode(as_object(fact))


def parse(record: Mapping[str, Any]) -> Fact:
    """A fact from a JSON object of events.jsonl; msgspec.ValidationError if it is none."""
    if record.get("event") == "evaluated":
        return evaluated(record)
    return cast("Fact", msgspec.convert(record, Fact))  # mypy: a union is no type[T]


def evaluated(line: Mapping[str, Any]) -> facts.Evaluated:
    """From a line of metrics.jsonl."""
    return parse_as(facts.Evaluated, line)


def round_closed(line: Mapping[str, Any]) -> facts.RoundClosed:
    """From the training part of a line of metrics.jsonl."""
    return msgspec.convert(line, facts.RoundClosed)


def of_round_line(line: RoundLine, main: MainMetric) -> Iterator[Fact]:
    """From what the coordinator publishes of a finished round."""
    known = {k: v for k, v in msgspec.structs.asdict(line).items() if v is not None}
    tests = {
        name.replace("main", main.name): known.pop(name)
        for name in ("main_global", "main_l1", "main_l2", "loss_global")
        if name in known
    }
    known["train_loss"] = line.train_loss
    if {"seconds", "bytes_up", "bytes_down", "updates"} <= known.keys():
        yield round_closed(known)
    if tests:
        yield evaluated({**known, **tests})


def presence(message: Connected, *, connected: bool) -> facts.Presence:
    """A board as its message describes it; what a lost one last reported is not current."""
    return facts.Presence(
        board=message.board,
        connected=connected,
        clients=message.clients,
        host=shortened(message.host, HOST_LETTERS),
        problem=shortened(message.problem, PROBLEM_LETTERS) if connected else "",
        telemetry=message.telemetry if connected else None,
    )


def board_lost(board: str, clients: Sequence[int], *, silent: bool = False) -> facts.Lost:
    """A board has left, or has sent nothing for SILENCE_SECONDS."""
    why = f": nothing received for {SILENCE_SECONDS:.0f} s" if silent else ""
    return facts.Lost(f"board {board} is lost (clients {brief_ids(clients)}){why}", board)


def board_back(board: str) -> facts.Back:
    """A lost board has sent something."""
    return facts.Back(f"board {board} is back", board)


def board_problem(board: str, text: str) -> facts.Problem:
    """A board cannot take part."""
    return facts.Problem(f"board {board}: {text}", board)


def client_failed(info: Info) -> facts.Failed:
    """A client could not be trained."""
    text = f"client {info.client} on board {info.board} failed: {info.problem}"
    return facts.Failed(text, info.board, info.client)


def client_reset(info: Info) -> facts.StateLost:
    """A client's state was damaged."""
    text = f"client {info.client} on board {info.board}: {info.problem}"
    return facts.StateLost(text, info.board, info.client)


def clients_dropped(round_number: int, clients: Sequence[int]) -> facts.Dropped:
    """A round was closed without these clients."""
    return facts.Dropped(f"round {round_number} goes on without clients {brief_ids(clients)}")


def clients_spared(round_number: int, clients: Sequence[int]) -> facts.Dropped:
    """A round has enough updates without these clients."""
    text = f"round {round_number} has enough updates: clients {brief_ids(clients)} do not count"
    return facts.Dropped(text)


def clients_uncounted(round_number: int, clients: Sequence[int]) -> facts.Uncounted:
    """A round was closed without the counts of these clients."""
    text = f"round {round_number} has no counts of clients {brief_ids(clients)}"
    return facts.Uncounted(text)


def clients_outdated(round_number: int, clients: Sequence[int]) -> facts.Dropped:
    """Clients train models that are too old for this round."""
    text = f"round {round_number}: clients {brief_ids(clients)} train models that are too old"
    return facts.Dropped(text)


def client_starts_again(client: int, started: int) -> facts.Called:
    """A client has lost the model that it was to train."""
    text = f"client {client} has not the model of round {started} any more: it starts again"
    return facts.Called(text, client=client)


def control_changed(control_state: str, round_number: int) -> facts.Control:
    """Somebody has paused a run, let it go on, or asked it to stop, in or after this round."""
    match control_state:
        case "pausing":
            return facts.Paused(f"pauses after round {round_number}")
        case "paused":
            after = f"after round {round_number}" if round_number else "before round 1"
            return facts.Paused(f"paused {after}", at_rest=True)
        case "stopping":
            return facts.Stopping(f"stops after round {round_number}")
        case _:
            return facts.Resumed("goes on")
