"""Fault scripts: what they say, what is drawn, what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.errors import ConfigError
from fl_server.lab.fault_script import (
    TARGETS,
    Fault,
    RandomFaults,
    Script,
    aimed,
    drawn,
    parse_script,
)
from fl_server.watch.recovery import recoveries

BOARDS = ("b1", "b2", "b3")


def test_a_script_is_read_as_it_is_written() -> None:
    table = {
        "seed": 7,
        "fault": [{"kind": "kill", "target": "server", "round": 2, "phase": "update"}],
        "random": {"count": 3, "every": [1.0, 2.0], "kinds": ["cut"]},
    }
    script = parse_script(table, BOARDS)
    assert script.fault == (Fault(kind="kill", target="server", round=2, phase="update"),)
    assert script.random == RandomFaults(count=3, every=(1.0, 2.0), kinds=("cut",))


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"fault": [{"kind": "explode"}]}, "fault[0].kind: Invalid enum value 'explode'"),
        ({"fault": [{"kind": "kill", "targt": "b1"}]}, "did you mean 'target'?"),
        (
            {"fault": [{"kind": "kill", "target": "b9"}]},
            "wants server, broker, board, b1, b2, b3",
        ),
        ({"fault": [{"kind": "cut", "target": "server"}]}, "cut wants board, b1"),
        ({"fault": [{"kind": "wipe", "target": "b1"}]}, "wipe wants broker"),
        ({"random": {"count": -1}}, "random.count: Expected `int` >= 0"),
        ({"fault": [{"target": "b1"}]}, "missing required field `kind`"),
    ],
)
def test_a_wrong_script_is_refused_with_the_place(table: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_script(table, BOARDS)
    assert words in str(caught.value)


@given(seed=st.integers(0, 1000), count=st.integers(0, 30))
def test_what_is_drawn_depends_on_the_seed_only_and_hits_who_can_be_hit(
    seed: int, count: int
) -> None:
    script = Script(seed=seed, random=RandomFaults(count=count))
    first, second = list(drawn(script, BOARDS)), list(drawn(script, BOARDS))
    assert first == second
    assert len(first) == count
    for wait, fault in first:
        assert 1.0 <= wait <= 3.0
        assert 0.0 <= fault.seconds <= 2.0
        kind = fault.target if fault.target in ("server", "broker") else "board"
        assert kind in TARGETS[fault.kind]
        assert fault.target != "board"


def test_every_kind_comes_up_sooner_or_later() -> None:
    script = Script(random=RandomFaults(count=200))
    assert {fault.kind for _, fault in drawn(script, BOARDS)} == set(TARGETS)


def test_any_board_becomes_one_board() -> None:
    fault = Fault(kind="cut")
    found = {aimed(fault, BOARDS, 1, number).target for number in range(50)}
    assert found == set(BOARDS)
    exact = Fault(kind="cut", target="b2")
    assert aimed(exact, BOARDS, 1, 1) is exact


def test_recoveries_are_grouped_by_kind_and_kind_of_target() -> None:
    found = [
        ("kill", "b1", 1.0),
        ("kill", "b2", 2.0),
        ("kill", "b3", 3.0),
        ("kill", "server", 4.0),
    ]
    rows = [(r.kind, r.target, r.count, r.median, r.worst) for r in recoveries(found)]
    assert rows == [("kill", "board", 3, 2.0, 3.0), ("kill", "server", 1, 4.0, 4.0)]
