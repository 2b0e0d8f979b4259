"""PURE: how much of what boards send is kept for people, so that no sender decides it.

Names cost nothing to invent. These limits fit a fleet of 2,000 boards; what exceeds one is
counted ("and 12 more").
"""

from __future__ import annotations

from common.wire.messages import Ids

MOST_BOARDS = 2_500
MOST_UNLISTED = 1_000  # names of further boards, which are only counted
MOST_CLIENTS = 200_000  # of all boards together
FEW_CLIENTS = 40  # so many of a board are always kept
MOST_RUNS = 4  # whose messages are kept until it is clear which run goes on
MOST_ROUNDS = 5_000  # whose results are kept
MOST_NOTES = 200
NOTE_LETTERS = 500


def kept_clients(clients: Ids, of_others: int) -> Ids:
    """Which clients of a board are kept, if other boards have so many."""
    return clients[: max(FEW_CLIENTS, MOST_CLIENTS - of_others)]
