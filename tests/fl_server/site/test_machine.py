"""What a site's relay decides; whole runs are in `tests/test_site_interleavings.py`."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from common.wire.messages import (
    PROTOCOL,
    ClientMetrics,
    CurrentRound,
    Info,
    Selected,
    TrainDetail,
    TrainEnd,
)
from fl_server.site import machine
from fl_server.site.state import (
    Action,
    CloseRun,
    Event,
    FromBoard,
    FromCoordinator,
    OpenRun,
    PartReceived,
    Policy,
    PublishAway,
    RoundOpened,
    RunOpened,
    RunRefused,
    SendModel,
    SendSum,
    SiteUp,
    State,
    Stored,
    SumStreamed,
    Tick,
    ToSite,
    ToUplink,
    UplinkUp,
)
from tests.fl_server.rounds.round_machine import board, gone
from tests.some_sums import counted

POLICY = Policy("north", (0, 1, 2, 3), start=100)
DETAIL = TrainDetail(protocol=PROTOCOL, version="1", run="run", experiment=msgspec.Raw(b"{}"))
Kind = TypeVar("Kind", bound=Action)


class Site:
    """A relay's machine on its way."""

    def __init__(self) -> None:
        self.state = State()
        self.now = 0.0
        self.actions: tuple[Action, ...] = ()

    def take(self, *events: Event) -> Site:
        self.actions = ()
        for event in events:
            self.state, actions = machine.step(POLICY, self.state, event)
            self.actions += actions
        return self

    def hear(self, *messages: TrainDetail | CurrentRound | Selected | TrainEnd) -> Site:
        return self.take(*(FromCoordinator(message, self.now) for message in messages))

    def of(self, kind: type[Kind]) -> list[Kind]:
        return [action for action in self.actions if isinstance(action, kind)]

    def wait(self, seconds: float) -> Site:
        """Time passes; boards that are there repeat that they are."""
        for name, known in self.state.boards.boards.items():
            if known.lost_at is None:
                self.take(FromBoard(board(name, known.clients), self.now))
        self.now += seconds
        return self.take(Tick(self.now))

    def store(self, *clients: int, odd: bool = False) -> Site:
        return self.take(*(Stored("run", 1, client, odd, self.now) for client in clients))

    @property
    def sums(self) -> list[tuple[int, ...]]:
        return [action.clients for action in self.of(SendSum)]

    @property
    def said(self) -> CurrentRound:
        """The last current_round on the site."""
        found = [a.message for a in self.of(ToSite) if isinstance(a.message, CurrentRound)]
        return found[-1]


def current(number: int = 1, safe: tuple[int, ...] = (), **changes: object) -> CurrentRound:
    message = CurrentRound(
        run="run", round=number, incarnation=1, safe=safe, measured=(), accepted={9: 1, 0: 1}
    )
    return msgspec.structs.replace(message, **changes)


def selected(number: int = 1, clients: tuple[int, ...] = (0, 1, 2, 3, 9)) -> Selected:
    return Selected(run="run", round=number, clients=clients, testers=clients)


def opened(grace: float = 60.0, deadline: float = float("inf")) -> Site:
    """Both boards are there, and round 1 is open."""
    site = Site()
    site.take(FromBoard(board("a", (0, 1)), 0.0), FromBoard(board("b", (2, 3)), 0.0))
    site.hear(DETAIL)
    assert site.of(OpenRun)
    site.take(RunOpened("run", grace, deadline, 0.0))
    site.take(PartReceived("run", 1, complete=True, now=0.0))
    site.hear(current(), selected())
    return site.take(RoundOpened("run", 1, frozenset(), frozenset(), 0.0))


def test_a_round_is_opened_on_the_site_with_its_own_clients_only() -> None:
    site = opened()
    assert site.of(SendModel) == [SendModel("run", 1)]
    assert (site.said.incarnation, site.said.accepted) == (101, {0: 1})
    [chosen] = [a.message for a in site.of(ToSite) if isinstance(a.message, Selected)]
    assert chosen.clients == (0, 1, 2, 3)


def test_nothing_goes_up_before_everybody_has_sent_an_update_and_then_one_sum() -> None:
    site = opened().store(0, 1, 2)
    assert site.sums == []
    assert site.store(3).sums == [(0, 1, 2, 3)]
    assert site.wait(10.0).sums == [], "it is on its way"
    assert site.said.safe == (0, 1, 2, 3), "safe for the boards"
    site.take(SumStreamed(1, (0, 1, 2, 3), site.now))
    assert site.wait(4.0).sums == [(0, 1, 2, 3)], "again, until the coordinator has it"
    site.hear(current(safe=(0, 1, 2, 3)))
    assert site.wait(60.0).sums == []


def test_a_lost_board_is_not_waited_for_and_its_clients_follow() -> None:
    site = opened().store(0, 1, 2)
    site.take(FromBoard(gone("b", (2, 3)), site.now))
    assert site.of(PublishAway) == [PublishAway((2, 3))]
    assert site.wait(9.0).sums == []
    assert site.wait(1.0).sums == [(0, 1, 2)]
    site.hear(current(safe=(0, 1, 2)))
    site.take(FromBoard(board("b", (2, 3)), site.now))
    assert site.of(PublishAway) == [PublishAway(())]
    assert site.store(3).sums == [(3,)]


def test_a_client_that_failed_is_waited_for_no_longer_than_half_of_grace() -> None:
    site = opened(grace=4.0).store(0, 1, 2)
    failed = Info(run="run", round=1, client=3, board="b", state="failed", problem="no")
    [upward] = site.take(FromBoard(failed, site.now)).of(ToUplink)
    assert upward.message == msgspec.structs.replace(failed, board="north")
    assert site.wait(1.0).sums == []
    assert site.wait(1.0).sums == [(0, 1, 2)]


def test_near_the_deadline_updates_go_up_as_they_come() -> None:
    site = opened(deadline=40.0).store(0)
    assert site.wait(29.0).sums == []
    assert site.wait(1.0).sums == [(0,)]
    assert site.store(2).sums == [(2,)]


def test_a_sum_of_which_some_are_safe_already_is_made_anew() -> None:
    site = opened().store(0, 1, 2, 3)
    assert site.hear(current(safe=(1, 9))).sums == [(0, 2, 3)]


def test_an_update_that_no_sum_holds_goes_up_by_itself() -> None:
    site = opened().store(1, odd=True)
    assert site.sums == [(1,)]
    assert site.store(0, 2, 3).sums == [(0, 2, 3)]


def test_after_a_reconnect_everything_is_said_again() -> None:
    site = opened().store(0, 1, 2, 3)
    assert site.take(UplinkUp(site.now)).sums == [(0, 1, 2, 3)]
    site.take(SiteUp(site.now))
    assert site.of(SendModel)
    assert site.said.safe == (0, 1, 2, 3)


def test_a_restarted_relay_goes_on_with_what_is_on_disk() -> None:
    site = Site()
    site.take(FromBoard(board("a", (0, 1)), 0.0), FromBoard(board("b", (2, 3)), 0.0))
    site.hear(DETAIL).take(RunOpened("run", 60.0, 60.0, 0.0))
    site.hear(current(safe=(0,)), selected())
    site.take(RoundOpened("run", 1, frozenset((0, 1, 2)), frozenset(), 0.0))
    assert site.said.safe == (0, 1, 2)
    assert site.store(3).sums == [(1, 2, 3)]


def test_a_model_that_does_not_come_is_asked_for_and_one_that_is_here_is_not() -> None:
    site = opened()
    assert site.wait(10.0).of(ToUplink) == []
    site.hear(current(2), selected(2))
    site.take(RoundOpened("run", 2, frozenset(), frozenset(), site.now))
    [asked] = site.wait(3.0).of(ToUplink)
    assert isinstance(asked.message, Info)
    assert (asked.message.state, asked.message.board) == ("missing", "north")
    assert site.take(PartReceived("run", 2, complete=True, now=site.now)).of(SendModel)


def test_counts_go_up_until_they_are_confirmed_and_those_of_others_never() -> None:
    site = opened()
    tests = ClientMetrics(run="run", round=1, client=2, own={"G": counted(1, 2)})
    foreign = msgspec.structs.replace(tests, client=9)
    assert site.take(FromBoard(tests, 0.0), FromBoard(foreign, 0.0)).of(ToUplink) == [
        ToUplink(tests)
    ]
    site.hear(current(measured=(2,)))
    assert site.take(FromBoard(tests, 0.0)).of(ToUplink) == []


def test_a_board_cannot_speak_for_the_client_of_another() -> None:
    info = Info(run="run", round=1, client=3, board="a", state="trained")
    assert opened().take(FromBoard(info, 0.0)).of(ToUplink) == []


def test_the_end_is_passed_on_and_the_run_is_forgotten() -> None:
    end = TrainEnd(run="run", reason="finished")
    site = opened().hear(end)
    assert ToSite(end) in site.actions
    assert site.of(CloseRun) == [CloseRun("run")]
    assert site.store(0, 1, 2, 3).sums == []


def test_a_run_that_cannot_be_added_up_stays_closed() -> None:
    site = Site().hear(DETAIL).take(RunRefused("run", 0.0))
    site.hear(DETAIL, current(), selected())
    assert not site.of(OpenRun)
    assert not site.of(ToSite)


def test_the_presence_of_unsettled_boards_means_nothing_yet() -> None:
    site = Site().take(FromBoard(board("a", (0, 1), settled=False), 0.0))
    assert site.of(PublishAway) == [PublishAway((0, 1, 2, 3))]
