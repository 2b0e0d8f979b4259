from __future__ import annotations

import pytest

from fl_server.watch import facts
from fl_server.watch.facts import Fact
from fl_server.watch.view import View
from fl_server.watch.waiting import waits_for
from tests.fl_server.watch.some_facts import described, present

HERE = (described(), present("b1", (0, 1), 1.0), present("b2", (2,), 1.0))
OPENED = facts.RoundOpened(1, (0, 1, 2), (), time=2.0)
UPDATES = tuple(facts.Update(client, 1, time=3.0) for client in range(3))


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (HERE, "waits for boards to register"),
        ((*HERE, OPENED), "waits for 3 of 3 updates: b1 (clients 0-1), b2 (client 2)"),
        ((*HERE, OPENED, *UPDATES[:2]), "waits for 1 of 3 updates: b2 (client 2)"),
        (
            (*HERE, OPENED, *UPDATES[:2], present("b2", (2,), 4.0, here=False)),
            "waits for 1 of 3 updates: b2 (client 2, lost)",
        ),
        ((*HERE, OPENED, *UPDATES), "aggregates the updates"),
        (
            (*HERE[:2], OPENED, *UPDATES[:2]),
            "waits for 1 of 3 updates: boards that are not here (client 2)",
        ),
        (
            (*HERE, OPENED, facts.Paused("paused", at_rest=True)),
            "paused until somebody lets it go on",
        ),
        ((*HERE, OPENED, facts.Finished("the end")), ""),
        (
            (
                *HERE,
                facts.RoundOpened(2, (), (0, 1, 2)),
                facts.Tested(0, 2),
                facts.Tested(1, 2),
            ),
            "waits for 1 of 3 tests: b2 (client 2)",
        ),
    ],
)
def test_what_a_round_waits_for_is_said_in_words(found: tuple[Fact, ...], words: str) -> None:
    view = View()
    for fact in found:
        view = view.after(fact)
    assert waits_for(view) == words


def test_of_many_boards_some_are_named() -> None:
    view = View().after(described())
    for number in range(9):
        view = view.after(present(f"b{number}", (number,), 1.0))
    view = view.after(facts.RoundOpened(1, tuple(range(9)), (), time=2.0))
    assert waits_for(view).endswith("b3 (client 3) and 5 more boards")
