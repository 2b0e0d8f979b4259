"""What a person sees: the view from facts, drawn and in lines."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import StringIO
from typing import Protocol

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from rich.console import Console

from common.wire.messages import Info as InfoMessage
from common.wire.messages import Telemetry
from fl_server.sweeps.screen import SweepDisplay, pace_of
from fl_server.watch import facts
from fl_server.watch.displays import (
    Lines,
    Screen,
    describe,
    json_line,
    make_display,
    warning_line,
)
from fl_server.watch.facts import Fact
from fl_server.watch.facts.making import evaluated
from fl_server.watch.screen import HEIGHT, draw, results_table
from fl_server.watch.view import View
from fl_server.watch.words import duration, size, sparkline
from fl_server.web.audience import Audience

B1 = facts.Presence("b1", connected=True, clients=(0, 1), time=2.0)
B2 = facts.Presence("b2", connected=True, clients=(2,), time=2.0)
WAITING = facts.Waiting("waiting for boards with clients 0-2", time=1.0)
UPDATE = facts.Update(2, 1, time=5.0)
TRAINING = InfoMessage(
    run="x-1", round=1, client=0, board="b1", state="training", epoch=1, epochs=5
)
FACTS: list[Fact] = [
    facts.Started(run="x-1", folder="x", rounds=2, done=0, participants=3, time=0.5),
    WAITING,
    B1,
    B2,
    facts.RoundOpened(1, (0, 2), (0, 1, 2), time=3.0),
    facts.Info(TRAINING, time=4.0),
    UPDATE,
    facts.Tested(2, 1, time=6.0),
]
LINE = evaluated({"round": 0, "accuracy_global": 0.1, "accuracy_l1": 0.1, "time": 9.0})
CLOSED = facts.RoundClosed(
    round=1,
    updates=2,
    seconds=6.0,
    train_loss=1.25,
    bytes_up=2_500_000,
    bytes_down=900,
    time=9.0,
)


def view_of(*reported: Fact) -> View:
    view = View(title="x-1")
    for fact in reported:
        view = view.after(fact)
    return view


class Shows(Protocol):
    @property
    def view(self) -> View: ...
    def observe(self, fact: Fact) -> None: ...


@contextmanager
def often_switched() -> Iterator[None]:
    """Threads take turns as often as the interpreter can."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(usual)


def drawn(view: View, now: float = 10.0, height: int = HEIGHT) -> str:
    console = Console(file=StringIO(), width=110, force_terminal=False)
    console.print(draw(view, now, height))
    output = console.file
    assert isinstance(output, StringIO)
    return output.getvalue()


def fleet_of(boards: int) -> View:
    """A view of so many boards, with more news than fit."""
    there = [
        facts.Presence(f"b{n}", connected=True, clients=(n,), time=2.0) for n in range(boards)
    ]
    news = [facts.Waiting(f"news {n}", time=1.0) for n in range(9)]
    return view_of(FACTS[0], *there, *news, LINE, CLOSED)


@pytest.mark.parametrize(("height", "news"), [(60, 6), (40, 4), (38, 2)])
def test_thirty_boards_are_all_shown_where_there_is_room(height: int, news: int) -> None:
    text = drawn(fleet_of(30), height=height)
    assert all(f" b{n} " in text for n in range(30))
    assert text.count("news") == news
    assert len(text.splitlines()) <= height


@pytest.mark.parametrize("height", [12, 24, 37])
def test_boards_that_do_not_fit_are_counted_and_the_whole_height_is_used(height: int) -> None:
    text = drawn(fleet_of(30), height=height)
    assert len(text.splitlines()) == height
    shown = sum(f" b{n} " in text for n in range(30))
    assert f"+{30 - shown} more" in text
    assert f"{30 - shown} waiting" in text


@pytest.mark.parametrize(("terminal", "shown"), [("dumb", Lines), ("xterm", Screen)])
def test_a_terminal_that_can_only_print_gets_lines(
    monkeypatch: pytest.MonkeyPatch, terminal: str, shown: type
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich then takes the output for a terminal
    monkeypatch.setenv("TERM", terminal)
    assert type(make_display("x", "screen")) is shown
    in_sweep = SweepDisplay(pace_of([], []), "screen").display("x")
    assert isinstance(in_sweep, shown)


def test_a_resumed_run_knows_its_curve_its_best_and_its_boards() -> None:
    best = evaluated({"round": 1, "accuracy_global": 0.7, "time": 9.5})
    again = facts.Started(
        run="x-1", folder="x", rounds=2, done=1, participants=3, incarnation=2, time=20.0
    )
    view = view_of(*FACTS, CLOSED, LINE, best, again)
    assert [view.boards[name].doing for name in ("b1", "b2")] == ["missing", "missing"]
    text = drawn(view, now=21.0)
    assert "waiting for boards" in text
    assert "(best 70.0 %) ▁█" in text
    assert "last round 6.0 s" in text
    assert view.after(replace(B1, time=22.0)).boards["b1"].doing == "waiting"


def test_the_screen_shows_rounds_boards_clients_epochs_and_last_seen() -> None:
    text = drawn(view_of(*FACTS))
    assert "round 1/2" in text
    assert "client 0 epoch 1/5 █░░░░" in text
    b2 = next(line for line in text.splitlines() if " b2 " in line)
    assert "done" in b2
    assert "1/1" in b2
    assert "4 s" in b2


def test_a_lost_board_comes_first_and_its_loss_is_news() -> None:
    lost = replace(B2, connected=False, time=7.0)
    news = facts.Lost("board b2 is lost (clients 2)", "b2", time=7.0)
    text = drawn(view_of(*FACTS, lost, news))
    assert text.index(" b2 ") < text.index(" b1 ")
    assert "board b2 is lost" in text


def test_accuracy_bytes_seconds_and_time_left_appear_once_known() -> None:
    text = drawn(view_of(*FACTS, LINE, CLOSED))
    assert "global 10.0 %" in text
    assert "6.0 s · 2.5 MB up · 900 B down · loss 1.250" in text
    assert "left ~0:06" in text


def test_lines_describe_the_same() -> None:
    view = view_of(*FACTS, CLOSED)
    assert describe(view, CLOSED) == (
        "round 1/2: 2 updates in 6.0 s, loss 1.250, 2.5 MB up, 900 B down, about 0:06 left"
    )
    assert describe(view, LINE).startswith(
        "after round 0: global 10.0 %, personal 10.0 % before"
    )
    assert describe(view, UPDATE) == ""
    assert describe(view, WAITING) == "waiting for boards with clients 0-2"


def test_the_table_at_the_end_has_the_last_round_even_when_thinned() -> None:
    lines = [evaluated({"round": at, "accuracy_global": at / 100}) for at in range(101)]
    console = Console(file=StringIO(), width=110)
    console.print(results_table(view_of(*FACTS, *lines)))
    output = console.file
    assert isinstance(output, StringIO)
    text = output.getvalue()
    assert "│   100 │" in text
    assert text.count("%") < 60


def test_small_things_are_written_as_people_write_them() -> None:
    assert [size(n) for n in (0, 999, 1500, 2_500_000, 3e12)] == [
        *("0 B", "999 B", "1.5 kB", "2.5 MB", "3.0 TB")
    ]
    assert [duration(s) for s in (0, 61, 3725)] == ["0:00", "1:01", "1:02:05"]
    assert sparkline([0.1]) == ""
    assert sparkline([0.0, 0.5, 1.0]) == "▁▅█"
    assert sparkline([0.5, 0.5]) == "▁▁"


def test_a_fact_that_the_view_does_not_show_changes_nothing() -> None:
    view = view_of(*FACTS)
    assert view.after(facts.Called("clients 3 train instead")) == view


def test_a_board_that_repeats_its_presence_goes_on_with_what_it_does() -> None:
    view = view_of(*FACTS, replace(B1, time=20.0))
    assert view.boards["b1"].doing == "training"
    assert view.boards["b1"].seen == 20.0


def test_temperature_memory_and_throttling_are_shown_as_far_as_they_are_known() -> None:
    hot = Telemetry(celsius=81.4, memory_used=1, memory_total=4, throttled=True)
    text = drawn(view_of(*FACTS, replace(B2, telemetry=hot)))
    assert "throttled 81 °C 25 % mem" in text


def test_a_round_that_is_reported_again_counts_once_and_lines_stay_in_order() -> None:
    later = replace(CLOSED, round=2, seconds=8.0)
    view = view_of(*FACTS, later, CLOSED, CLOSED, replace(LINE, round=3), LINE)
    assert [line.round for line in view.closed] == [1, 2]
    assert [line.round for line in view.lines] == [0, 3]
    assert (view.done, view.last) == (2, later)


@given(st.permutations([*FACTS, LINE, CLOSED]))
def test_facts_in_any_order_can_be_drawn(reported: list[Fact]) -> None:
    view = view_of(*reported)
    assert set(view.boards) == {"b1", "b2"}
    assert "b1" in drawn(view)


def test_what_was_refused_is_known_per_board() -> None:
    view = View()
    for board, count in (("b1", 3), ("b2", 1), ("b1", 5)):
        view = view.after(facts.RefusedSoFar(board, count, {}))
    assert view.refused == {"b1": 5, "b2": 1}
    assert view.after(facts.Refused("b2", 7, {})).refused == {"b1": 5, "b2": 7}


@pytest.mark.parametrize("make", [lambda: Screen("x"), lambda: Lines("x"), Audience])
def test_no_fact_is_lost_when_two_threads_report(make: Callable[[], Shows]) -> None:
    shown, threads, each = make(), 2, 1500
    ready = threading.Barrier(threads)

    def report(first: int) -> None:
        ready.wait()
        for client_id in range(first, first + each):
            shown.observe(facts.Update(client_id, 1))

    workers = [threading.Thread(target=report, args=(each * at,)) for at in range(threads)]
    with often_switched():
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    assert len(shown.view.safe) == threads * each


def test_json_lines_are_the_lines_of_the_event_log_and_what_is_printed() -> None:
    view = view_of(*FACTS)
    assert json_line(view, UPDATE) == '{"event":"update","client":2,"round":1,"time":5.0}'
    assert json_line(view, B1) == ""
    assert json_line(view, facts.Printed("x")) == '{"event":"said","text":"x","time":0.0}'


def test_quiet_lines_are_what_went_wrong_and_the_end() -> None:
    view = view_of(*FACTS)
    assert warning_line(view, CLOSED) == ""
    assert warning_line(view, facts.Lost("board b is lost")).endswith(" board b is lost")
    assert warning_line(view, facts.Finished("finished", "d1")).endswith("finished; model d1")
    assert warning_line(view, facts.Printed("stopped")) == "stopped"
