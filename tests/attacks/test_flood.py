"""A hundred thousand hostile messages change nothing; a million: `tests/attacks/flood.py`.

Their values come from the message types themselves, so a new field is covered at once.
"""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import msgspec
import pytest

from common.wire.messages import Chunk, Info, Message
from fl_server.reports.build import write_report
from fl_server.reports.groups import group_runs
from fl_server.reports.runs import read_run
from tests.attacks.extremes import Hostile, known_fields
from tests.attacks.flood import flood, no_errors
from tests.attacks.flooded_run import RunFlood
from tests.attacks.type_values import KINDS, NUMBERS, sites

PARTS = 4
MESSAGES = 100_000
GROWTH = 250_000_000


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("part", range(PARTS))
def test_a_hundred_thousand_hostile_messages_change_nothing(tmp_path: Path, part: int) -> None:
    """In parts, side by side; the run and the board are killed and resumed in every part."""
    outcome = flood(tmp_path, MESSAGES // PARTS, part)
    assert outcome.messages >= MESSAGES // PARTS
    assert outcome.updates > MESSAGES // PARTS // 20
    assert outcome.growth < GROWTH


@pytest.mark.slow
def test_updates_that_are_extreme_but_valid_leave_a_run_that_can_be_read(
    tmp_path: Path,
) -> None:
    """Bounds exactly, in every field of updates that are used: credible lies, but no harm."""
    with no_errors():
        run = RunFlood(tmp_path, 11, poisoned=False)
        run.play(2_000)
    groups = group_runs([read_run(run.stage.store.folder, None)])
    assert write_report(tmp_path / "report", groups, None, "today").exists()


def test_every_field_of_every_type_gets_every_extreme_value() -> None:
    assert {*get_args(Message)} - {Chunk} < {*KINDS}
    for kind in KINDS:
        names = {site.path[0] for site in sites(kind)}
        assert names == {*kind.__struct_encode_fields__}, kind
        assert all(set(NUMBERS) <= {*site.tokens} for site in sites(kind))
    hostile = Hostile(0)
    for _ in range(5000):
        hostile.message(Info, known_fields("r", 1, 2, "b"))
    assert {path for _, path in hostile.covered} == {site.path for site in sites(Info)}


def test_a_new_field_is_covered_without_anybody_thinking_of_it() -> None:
    class Newer(Info, frozen=True, kw_only=True):
        volume: int = 0
        inside: dict[str, tuple[Info, ...]] = {}  # noqa: RUF012 - copied

    new = {site.path for site in sites(Newer)} - {site.path for site in sites(Info)}
    assert {("volume",), ("inside",), ("inside", "x", 0, "telemetry", "watts")} <= new
    hostile, seen = Hostile(1), set[str]()
    expected = {"0", "-1", "missing", str(2**63), "None", "[]"}
    for _ in range(40_000):
        if expected <= seen:
            return
        body = hostile.message(Newer, {})
        try:
            seen.add(str(msgspec.json.decode(body).get("volume", "missing"))[:20])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            continue
    assert expected <= seen
