"""A run whose coordinator and viewers get everything that one stolen account can send."""

from __future__ import annotations

import io
import struct
from functools import cache
from pathlib import Path

import msgspec
from rich.console import Console

from common.errors import ProtocolError
from common.experiment.file import parse_experiment
from common.wire.chunks import cut, encode_chunk
from common.wire.messages import (
    COORDINATOR,
    Chunk,
    ChunkHeader,
    ClientMetrics,
    Connected,
    Info,
    Message,
)
from common.wire.tensors import ModelMeta, UpdateMeta, decode_tensors
from common.wire.topics import (
    CONNECTED,
    RECEIVE_INFO,
    RECEIVE_WEIGHTS,
    TEST_METRICS,
    Packet,
    Topic,
    connected_topic,
    packet,
    unpack,
)
from fl_server.coordinator.conductor import Conductor
from fl_server.coordinator.service import Coordinator
from fl_server.rounds.boards import most_boards
from fl_server.rounds.state import Working
from fl_server.run.journal import read_records
from fl_server.run.store import RunStore
from fl_server.watch import facts
from fl_server.watch.listener import Listener
from fl_server.watch.screen import draw
from fl_server.watch.view import View
from fl_server.web.sections import sections
from tests.attacks.extremes import Hostile, known_fields
from tests.attacks.forging import forged_blob, json_of, update_in, with_blob, with_fields
from tests.attacks.hostile_updates import HostileUpdates
from tests.attacks.stage import Thief, drain, tables_in
from tests.attacks.type_values import KINDS
from tests.fl_server.coordinator.scripted import ScriptedBoard, Stage
from tests.memory_broker import MemoryLink

CLIENTS, STOLEN = 10, tuple(range(4, 10))
PLACES: dict[type[msgspec.Struct], Topic] = {
    Connected: CONNECTED,
    Info: RECEIVE_INFO,
    ClientMetrics: TEST_METRICS,
    ChunkHeader: RECEIVE_WEIGHTS,
}
MOST_TURNS = 2_000
LOOK = 2_000  # messages between two looks at the screen
MOST_SHOWN = 8_000_000  # bytes of a page
EXPERIMENT = parse_experiment(
    {
        "experiment": {"rounds": 2, "grace": "forever"},
        "model": {"name": "dnn", "hidden": 1},
        "data": {"clients": CLIENTS},
    }
)


class Watcher:
    """What people see: facts to a view, drawn and made into a page now and then."""

    def __init__(self) -> None:
        self.view = View(title="attacked")

    def observe(self, fact: facts.Fact) -> None:
        self.view = self.view.after(fact)

    def look(self, now: float) -> None:
        shown = sum(map(len, sections(self.view).values()))
        assert shown < MOST_SHOWN, f"a page of {shown} bytes"
        screen = io.StringIO()
        Console(file=screen, width=120, height=50).print(draw(self.view, now))
        odd = {c for c in screen.getvalue() if not c.isprintable() and c != "\n"}
        assert not odd, f"{odd} on the screen"


class FloodedStage(Stage):
    """Clients 0 to 3 are honest; facts go to a view and are not all kept."""

    def __init__(self, folder: Path) -> None:
        self.watcher = Watcher()
        self.answering = False
        super().__init__(folder, experiment=EXPERIMENT)
        self.thief = Thief(MemoryLink(self.broker), "t", STOLEN, self.unusable)
        self.boards = [
            ScriptedBoard(MemoryLink(self.broker), "a", (0, 1)),
            ScriptedBoard(MemoryLink(self.broker), "b", (2, 3)),
            self.thief,
        ]

    def observe(self, fact: facts.Fact) -> None:
        self.watcher.observe(fact)
        if isinstance(fact, facts.Finished):
            self.reported.append(fact)

    def unusable(self, message: Message) -> list[Packet]:
        """What ends the thief's part in a round: nothing of it can be used."""
        if not self.answering:
            return []
        if isinstance(message, Chunk):
            arrays, meta = update_in(message)
            return with_blob(message, forged_blob(arrays, json_of({**meta, "samples": 10**9})))
        if isinstance(message, ClientMetrics):
            return [with_fields(message, {"own": b'{"G":{"samples":0,"sums":{}}}'})]
        return []

    def turn(self, coordinator: Coordinator, link: MemoryLink) -> None:
        drain(coordinator, link)
        coordinator.advance()
        for board in self.boards:
            board.step()
        self.broker.pass_time(0.05)
        self.broker.published.clear()

    def open_round(self, coordinator: Coordinator, link: MemoryLink, round_number: int) -> None:
        """Until a round waits for the thief alone."""
        self.answering = False
        for step in range(MOST_TURNS):
            if coordinator.finished:
                return
            phase = coordinator.conductor.state.phase
            if (
                isinstance(phase, Working)
                and phase.round_number >= round_number
                and phase.pending <= set(STOLEN)
            ):
                return
            self.announce(step)
            self.turn(coordinator, link)
        raise AssertionError(f"round {round_number} was not opened")

    def finish_round(
        self, coordinator: Coordinator, link: MemoryLink, round_number: int
    ) -> None:
        """Until a round is closed, without anything of the thief."""
        self.answering = True
        for step in range(MOST_TURNS):
            if coordinator.conductor.state.done >= round_number or coordinator.finished:
                return
            self.announce(step)
            self.turn(coordinator, link)
        raise AssertionError(f"round {round_number} was not closed")

    def announce(self, step: int) -> None:
        """Real boards repeat their presence; and the thief is forgiven its other claims."""
        if step % 50 == 0:
            for board in self.boards[:2]:
                board.announce()
            honest = {**self.thief.presence(), "session": (10**9, 10**9)}
            self.broker.publish(packet("fl", Connected(**honest)))


class RunFlood:
    """One run; `poisoned`: no hostile update can be used, so the digest is the undisturbed."""

    def __init__(self, folder: Path, seed: int, *, poisoned: bool = True) -> None:
        self.stage = FloodedStage(folder / "flooded")
        self._folder = folder
        self._poisoned = poisoned
        self._hostile = Hostile(seed)
        self._listener, self._watcher = Listener(), Watcher()
        self.sent = self.updates = 0

    def play(self, messages: int) -> None:
        """Flood both rounds, with kills and resumes, and end the run as an undisturbed one."""
        stage = self.stage
        coordinator, link = stage.coordinator()
        for round_number in (1, 2):
            stage.open_round(coordinator, link, round_number)
            for kills in (True, True, False):
                self._flood(coordinator, link, -(-messages // 6))
                if kills and not coordinator.finished:
                    link.kill()
                    coordinator, link = stage.coordinator()
            stage.finish_round(coordinator, link, round_number)
        stage.finish_round(coordinator, link, 3)
        coordinator.close()
        self._check(coordinator)
        stage.close_files()

    def _check(self, coordinator: Coordinator) -> None:
        stage, conductor = self.stage, coordinator.conductor
        assert coordinator.finished
        assert stage.digest()
        assert stage.digest() == undisturbed(self._folder) or not self._poisoned
        assert len(conductor.state.boards) <= most_boards(conductor.policy)
        topic = connected_topic("fl", COORDINATOR)
        _, presence = unpack("fl", topic, stage.broker.retained[topic])
        assert isinstance(presence, Connected)
        assert [line.round for line in presence.history] == [0, 1, 2]
        found = RunStore(stage.store.folder).load_checkpoint()
        assert found is not None
        assert found[1].round == 2
        assert tables_in(stage.store.folder)
        lines = read_records(stage.store.folder / "metrics.jsonl")
        for name in ("energy_joules", "train_seconds", "samples"):
            assert all(line[name] >= 0 for line in lines[1:]), "sums are finite, so not null"
        events = stage.store.folder / "events.jsonl"
        assert events.stat().st_size < 4_000_000, "what is sent to us decides what we write"

    def _flood(self, coordinator: Coordinator, link: MemoryLink, messages: int) -> None:
        if coordinator.finished:
            return
        broker, conductor = self.stage.broker, coordinator.conductor
        model, _ = decode_tensors(
            conductor.aggregator.downloads.blob(conductor.state.done + 1), ModelMeta
        )
        updates = HostileUpdates(self._hostile, model, poisoned=self._poisoned)
        end = self.sent + messages
        for at in range(2 * most_boards(conductor.policy)):
            name = f"y{at}"
            fields = {**self.stage.thief.presence(), "board": name, "instance": name}
            broker.publish(packet("fl", Connected(**{**fields, "clients": (CLIENTS + 2,)})))
        while self.sent < end and not coordinator.finished:
            for shot in self._shots(updates, conductor.state.done + 1):
                broker.publish(shot)
                self.sent += 1
            broker.pass_time(0.002)
            while link.busy and coordinator.advance():
                pass
            self._forget(conductor)
            self._watch()
            if self.sent % LOOK < 2:
                self._watcher.look(broker.clock())
                self.stage.watcher.look(broker.clock())

    def _shots(self, updates: HostileUpdates, round_number: int) -> list[Packet]:
        """One message, or the parts of an update."""
        hostile, run = self._hostile, self.stage.store.run
        client = STOLEN[hostile.pick(len(STOLEN))]
        invented = hostile.chance(0.2)
        board = f"x{self.sent}" if invented else "t"
        known = known_fields(run, round_number, client, board)
        known["state"] = "trained" if hostile.chance(0.5) else "failed"
        known["clients"] = [CLIENTS + 1] if invented else [*STOLEN]
        kinds: tuple[type[msgspec.Struct] | None, ...] = (
            *(Connected, Info, ClientMetrics, ChunkHeader, UpdateMeta),
            None,
        )
        kind = kinds[hostile.pick(len(kinds))]
        retain = hostile.chance(0.02)
        if kind is UpdateMeta:
            self.updates += 1
            blob = updates.blob(known)
            parts = cut(blob, run=run, round_number=round_number, client=client)
            topic = f"fl/server/receive_weights/{client}"
            return [Packet(topic, encode_chunk(part), retain) for part in parts]
        if kind is None:  # of any kind, on any topic of the thief's
            kind = KINDS[hostile.pick(len(KINDS))]
            place = tuple(PLACES.values())[hostile.pick(len(PLACES))]
        else:
            place = PLACES[kind]
        last = board if place is CONNECTED else str(client)
        topic = f"fl/{place.pattern.removesuffix('+')}{last}"
        body = hostile.message(kind, known)
        if kind is ChunkHeader:
            body = b"FBC1" + struct.pack(">I", len(body)) + body + bytes(hostile.pick(40))
        return [Packet(topic, body, retain)]

    def _forget(self, conductor: Conductor) -> None:
        """What the thief sent does not count, as after a resume: more of it is taken."""
        phase = conductor.state.phase
        if not isinstance(phase, Working):
            return
        gone = frozenset(STOLEN)
        if self._poisoned and (phase.rejected or phase.measured & gone):
            phase = msgspec.structs.replace(
                phase, rejected=frozenset(), measured=phase.measured - gone
            )
            conductor.state = msgspec.structs.replace(conductor.state, phase=phase)

    def _watch(self) -> None:
        broker = self.stage.broker
        for item in broker.published:
            try:
                _, message = unpack("fl", item.topic, item.payload)
                found = self._listener.receive(message, broker.clock(), stored=item.retain)
            except ProtocolError:
                continue
            for fact in found:
                self._watcher.observe(fact)
        broker.published.clear()


@cache
def undisturbed(folder: Path) -> str:
    """The digest of the same run without a flood."""
    stage = FloodedStage(folder / "quiet")
    coordinator, link = stage.coordinator()
    for round_number in (1, 2, 3):
        stage.finish_round(coordinator, link, round_number)
    coordinator.close()
    return stage.digest()
