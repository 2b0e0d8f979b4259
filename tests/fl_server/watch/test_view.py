"""What a person sees: the view from facts, drawn and in lines."""

from __future__ import annotations

from io import StringIO
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from fl_server.watch.screen import describe, draw, duration, size, sparkline, summary
from fl_server.watch.view import View

FACTS: list[dict[str, Any]] = [
    {"event": "started", "time": 0.5, "rounds": 2, "done": 0, "folder": "x", "participants": 3},
    {"event": "waiting", "time": 1.0, "text": "waiting for boards with clients 0-2"},
    {"event": "presence", "time": 2.0, "board": "b1", "connected": True, "clients": (0, 1)},
    {"event": "presence", "time": 2.0, "board": "b2", "connected": True, "clients": (2,)},
    {"event": "round_opened", "time": 3.0, "round": 1, "selected": (0, 2),
     "testers": (0, 1, 2)},
    {"event": "info", "time": 4.0, "board": "b1", "client": 0, "state": "training", "epoch": 1,
     "epochs": 5},
    {"event": "update", "time": 5.0, "client": 2, "round": 1},
    {"event": "tested", "time": 6.0, "client": 2, "round": 1},
]  # fmt: skip
LINE = {
    "event": "evaluated", "time": 9.0, "round": 0, "accuracy_global": 0.1, "accuracy_l1": 0.1,
    "accuracy_l2": None,
}  # fmt: skip
CLOSED = {
    "event": "round_closed", "time": 9.0, "round": 1, "updates": 2, "seconds": 6.0,
    "train_loss": 1.25, "bytes_up": 2_500_000, "bytes_down": 900,
}  # fmt: skip


def view_of(*facts: dict[str, Any]) -> View:
    view = View(title="x-1")
    for fact in facts:
        view = view.after(fact)
    return view


def drawn(view: View, now: float = 10.0) -> str:
    console = Console(file=StringIO(), width=110, force_terminal=False)
    console.print(draw(view, now))
    output = console.file
    assert isinstance(output, StringIO)
    return output.getvalue()


def test_the_screen_shows_rounds_boards_clients_epochs_and_last_seen() -> None:
    text = drawn(view_of(*FACTS))
    assert "round 1/2" in text
    assert "client 0 epoch 1/5 █░░░░" in text
    b2 = next(line for line in text.splitlines() if " b2 " in line)
    assert "done" in b2
    assert "1/1" in b2
    assert "4 s" in b2


def test_a_lost_board_comes_first_and_its_loss_is_news() -> None:
    lost = {
        "event": "presence",
        "time": 7.0,
        "board": "b2",
        "connected": False,
        "clients": (2,),
    }
    news = {"event": "lost", "time": 7.0, "text": "board b2 is lost (clients 2)", "board": "b2"}
    text = drawn(view_of(*FACTS, lost, news))
    assert text.index(" b2 ") < text.index(" b1 ")
    assert "board b2 is lost" in text


def test_accuracy_bytes_seconds_and_time_left_appear_once_known() -> None:
    text = drawn(view_of(*FACTS, LINE, CLOSED))
    assert "global 10.0 %" in text
    assert "6.0 s · 2.5 MB up · 900 B down · loss 1.250" in text
    assert "left ~0:06" in text


def test_lines_say_the_same() -> None:
    view = view_of(*FACTS, CLOSED)
    assert describe(view, CLOSED) == (
        "round 1/2: 2 updates in 6.0 s, loss 1.250, 2.5 MB up, 900 B down, about 0:06 left"
    )
    assert describe(view, LINE).startswith(
        "after round 0: global 10.0 %, personal 10.0 % before"
    )
    assert describe(view, FACTS[6]) == ""
    assert describe(view, FACTS[1]) == "waiting for boards with clients 0-2"


def test_the_table_at_the_end_has_the_last_round_even_when_thinned() -> None:
    lines = [{**LINE, "round": at, "accuracy_global": at / 100} for at in range(101)]
    console = Console(file=StringIO(), width=110)
    console.print(summary(view_of(*FACTS, *lines)))
    output = console.file
    assert isinstance(output, StringIO)
    text = output.getvalue()
    assert "│   100 │" in text
    assert text.count("%") < 60


def test_small_things_are_written_as_people_write_them() -> None:
    assert [size(n) for n in (0, 999, 1500, 2_500_000, 3e12)] == [
        *("0 B", "999 B", "1.5 kB", "2.5 MB", "3000.0 GB")
    ]
    assert [duration(s) for s in (0, 61, 3725)] == ["0:00", "1:01", "1:02:05"]
    assert sparkline([0.1]) == ""
    assert sparkline([0.0, 0.5, 1.0]) == "▁▅█"
    assert sparkline([0.5, 0.5]) == "▁▁"


def test_an_unknown_fact_changes_nothing() -> None:
    view = view_of(*FACTS)
    assert view.after({"event": "something new", "time": 1.0}) == view


def test_a_board_that_repeats_its_presence_goes_on_with_what_it_does() -> None:
    view = view_of(*FACTS, {**FACTS[2], "time": 20.0})
    assert view.boards["b1"].doing == "training"
    assert view.boards["b1"].seen == 20.0


def test_temperature_memory_and_throttling_are_shown_as_far_as_they_are_told() -> None:
    told = {"celsius": 81.4, "memory_used": 1, "memory_total": 4, "throttled": True}
    text = drawn(view_of(*FACTS, {**FACTS[3], "telemetry": told}))
    assert "throttled 81 °C 25 % mem" in text


def test_a_round_that_is_told_again_counts_once_and_lines_stay_in_order() -> None:
    later = {**CLOSED, "round": 2, "seconds": 8.0}
    view = view_of(*FACTS, later, CLOSED, CLOSED, {**LINE, "round": 3}, LINE)
    assert [line["round"] for line in view.closed] == [1, 2]
    assert [line["round"] for line in view.lines] == [0, 3]
    assert (view.done, view.last["seconds"]) == (2, 8.0)


@given(st.permutations([*FACTS, LINE, CLOSED]))
def test_facts_in_any_order_can_be_drawn(facts: list[dict[str, Any]]) -> None:
    view = view_of(*facts)
    assert set(view.boards) == {"b1", "b2"}
    assert "b1" in drawn(view)


def test_what_was_refused_is_known_per_board() -> None:
    view = View()
    for board, count in (("b1", 3), ("b2", 1), ("b1", 5)):
        fact = {"event": "refused", "board": board, "count": count, "kinds": {}, "time": 1.0}
        view = view.after(fact)
    assert view.refused == {"b1": 5, "b2": 1}
