"""A run as its topics show it to a fault script."""

from __future__ import annotations

from typing import Any

from common.wire.messages import ClientMetrics, Connected, CurrentRound, Info, Selected
from fl_server.lab.outlook import Outlook
from tests.some_sums import counted


def board(name: str, *clients: int, start: int = 1) -> Connected:
    return Connected(
        protocol=2, version="1", board=name, instance=name, session=(start, 1), connected=True,
        settled=True, since=0.0, clients=clients, host="h",
    )  # fmt: skip


def current(round_number: int, **more: Any) -> CurrentRound:
    fields = {"safe": (), "measured": (), "accepted": {}, "incarnation": 1, **more}
    return CurrentRound(run="r", round=round_number, **fields)


def test_a_board_has_work_until_its_clients_updates_and_counts_are_confirmed() -> None:
    outlook = Outlook()
    outlook.note(board("b1", 0), 1.0)
    outlook.note(board("b2", 1), 1.0)
    assert outlook.has_work("b1"), "who knows"
    outlook.note(current(1), 2.0)
    outlook.note(Selected(run="r", round=1, clients=(0, 1), testers=(1,)), 2.0)
    outlook.note(current(1, safe=(0, 1)), 3.0)
    assert not outlook.has_work("b1")
    assert outlook.has_work("b2")
    outlook.note(current(1, safe=(0, 1), measured=(1,)), 4.0)
    assert not outlook.has_work("b2")


def test_work_is_seen_apart_from_signs_of_life_and_a_new_start_forgets_both() -> None:
    outlook = Outlook()
    outlook.note(board("b1", 0), 1.0)
    outlook.note(Info(run="r", round=1, client=0, board="b1", state="training"), 2.0)
    counts = {"G": counted(1, 2)}
    outlook.note(ClientMetrics(run="r", round=1, client=0, own=counts), 3.0)  # type: ignore[arg-type]
    outlook.note(board("b1", 0), 4.0)
    assert (outlook.seen["b1"].seen, outlook.seen["b1"].worked) == (4.0, 3.0)
    outlook.note(board("b1", 0, start=2), 5.0)
    assert (outlook.seen["b1"].seen, outlook.seen["b1"].worked) == (5.0, 0.0)
    assert outlook.starts == {"b1": 2}


def test_a_phase_too_short_to_be_seen_is_reached_with_the_next_round() -> None:
    outlook = Outlook()
    outlook.note(current(1), 1.0)
    assert (1, "update") not in outlook.reached
    outlook.note(current(2), 2.0)
    assert {(1, "training"), (1, "update"), (1, "safe"), (2, "open")} <= outlook.reached
