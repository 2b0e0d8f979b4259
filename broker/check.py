"""Whether a broker does all that the protocol needs: tried, one ability after another.

Works on topics that nobody reads (the model of a client that does not exist), with sessions
that end with it, and removes what it retained: runs on the same broker are not disturbed.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from broker.connection import (
    MAXIMUM_PACKET,
    MAXIMUM_QOS,
    OLD_VERSIONS,
    RECEIVE_MAXIMUM,
    RETAIN_AVAILABLE,
    SESSION_EXPIRY,
    WILDCARDS,
    Connection,
    Login,
    Message,
    connected,
)
from common.access.address import Address
from common.errors import BrokerError, FedbedError
from common.wire.mqtt.client import MOST_UNACKNOWLEDGED
from common.wire.paho_link import (
    MAX_PAYLOAD,
    RECEIVE_AT_ONCE,
    SESSION_SECONDS,
    WILL_DELAY_SECONDS,
)

PACKET_BYTES = MAX_PAYLOAD + 4096
QUEUED, QUEUED_BYTES = 2000, 16 * 1024  # messages for a session that sleeps, and their size
LEAST_SESSION_SECONDS = 600
WAIT_SECONDS = 10.0
QUIET_SECONDS = 0.5
REFUSED, NOT_AUTHORIZED = 0x80, 0x87  # reason codes from the first on are failures


@dataclass(frozen=True, slots=True)
class Finding:
    """One ability; `advice` is what to do unless it is there."""

    ability: str
    level: Literal["ok", "missing", "not checked"]
    found: str
    advice: str = ""


class _MissingError(Exception):
    """What was found instead of an ability."""


class _Trial:
    """Connections to one broker, on topics of our own; all of them end with the stack."""

    def __init__(self, address: Address, federation: str, stack: ExitStack) -> None:
        self.address = address
        self.federation = federation
        self.announced: Mapping[int, int] = {}
        self._stack = stack
        self._name = f"fedbed-check-{secrets.token_hex(6)}"
        nobody = 2**31 + secrets.randbelow(2**31)
        self._place = f"{federation}/server/send_weights/to/{nobody}"

    def topic(self, part: str) -> str:
        """A topic that only this check uses."""
        return f"{self._place}/{part}"

    def open(self, login: Login) -> Connection:
        """A connection, whatever the broker answered."""
        named = replace(login, client_id=f"{self._name}-{login.client_id}")
        connection = connected(self.address, named, WAIT_SECONDS)
        self._stack.callback(connection.drop)
        return connection

    def connect(self, login: Login) -> Connection:
        """A connection whose login was accepted."""
        connection = self.open(login)
        _need(not connection.code, f"it refuses a login with reason 0x{connection.code:02x}")
        return connection

    def reader(self, topic: str, login: Login) -> Connection:
        """A connection that reads a topic."""
        connection = self.connect(login)
        code = connection.subscribe(topic)
        _need(code < REFUSED, f"it refuses to subscribe with reason 0x{code:02x}")
        _need(code == 1, f"it grants a subscription QoS {code}")
        return connection


def _need(there: object, found: str) -> None:
    if not there:
        raise _MissingError(found)


Attempt: TypeAlias = Callable[[_Trial], str]


def check(address: Address, federation: str) -> Iterator[Finding]:
    """Try everything; a broker that cannot be reached or refuses the login is an error."""
    with ExitStack() as stack:
        trial = _Trial(address, federation, stack)
        first = _first_answer(trial)
        trial.announced = first.announced
        gone = set()
        for ability, advice, needs, attempt in _ABILITIES:
            if ability == "v5" and first.code:
                finding = Finding(ability, "missing", "an older MQTT only", advice)
            elif needs in gone:
                finding = Finding(ability, "not checked", f"it needs: {needs}")
            else:
                finding = _tried(ability, advice, attempt, trial)
            if finding.level != "ok":
                gone.add(ability)
            yield finding


def _first_answer(trial: _Trial) -> Connection:
    """The answer to a plain login: accepted, or refused for its version only."""
    try:
        first = trial.open(Login("first"))
    except (OSError, FedbedError) as error:
        raise BrokerError(f"cannot check the broker at {trial.address}: {error}") from error
    if first.code and first.code not in OLD_VERSIONS:
        raise BrokerError(
            f"the broker at {trial.address} refuses the login with reason "
            f"0x{first.code:02x}; log in as a coordinator: --credentials FILE"
        )
    return first


def _tried(ability: str, advice: str, attempt: Attempt, trial: _Trial) -> Finding:
    try:
        return Finding(ability, "ok", attempt(trial))
    except (_MissingError, OSError, FedbedError) as missing:
        return Finding(ability, "missing", str(missing) or type(missing).__name__, advice)


def _qos(trial: _Trial) -> str:
    _need(trial.announced.get(MAXIMUM_QOS, 2), "at most QoS 0")
    _need(trial.announced.get(WILDCARDS, 1), "no wildcards in subscriptions")
    reader = trial.reader(trial.topic("+"), Login("qos"))
    code = trial.connect(Login("qos-2")).publish(trial.topic("qos"), b"1")
    _need(code < REFUSED, f"it refuses our topics with reason 0x{code:02x}")
    arrived = reader.receive()
    _need(arrived and arrived.qos == 1, "a message was not delivered with QoS 1")
    return "messages arrive with QoS 1, through wildcards"


def _retained(trial: _Trial) -> str:
    _need(trial.announced.get(RETAIN_AVAILABLE, 1), "it announces that it retains nothing")
    topic = trial.topic("retained")
    writer = trial.connect(Login("retain"))
    writer.publish(topic, b"kept", retain=True)
    kept = trial.reader(topic, Login("retain-2")).receive()
    writer.publish(topic, b"", retain=True)
    _need(kept and kept.retained, "a retained message did not reach a later subscriber")
    later = trial.reader(topic, Login("retain-3")).receive(QUIET_SECONDS)
    _need(later is None, "an empty message did not remove a retained one")
    return "kept for later subscribers, removed by an empty message"


def _sizes(trial: _Trial) -> str:
    most = trial.announced.get(MAXIMUM_PACKET, PACKET_BYTES)
    _need(most >= PACKET_BYTES, f"packets of at most {most} bytes")
    payload = secrets.token_bytes(1024) * (MAX_PAYLOAD // 1024)
    reader = trial.reader(trial.topic("size"), Login("size"))
    trial.connect(Login("size-2")).publish(trial.topic("size"), payload)
    arrived = reader.receive()
    whole = arrived is not None and arrived.payload == payload
    _need(whole, f"a message of {len(payload)} bytes did not arrive")
    return f"a message of {len(payload)} bytes arrives whole"


def _sessions(trial: _Trial) -> str:
    login = Login("session", clean=False, session_seconds=SESSION_SECONDS)
    sleeper = trial.reader(trial.topic("session"), login)
    granted = sleeper.announced.get(SESSION_EXPIRY, SESSION_SECONDS)
    _need(granted >= LEAST_SESSION_SECONDS, f"a session lasts {granted} s")
    sleeper.drop()
    trial.connect(Login("session-2")).publish(trial.topic("session"), b"meanwhile")
    back = trial.connect(login)
    _need(back.session_present, "a session is gone when its client comes back")
    arrived = back.receive()
    back.disconnect()
    _need(arrived is not None, "a session did not keep what was sent meanwhile")
    return "a session keeps what is sent while its client is away"


def _queues(trial: _Trial) -> str:
    login = Login("queue", clean=False, session_seconds=SESSION_SECONDS)
    topic = trial.topic("queue")
    trial.reader(topic, login).drop()
    payload = bytes(QUEUED_BYTES)
    trial.connect(Login("queue-2")).publish_all([(topic, payload)] * QUEUED)
    back = trial.connect(login)
    count = 0
    while count < QUEUED and back.receive(4 * QUIET_SECONDS) is not None:
        count += 1
    back.disconnect()
    size = f"{QUEUED} messages of {QUEUED_BYTES >> 10} KiB"
    _need(count == QUEUED, f"{count} of {size} were kept for a session, the rest was dropped")
    return f"{size} wait for a session"


def _wills(trial: _Trial) -> str:
    topic = trial.topic("will")
    login = Login("will", will=(topic, b"lost"), will_delay_seconds=WILL_DELAY_SECONDS)
    login = replace(login, clean=False, session_seconds=SESSION_SECONDS)
    reader = trial.reader(topic, Login("will-2"))
    trial.connect(login).drop()
    dropped = time.monotonic()
    arrived = reader.receive()
    _need(arrived is not None, "a will was not published")
    waited = time.monotonic() - dropped
    _need(waited > WILL_DELAY_SECONDS - 1.0, "a will was published without its delay")
    trial.connect(login).drop()
    back = trial.connect(login)
    arrived = reader.receive(WILL_DELAY_SECONDS + 1.5)
    back.disconnect()
    _need(arrived is None, "a will was published although its client was back")
    return "published after its delay, not if the client is back before"


def _keepalive(trial: _Trial) -> str:
    silent = trial.connect(Login("silent", keepalive=1))
    still = f"after {WAIT_SECONDS:.0f} s of silence a client with keepalive 1 is connected"
    _need(silent.ended(WAIT_SECONDS), still)
    return "a client that hangs is given up"


def _flow(trial: _Trial) -> str:
    most = trial.announced.get(RECEIVE_MAXIMUM, 65535)
    _need(most >= MOST_UNACKNOWLEDGED, f"it takes {most} unconfirmed messages")
    topic = trial.topic("flow")
    reader = trial.reader(topic, Login("flow", receive_maximum=RECEIVE_AT_ONCE))
    sent = 3 * RECEIVE_AT_ONCE
    trial.connect(Login("flow-2")).publish_all([(topic, b"x")] * sent)
    held: list[Message] = []
    while (arrived := reader.receive(QUIET_SECONDS, confirm=False)) is not None:
        held.append(arrived)
    found = f"{len(held)} messages reached a client that takes {RECEIVE_AT_ONCE} at once"
    _need(len(held) <= RECEIVE_AT_ONCE, found)
    for message in held:
        reader.confirm(message)
    count = len(held)
    while count < sent and reader.receive() is not None:
        count += 1
    _need(count == sent, f"{count} of {sent} messages arrived")
    return f"it takes {most} unconfirmed messages, and sends {RECEIVE_AT_ONCE} if asked to"


def _takeover(trial: _Trial) -> str:
    old = trial.connect(Login("twin"))
    trial.connect(Login("twin"))
    _need(old.ended(WAIT_SECONDS), "two clients with the same id stay connected")
    return "a second client with the same id ends the first"


def _access(trial: _Trial) -> str:
    if trial.address.username is None:
        return "not looked at: without a login there are no rules"
    topic = f"{trial.federation}-other/client/train_detail"
    code = trial.connect(Login("access")).publish(topic, b"")
    found = f"a publish in another federation is answered with reason 0x{code:02x}"
    _need(code == NOT_AUTHORIZED, found)
    return "a forbidden publish is refused, and its sender learns it"


# name, what to do if it is missing, what it builds on, how it is tried
_ABILITIES: tuple[tuple[str, str, str, Attempt], ...] = (
    ("v5", "enable MQTT v5", "", lambda _trial: "MQTT v5"),
    ("qos 1", "allow QoS 1 (Mosquitto: max_qos), wildcards, and the coordinator's topics "
     "(docs/protocol.md) for this account", "v5", _qos),
    ("retained", "allow retained messages (Mosquitto: retain_available)", "qos 1", _retained),
    ("sizes", f"allow packets of {PACKET_BYTES} bytes (Mosquitto: max_packet_size, "
     "message_size_limit)", "qos 1", _sizes),
    ("sessions", "allow sessions that last (session expiry) for hours", "qos 1", _sessions),
    ("queues", "raise the queue of a session (Mosquitto: max_queued_messages, "
     "max_queued_bytes)", "sessions", _queues),
    ("wills", "allow wills with a delay, on the topics of this account", "sessions", _wills),
    ("keepalive", "let the broker use the clients' keepalive", "v5", _keepalive),
    ("flow", f"take {MOST_UNACKNOWLEDGED} unconfirmed messages (Mosquitto: "
     "max_inflight_messages), and keep to the clients' receive maximum", "qos 1", _flow),
    ("takeover", "allow one connection for each client id", "v5", _takeover),
    ("access", "give this account rules (docs/security.md), and let the broker report "
     "refusals (reason 0x87)", "qos 1", _access),
)  # fmt: skip
