"""A small model of the whole system: both real machines, and the world around them as values.

One coordinator, some boards and a broker live in one process. Everything that a shell does is
here one *move*: handling a message, performing one action, sending one part, finishing a job.
Whoever drives the world chooses the next move, so any interleaving can be played, and anybody
can be killed between any two moves: memory is lost then, and `CoordinatorDisk` and `BoardDisk`
stay. Training is a hash of what went into it, so the numbers of two runs can be compared.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

import msgspec

from common.messages import (
    PROTOCOL,
    ClientMetrics,
    Connected,
    Count,
    CurrentRound,
    Info,
    Selected,
    TrainDetail,
    TrainEnd,
)
from fl_client import agent
from fl_client import agent_state as a
from fl_server import round_state as r
from fl_server import rounds

RUN, OLD_RUN = "new.1", "old.1"
COORDINATOR = "coordinator"
PARTS = 2
AT_MOST_MOVES = 20_000
Move: TypeAlias = Callable[[], None]


def digest(*content: object) -> str:
    return hashlib.blake2b(repr(content).encode(), digest_size=8).hexdigest()


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a model (`client` is None) or of an update."""

    run: str
    number: int
    client: int | None
    part: int
    content: str


Said: TypeAlias = (
    TrainDetail | CurrentRound | Selected | TrainEnd | Connected | Info | ClientMetrics | Part
)


def parts_of(run: str, number: int, client: int | None, content: str) -> Iterator[Part]:
    return (Part(run, number, client, part, content) for part in range(PARTS))


def detail_of(run: str) -> TrainDetail:
    return TrainDetail(protocol=PROTOCOL, version="1", run=run, experiment=msgspec.Raw(b"{}"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What is run, and on which boards."""

    boards: tuple[tuple[int, ...], ...] = ((0, 1), (2, 3))
    rounds: int = 2
    workers: int = 1
    coupled: bool = False
    rate: float = 1.0
    evaluate_every: int = 1
    grace: float = math.inf
    deadline: float = math.inf
    min_updates: int = 1
    start_with: int | None = None

    @property
    def clients(self) -> tuple[int, ...]:
        return tuple(sorted(client for board in self.boards for client in board))

    def policy(self) -> r.Policy:
        return r.Policy(
            run=RUN,
            seed=7,
            rounds=self.rounds,
            participants=self.clients,
            start_with=self.start_with or len(self.clients),
            rate=self.rate,
            grace=self.grace,
            deadline=self.deadline,
            min_updates=self.min_updates,
            evaluate_every=self.evaluate_every,
        )


# the broker


class Broker:
    """Retained messages, a queue for every party (also while it is away), last wills."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.retained: dict[str, Said] = {}
        self.queues: dict[str, deque[Said]] = {name: deque() for name in names}
        self.wills: dict[str, Connected] = {}
        self._last: tuple[str, Said | None] = ("", None)

    def publish(self, message: Said) -> None:
        topic = _retained_topic(message)
        if topic is not None:
            self._last = (topic, self.retained.get(topic))
            self.retained[topic] = message
        for name, queue in self.queues.items():
            if _reads(name, message):
                queue.append(message)

    def connect(self, name: str) -> None:
        """A session goes on: its will is not needed, and what is stored is said again."""
        self.wills.pop(name, None)
        stored = self.retained.values()
        self.queues[name].extend(message for message in stored if _reads(name, message))

    def publish_wills(self) -> None:
        for name in tuple(self.wills):
            self.publish(self.wills.pop(name))

    def die(self, *, forget: bool) -> None:
        """What is on its way is lost, and the last message or the whole database."""
        topic, before = self._last
        if forget:
            self.retained.clear()
        elif before is not None:
            self.retained[topic] = before
        for queue in self.queues.values():
            queue.clear()
        self.wills.clear()


def _retained_topic(message: Said) -> str | None:
    match message:
        case Connected(board=board):
            return f"connected/{board}"
        case Part(client=None, part=part):
            return f"send_weights/{part}"
        case TrainDetail() | CurrentRound() | Selected() | TrainEnd():
            return type(message).__name__
        case _:
            return None


def _reads(name: str, message: Said) -> bool:
    from_board = isinstance(message, Connected | Info | ClientMetrics) or (
        isinstance(message, Part) and message.client is not None
    )
    return (name == COORDINATOR) == from_board


# what both kinds of processes have in common


class Party(Protocol):
    """A process that can be moved, killed, cut off and started again."""

    name: str
    alive: bool

    def moves(self) -> list[Move]: ...
    def tick(self) -> None: ...
    def crash(self) -> None: ...
    def cut(self) -> None: ...


@dataclass(slots=True)
class Process:
    """Memory of a process: what it is about to do. All of it is lost in a crash."""

    up: bool = False
    handling: Said | None = None
    streams: dict[str, list[Part]] = field(default_factory=dict)


def pump(world: World, process: Process, token: str) -> bool:
    """Send one part of a stream; True when it was the last."""
    parts = process.streams[token]
    world.broker.publish(parts.pop(0))
    if parts:
        return False
    del process.streams[token]
    return True


# the coordinator


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
    aggregated: list[tuple[int, tuple[int, ...], str]] = field(default_factory=list)
    lines: dict[int, tuple[tuple[int, int], ...]] = field(default_factory=dict)

    def append(self, line: tuple[int, tuple[tuple[int, int], ...]]) -> None:
        self.lines.setdefault(*line)


class Coordinator:
    """The coordinator's shell: see `fl_server.service`, `conductor` and `keeper`."""

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

    def cut(self) -> None:
        self.process.up = False
        self.process.streams.clear()

    def start(self) -> None:
        disk = self.disk
        disk.incarnation += 1
        if disk.previous is not None:
            disk.append(disk.previous)
        number = disk.done + 1
        opened = disk.opened.get(number)
        self.state = rounds.resume(
            incarnation=disk.incarnation,
            done=disk.done,
            accepted=disk.accepted,
            opened=opened,
            safe=frozenset(disk.journal.get(number, ())) if opened else frozenset(),
            now=self.world.now,
        )
        self.alive = True

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
        elif isinstance(message, Connected | Info | ClientMetrics) and not foreign:
            self.feed(r.Heard(message, self.world.now))
        self.process.handling = message if self.todo else None

    def _take_part(self, part: Part) -> None:
        number, client, now = part.number, part.client, self.world.now
        assert client is not None
        if not rounds.wants(
            self.policy, self.state, run=part.run, number=number, client=client
        ):
            self.feed(r.Strayed(now))
            return
        there = self.assemblies.setdefault((number, client), set())
        there.add(part.part)
        if len(there) == PARTS:
            del self.assemblies[number, client]
            self.disk.journal.setdefault(number, {})[client] = part.content
            self.feed(r.Stored(client, number, now))

    def act(self) -> None:
        self._perform(self.todo.popleft())
        if not self.todo:
            self.process.handling = None

    def _perform(self, action: r.Action) -> None:  # noqa: C901 - one case per action
        match action:
            case r.Announce():
                self._publish(detail_of(RUN))
            case r.SendWeights(number):
                token = f"weights {number}"
                if self.process.up and token not in self.process.streams:
                    parts = parts_of(RUN, number, None, self.disk.model)
                    self.process.streams[token] = list(parts)
            case r.Publish(message):
                self._publish(message)
            case r.Open(number):
                self.disk.opened[number] = action
                if self.tally[0] != number:
                    self.tally = (number, {})
            case r.Tell(metrics):
                assert metrics.run == RUN
                assert metrics.client not in self.tally[1], "counted twice"
                self.tally[1][metrics.client] = metrics.counts["G"].correct
            case r.Close():
                self._close(action)
            case r.Finish():
                self.disk.finished = True
            case r.Note():
                pass

    def _publish(self, message: Said) -> None:
        if self.process.up:
            self.world.broker.publish(message)

    def _close(self, close: r.Close) -> None:
        """Aggregation runs beside the loop; between its writes there may be a crash."""
        number, line = close.number, (close.number - 1, tuple(sorted(self.tally[1].items())))
        self.assemblies.clear()
        if close.training:
            self.closing.append(lambda: self._checkpoint(close, line))
        self.closing.append(lambda: self.disk.append(line))
        self.closing.append(lambda: self._forget(number))
        done = r.Aggregated(number, self.world.now)
        self.closing.append(lambda: self.posted.append(lambda: self.feed(done)))

    def _checkpoint(
        self, close: r.Close, line: tuple[int, tuple[tuple[int, int], ...]]
    ) -> None:
        disk = self.disk
        updates = sorted((c, disk.journal[close.number][c]) for c in close.used)
        disk.model = digest("model", disk.model, updates)
        disk.done, disk.previous = close.number, line
        disk.accepted |= dict.fromkeys(close.used, close.number)
        disk.aggregated.append((close.number, close.used, disk.model))

    def _forget(self, number: int) -> None:
        self.disk.opened.pop(number, None)
        self.disk.journal.pop(number, None)


# a board


@dataclass(slots=True)
class BoardDisk:
    """How often the daemon started, and (run, client, round) -> (state, update)."""

    starts: int = 0
    steps: dict[tuple[str, int, int], tuple[str, str]] = field(default_factory=dict)

    def rounds(self, run: str, client: int) -> frozenset[int]:
        return frozenset(n for (of, c, n) in self.steps if (of, c) == (run, client))


@dataclass(slots=True, eq=False)
class Running:
    """How far a job is."""

    written: bool = False
    reported: bool = False


class Board:
    """A daemon's shell: see `fl_client.service`; its downloads are in memory."""

    def __init__(self, world: World, setup: Setup, index: int) -> None:
        self.name = f"board-{index}"
        self.world = world
        self.setup = setup
        self.policy = a.Policy(self.name, setup.boards[index], setup.workers)
        self.disk = BoardDisk()
        self.gone = False
        self.process = Process()
        self.crash()

    def crash(self) -> None:
        """Memory is lost; the broker will say so, for the session that was open."""
        self.cut()
        if self.process.handling is not None:
            self.world.broker.queues[self.name].appendleft(self.process.handling)
        self.alive = False
        self.process = Process()
        self.todo: deque[a.Action] = deque()
        self.posted: deque[Move] = deque()
        self.jobs: dict[a.Job, Running] = {}
        self.run = ""
        self.preparing = ""
        self.prepared = False
        self.partial: dict[tuple[str, int], set[int]] = {}
        self.downloads: dict[tuple[str, int], str] = {}
        self.connection = 0

    def die_for_good(self) -> None:
        """The broker was there to notice (a will that dies with the broker is never said)."""
        if not self.alive:
            self.start()
        self.connect()
        self.crash()
        self.gone = True

    def cut(self) -> None:
        if self.process.up:
            self.world.broker.wills[self.name] = self._claim(connected=False)
        self.process.up = False
        self.process.streams.clear()

    def start(self) -> None:
        self.disk.starts += 1
        self.state = a.State()
        self.alive = True

    def connect(self) -> None:
        self.connection += 1
        self.process.up = True
        self.process.streams.clear()
        self.world.broker.connect(self.name)
        self.world.broker.publish(self._claim(connected=True))
        self.feed(a.Reconnected(self.world.now))

    def _claim(self, *, connected: bool) -> Connected:
        return Connected(
            protocol=PROTOCOL,
            version="1",
            board=self.name,
            instance=self.name,
            session=(self.disk.starts, self.connection),
            connected=connected,
            settled=True,
            since=0.0,
            clients=self.policy.clients,
            host="",
        )

    def moves(self) -> list[Move]:
        if self.gone:
            return []
        if not self.alive:
            return [self.start]
        if self.todo:
            found: list[Move] = [self.act]
        elif not self.process.up:
            found = [self.connect]
        else:
            found = [self.hear] if self.world.broker.queues[self.name] else []
        if self.posted and not self.todo:
            found.append(lambda: self.posted.popleft()())
        if self.preparing and not self.prepared:
            found.append(self._prepare)
        working = (job for job, running in self.jobs.items() if not running.reported)
        found += [lambda j=j: self._work(j) for j in working]  # type: ignore[misc]
        found += [lambda t=t: self._pump(t) for t in self.process.streams]  # type: ignore[misc]
        return found

    def tick(self) -> None:
        if self.alive and not self.todo:
            self.feed(a.Tick(self.world.now))

    def feed(self, event: a.Event) -> None:
        self.state, actions = agent.step(self.policy, self.state, event)
        self.todo.extend(actions)

    def hear(self) -> None:
        message = self.world.broker.queues[self.name].popleft()
        now = self.world.now
        if isinstance(message, Part):
            done = self._download(message)
            self.feed(a.GotPart(message.run, message.number, done, now))
        elif isinstance(message, TrainDetail | CurrentRound | Selected | TrainEnd):
            self.feed(a.Heard(message, now))
        self.process.handling = message if self.todo else None

    def _download(self, part: Part) -> bool:
        """As `fl_client.downloads`: the two newest complete models are kept."""
        key = (part.run, part.number)
        if key in self.downloads:
            return False
        there = self.partial.setdefault(key, set())
        there.add(part.part)
        if len(there) < PARTS:
            return False
        del self.partial[key]
        self.downloads[key] = part.content
        if len(self.downloads) > 2:
            del self.downloads[next(iter(self.downloads))]
        return True

    def act(self) -> None:
        self._perform(self.todo.popleft())
        if not self.todo:
            self.process.handling = None

    def _perform(self, action: a.Action) -> None:  # noqa: C901 - one case per action
        match action:
            case a.OpenRun(detail):
                self.preparing, self.prepared = detail.run, False
                self.jobs.clear()
            case a.CloseRun():
                self.jobs.clear()
                self.run = self.preparing = ""
            case a.Start(job):
                assert len(self.jobs) < self.policy.workers, "more jobs than workers"
                self.jobs[job] = Running()
            case a.Cancel(job):
                if job in self.jobs and not self.jobs[job].written:
                    self._fail(job, "")
            case a.SendUpdate(client, number):
                self._send(client, number)
            case a.Publish(message):
                if self.process.up:
                    self.world.broker.publish(message)
            case a.Prune(client, keep):
                for number in self.disk.rounds(self.run, client) - keep:
                    del self.disk.steps[self.run, client, number]

    def _send(self, client: int, number: int) -> None:
        token = f"{client} {number}"
        if self.process.up and token not in self.process.streams:
            update = self.disk.steps[self.run, client, number][1]
            self.process.streams[token] = list(parts_of(self.run, number, client, update))

    def _pump(self, token: str) -> None:
        if pump(self.world, self.process, token):
            client, number = map(int, token.split())
            streamed = a.UpdateStreamed(client, number, self.world.now)
            self.posted.append(lambda: self.feed(streamed))

    def _prepare(self) -> None:
        run = self.preparing
        self.posted.append(lambda: self._take_prepared(run))
        self.prepared = True

    def _take_prepared(self, run: str) -> None:
        if self.preparing == run:
            self.run, self.preparing = run, ""
            steps = {client: self.disk.rounds(run, client) for client in self.policy.clients}
            self.feed(a.Opened(run, steps, self.setup.coupled, self.world.now))

    def _work(self, job: a.Job) -> None:
        """A training writes its step, and only then (after a possible crash) reports."""
        key = (self.run, job.round)
        if key not in self.downloads:
            self._fail(job, "the download is gone")
            return
        base = "nothing"
        if job.base is not None:
            base = self.disk.steps[self.run, job.client, job.base][0]
        what = (job.client, job.round, base, self.downloads[key])
        if job.kind == "test":
            self._report(a.Tested(job, self._metrics(job, what), self.world.now))
        elif not self.jobs[job].written:
            step = (digest("state", what), digest("update", what))
            self.disk.steps[self.run, job.client, job.round] = step
            self.jobs[job].written = True
        else:
            self._report(a.Trained(job, self._info(job), self.world.now))

    def _report(self, event: a.Trained | a.Tested | a.JobFailed) -> None:
        """Of a run that was closed meanwhile, nobody wants to hear."""
        running = self.jobs[event.job]
        running.reported = True

        def take() -> None:
            if self.jobs.get(event.job) is running:
                del self.jobs[event.job]
                self.feed(event)

        self.posted.append(take)

    def _metrics(self, job: a.Job, what: object) -> ClientMetrics:
        correct = int(digest("test", what)[:4], 16)
        counts = {"G": Count(correct=correct, total=0x10000)}
        return msgspec.convert(
            {"run": self.run, "round": job.round, "client": job.client, "counts": counts},
            ClientMetrics,
        )

    def _info(self, job: a.Job) -> Info:
        return Info(
            run=self.run, round=job.round, client=job.client, board=self.name, state="trained"
        )

    def _fail(self, job: a.Job, problem: str) -> None:
        self._report(a.JobFailed(job, problem, self.world.now))

    def fail_a_job(self) -> None:
        for job in [job for job, running in self.jobs.items() if not running.reported][:1]:
            self._fail(job, "out of memory")


# everything together


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run has come to."""

    finished: bool
    model: str
    aggregated: tuple[tuple[int, tuple[int, ...], str], ...]
    lines: Mapping[int, tuple[tuple[int, int], ...]]
    states: Mapping[int, tuple[int, str]]


class World:
    """All parties, the broker between them, and the time."""

    def __init__(self, setup: Setup, *, leftovers: bool = False) -> None:
        self.setup = setup
        self.now = 1000.0
        names = (COORDINATOR, *(f"board-{index}" for index in range(len(setup.boards))))
        self.broker = Broker(names)
        self.coordinator = Coordinator(self, setup)
        self.boards = [Board(self, setup, index) for index in range(len(setup.boards))]
        self.parties: tuple[Party, ...] = (self.coordinator, *self.boards)
        self.moved = dict.fromkeys(names, 0)
        if leftovers:
            for message in stale_messages(setup)[: -3 * len(setup.clients)]:
                self.broker.publish(message)

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        for party in self.parties:
            party.tick()

    def outcome(self) -> Outcome:
        disk = self.coordinator.disk
        states = {
            client: (number, state)
            for board in self.boards
            for (run, client, number), (state, _) in sorted(board.disk.steps.items())
            if run == RUN
        }
        return Outcome(
            disk.finished, disk.model, tuple(disk.aggregated), dict(disk.lines), states
        )

    def run_until_quiet(self, stop: Callable[[], bool] = lambda: False) -> None:
        """Do every move there is, fairly, until there is none any more or it is to stop."""
        idle = 0
        for party in itertools.cycle(self.parties):
            if idle == len(self.parties) or stop():
                return
            moves = party.moves()
            idle = 0 if moves else idle + 1
            if moves:
                moved = self.moved[party.name]
                moves[moved % len(moves)]()
                self.moved[party.name] = moved + 1
            assert self.moved[party.name] < AT_MOST_MOVES, "the system never gets quiet"

    def settle(self, seconds: int) -> None:
        """No more faults: everybody who is not gone comes back, nothing is lost any more."""
        for _ in range(seconds):
            self.broker.publish_wills()
            self.run_until_quiet()
            if self.coordinator.disk.finished:
                return
            self.pass_time(1.0)

    def disturb(self, choices: bytes) -> None:
        """Play what the bytes say: moves in any order, and faults of all kinds."""
        for kind, choice in zip(choices[::2], choices[1::2], strict=False):
            self._disturb(kind % 16, choice)

    def _disturb(self, kind: int, choice: int) -> None:  # noqa: C901 - one case per fault
        party, rest = self.parties[choice % len(self.parties)], choice // len(self.parties)
        match kind:
            case 0 | 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8:
                for number in range(1 + rest % 24):
                    moves = party.moves()
                    if moves:
                        moves[(choice + number) % len(moves)]()
            case 9:
                self.pass_time((0.3, 1.0, 3.1, 10.0, 40.0)[choice % 5])
            case 10:
                party.crash()
            case 11:
                self._disturb_queue(self.broker.queues[party.name], rest)
            case 12:
                self.kill_broker(forget=choice % 2 == 0)
            case 13:
                party.cut()
            case 14:
                self._say_something_old(choice)
            case _:
                self.broker.publish_wills()
                for board in self.boards:
                    board.fail_a_job()

    def kill_broker(self, *, forget: bool) -> None:
        for party in self.parties:
            party.cut()
        self.broker.die(forget=forget)

    def _disturb_queue(self, queue: deque[Said], choice: int) -> None:
        """Lose, repeat or delay a message.

        Not a presence: the broker keeps those in order, and loses them only when it dies.
        """
        movable = [i for i, message in enumerate(queue) if not isinstance(message, Connected)]
        if not movable:
            return
        at = movable[choice // 3 % len(movable)]
        message = queue[at]
        if choice % 3 != 1:
            del queue[at]
        if choice % 3 != 0:
            queue.append(message)

    def _say_something_old(self, choice: int) -> None:
        stale = stale_messages(self.setup)
        message = stale[choice % len(stale)]
        for name, queue in self.broker.queues.items():
            if _reads(name, message):
                queue.append(message)


def stale_messages(setup: Setup) -> tuple[Said, ...]:
    """Everything an older run may have left behind, in the broker or on the way."""
    number = 2
    accepted = dict.fromkeys(setup.clients, 1)
    first: tuple[Said, ...] = (
        TrainEnd(run=OLD_RUN, reason="finished"),
        detail_of(OLD_RUN),
        CurrentRound(
            run=OLD_RUN,
            round=number,
            incarnation=9,
            safe=(),
            measured=(),
            accepted=accepted,
        ),
        Selected(run=OLD_RUN, round=number, clients=setup.clients, testers=setup.clients),
        *parts_of(OLD_RUN, number, None, "old model"),
    )
    count = {"G": Count(correct=1, total=2)}
    later: list[Said] = []
    for client in setup.clients:
        board = next(f"board-{i}" for i, ids in enumerate(setup.boards) if client in ids)
        place = {"run": OLD_RUN, "round": number, "client": client}
        later += [
            msgspec.convert({**place, "board": board, "state": "missing"}, Info),
            msgspec.convert({**place, "counts": count}, ClientMetrics),
            Part(OLD_RUN, number, client, 0, "old update"),
        ]
    return (*first, *later)
