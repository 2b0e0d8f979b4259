"""Facts from messages: what a listener finds out, and when."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from common.config import Experiment
from common.wire.messages import (
    COORDINATOR,
    ClientMetrics,
    Connected,
    CurrentRound,
    Info,
    Message,
    RoundLine,
    Selected,
    Telemetry,
    TrainDetail,
    TrainEnd,
)
from fl_server.coordinator.history import History, thinned
from fl_server.watch import facts
from fl_server.watch.facts import Fact
from fl_server.watch.facts.lines import TrainingLine, parse_line
from fl_server.watch.facts.making import SILENCE_SECONDS, evaluated, kind_of
from fl_server.watch.listener import Listener
from fl_server.watch.view import View
from fl_server.web.sections import change, model, sections, whole
from tests.some_sums import counted

RUN = "demo-1.00c0ffee"
DETAIL = TrainDetail(
    protocol=2, version="1", run=RUN, experiment=msgspec.Raw(msgspec.json.encode(Experiment()))
)


def claim(board: str = "b1", *clients: int, session: tuple[int, int] = (1, 1), **more: Any
          ) -> Connected:  # fmt: skip
    fields = {"connected": True, "settled": True, "since": 5.0, "host": "h", **more}
    return Connected(
        protocol=2, version="1", board=board, instance=f"i-{board}", session=session,
        clients=clients, **fields,
    )  # fmt: skip


def coordinator(**more: Any) -> Connected:
    return msgspec.structs.replace(claim(COORDINATOR), instance=RUN, **more)


def current(number: int, **more: Any) -> CurrentRound:
    fields = {"safe": (), "measured": (), "accepted": {}, "incarnation": 1, **more}
    return CurrentRound(run=RUN, round=number, **fields)


def selected(number: int, *clients: int) -> Selected:
    return Selected(run=RUN, round=number, clients=clients, testers=clients)


def reported(listener: Listener, *messages: Message, now: float = 1.0) -> list[Fact]:
    return [fact for message in messages for fact in listener.receive(message, now)]


def kinds(found: list[Fact]) -> list[str]:
    return [kind_of(fact) for fact in found]


def text_of(fact: Fact) -> str:
    assert isinstance(fact, facts.Note)
    return fact.text


LINE = RoundLine(round=3, main_global=0.5, train_loss=1.0, seconds=2.0, bytes_up=10,
                 bytes_down=5, updates=2)  # fmt: skip
COUNTS = ClientMetrics(run=RUN, round=1, client=0, own={"G": counted(1, 2)})
STORED: list[Message] = [
    DETAIL,
    coordinator(history=(LINE,)),
    claim("b1", 0, 1, telemetry=Telemetry(celsius=51.0)),
    claim("b2", 2, session=(3, 1), connected=False),
    current(4, safe=(0,), measured=(1,)),
    selected(4, 0, 1, 2),
]


@given(st.permutations(STORED))
def test_who_joins_in_the_middle_sees_the_run_at_once_whatever_comes_first(
    stored: list[Message],
) -> None:
    listener, view = Listener(), View()
    for message in stored:
        for fact in listener.receive(message, 9.0, stored=True):
            view = view.after(fact)
    assert view.title == "demo-1"
    assert (view.round_number, view.done, view.rounds) == (4, 3, 10)
    assert (set(view.safe), set(view.measured)) == ({0}, {1})
    assert {name: board.here for name, board in view.boards.items()} == {
        "b1": True,
        "b2": False,
    }
    assert view.boards["b1"].telemetry == Telemetry(celsius=51.0)
    assert view.last is not None
    assert view.last.seconds == 2.0
    assert view.lines[-1].tests == {"accuracy_global": 0.5}
    assert view.going_on
    assert view.started == 5.0


def test_what_is_published_again_is_reported_once() -> None:
    listener = Listener()
    reported(listener, *STORED)
    again = reported(listener, *STORED)
    assert set(kinds(again)) <= {"presence", "coordinator"}


def test_a_board_that_dies_is_lost_and_comes_back_in_its_next_life() -> None:
    listener = Listener()
    reported(listener, DETAIL, claim("b1", 0))
    dead = reported(listener, claim("b1", 0, connected=False))
    assert kinds(dead) == ["presence", "lost"]
    assert text_of(dead[1]) == "board b1 is lost (clients 0)"
    assert kinds(reported(listener, claim("b1", 0, session=(2, 1)))) == ["presence", "back"]
    stale = claim("b1", 0, session=(1, 1), connected=False)
    assert reported(listener, stale) == []


def test_a_board_that_sends_nothing_for_long_is_lost_until_it_sends_something() -> None:
    listener = Listener()
    reported(listener, DETAIL, claim("b1", 0), now=0.0)
    assert listener.tick(SILENCE_SECONDS) == []
    assert kinds(listener.tick(SILENCE_SECONDS + 1)) == ["presence", "lost"]
    assert listener.tick(SILENCE_SECONDS + 2) == []
    news = Info(run=RUN, round=1, client=0, board="b1", state="training")
    assert kinds(reported(listener, news)) == ["presence", "back", "info"]


def test_silence_while_the_broker_was_away_is_nobodys_fault() -> None:
    listener = Listener()
    reported(listener, claim("b1", 0), now=0.0)
    listener.reconnected(100.0)
    assert listener.tick(100.0 + SILENCE_SECONDS) == []


def test_a_board_that_is_not_settled_is_not_there_yet() -> None:
    assert reported(Listener(), claim("b1", 0, settled=False)) == []


def test_a_round_that_closed_without_somebody_is_news() -> None:
    listener = Listener()
    reported(listener, DETAIL, current(1), selected(1, 0, 1, 2))
    found = reported(listener, current(2, accepted={0: 1, 2: 1}), selected(2, 0, 1, 2))
    assert kinds(found) == ["dropped", "round_opened"]
    assert text_of(found[0]) == "round 1 goes on without clients 1"


def test_failures_and_lost_states_are_news() -> None:
    listener = Listener()
    reported(listener, DETAIL, claim("b", 3))
    said = {"run": RUN, "round": 1, "client": 3, "board": "b", "problem": "no disk"}
    failed = reported(listener, Info(state="failed", **said))  # type: ignore[arg-type]
    reset = reported(listener, Info(state="reset", **said))  # type: ignore[arg-type]
    assert text_of(failed[-1]) == "client 3 on board b failed: no disk"
    assert kinds(reset) == ["info", "state_lost"]


def test_the_coordinators_end_is_an_interruption_only_before_the_runs_end() -> None:
    listener = Listener()
    reported(listener, DETAIL, coordinator())
    assert kinds(reported(listener, coordinator(connected=False))) == ["coordinator", "lost"]
    assert kinds(reported(listener, coordinator())) == ["coordinator", "back"]
    assert kinds(reported(listener, TrainEnd(run=RUN, reason="finished"))) == ["finished"]
    assert kinds(reported(listener, coordinator(connected=False))) == ["coordinator"]


def test_messages_of_another_run_are_none_of_this_ones() -> None:
    listener = Listener()
    reported(listener, DETAIL)
    other = Info(run="other", round=1, client=0, board="b", state="training")
    metrics = msgspec.structs.replace(COUNTS, run="other")
    end = TrainEnd(run="other", reason="finished")
    assert reported(listener, other, metrics, end) == []


def test_the_next_run_begins_anew_with_the_same_boards() -> None:
    listener, view = Listener(), View()
    after = msgspec.structs.replace(DETAIL, run="next-1.00000000")
    for fact in reported(listener, *STORED, after):
        view = view.after(fact)
    assert (view.title, view.round_number, view.lines) == ("next-1", 0, ())
    assert set(view.boards) == {"b1", "b2"}


def test_counts_are_reported_when_they_arrive_and_not_again_when_confirmed() -> None:
    listener = Listener()
    reported(listener, DETAIL, current(1), selected(1, 0))
    assert kinds(reported(listener, COUNTS, COUNTS)) == ["tested"]
    assert reported(listener, current(1, measured=(0,))) == []


def messages() -> st.SearchStrategy[Message]:
    number, client = st.integers(1, 4), st.integers(0, 3)
    board = st.sampled_from(["b1", "b2", COORDINATOR])
    ids = st.lists(client, max_size=4, unique=True).map(tuple)
    return st.one_of(
        st.just(DETAIL),
        st.builds(lambda b, c, on, s: claim(b, *c, connected=on, session=(s, 1)),
                  board, ids, st.booleans(), number),
        st.builds(lambda on: coordinator(connected=on, history=(LINE,)), st.booleans()),
        st.builds(lambda n, s, m: current(n, safe=s, measured=m), number, ids, ids),
        st.builds(lambda n, c: selected(n, *c), number, ids),
        st.builds(lambda n, c, b, s: Info(run=RUN, round=n, client=c, board=b, state=s, epoch=1,
                                          epochs=2, seconds=1.0),
                  number, client, st.sampled_from(["b1", "b2", "b3"]),
                  st.sampled_from(["missing", "reset", "training", "trained", "testing",
                                   "failed"])),
        st.builds(lambda n, c: ClientMetrics(run=RUN, round=n, client=c,
                                             own={"G": counted(1, 2)}),
                  number, client),
        st.just(TrainEnd(run=RUN, reason="finished")),
    )  # fmt: skip


@given(st.lists(messages(), max_size=60))
def test_any_stream_of_messages_gives_a_view_and_changes_that_add_up_to_it(
    stream: list[Message],
) -> None:
    listener, view, known, seen = Listener(), View(), sections(View()), dict[str, Any]()
    seen = msgspec.json.decode(whole(known, 0.0))["set"]
    for at, message in enumerate(stream):
        for fact in [*listener.receive(message, float(at)), *listener.tick(float(at))]:
            view = view.after(fact)
        new = sections(view)
        news = change(known, new, float(at))
        known = new
        if news is None:
            continue
        said = msgspec.json.decode(news)
        seen |= said["set"]
        for name in said["gone"]:
            del seen[name]
    assert seen == msgspec.json.decode(msgspec.json.encode(model(view)))
    for lane in view.timeline.lanes.values():
        assert all(span.end is None or span.end >= span.start for span in lane)


def test_a_history_has_every_round_until_there_are_many_and_then_the_newest_and_some() -> None:
    history = History(
        [parse_line({"round": 0, "accuracy_global": 0.1}), TrainingLine(1, seconds=2.0)]
    )
    history.observe(evaluated({"round": 1, "accuracy_global": 0.2, "seconds": 2.0}))
    history.observe(facts.Lost("no line"))
    assert [(line.round, line.main_global) for line in history.lines] == [
        (0, 0.1),
        (1, 0.2),
    ]
    many = thinned({number: RoundLine(round=number) for number in range(1001)})
    assert len(many) <= 64
    assert (many[0].round, many[-1].round, many[-16].round) == (0, 1000, 985)


def test_who_watches_from_elsewhere_sees_a_pause_and_its_end() -> None:
    listener = Listener()
    view, kinds = View(), []
    for message in (
        DETAIL,
        coordinator(),
        *(current(1), selected(1, 0, 1)),
        coordinator(problem="pausing"),
        coordinator(problem="paused"),
        current(1, safe=(0, 1, 2), measured=(0, 1, 2)),
        coordinator(problem=""),
        coordinator(problem="stopping"),
    ):
        for fact in listener.receive(message, 10.0):
            view = view.after(fact)
            if isinstance(fact, facts.ControlNote):
                kinds.append((kind_of(fact), view.control_state))
    assert kinds == [
        ("paused", "pausing"),
        ("paused", "paused"),
        ("resumed", ""),
        ("stopping", "stopping"),
    ]
    assert view.safe == {0, 1}
