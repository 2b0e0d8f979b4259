"""Rules of selection: by loss, by speed, board after board, and users' own."""

from __future__ import annotations

import dataclasses
from collections import Counter

import pytest

from common.errors import FedbedError
from common.rng import generator
from fl_server.rounds import machine as rounds
from fl_server.rounds.rules import (
    OWN,
    Candidate,
    by_speed,
    pick,
    power_of_choice,
    round_robin,
)
from fl_server.rounds.state import Aggregated, Board, Known, Policy, State
from tests.fl_server.rounds.round_machine import begun, patient

RNG = generator(1, "test")


def candidate(client: int, **known: object) -> Candidate:
    usual: dict[str, object] = {"board": f"b{client // 2}", "chance": 1.0, "samples": 10}
    usual |= {"loss": 1.0, "seconds": 1.0, "used": 0}
    return Candidate(client, **{**usual, **known})  # type: ignore[arg-type] # of a test


def test_power_of_choice_takes_those_with_the_highest_loss_of_some() -> None:
    by_loss = [candidate(client, loss=float(client)) for client in range(6)]
    assert power_of_choice(by_loss, 2, RNG) == [5, 4]  # three for each place: all are drawn
    many = [candidate(client, loss=float(client)) for client in range(100)]
    picked = Counter(c for _ in range(200) for c in power_of_choice(many, 5, RNG))
    assert sum(n for client, n in picked.items() if client >= 67) > 700


def test_who_was_never_used_comes_first() -> None:
    some = [candidate(0, loss=9.0), candidate(1, loss=None), candidate(2, loss=8.0)]
    assert power_of_choice(some, 2, RNG) == [1, 0]


def test_quick_clients_with_much_to_learn_are_preferred() -> None:
    some = [candidate(c, seconds=1.0 + 9.0 * (c >= 5), loss=1.0 + (c < 2)) for c in range(10)]
    picked = Counter(c for _ in range(100) for c in by_speed(some, 5, RNG))
    assert picked[0] == picked[1] == 100
    slow = sum(n for client, n in picked.items() if client >= 5)
    assert 0 < slow <= 100  # one of five places is drawn


def test_whom_nobody_knows_is_tried_first() -> None:
    some = [candidate(c, seconds=1.0 if c < 8 else None) for c in range(10)]
    assert set(by_speed(some, 5, RNG)) & {8, 9}
    unknown = [candidate(c, seconds=None) for c in range(4)]
    assert len(set(by_speed(unknown, 3, RNG))) == 3
    assert len(set(by_speed(some, 1, RNG))) == 1


def test_boards_take_turns_and_so_do_their_clients() -> None:
    some = [candidate(c, used=used) for c, used in enumerate((3, 0, 2, 1, 0, 0))]
    assert round_robin(some, 3, RNG) == [4, 3, 1]
    assert round_robin(some, 5, RNG) == [4, 3, 1, 5, 2]


STATE = State(
    rounds.start(incarnation=1, now=0.0).phase,
    boards={"a": Board("i", (1, 1), (0, 1)), "b": Board("j", (1, 1), (2, 3))},
    owned={0: "a", 1: "a", 2: "b", 3: "b"},
    accepted={0: 4, 2: 1},
    known={0: Known(10, 0.1, 1.0), 1: Known(10, 2.0, 9.0), 2: Known(10, 3.0, 1.0)},
)


def policy(rule: str) -> Policy:
    return dataclasses.replace(patient(), rule=rule)


@pytest.mark.parametrize("rule", ["random", "power-of-choice", "speed", "round-robin"])
@pytest.mark.parametrize("wanted", [1, 2, 3, 4, 9])
def test_every_rule_selects_as_many_as_are_wanted_and_the_same_again(
    rule: str, wanted: int
) -> None:
    first, again = (
        pick(policy(rule), STATE, clients, wanted, round_number=3)
        for clients in ((0, 1, 2, 3), (3, 2, 1, 0))
    )
    assert first == again == tuple(sorted(set(first)))
    assert len(first) == min(wanted, 4)


def test_rules_see_what_is_known() -> None:
    seen: list[Candidate] = []

    def own(candidates: list[Candidate], wanted: int, _rng: object) -> list[int]:
        seen.extend(candidates)
        return [one.client for one in candidates[:wanted]]

    OWN["x.py:own"] = own  # type: ignore[assignment] # a list is a sequence
    assert pick(policy("x.py:own"), STATE, (0, 2, 3), 2, round_number=3) == (0, 2)
    assert seen[0] == Candidate(0, "a", 1.0, 10, 0.1, 1.0, 4)
    assert seen[2] == Candidate(3, "b", 1.0, 0, None, None, 0)


@pytest.mark.parametrize("chosen", [[7, 8], [0], [0, 0], [0, 1, 2]])
def test_an_own_rule_that_selects_nonsense_ends_the_run_with_a_sentence(
    chosen: list[int],
) -> None:
    OWN["x.py:wrong"] = lambda *_: chosen
    with pytest.raises(FedbedError, match="expected 2 different ones"):
        pick(policy("x.py:wrong"), STATE, (0, 1, 2, 3), 2, round_number=1)


def test_the_machine_uses_the_rule_and_what_the_last_round_told() -> None:
    machine = begun(dataclasses.replace(patient(rate=0.25), rule="power-of-choice"))
    (first,) = machine.working.selected
    machine.store(first)
    machine.measure(0, 1, 2, 3)
    known = {client: Known(10, 0.1 * client, 1.0) for client in range(4)}
    machine.take(Aggregated(1, machine.now, known))
    assert machine.state.known == known
    (second,) = machine.working.selected
    assert second >= 2  # of three drawn the one with the highest loss
