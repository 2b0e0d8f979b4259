"""Boards that answer from a script, and the real coordinator, on a broker in memory."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from common import VERSION
from common.arrays import Arrays
from common.config import Experiment
from common.errors import ProtocolError
from common.experiment.file import parse_experiment
from common.wire.chunks import cut
from common.wire.link import Arrived, Link, Session, Up
from common.wire.messages import (
    PROTOCOL,
    Chunk,
    ClientMetrics,
    Connected,
    CurrentRound,
    Info,
    Message,
    Selected,
    TrainEnd,
)
from common.wire.tensors import ModelMeta, UpdateMeta, decode_tensors, encode_tensors
from common.wire.topics import Packet, board_subscriptions, packet, unpack
from fl_server.coordinator.service import Coordinator
from fl_server.run.store import RunStore, create_run
from fl_server.watch import facts
from tests.memory_broker import MemoryBroker, MemoryLink
from tests.some_sums import counted

EXPERIMENT = parse_experiment(
    {
        "experiment": {"rounds": 2, "grace": "forever"},
        "model": {"name": "dnn", "hidden": 1},
        "data": {"clients": 4},
    }
)
AT_MOST = 5_000


def update_of(run: str, round_number: int, client: int, model: Arrays) -> bytes:
    """What a client "trains": the model moved by an amount of its own."""
    moved = {name: array + np.float32(0.1 * (client + 1)) for name, array in model.items()}
    samples = 10 * (client + 1)
    weight = float(samples)
    meta = UpdateMeta(
        run=run,
        round=round_number,
        client=client,
        samples=samples,
        steps=3,
        weights={"base": weight, "head": weight},
        loss=0.5,
    )
    return encode_tensors(moved, meta)


class ScriptedBoard:
    """Answers every round for its clients, and again until its answers are confirmed."""

    def __init__(self, link: Link, name: str, clients: Sequence[int]) -> None:
        self.link = link
        self.name = name
        self.clients = tuple(clients)
        self.ended = False
        self.arithmetic = f"CPU of {name}, torch 2"
        self._connection = 0
        self._current: CurrentRound | None = None
        self._selected: Selected | None = None
        self._model: tuple[int, Arrays] | None = None
        topics = board_subscriptions("fl", self.clients)[:-1]  # without presence
        self.link.open(Session(f"board-{name}", topics, lambda n: self._presence(n, gone=True)))

    def step(self) -> None:
        happening = self.link.receive(0.0)
        if isinstance(happening, Up):
            self._connection = happening.connection
            self.announce()
        if isinstance(happening, Arrived):
            self.link.confirm(happening)
            with contextlib.suppress(ProtocolError):  # a daemon drops it
                self._take(unpack("fl", happening.topic, happening.payload)[1])

    def announce(self) -> None:
        """Publish its presence, as a daemon does now and then."""
        self.link.publish(self._presence(self._connection))

    def send(self, message: Message) -> None:
        self.link.publish(packet("fl", message))

    def _presence(self, connection: int, *, gone: bool = False) -> Packet:
        claim = Connected(
            protocol=PROTOCOL,
            version=VERSION,
            board=self.name,
            instance=f"i-{self.name}",
            session=(1, connection),
            connected=not gone,
            settled=True,
            since=1.0,
            clients=self.clients,
            host="script",
        )
        return packet("fl", claim)

    def _take(self, message: Message) -> None:
        match message:
            case CurrentRound():
                self._current = message
            case Selected():
                self._selected = message
            case Chunk(header=header) if header.client is None:
                arrays, _ = decode_tensors(bytes(message.body), ModelMeta)
                self._model = (header.round, arrays)
            case TrainEnd():
                self.ended = True
            case _:
                pass
        self._answer()

    def _answer(self) -> None:
        current, selected, model = self._current, self._selected, self._model
        if current is None or selected is None or model is None:
            return
        if not current.round == selected.round == model[0]:
            return
        for client in self.clients:
            if client in selected.clients and client not in current.safe:
                self._send_update(current.run, current.round, client, model[1])
            if client in selected.testers and client not in current.measured:
                count = counted((client + current.round) % 10, 10)
                self.send(
                    ClientMetrics(
                        run=current.run,
                        round=current.round,
                        client=client,
                        own={"G": count, "L1": count},
                    )
                )

    def _send_update(self, run: str, round_number: int, client: int, model: Arrays) -> None:
        self.send(
            Info(
                run=run,
                round=round_number,
                client=client,
                board=self.name,
                state="trained",
                seconds=1.0,
                samples=10 * (client + 1),
                arithmetic=self.arithmetic,
            )
        )
        blob = update_of(run, round_number, client, model)
        for chunk in cut(blob, run=run, round_number=round_number, client=client):
            self.send(chunk)


@dataclass
class Stage:
    """A broker in memory, boards, and the folder of a run; the coordinator may be killed."""

    runs: Path
    broker: MemoryBroker = field(default_factory=MemoryBroker)
    boards: list[ScriptedBoard] = field(default_factory=list)
    reported: list[facts.Fact] = field(default_factory=list)
    _made: list[Coordinator] = field(default_factory=list)
    experiment: Experiment = EXPERIMENT

    def __post_init__(self) -> None:
        self.store = create_run(self.runs, "r", self.experiment)
        self.boards = [
            ScriptedBoard(MemoryLink(self.broker), "a", (0, 1)),
            ScriptedBoard(MemoryLink(self.broker), "b", (2, 3)),
        ]

    def coordinator(self) -> tuple[Coordinator, MemoryLink]:
        """A coordinator for the run as it stands on disk."""
        link = MemoryLink(self.broker)
        made = Coordinator(
            RunStore(self.store.folder),
            link,
            federation="fl",
            observe=self.observe,
            background=lambda work: work(),
            clock=self.broker.clock,
        )
        self._made.append(made)
        made.open()
        return made, link

    def observe(self, fact: facts.Fact) -> None:
        self.reported.append(fact)

    def close_files(self) -> None:
        """Those of killed coordinators; a real process would be gone."""
        for made in self._made:
            made.conductor.aggregator.close()

    def play(
        self, coordinator: Coordinator, each: Callable[[int], None] = lambda _step: None
    ) -> str:
        """Everybody in turn, and time, until the run ends; returns the final digest."""
        for step in range(AT_MOST):
            each(step)
            going_on = coordinator.advance()
            for board in self.boards:
                board.step()
            self.broker.pass_time(0.05)
            if not going_on:
                coordinator.close()
                return self.digest()
        raise AssertionError("the run did not end")

    def digest(self) -> str:
        """The digest of the final model, "" if the run was interrupted."""
        found = [fact for fact in self.reported if isinstance(fact, facts.Finished)]
        return found[-1].digest if found else ""

    def of(self, kind: type[facts.Base]) -> list[facts.Base]:
        return [fact for fact in self.reported if isinstance(fact, kind)]
