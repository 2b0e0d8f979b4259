"""Orders to a training process and its reports, one JSON line each; no torch."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from common.config import Experiment
from common.wire.messages import ClientData, ClientMetrics


class Prepare(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Get ready for a run: import, make the shards, build the model."""

    run: str
    experiment: Experiment
    shards: str
    snapshots: str
    clients: tuple[int, ...]
    data: str = ""  # the folder of data that only this machine has
    class_counts: bool = False  # whether the sizes of its classes may be reported
    code: str = ""  # the folder of users' code
    digests: dict[str, str] | None = None  # of the files in it that the coordinator uses
    speed: float = 0.0  # training samples per second, not more; 0: as fast as it can


class JobOrder(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Train or test one client."""

    job: int
    kind: str
    client: int
    round: int
    base: int | None
    download: str
    private: str = ""
    most_steps: int = 0  # of a training; 0: as many as it has time for
    secret: str = ""  # the file with the secrets of the client: its update is masked


class Abandon(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Give up a job."""

    job: int


class Prepared(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Ready for the run (and what its algorithm is like), or why not."""

    run: str
    problem: str = ""
    data: dict[int, ClientData] = {}
    coupled: bool = False
    stateful: bool = False
    private: bool = False
    secure: bool = False


class EpochDone(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A training has finished an epoch."""

    job: int
    epoch: int
    epochs: int
    loss: float | None


class JobDone(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A job is done; a training's snapshot is on disk, a test's counts are here."""

    job: int
    seconds: float
    loss: float | None = None
    samples: int = 0
    bytes: int = 0
    metrics: ClientMetrics | None = None


class JobError(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A job is not done; without a `problem`, because it was abandoned.

    `final`: another attempt would end in the same way.
    """

    job: int
    problem: str
    final: bool = False


Order: TypeAlias = Prepare | JobOrder | Abandon
Report: TypeAlias = Prepared | EpochDone | JobDone | JobError
# made at import, before there are threads (see `common.wire.json_codec`)
ORDERS: msgspec.json.Decoder[Order] = msgspec.json.Decoder(Order)
REPORTS: msgspec.json.Decoder[Report] = msgspec.json.Decoder(Report)


class AbandonedError(Exception):
    """Raised by a callback for finished epochs, to give up the job."""
