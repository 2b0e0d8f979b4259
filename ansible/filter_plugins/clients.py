"""Which board simulates which clients, for playbooks: ids as given, or spread by a count."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any


def client_ids(text: object) -> list[int]:
    """`0-2,5` as [0, 1, 2, 5]."""
    ids: set[int] = set()
    for part in str(text).split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise ValueError(f"{text!r} are no clients; expected such as 0-2,5")
        ids |= set(range(int(first), int(last or first) + 1))
    if not ids:
        raise ValueError(f"{text!r} are no clients; expected such as 0-2,5")
    return sorted(ids)


def shown(ids: Sequence[int]) -> str:
    """[0, 1, 2, 5] as `0-2,5`."""
    ranges: list[list[int]] = []
    for number in ids:
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in ranges)


def spread_clients(
    boards: Sequence[str], hostvars: Mapping[str, Mapping[str, Any]], count: int
) -> dict[str, str]:
    """The clients of every board: its own `fl_client_clients`, or the next free ids.

    How many a board gets of those is its `fl_client_count`, or else `count`. The order is that
    of the inventory, so a board added at the end changes nobody else's clients.
    """
    given: dict[str, list[int]] = {}
    owner: dict[int, str] = {}
    for board in boards:
        text = hostvars[board].get("fl_client_clients")
        if text is None:
            continue
        given[board] = client_ids(text)
        for client in given[board]:
            if client in owner:
                raise ValueError(f"client {client} is on {owner[client]} and on {board}")
            owner[client] = board
    free = (number for number in range(1_000_000) if number not in owner)
    spread = {}
    for board in boards:
        wanted = int(hostvars[board].get("fl_client_count", count))
        spread[board] = shown(given.get(board) or [next(free) for _ in range(wanted)])
    return spread


class FilterModule:
    """What Ansible looks for in this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Name of each filter and what it does."""
        return {"client_ids": client_ids, "spread_clients": spread_clients}
