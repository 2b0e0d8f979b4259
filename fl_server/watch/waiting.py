"""PURE: what the open round waits for, in words."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from common.ids import brief_ids
from fl_server.watch.view import View

MOST_BOARDS = 4
NOBODY = "boards that are not here"


def waits_for(view: View) -> str:
    """One sentence; empty if nothing is waited for."""
    if not view.going_on:
        return ""
    if view.control_state == "paused":
        return "paused until somebody lets it go on"
    if not view.round_number:
        return "waits for boards to register"
    pending = pending_boards(view)
    updates = len(set(view.selected) - view.safe)
    tests = len(set(view.testers) - view.measured)
    if not pending:
        return "aggregates the updates" if view.selected else "adds up the tests"
    what = (
        f"{updates} of {len(view.selected)} updates"
        if updates
        else f"{tests} of {len(view.testers)} tests"
    )
    shown = [_one(view, board, pending[board]) for board in list(pending)[:MOST_BOARDS]]
    more = len(pending) - len(shown)
    ending = f" and {more} more {'board' if more == 1 else 'boards'}" if more > 0 else ""
    return f"waits for {what}: {', '.join(shown)}{ending}"


def pending_boards(view: View) -> Mapping[str, tuple[int, ...]]:
    """The boards that have not sent everything yet, and the clients that are missing."""
    missing = (set(view.selected) - view.safe) or (set(view.testers) - view.measured)
    owners = {client: name for name, board in view.boards.items() for client in board.clients}
    found: dict[str, list[int]] = defaultdict(list)
    for client in sorted(missing):
        found[owners.get(client, NOBODY)].append(client)
    return {name: tuple(clients) for name, clients in found.items()}


def _one(view: View, board: str, clients: tuple[int, ...]) -> str:
    known = view.boards.get(board)
    lost = ", lost" if known is not None and not known.here else ""
    return (
        f"{board} ({'client' if len(clients) == 1 else 'clients'} {brief_ids(clients)}{lost})"
    )
