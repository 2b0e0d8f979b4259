"""PURE: which account may publish and read what, as Mosquitto's acl_file.

Made from the topic table:

    board        writes  connected/<itself>, receive_info|receive_weights|test_metrics/<its ids>
                 reads   what the coordinator publishes for all or for its ids, its own presence
    coordinator  writes  what the table gives to the server, connected/@coordinator
                 reads   everything in its federation
    viewer       reads   everything but weights and updates

A board does not read the presence of other boards: which clients it has was settled when it
was enrolled, and a stolen account must not be able to drive others out by claiming theirs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from common.wire.messages import COORDINATOR
from common.wire.topics import CONNECTED, RECEIVE_WEIGHTS, SEND_WEIGHTS, TOPICS, connected_topic

if TYPE_CHECKING:
    from common.access.credentials import Role


@dataclass(frozen=True, slots=True)
class Account:
    """A name that may log in, and what it is for."""

    name: str
    role: Role
    federation: str
    clients: tuple[int, ...] = ()


def acl_text(accounts: Iterable[Account]) -> str:
    """The whole file; an account that is not in it may do nothing."""
    lines = ["# Written by fl-broker; changes here are lost."]
    for account in sorted(accounts, key=lambda account: account.name):
        lines.append(f"user {account.name}")
        lines += [f"topic write {topic}" for topic in written(account)]
        lines += [f"topic read {topic}" for topic in read(account)]
    return "\n".join(lines) + "\n"


def written(account: Account) -> Iterator[str]:
    """The topics an account may publish on."""
    fed = account.federation
    if account.role == "board":
        yield connected_topic(fed, account.name)
        for row in TOPICS:
            if row.source == "board" and row is not CONNECTED:
                stem = row.pattern.removesuffix("+")
                yield from (f"{fed}/{stem}{client}" for client in account.clients)
    elif account.role == "coordinator":
        yield connected_topic(fed, COORDINATOR)
        yield from (f"{fed}/{row.pattern}" for row in TOPICS if row.source == "server")
        yield f"{fed}/{_private('+')}"


def read(account: Account) -> Iterator[str]:
    """The topics an account receives messages from."""
    fed = account.federation
    if account.role == "coordinator":
        yield f"{fed}/#"
    elif account.role == "viewer":
        weights = (SEND_WEIGHTS, RECEIVE_WEIGHTS)
        yield from (f"{fed}/{row.pattern}" for row in TOPICS if row not in weights)
    else:
        yield connected_topic(fed, account.name)
        yield connected_topic(fed, COORDINATOR)
        yield from (f"{fed}/{row.pattern}" for row in TOPICS if row.source == "server")
        yield from (f"{fed}/{_private(str(client))}" for client in account.clients)


def _private(client: str) -> str:
    """Where the coordinator sends one client its own model."""
    return f"{SEND_WEIGHTS.pattern.removesuffix('+')}to/{client}/+"
