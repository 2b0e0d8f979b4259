from __future__ import annotations

from common.wire.messages import Telemetry
from fl_server.watch import facts
from fl_server.watch.board_view import BoardView
from fl_server.watch.facts import Fact
from fl_server.watch.view import View
from fl_server.web.runs.board_history import ALL_SAMPLES, NOTES, ROUNDS, SAMPLES, BoardHistory
from tests.fl_server.watch.some_facts import described, info, present


def seen(*found: Fact) -> BoardHistory:
    view, history = View(), BoardHistory()
    for fact in found:
        view = view.after(fact)
        history.observe(fact, view.boards)
    return history


def test_samples_reach_back_to_the_beginning_and_stay_few() -> None:
    history = seen(*(present("b1", (0,), 3.0 * at) for at in range(5 * SAMPLES)))
    times = [sample[0] for sample in history.boards["b1"].samples]
    assert len(times) <= SAMPLES
    assert times[0] == 0.0
    assert times[-1] > 3.0 * 5 * SAMPLES - 100
    assert times == sorted(times)


def test_many_boards_share_the_samples() -> None:
    history, boards = BoardHistory(), {f"b{number}": BoardView() for number in range(1000)}
    for at in range(90):
        for name in boards:
            history.observe(present(name, (0,), 3.0 * at), boards)
    assert sum(len(board.samples) for board in history.boards.values()) <= ALL_SAMPLES


def test_of_strangers_nothing_is_kept() -> None:
    stranger = info("x", 1, "trained", 1, 2.0, seconds=1.0, telemetry=Telemetry(celsius=1.0))
    history = seen(present("b1", (0,), 1.0), stranger, facts.Lost("x is lost", "x", time=2.0))
    assert set(history.boards) <= {"b1"}


def test_a_round_of_a_board_ends_with_its_last_training_and_counts_each_once() -> None:
    opened = facts.RoundOpened(1, (0, 1), (), time=10.0)
    first = info("b1", 0, "trained", 1, 12.0, seconds=1.5, samples=20)
    second = info("b1", 1, "trained", 1, 15.5, seconds=3.0, samples=30)
    again = facts.Trained("b1", 1, 1, 3.0, 30, time=15.6)
    history = seen(present("b1", (0, 1), 1.0), opened, first, first, second, again)
    (only,) = history.boards["b1"].rounds
    assert (only.round, only.seconds, only.busy, only.clients) == (1, 5.5, 4.5, 2)
    assert history.boards["b1"].sizes == {0: 20, 1: 30}


def test_rounds_and_news_of_a_board_are_the_last_ones() -> None:
    found: list[Fact] = [described(), present("b1", (0,), 1.0)]
    for number in range(1, 2 * ROUNDS):
        found.append(facts.RoundOpened(number, (0,), (), time=float(number)))
        found.append(info("b1", 0, "trained", number, number + 0.5, seconds=0.5))
        found.append(facts.Lost(f"lost {number}", "b1", time=float(number)))
    board = seen(*found).boards["b1"]
    assert [one.round for one in board.rounds] == list(range(ROUNDS, 2 * ROUNDS))
    assert [text for _, text in board.notes][-1] == f"lost {2 * ROUNDS - 1}"
    assert len(board.notes) == NOTES


def test_another_run_begins_with_the_same_boards_and_no_rounds() -> None:
    opened = facts.RoundOpened(1, (0,), (), time=10.0)
    trained = info("b1", 0, "trained", 1, 12.0, seconds=1.5)
    first = (described(), present("b1", (0,), 1.0), opened, trained)
    board = seen(*first, described("other.00000000", time=20.0)).boards["b1"]
    assert board.rounds == []
    assert len(board.samples) == 1
