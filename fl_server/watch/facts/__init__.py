"""PURE: what is reported about a run: one class per kind of fact, and their union.

A kept fact is one line of events.jsonl: `event` is its kind, `time` is the last key. The other
kinds are only shown. A fact is made without a time and stamped when it is reported. `making.py`
has texts and limits that more than one place needs, and reads and writes facts.

Only messages and tasks are imported here, so every room of the server may import this one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, get_args

from msgspec import UNSET, UnsetType

from common.wire.messages import Ids, Telemetry
from common.wire.messages import Info as InfoMessage
from fl_server.watch.facts.base import Base as Base
from fl_server.watch.facts.base import Note as Note
from fl_server.watch.facts.control import Control as Control
from fl_server.watch.facts.control import ControlNote as ControlNote
from fl_server.watch.facts.control import Paused as Paused
from fl_server.watch.facts.control import Resumed as Resumed
from fl_server.watch.facts.control import Stopping as Stopping
from fl_server.watch.facts.lines import ACCURACY, MainMetric, MetricsLine, TrainingLine


class Started(Base, frozen=True, tag="started"):
    """A coordinator (or a simulation) begins to work on a run; `safe`: updates it has found."""

    run: str
    folder: str
    rounds: int
    done: int
    participants: int
    safe: Ids = ()
    incarnation: int = 1
    main: MainMetric = ACCURACY


class Start(Base, frozen=True, tag="start"):
    """Where the first model comes from; that a run goes on with other code of a user."""

    text: str


class Interrupted(Base, frozen=True, tag="interrupted"):
    """The coordinator was stopped before the end of the run."""


class Finished(Base, frozen=True, tag="finished"):
    """The run is over; who only watches does not know the digest of the final model."""

    reason: str
    digest: str = ""


class Fault(Base, frozen=True, tag="fault"):
    """A fault of a fault script, and the seconds until its target worked again."""

    kind: str
    target: str
    seconds: float
    recovery: float
    text: str


class BrokerUp(Base, frozen=True, tag="broker_up"):
    """The broker is there (again)."""

    address: str


class BrokerDown(Base, frozen=True, tag="broker_down"):
    """The connection to the broker is lost; `text` is the reason."""

    address: str
    text: str


class Waiting(Note, frozen=True, tag="waiting"):
    """Nothing can go on without some boards; `missing`: the clients of those not seen yet."""

    missing: Ids | UnsetType = UNSET


class BoardConnected(Note, frozen=True, tag="connected"):
    """A board has registered."""


class Lost(Note, frozen=True, tag="lost"):
    """A board is gone, or silent for too long."""


class Back(Note, frozen=True, tag="back"):
    """A lost board is there again."""


class Arithmetic(Note, frozen=True, tag="arithmetic"):
    """A client is computed by another CPU or torch than before."""


class Foreign(Note, frozen=True, tag="foreign"):
    """A board offers clients that are not in the experiment."""


class Problem(Base, frozen=True, tag="problem"):
    """A board cannot take part, and why."""

    text: str
    board: str = ""


class Refused(Base, frozen=True, tag="refused"):
    """How many messages of a board were dropped or rejected in all, by reason."""

    board: str
    count: int
    kinds: dict[str, int]


class RefusedSoFar(Refused, frozen=True, tag="refused_so_far"):
    """The same while the run goes on."""


class MessageDropped(Base, frozen=True, tag="message_dropped"):
    """The first message of a kind that could not be used."""

    topic: str
    size: int
    text: str


class RoundOpened(Base, frozen=True, tag="round_opened"):
    """A round begins, or goes on with more clients."""

    round: int
    selected: Ids
    testers: Ids


class Trained(Base, frozen=True, tag="trained"):
    """A client has trained, on which board, for how long and with how much energy, if known."""

    board: str
    client: int
    round: int
    seconds: float
    samples: int
    joules: float | UnsetType = UNSET


class Update(Base, frozen=True, tag="update"):
    """The update of a client is safe on disk."""

    client: int
    round: int
    bytes: int | UnsetType = UNSET


class Failed(Note, frozen=True, tag="failed"):
    """A client could not be trained."""


class StateLost(Note, frozen=True, tag="state_lost"):
    """A client's state was damaged on its board, and it went on from an older one."""


class Rejected(Note, frozen=True, tag="rejected"):
    """An update that cannot be used."""


class Late(Base, frozen=True, tag="late"):
    """An update of a round that is closed."""

    text: str
    client: int
    round: int


class Called(Note, frozen=True, tag="called"):
    """Clients that train instead of others."""


class Dropped(Note, frozen=True, tag="dropped"):
    """Clients that a round went on without."""


class Uncounted(Note, frozen=True, tag="uncounted"):
    """Clients whose test counts a round went on without."""


class Unopened(Note, frozen=True, tag="unopened"):
    """The sum of a secured round was not opened, and why."""


class RevealRefused(Note, frozen=True, tag="reveal_refused"):
    """A board has refused what could open the update of a single client."""


class RoundClosed(
    TrainingLine, frozen=True, kw_only=True, tag_field="event", tag="round_closed"
):
    """A round is aggregated."""

    train_loss: float | None
    updates: int
    seconds: float
    bytes_up: int
    bytes_down: int
    time: float = 0.0


class Evaluated(MetricsLine, frozen=True, kw_only=True, tag_field="event", tag="evaluated"):
    """The model of a round was tested (that of round 0 has had no training)."""

    time: float = 0.0


# only shown


class Info(Base, frozen=True, tag="info"):
    """A board's message about one of its clients."""

    info: InfoMessage


class Presence(Base, frozen=True, tag="presence"):
    """A board as its presence message describes it."""

    board: str
    connected: bool
    clients: Ids
    host: str = ""
    problem: str = ""
    telemetry: Telemetry | None = None


class Tested(Base, frozen=True, tag="tested"):
    """The test counts of a client have arrived."""

    client: int
    round: int


class Coordinator(Base, frozen=True, tag="coordinator"):
    """Whether a coordinator is there, since when and for which run."""

    connected: bool
    since: float
    run: str


class Described(Base, frozen=True, tag="described"):
    """What is run; `experiment` is the resolved experiment."""

    run: str
    rounds: int
    experiment: dict[str, Any]
    text: str
    main: MainMetric = ACCURACY


class Web(Base, frozen=True, tag="web"):
    """Where the web page is."""

    text: str


class Printed(Base, frozen=True, tag="said"):
    """A line for people, where facts are printed as JSON."""

    text: str


_Run: TypeAlias = Started | Start | Control | Interrupted | Finished | Fault
_Boards: TypeAlias = BoardConnected | Lost | Back | Foreign | Problem | Refused | Waiting
_Broker: TypeAlias = BrokerUp | BrokerDown | MessageDropped
_Clients: TypeAlias = Trained | Update | Failed | StateLost | Rejected | Late | Arithmetic
_Rounds: TypeAlias = RoundOpened | Called | Dropped | Uncounted | RoundClosed | Evaluated
_Secure: TypeAlias = Unopened | RevealRefused
_OfBoards: TypeAlias = Info | Presence | Tested | RefusedSoFar
Kept: TypeAlias = _Run | _Boards | _Broker | _Clients | _Rounds | _Secure
Shown: TypeAlias = _OfBoards | Coordinator | Described | Web | Printed
Fact: TypeAlias = Kept | Shown
Observer: TypeAlias = Callable[[Fact], None]

KEPT_KINDS = frozenset(str(kind.__struct_config__.tag) for kind in get_args(Kept))
KINDS = frozenset(str(kind.__struct_config__.tag) for kind in get_args(Fact))
