"""The model of the coordinator: the real round machine, and a disk."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from common.values import replace
from common.wire.messages import (
    ClientMetrics,
    Connected,
    Info,
)
from fl_server.rounds import machine as rounds
from fl_server.rounds import state as r
from fl_server.rounds.control import has_stopped
from fl_server.rounds.requests import Request, Requested
from fl_server.rounds.sealing import wants_secret
from fl_server.rounds.selection import goal
from fl_server.rounds.steps import Sealing
from tests.model.parts import (
    COORDINATOR,
    PARTS,
    RUN,
    Contribution,
    Move,
    Part,
    Private,
    Process,
    Said,
    Setup,
    detail_of,
    digest,
    parts_of,
    pump,
)

if TYPE_CHECKING:
    from tests.model.world import World


@dataclass(slots=True)
class CoordinatorDisk:
    """A run's folder. `aggregated` and `lines` also tell the tests what happened."""

    incarnation: int = 0
    done: int = 0
    model: str = "first"
    accepted: dict[int, int] = field(default_factory=dict)
    previous: tuple[int, tuple[tuple[int, int], ...]] | None = None
    opened: dict[int, r.Open] = field(default_factory=dict)
    journal: dict[int, dict[int, str]] = field(default_factory=dict)
    finished: bool = False
    request: Request = "run"
    data: dict[int, int] | None = None
    started: list[dict[int, int]] = field(default_factory=list)
    secure: dict[int, SecureDisk] = field(default_factory=dict)
    aggregated: list[tuple[int, tuple[int, ...], str]] = field(default_factory=list)
    lines: dict[int, tuple[tuple[int, int], ...]] = field(default_factory=dict)

    def append(self, line: tuple[int, tuple[tuple[int, int], ...]]) -> None:
        self.lines.setdefault(*line)


@dataclass(slots=True)
class SecureDisk:
    """The steps of a secured round: as `fl_server.run.secure_journal`."""

    threshold: int = 0
    members: tuple[tuple[int, str], ...] = ()
    sharers: tuple[int, ...] = ()
    survivors: tuple[int, ...] = ()
    contributed: dict[str, dict[int, str]] = field(default_factory=dict)

    def settle(self, settled: r.Settle) -> None:
        match settled.step:
            case "shares":
                keys = self.contributed["keys"]
                self.members = tuple((c, keys[c]) for c in settled.clients)
                self.threshold = settled.threshold
            case "updates":
                assert {*settled.clients} <= {*self.contributed["shares"]}
                self.sharers = settled.clients
            case _:
                self.survivors = settled.clients

    def sealing(self) -> Sealing:
        found = Sealing()
        if self.members:
            found = Sealing("shares", tuple(c for c, _ in self.members), self.threshold)
        if self.sharers:
            found = Sealing("updates", self.sharers, self.threshold)
        if self.survivors:
            found = Sealing("opening", self.survivors, self.threshold)
        return replace(found, answered=frozenset(self.contributed.get(found.step, ())))


class Coordinator:
    """The coordinator's shell: see `fl_server.service`, `conductor` and `aggregator`."""

    def __init__(self, world: World, setup: Setup) -> None:
        self.name = COORDINATOR
        self.world = world
        self.policy = setup.policy()
        self.disk = CoordinatorDisk()
        self.process = Process()
        self.crash()

    def crash(self) -> None:
        """Memory is lost; a message that was not dealt with stays in the session."""
        if self.process.handling is not None:
            self.world.broker.queues[self.name].appendleft(self.process.handling)
        self.alive = False
        self.process = Process()
        self.todo: deque[r.Action] = deque()
        self.posted: deque[Move] = deque()
        self.closing: deque[Move] = deque()
        self.assemblies: dict[tuple[int, int], set[int]] = {}
        self.tally: tuple[int, dict[int, int]] = (0, {})
        self.reports: dict[int, int] = {}

    def cut(self) -> None:
        self.process.up = False
        self.process.streams.clear()

    def start(self) -> None:
        disk = self.disk
        disk.incarnation += 1
        if disk.previous is not None:
            disk.append(disk.previous)
        round_number = disk.done + 1
        opened = disk.opened.get(round_number)
        self.state = rounds.resume(
            incarnation=disk.incarnation,
            done=disk.done,
            accepted=disk.accepted,
            opened=opened,
            safe=self._safe(round_number) if opened else frozenset(),
            now=self.world.now,
            reported=frozenset(disk.data or ()),
            sealing=self._secure(round_number).sealing() if self.policy.threshold else None,
        )
        self.alive = True
        self.note_request()

    def _secure(self, round_number: int) -> SecureDisk:
        return self.disk.secure.setdefault(round_number, SecureDisk())

    def _safe(self, round_number: int) -> frozenset[int]:
        """The updates that count, by the order in which they were accepted."""
        order = tuple(self.disk.journal.get(round_number, ()))
        return frozenset(order[: goal(self.policy)])

    def note_request(self) -> None:
        if self.state.request != self.disk.request:
            self.feed(Requested(self.disk.request, self.world.now))

    def stop(self) -> None:
        """It ends, as somebody asked for; whoever starts it again wants it to run."""
        self.crash()
        self.disk.request = "run"

    def connect(self) -> None:
        self.process.up = True
        self.process.streams.clear()
        self.world.broker.connect(self.name)
        self.feed(r.Reconnected(self.world.now))

    def moves(self) -> list[Move]:
        if not self.alive:
            return [] if self.disk.finished else [self.start]
        if self.todo:
            found: list[Move] = [self.act]
        elif has_stopped(self.state):
            return [self.stop]
        elif isinstance(self.state.phase, r.Finished):
            return []
        elif not self.process.up:
            found = [self.connect]
        else:
            found = [self.hear] if self.world.broker.queues[self.name] else []
        if self.posted and not self.todo:
            found.append(lambda: self.posted.popleft()())
        if self.closing:
            found.append(lambda: self.closing.popleft()())
        found += [lambda t=t: self._pump(t) for t in self.process.streams]  # type: ignore[misc]
        return found

    def _pump(self, token: str) -> None:
        pump(self.world, self.process, token)

    def tick(self) -> None:
        if self.alive and not self.todo:
            self.note_request()
        if self.alive and self.process.up and not self.todo:
            self.feed(r.Tick(self.world.now))

    def feed(self, event: r.Event) -> None:
        self.state, actions = rounds.step(self.policy, self.state, event)
        self.todo.extend(actions)

    def hear(self) -> None:
        message = self.world.broker.queues[self.name].popleft()
        foreign = isinstance(message, Info | ClientMetrics) and message.run != RUN
        if isinstance(message, Part):
            self._take_part(message)
        elif isinstance(message, Contribution):
            self._take_contribution(message)
        elif isinstance(message, Connected | Info | ClientMetrics) and not foreign:
            self.feed(r.Received(message, self.world.now))
        self.process.handling = message if self.todo else None

    def _take_contribution(self, sent: Contribution) -> None:
        round_number, client, step = sent.round_number, sent.client, sent.step
        if sent.run != RUN or not wants_secret(
            self.state, round_number=round_number, client=client, step=step
        ):
            self.feed(r.Strayed(self.world.now))
            return
        kept = self._secure(round_number).contributed.setdefault(step, {})
        kept[client] = sent.content
        self.feed(r.Answered(client, round_number, step, self.world.now))

    def _send_secrets(self, round_number: int, clients: tuple[int, ...]) -> None:
        disk = self._secure(round_number)
        for client in clients:
            self._publish(
                Private(RUN, round_number, client, disk.members, disk.sharers, disk.survivors)
            )

    def _take_part(self, part: Part) -> None:
        round_number, client, now = part.round_number, part.client, self.world.now
        assert client is not None
        if not rounds.wants(
            self.policy, self.state, run=part.run, round_number=round_number, client=client
        ):
            self.feed(r.Strayed(now))
            return
        there = self.assemblies.setdefault((round_number, client), set())
        there.add(part.part)
        if len(there) == PARTS:
            del self.assemblies[round_number, client]
            assert client not in self.disk.journal.get(self.disk.done + 1, ())
            self.disk.journal.setdefault(self.disk.done + 1, {})[client] = part.content
            self.feed(r.Stored(client, round_number, now))

    def act(self) -> None:
        self._perform(self.todo.popleft())
        if not self.todo:
            self.process.handling = None

    def _perform(self, action: r.Action) -> None:  # noqa: C901 - one case per action
        match action:
            case r.Announce():
                self._publish(detail_of(RUN))
            case r.SendWeights(round_number):
                token = f"weights {round_number}"
                if self.process.up and token not in self.process.streams:
                    content = self.disk.model
                    if self.policy.local:  # statistics of all clients go with every download
                        assert self.disk.data is not None
                        assert len(self.disk.data) >= self.policy.start_with
                        reports = sorted(self.disk.data.items())
                        content = digest("with statistics", content, reports)
                    parts = parts_of(RUN, round_number, None, content)
                    self.process.streams[token] = list(parts)
            case r.Publish(message):
                self._publish(message)
            case r.Open(round_number):
                assert self.state.request == "run" or round_number in self.disk.opened
                if self.disk.data is None and self.policy.local:
                    self.disk.data = dict(self.reports)
                self.disk.opened[round_number] = action
                if self.tally[0] != round_number:
                    self.tally = (round_number, {})
            case r.CountMetrics(metrics):
                assert metrics.run == RUN
                assert metrics.client not in self.tally[1], "counted twice"
                self.tally[1][metrics.client] = int(metrics.own["G"].sums["correct"][0])
            case r.KeepData(client, data):
                self.reports[client] = data.train
            case r.Close():
                self._close(action)
            case r.Settle(round_number):
                self._secure(round_number).settle(action)
            case r.SendSecrets(round_number, clients):
                self._send_secrets(round_number, clients)
            case r.Finish():
                self.disk.finished = True
            case r.Report():
                pass

    def _publish(self, message: Said) -> None:
        if self.process.up:
            self.world.broker.publish(message)

    def _close(self, close: r.Close) -> None:
        """Aggregation runs beside the loop; between its writes there may be a crash."""
        round_number, line = (
            close.round_number,
            (close.round_number - 1, tuple(sorted(self.tally[1].items()))),
        )
        busy = self.state.busy
        self.assemblies = {
            (at, client): there
            for (at, client), there in self.assemblies.items()
            if busy.get(client) == at
        }
        if close.training:
            self.closing.append(lambda: self._checkpoint(close, line))
        self.closing.append(lambda: self.disk.append(line))
        self.closing.append(lambda: self._forget(round_number))
        done = r.Aggregated(round_number, self.world.now)
        self.closing.append(lambda: self.posted.append(lambda: self.feed(done)))

    def _checkpoint(
        self, close: r.Close, line: tuple[int, tuple[tuple[int, int], ...]]
    ) -> None:
        disk = self.disk
        updates = sorted((c, disk.journal[close.round_number][c]) for c in close.used)
        if self.policy.threshold and close.used:
            updates = self._opened(close, updates)
        disk.model = digest("model", disk.model, updates)
        disk.done, disk.previous = close.round_number, line
        started = {
            client: close.started.get(client, close.round_number) for client in close.used
        }
        disk.accepted |= started
        disk.started.append(started)
        disk.aggregated.append((close.round_number, close.used, disk.model))

    def _opened(self, close: r.Close, updates: list[tuple[int, str]]) -> list[tuple[int, str]]:
        """The plain updates, if all masks are those of the same clients and keys."""
        disk = self._secure(close.round_number)
        assert disk.survivors == close.used
        answers = disk.contributed["opening"]
        assert len(answers) >= disk.threshold > len(disk.members) / 2
        assert set(answers.values()) == {repr(disk.survivors)}
        expected = repr([pair for pair in disk.members if pair[0] in disk.sharers])
        plain = []
        for client, update in updates:
            content, masks = update.split("|")
            assert masks == expected, "the masks do not cancel"
            plain.append((client, content))
        return plain

    def _forget(self, round_number: int) -> None:
        self.disk.opened.pop(round_number, None)
        self.disk.journal.pop(round_number, None)
        self.disk.secure.pop(round_number, None)
