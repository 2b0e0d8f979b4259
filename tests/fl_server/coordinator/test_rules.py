"""Rules of selection from end to end: what a round tells of its clients, the next one uses."""

from __future__ import annotations

from pathlib import Path

import pytest

from common.errors import FedbedError
from common.plugins import use_code
from fl_server.run.store import RunStore
from tests.fl_server.coordinator.test_virtual import SLOW, simulated
from tests.fl_server.fleet.fleets import fleet_of, group

MIXED = fleet_of(group("fast", boards=2), group("slow", boards=2, hardware=SLOW))
HALF = {"rate": 0.5}
MORE = {"rounds": 6}


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["power-of-choice", "speed", "round-robin"])
def test_a_rule_selects_the_same_clients_again(tmp_path: Path, rule: str) -> None:
    first, second = (
        simulated(tmp_path, name, MIXED, experiment=MORE, selection={**HALF, "rule": rule})
        for name in ("one", "two")
    )
    assert first == second
    plain = simulated(tmp_path, "plain", MIXED, experiment=MORE, selection=HALF)
    assert [x["clients"] for x in plain[1][1:]] != [x["clients"] for x in first[1][1:]]


@pytest.mark.slow
def test_what_is_known_is_kept_with_a_checkpoint(tmp_path: Path) -> None:
    simulated(tmp_path, "run", MIXED, selection={"rule": "speed"})
    found = RunStore(tmp_path / "run").load_checkpoint()
    assert found is not None
    known = found[1].known
    assert set(known) == {0, 1, 2, 3}
    assert all(one.samples > 0 and one.loss is not None for one in known.values())
    assert known[3].seconds is not None
    assert known[0].seconds is not None
    assert known[3].seconds > known[0].seconds


@pytest.mark.slow
def test_a_rule_of_ones_own_selects_and_its_mistakes_are_sentences(tmp_path: Path) -> None:
    text = """
def last(candidates, wanted, rng):
    return [one.client for one in candidates[-wanted:]]

def wrong(candidates, wanted, rng):
    return [one.nonsense for one in candidates]
"""
    (tmp_path / "my_rules.py").write_text(text)
    use_code(tmp_path)
    own = {**HALF, "rule": "my_rules.py:last"}
    _, lines = simulated(tmp_path, "own", MIXED, selection=own)
    assert all(line["clients"] == [2, 3] for line in lines[1:])
    wrong = {**HALF, "rule": "my_rules.py:wrong"}
    with pytest.raises(FedbedError, match=r"my_rules.py:6") as caught:
        simulated(tmp_path, "wrong", MIXED, selection=wrong)
    assert "\n" not in str(caught.value)
