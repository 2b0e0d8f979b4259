"""What people see when a sender is hostile: nothing breaks, and nothing grows without end."""

from __future__ import annotations

import re
from io import StringIO

import msgspec
import numpy as np
import pytest
from rich.console import Console

from common.errors import ProtocolError
from common.wire.messages import (
    ClientMetrics,
    Connected,
    CurrentRound,
    Info,
    Message,
    RoundLine,
    Selected,
    Telemetry,
    TrainDetail,
)
from fl_server.data.terminal_bars import print_bars
from fl_server.sweeps.pace import Pace
from fl_server.sweeps.screen import SweepDisplay
from fl_server.watch import facts
from fl_server.watch.displays import Lines, Screen, make_display, show_status
from fl_server.watch.facts import Fact
from fl_server.watch.facts.making import board_problem, client_failed, presence
from fl_server.watch.limits import MOST_BOARDS, MOST_CLIENTS, MOST_NOTES, MOST_ROUNDS
from fl_server.watch.listener import Listener
from fl_server.watch.recovery import Recovery
from fl_server.watch.screen import draw, recovery_table, results_table
from fl_server.watch.view import View
from fl_server.web.sections import model, sections, whole
from tests.fl_server.watch.some_facts import described
from tests.fl_server.watch.test_listener import DETAIL, RUN, claim, coordinator, current
from tests.hostile import controls, with_every_text
from tests.some_sums import counted

MB = 1_000_000


def drawn(view: View) -> str:
    console = Console(file=StringIO(), width=150, force_terminal=True)
    console.print(draw(view, 10.0))
    output = console.file
    assert isinstance(output, StringIO)
    return output.getvalue()


def hostile_facts(text: str) -> list[Fact]:
    """A run in which every text that may come from outside is this one."""
    here = Connected(
        protocol=2, version="1", board="b1", instance="i", session=(1, 1), connected=True,
        settled=True, since=1.0, clients=(0, 1), host=text, problem=text,
        telemetry=Telemetry(celsius=250.0, throttled=True, why=text[:200]),
    )  # fmt: skip
    failed = Info(
        run=RUN, round=1, client=0, board="b1", state="failed", epoch=10**6, problem=text
    )
    return [
        facts.Started(run=text, folder=text, rounds=2, done=0, participants=3),
        described(),
        presence(here, connected=True),
        facts.RoundOpened(1, (0, 1), (0,)),
        facts.Info(failed),
        board_problem("b1", text),
        client_failed(failed),
        facts.Lost(text, text),
        facts.MessageDropped(text, 1, text),
        facts.BrokerDown(text, text),
        facts.Refused(text, 10**6, {text: 1}),
        facts.Finished(text, text),
    ]


def view_of(*reported: Fact, title: str = "x") -> View:
    view = View(title=title)
    for fact in reported:
        view = view.after(fact)
    return view


def shown_by_rich(text: str) -> list[str]:
    """Lines of a terminal, without rich's own sequences for colours."""
    return re.sub(r"\x1b\[[0-9;]*m", "", text).splitlines()


@with_every_text
def test_no_text_breaks_colours_or_controls_the_screen(text: str) -> None:
    reported = hostile_facts(text)
    for at in range(3, len(reported) + 1, 3):
        lines = shown_by_rich(drawn(view_of(*reported[:at], title=text)))
        assert controls("".join(lines)) == set()
    view = view_of(*reported, title=text)
    assert view.notes[-1].text.startswith("the run has ended: ")
    console = Console(file=StringIO(), width=150)
    console.print(results_table(View(title=text)))
    console.print(recovery_table([Recovery(text, text, 1, 1.0, 1.0)]))
    output = console.file
    assert isinstance(output, StringIO)
    assert controls("".join(output.getvalue().split("\n"))) == set()
    assert "[/x]" not in text or "[/x]: results" in output.getvalue()


@pytest.mark.parametrize("style", ["plain", "quiet", "json"])
@with_every_text
def test_a_fact_is_one_line_whatever_is_in_it(
    style: str, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    display = make_display(text, style)  # type: ignore[arg-type]
    assert isinstance(display, Lines)
    written = 0
    for fact in hostile_facts(text):
        display.observe(fact)
        lines = capsys.readouterr().out.splitlines()
        assert len(lines) <= 1
        assert controls("".join(lines)) == set()
        written += len(lines)
    assert written >= 4
    display.write(text)
    assert len(capsys.readouterr().out.splitlines()) == 1


@with_every_text
def test_status_and_what_a_sweep_writes_are_as_safe(
    text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    show_status(view_of(*hostile_facts(text), title=text))
    Screen(text).write(text)
    SweepDisplay(Pace([1]), "screen").write(text)
    assert controls("".join(capsys.readouterr().out.splitlines())) == set()


@with_every_text
def test_bars_of_a_dataset_of_any_name(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    print_bars(text, np.array([[1, 2], [3, 0]]), ["3", "3"], text)
    assert controls("".join(capsys.readouterr().out.split("\n"))) == set()


def test_the_most_epochs_there_may_be_are_a_short_bar() -> None:
    training = Info(run=RUN, round=1, client=0, board="b1", state="training",
                    epoch=10**6 - 1, epochs=10**6)  # fmt: skip
    view = view_of(facts.Presence("b1", True, (0,)), facts.Info(training))
    row = next(line for line in shown_by_rich(drawn(view)) if "epoch" in line)
    assert "epoch 999999/1000000 ███████████████████░ " in row


def test_a_board_of_any_name_is_shown_only_with_its_own_presence_and_clients() -> None:
    listener = Listener()
    listener.receive(DETAIL, 1.0)
    listener.receive(claim("b1", 0, 1), 1.0)
    said = {"run": RUN, "round": 1, "state": "failed", "problem": "a lie"}
    for board, client in (("invented", 0), ("b1", 7)):
        lie = Info(board=board, client=client, **said)  # type: ignore[arg-type]
        assert listener.receive(lie, 2.0) == []
        view = view_of(facts.Presence("b1", True, (0, 1)))
        assert view.after(facts.Info(lie)) is view
    truth = Info(board="b1", client=1, **said)  # type: ignore[arg-type]
    assert len(listener.receive(truth, 2.0)) == 2


def flooded(boards: int, *, clients: int, letters: int) -> tuple[Listener, View]:
    """What a viewer knows after as many boards as this, each with all it may send."""
    listener, view = Listener(), View()
    text = "🙂" * letters
    reading: list[Message] = [DETAIL, *(
        claim(f"{'b' * 90}-{at}", *range(at, at + 2 * clients, 2), host=text, problem=text,
              telemetry=Telemetry(celsius=1.5, why=text[:200]),
              history=tuple(RoundLine(round=n) for n in range(64)))
        for at in range(boards)
    )]  # fmt: skip
    for message in reading:
        for fact in listener.receive(message, 1.0, stored=True):
            view = view.after(fact)
    return listener, view


def test_thousands_of_invented_boards_are_counted_not_kept() -> None:
    _, view = flooded(4_000, clients=3, letters=2000)
    assert len(view.boards) == MOST_BOARDS
    assert len(view.unlisted) == 1000
    assert len(view.notes) == MOST_NOTES
    assert "+3,479 more" in drawn(view)
    assert model(view)["now"]["more_boards"] == 1000  # type: ignore[index]
    assert len(whole(sections(view), 1.0)) < 12 * MB


def test_clients_of_all_boards_together_are_bounded_and_small_boards_keep_theirs() -> None:
    listener, view = flooded(120, clients=5000, letters=1)
    assert sum(len(board.clients) for board in view.boards.values()) <= MOST_CLIENTS + 120 * 40
    last = view.boards[f"{'b' * 90}-119"]
    assert (len(last.clients), last.more_clients) == (40, 4960)
    assert "5,000 clients" in drawn(view)
    for fact in listener.receive(claim("small", 1, 2, 3), 2.0):
        view = view.after(fact)
    assert view.boards["small"].clients == (1, 2, 3)
    assert len(whole(sections(view), 1.0)) < MB
    assert max(len(note.text) for note in view.notes) <= 500


def test_a_lost_board_gives_way_to_one_that_is_there() -> None:
    listener, view = flooded(MOST_BOARDS, clients=1, letters=1)
    gone = msgspec.structs.replace(claim(f"{'b' * 90}-5", 5), connected=False)
    for message in (gone, claim("new", 3)):
        for fact in listener.receive(message, 2.0):
            view = view.after(fact)
    assert "new" in view.boards
    assert len(view.boards) == MOST_BOARDS


def test_two_thousand_honest_boards_fit_and_are_shown() -> None:
    listener, view = Listener(), View()
    listener.receive(DETAIL, 1.0)
    for at in range(2000):
        clients = range(5 * at, 5 * at + 5)
        for fact in listener.receive(claim(f"pi-{at}", *clients, host="h" * 20), 1.0):
            view = view.after(fact)
        info = Info(run=RUN, round=1, client=clients[-1], board=f"pi-{at}", state="training")
        for fact in listener.receive(info, 2.0):
            view = view.after(fact)
    assert len(view.boards) == 2000
    assert not view.unlisted
    assert all(len(board.clients) == 5 for board in view.boards.values())
    assert len(whole(sections(view), 1.0)) < 3 * MB


def test_messages_of_many_runs_and_rounds_and_strangers_are_not_all_kept() -> None:
    listener = Listener()
    listener.receive(DETAIL, 1.0)
    everyone = Selected(run=RUN, round=1, clients=(1,), testers=(1,))
    for message in (everyone, current(1)):
        listener.receive(message, 1.0)
    for at in range(50):
        listener.receive(
            CurrentRound(
                run=f"r{at}", round=1, incarnation=1, safe=(), measured=(), accepted={}
            ),
            1.0,
        )
    assert len(listener._current) <= 5
    assert RUN in listener._current
    count = {"G": counted(1, 2)}
    for client in range(2, 50):
        stranger = ClientMetrics(run=RUN, round=1, client=client, own=count)  # type: ignore[arg-type]
        assert listener.receive(stranger, 1.0) == []
    view = View()
    for first in range(0, MOST_ROUNDS + 640, 64):
        lines = tuple(
            RoundLine(round=n, seconds=1e9, bytes_up=2**53, bytes_down=2**53, updates=10**9,
                      train_loss=1e30, main_global=1.0)
            for n in range(first, first + 64)
        )  # fmt: skip
        for fact in listener.receive(coordinator(history=lines), 1.0):
            view = view.after(fact)
    assert len(view.lines) == len(view.closed) == MOST_ROUNDS
    assert len(listener._lines) == MOST_ROUNDS
    drawn(view)


@pytest.mark.parametrize(
    "experiment",
    [
        b"[]",
        b'{"experiment":{"rounds":1e400}}',
        b'{"experiment":{"rounds":' + b"9" * 4000 + b"}}",
        b'{"experiment":{"rounds":-1}}',
        b'{"experiment":{"rounds":3},"x":null}',
        b'{"experiment":{"rounds":3,"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}}",
    ],
)
def test_an_experiment_that_is_none_is_not_shown(experiment: bytes) -> None:
    detail = TrainDetail(protocol=2, version="1", run=RUN, experiment=msgspec.Raw(experiment))
    with pytest.raises(ProtocolError):
        Listener().receive(detail, 1.0)
