"""PURE: what crosses the broker, one frozen class per message, without topics or bytes.

Every message names its run (and round and client where it has one), so that a message of
another run or round is recognised wherever and whenever it arrives.

Every number and every text has a bound, for a board's account may be in the wrong hands: sums
over all clients and rounds stay finite, and what is read fits into what is written.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import Meta

from common.privacy.rules import MOST_SECURE, Keys, Sealed, Secret
from common.texts import printable, text_fields

PROTOCOL = 2
LARGEST_REAL = 1e30  # sums of as many as there may be stay finite
COORDINATOR = "@coordinator"  # its presence is published like a board's, which has no @

Natural = Annotated[int, Meta(ge=0, le=10**9)]  # rounds, clients, samples, steps
Name = Annotated[str, Meta(pattern=r"^[A-Za-z0-9@][A-Za-z0-9_.+-]{0,119}\Z")]
Text = Annotated[str, Meta(max_length=2000)]
Ids: TypeAlias = Annotated[tuple[Natural, ...], Meta(max_length=100_000)]
Stage: TypeAlias = Literal["G", "L1", "L2"]
Encoding: TypeAlias = Literal["float32", "float16", "int8"]


def bounded(value: float | None) -> float | None:
    """A number that fits into `Real`; None for others, such as the loss of a divergence."""
    return value if value is not None and -LARGEST_REAL <= value <= LARGEST_REAL else None


class Wire(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of all JSON messages: frozen, strict; texts have no control characters."""

    def __post_init__(self) -> None:
        for name in text_fields(type(self)):
            value = getattr(self, name)
            if value is not None and not value.isprintable():
                msgspec.structs.force_setattr(self, name, printable(value))


Size = Annotated[int, Meta(ge=0, le=2**53)]
Epochs = Annotated[int, Meta(ge=0, le=10**6)]
Real = Annotated[float, Meta(ge=-LARGEST_REAL, le=LARGEST_REAL)]  # such as a loss
Seconds = Annotated[float, Meta(ge=0, le=1e9)]
Joules = Annotated[float, Meta(ge=0, le=1e9)]
MetricName = Annotated[str, Meta(pattern=r"^[a-z][a-z0-9_]{0,39}\Z")]
MOST_SUMS = 10_000  # numbers under one name, such as a matrix of 100 by 100 classes
Numbers: TypeAlias = Annotated[tuple[Real, ...], Meta(min_length=1, max_length=MOST_SUMS)]
Squares = Annotated[float, Meta(ge=0, le=LARGEST_REAL)]
MOST_COLUMNS = 10_000  # of a table
BlobDigest = Annotated[str, Meta(pattern=r"^[0-9a-f]{32}\Z")]
HISTORY = 64  # rounds that the coordinator publishes for those who begin to watch later


class Telemetry(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """The state of a board's hardware; None where there is no sensor."""

    celsius: Annotated[float, Meta(ge=-100, le=250)] | None = None
    throttled: bool | None = None
    why: Annotated[str, Meta(max_length=200)] = ""  # why it is throttled
    memory_used: Size | None = None
    memory_total: Size | None = None
    load: Annotated[float, Meta(ge=0, le=1e6)] | None = None  # mean of the last minute
    cpus: Annotated[int, Meta(ge=1, le=65536)] | None = None
    disk_free: Size | None = None
    watts: Annotated[float, Meta(ge=0, le=1e5)] | None = None


class RoundLine(Wire, frozen=True, array_like=True):
    """The results of a finished round; sent as an array, which is smaller.

    `main` is the main metric of the experiment's task.
    """

    round: Natural
    main_global: Real | None = None
    main_l1: Real | None = None
    main_l2: Real | None = None
    loss_global: Real | None = None
    train_loss: Real | None = None
    seconds: Seconds | None = None
    bytes_up: Size | None = None
    bytes_down: Size | None = None
    updates: Natural | None = None
    energy_joules: Annotated[float, Meta(ge=0, le=1e18)] | None = None  # of all clients
    epsilon: Annotated[float, Meta(ge=0, le=LARGEST_REAL)] | None = None  # of all rounds


class TrainDetail(Wire, frozen=True, kw_only=True):
    """Topic 1: what is run; `experiment` is the resolved experiment as JSON.

    `code` has a digest of every file of users' code that it needs; the files do not travel.
    """

    protocol: Natural
    version: Name
    run: Name
    experiment: msgspec.Raw
    code: Annotated[dict[Text, BlobDigest], Meta(max_length=1000)] = {}


class Connected(Wire, frozen=True, kw_only=True):
    """Topic 2: a board (or the coordinator) and what it claims; its last will: not connected.

    `session` is (starts of this daemon, connections of this start): later ones win. `history`
    is the coordinator's, for later viewers; `away` a site's: clients whose boards are lost.
    """

    protocol: Natural
    version: Name
    board: Name
    instance: Name
    session: tuple[Natural, Natural]
    connected: bool
    settled: bool
    since: Annotated[float, Meta(ge=0, le=1e11)]
    clients: Ids
    host: Text
    workers: Natural = 0
    problem: Text = ""
    telemetry: Telemetry | None = None
    history: Annotated[tuple[RoundLine, ...], Meta(max_length=HISTORY)] = ()
    away: Ids = ()


class ClientData(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """What a board reports of a client whose data only it has: how many samples.

    Of a table that shall be standardised also the mean of each column of numbers, and its sum
    of squared distances from it; of classes their sizes, if the board allows it.
    """

    train: Natural
    test: Natural
    mean: Annotated[tuple[Real, ...], Meta(max_length=MOST_COLUMNS)] = ()
    squares: Annotated[tuple[Squares, ...], Meta(max_length=MOST_COLUMNS)] = ()
    classes: Annotated[tuple[Natural, ...], Meta(max_length=MOST_COLUMNS)] = ()


InfoState: TypeAlias = Literal[
    "missing", "reset", "training", "trained", "testing", "failed", "data",
    "secret", "withdrawn", "refused",
]  # fmt: skip


class Info(Wire, frozen=True, kw_only=True):
    """Topic 4: how client `client` is doing in round `round`; `joules` is of its training."""

    run: Name
    round: Natural
    client: Natural
    board: Name
    state: InfoState
    epoch: Epochs = 0
    epochs: Epochs = 0
    loss: Real | None = None
    seconds: Seconds | None = None
    bytes: Size = 0
    samples: Natural = 0
    problem: Text = ""
    joules: Joules | None = None
    telemetry: Telemetry | None = None
    data: ClientData | None = None
    arithmetic: Annotated[str, Meta(max_length=200)] = ""  # what has trained it
    secret: Secret | None = None  # what it contributes to a step of a secured round


Step: TypeAlias = Literal["", "keys", "shares", "updates", "opening"]  # of a secured round


class CurrentRound(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """Topic 6: where the run is; `safe` and `measured` confirm what boards sent.

    `accepted` has, for every client, the last finished round that used its update. In a secured
    run `answered` are the selected clients of which this step wants nothing (more).
    """

    run: Name
    round: Natural
    incarnation: Natural
    safe: Ids
    measured: Ids
    accepted: Annotated[dict[Natural, Natural], Meta(max_length=100_000)]
    step: Step = ""
    answered: Ids = ()


class SecureRound(Wire, frozen=True, kw_only=True):
    """Topic 3, to one client: a secured round so far; each step adds to the one before.

    First the keys of all `members`; then the shares `sealed` for this client, by all who train;
    then who has sent an update (`survivors`), so that their sum can be opened.
    """

    run: Name
    round: Natural
    client: Natural
    threshold: Natural
    members: Annotated[dict[Natural, Keys], Meta(max_length=MOST_SECURE)]
    sealed: Annotated[dict[Natural, Sealed], Meta(max_length=MOST_SECURE)] = {}
    survivors: Annotated[tuple[Natural, ...], Meta(max_length=MOST_SECURE)] = ()

    @property
    def step(self) -> Step:
        """The step that it lets a client do."""
        if self.survivors:
            return "opening"
        return "updates" if self.sealed else "shares"


def newest(known: CurrentRound | None, message: CurrentRound) -> CurrentRound:
    """What two messages of a run say together, in whatever order they came."""
    if known is None:
        return message
    old, new = (known.incarnation, known.round), (message.incarnation, message.round)
    if old != new:
        return message if new > old else known
    return msgspec.structs.replace(
        message,
        safe=tuple(sorted({*known.safe, *message.safe})),
        measured=tuple(sorted({*known.measured, *message.measured})),
    )


class Selected(Wire, frozen=True, kw_only=True, omit_defaults=True):
    """Topic 7: who trains (`started`: the model of an older round, and which), who tests."""

    run: Name
    round: Natural
    clients: Ids
    testers: Ids
    started: Annotated[dict[Natural, Natural], Meta(max_length=100_000)] = {}


class Sums(Wire, frozen=True, kw_only=True):
    """What a test of a model adds up, over how many samples; which names, the task says."""

    samples: Annotated[int, Meta(ge=1, le=10**9)]
    sums: Annotated[dict[MetricName, Numbers], Meta(max_length=64)]


class Job(Wire, frozen=True, kw_only=True, forbid_unknown_fields=False):
    """Whose result a message or blob is, whatever else it contains."""

    run: Name
    round: Natural
    client: Natural


class ClientMetrics(Wire, frozen=True, kw_only=True):
    """Topic 8: tests of one client, on its `own` samples and on a `union` of all clients'."""

    run: Name
    round: Natural
    client: Natural
    own: dict[Stage, Sums]
    union: dict[Stage, Sums] = {}


class TrainEnd(Wire, frozen=True, kw_only=True):
    """Topic 9: the run is over."""

    run: Name
    reason: Text


class ChunkHeader(Wire, frozen=True, kw_only=True):
    """The header of a chunk: whose blob, which part, the blob's digest.

    `client` is None for a model that all clients get; `down`: it goes to the client.
    """

    run: Name
    round: Natural
    client: Natural | None
    down: bool
    part: Natural
    parts: Annotated[int, Meta(ge=1, le=4096)]
    size: Size
    digest: BlobDigest


class Chunk(msgspec.Struct, frozen=True, eq=False):
    """Topics 3 and 5: one part of a tensor blob."""

    header: ChunkHeader
    body: bytes | memoryview


Message: TypeAlias = (
    TrainDetail | Connected | Info | CurrentRound | Selected | ClientMetrics | TrainEnd | Chunk
)
