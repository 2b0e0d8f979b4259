"""The thread beside the others."""

from __future__ import annotations

import threading

import pytest

from common.side_thread import beside


def test_pieces_are_done_elsewhere_in_their_order() -> None:
    done: list[int] = []
    pieces = [beside(done.append, number) for number in range(100)]
    assert beside(threading.current_thread).result() is not threading.current_thread()
    assert [piece.result() for piece in pieces] == [None] * 100
    assert done == list(range(100))


def test_a_piece_that_fails_fails_for_who_wants_its_result_and_no_other() -> None:
    failing = beside(int, "x")
    assert beside(int, "7").result() == 7
    for _ in range(2):
        with pytest.raises(ValueError, match="invalid literal"):
            failing.result()


def test_many_threads_may_hand_over_at_once() -> None:
    results: list[int] = []
    threads = [
        threading.Thread(target=lambda: results.append(beside(sum, [1, 2]).result()))
        for _ in range(20)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [3] * 20
