"""Sharing clients out among boards."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fl_server.lab.lab import share_out


@given(clients=st.sets(st.integers(0, 999), min_size=1), boards=st.integers(1, 50))
def test_every_client_is_on_one_board_and_boards_are_equally_full(
    clients: set[int], boards: int
) -> None:
    shares = share_out(sorted(clients), boards)
    assert sorted(c for share in shares.values() for c in share) == sorted(clients)
    sizes = [len(share) for share in shares.values()]
    assert max(sizes) - min(sizes) <= 1
    assert min(sizes) >= 1
    assert len(shares) == min(boards, len(clients))


def test_neighbours_stay_together() -> None:
    assert share_out(range(5), 2) == {"b1": (0, 1), "b2": (2, 3, 4)}
