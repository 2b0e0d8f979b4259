"""The model of a board: the real agent, and a disk."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import msgspec

from common.wire.claims import REPEAT_SECONDS
from common.wire.messages import (
    PROTOCOL,
    ClientData,
    ClientMetrics,
    Connected,
    CurrentRound,
    Info,
    Selected,
    Step,
    TrainDetail,
    TrainEnd,
)
from fl_client.agent import machine as agent
from fl_client.agent import state as a
from tests.model.parts import (
    PARTS,
    Contribution,
    Move,
    Part,
    Private,
    Process,
    Setup,
    digest,
    parts_of,
    pump,
)
from tests.some_sums import counted

if TYPE_CHECKING:
    from tests.model.world import World


@dataclass(frozen=True, slots=True)
class Secret:
    """A client in a secured round: as `common.worker.secret_store`."""

    round_number: int
    key: str
    members: tuple[tuple[int, str], ...] = ()
    sharers: tuple[int, ...] = ()
    answered: tuple[int, ...] = ()


@dataclass(slots=True)
class BoardDisk:
    """How often the daemon started, and (run, client, round) -> (state, update)."""

    starts: int = 0
    keys: int = 0
    secrets: dict[tuple[str, int], Secret] = field(default_factory=dict)
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
        self.privates: dict[int, Private] = {}
        self.connection = 0
        self.presence_published = 0.0

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
        self._publish_presence()
        self.feed(a.Reconnected(self.world.now))

    def _publish_presence(self) -> None:
        self.presence_published = self.world.now
        self.world.broker.publish(self._claim(connected=True))

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
            workers=self.setup.workers,
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
        if self.process.up and self.world.now - self.presence_published >= REPEAT_SECONDS:
            self._publish_presence()
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
            self.feed(a.PartReceived(message.run, message.round_number, done, now))
        elif isinstance(message, Private):
            if message.client in self.policy.clients:
                self.privates[message.client] = message
                self._take_private(message)
        elif isinstance(message, TrainDetail | CurrentRound | Selected | TrainEnd):
            self.feed(a.Received(message, now))
        self.process.handling = message if self.todo else None

    def _take_private(self, message: Private) -> None:
        """As `Secrets.receive`: the first members and the first sharers are final."""
        if message.run != self.run:
            return
        client, key = message.client, (message.run, message.client)
        known = self.disk.secrets.get(key)
        mine = dict(message.members).get(client)
        fits = known is not None and known.round_number == message.round_number
        if known is None or not fits or known.key != mine:
            self._withdraw(message)
            return
        if known.members not in ((), message.members) or (
            message.sharers and known.sharers not in ((), message.sharers)
        ):
            self._withdraw(message)
            return
        sharers = known.sharers or message.sharers
        self.disk.secrets[key] = replace(known, members=message.members, sharers=sharers)
        where, now = (message.run, message.round_number), self.world.now
        self.feed(a.PartReceived(*where, True, now, client, message.step))

    def _withdraw(self, message: Private) -> None:
        if self.process.up:
            self.world.broker.publish(
                Info(
                    run=message.run,
                    round=message.round_number,
                    client=message.client,
                    board=self.name,
                    state="withdrawn",
                    problem="keys are lost",
                )
            )

    def _contribute(self, client: int, round_number: int, step: Step) -> None:
        key = (self.run, client)
        known = self.disk.secrets.get(key)
        if known is None or known.round_number != round_number:
            assert step == "keys", "nothing else is sent without keys"
            self.disk.keys += 1
            known = Secret(round_number, f"{self.name} {self.disk.keys}")
            self.disk.secrets[key] = known
            if self.disk.steps.pop((self.run, client, round_number), None) is not None:
                self.posted.append(
                    lambda: self.feed(a.SnapshotLost(client, round_number, self.world.now))
                )
        content = {"keys": known.key, "shares": repr(known.members)}.get(step, "")
        if step == "opening":
            survivors = self.privates[client].survivors
            assert known.answered in ((), survivors), "both halves would be revealed"
            assert client in survivors
            self.disk.secrets[key] = replace(known, answered=survivors)
            content = repr(survivors)
        if self.process.up:
            self.world.broker.publish(
                Contribution(self.run, round_number, client, step, content)
            )

    def _download(self, part: Part) -> bool:
        """As `fl_client.downloads`: the two newest complete models are kept."""
        key = (part.run, part.round_number)
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
            case a.StartJob(job):
                assert len(self.jobs) < self.policy.workers, "more jobs than workers"
                self.jobs[job] = Running()
            case a.CancelJob(job):
                if job in self.jobs and not self.jobs[job].written:
                    self._fail(job, "")
            case a.SendUpdate(client, round_number):
                self._send(client, round_number)
            case a.SendSecret(client, round_number, step):
                self._contribute(client, round_number, step)
            case a.Publish(message):
                if self.process.up:
                    self.world.broker.publish(message)
            case a.Prune(client, keep):
                for round_number in self.disk.rounds(self.run, client) - keep:
                    del self.disk.steps[self.run, client, round_number]

    def _send(self, client: int, round_number: int) -> None:
        token = f"{client} {round_number}"
        if self.process.up and token not in self.process.streams:
            update = self.disk.steps[self.run, client, round_number][1]
            self.process.streams[token] = list(parts_of(self.run, round_number, client, update))

    def _pump(self, token: str) -> None:
        if pump(self.world, self.process, token):
            client, round_number = map(int, token.split())
            streamed = a.UpdateStreamed(client, round_number, self.world.now)
            self.posted.append(lambda: self.feed(streamed))

    def _prepare(self) -> None:
        run = self.preparing
        self.posted.append(lambda: self._take_prepared(run))
        self.prepared = True

    def _take_prepared(self, run: str) -> None:
        if self.preparing == run:
            self.run, self.preparing = run, ""
            steps = {client: self.disk.rounds(run, client) for client in self.policy.clients}
            data = {c: ClientData(train=10 + c, test=5) for c in self.policy.clients}
            now, coupled = self.world.now, self.setup.coupled
            own = data if self.setup.local else {}
            secure = self.setup.threshold > 0
            self.feed(a.Opened(run, steps, coupled, now, data=own, secure=secure))
            for private in self.privates.values():
                self._take_private(private)

    def _work(self, job: a.Job) -> None:
        """A training writes its step, and only then (after a possible crash) reports."""
        key = (self.run, job.round)
        if key not in self.downloads:
            self._fail(job, "the download is gone")
            return
        base = "nothing"
        if job.base is not None:
            base = self.disk.steps[self.run, job.client, job.base][0]
        if self.setup.buffer:  # stateless: what a client has trained in between is not replayed
            base = "nothing"
        what = (job.client, job.round, base, self.downloads[key])
        if job.kind == "test":
            self._report(a.Tested(job, self._metrics(job, what), self.world.now))
        elif not self.jobs[job].written:
            update = digest("update", what)
            if self.setup.threshold:
                secret = self.disk.secrets[self.run, job.client]
                assert secret.round_number == job.round
                peers = [pair for pair in secret.members if pair[0] in secret.sharers]
                update = f"{update}|{peers!r}"
            step = (digest("state", what), update)
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
        counts = {"G": counted(correct, 0x10000)}
        return msgspec.convert(
            {"run": self.run, "round": job.round, "client": job.client, "own": counts},
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
