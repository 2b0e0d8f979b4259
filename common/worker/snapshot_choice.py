"""PURE: which of a client's snapshots it continues from, and which are still needed."""

from __future__ import annotations


def base_snapshot(
    there: frozenset[int], round_number: int, *, coupled: bool, accepted: int | None
) -> int | None:
    """The round of the snapshot a client continues from: its newest one, or for an algorithm
    that is coupled to the server's state the newest one that the server used."""
    if coupled:
        return accepted if accepted in there else None
    return max((at for at in there if at < round_number), default=None)


def snapshots_to_keep(
    there: frozenset[int], round_number: int, accepted: int | None
) -> frozenset[int]:
    """After a training: its snapshot, the one before it, and the last one the server used."""
    older = max((at for at in there if at < round_number), default=round_number)
    return (there | {round_number}) & {round_number, older, accepted}
