"""PURE: which of a client's steps it goes on from, and which are still needed."""

from __future__ import annotations


def base_snapshot(
    there: frozenset[int], number: int, *, coupled: bool, accepted: int | None
) -> int | None:
    """The step a client goes on from in a round: its newest, or the newest the server used."""
    if coupled:
        return accepted if accepted in there else None
    return max((at for at in there if at < number), default=None)


def snapshots_to_keep(
    there: frozenset[int], number: int, accepted: int | None
) -> frozenset[int]:
    """After training in a round: its step, the one before it, and the last the server used."""
    older = max((at for at in there if at < number), default=number)
    return (there | {number}) & {number, older, accepted}
