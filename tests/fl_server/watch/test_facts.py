"""Facts as lines of events.jsonl: what was written is read, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

from common.errors import StoreError
from fl_server.reports.runs import read_events, read_metrics
from fl_server.watch import facts
from fl_server.watch.facts.lines import MetricsLine, parse_lines
from fl_server.watch.facts.making import encode, evaluated, is_kept, kind_of, parse, stamped

OLD: list[dict[str, Any]] = [  # as they have always been written
    {"event": "started", "run": "r.1", "folder": "runs/r", "rounds": 2, "done": 0, "safe": [],
     "participants": 3, "incarnation": 1, "time": 1.0},
    {"event": "waiting", "text": "waiting for boards with clients 0-2", "missing": [0, 1, 2],
     "time": 1.5},
    {"event": "waiting", "text": "round 1 waits", "board": "", "client": None, "time": 1.6},
    {"event": "connected", "text": "board b1: clients 0", "board": "b1", "client": None,
     "time": 2.0},
    {"event": "round_opened", "round": 1, "selected": [0, 1], "testers": [0], "time": 3.0},
    {"event": "trained", "board": "b1", "client": 0, "round": 1, "seconds": 1, "samples": 9,
     "time": 3.5},
    {"event": "evaluated", "round": 0, "accuracy_global": 0.1, "accuracy_l1": None,
     "accuracy_l2": None, "mean_l1": None, "union_l1": None, "rho_l1": None, "mean_l2": None,
     "union_l2": None, "rho_l2": None, "tested_clients": 2, "tested_samples": 40, "time": 4.0},
    {"event": "round_closed", "round": 1, "train_loss": None, "updates": 1, "clients": [0],
     "dropped": [1], "samples": 9, "values": {"x": 1.0}, "seconds": 2.0, "train_seconds": 1.0,
     "aggregate_seconds": 0.1, "bytes_up": 10, "bytes_down": 20, "energy_joules": None,
     "time": 5.0},
    {"event": "refused", "board": "b1", "count": 2, "kinds": {"info: x": 2}, "time": 6.0},
    {"event": "interrupted", "time": 7.0},
]  # fmt: skip


@pytest.mark.parametrize("record", OLD, ids=lambda record: record["event"])
def test_a_line_of_any_version_is_read_and_keeps_its_keys(
    record: dict[str, Any],
) -> None:
    fact = parse(record)
    assert kind_of(fact) == record["event"]
    again = msgspec.json.decode(encode(fact))
    assert record.items() <= again.items()
    assert again.keys() - record.keys() <= {"board", "client", "main"}


def test_unknown_kinds_and_keys_are_refused_with_their_place(
    tmp_path: Path,
) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text('{"event":"interrupted","time":1.0}\n{"event":"exploded","time":2.0}\n')
    with pytest.raises(StoreError, match=r"events\.jsonl, line 2: Invalid value 'exploded'"):
        read_events(path)
    path.write_text('{"event":"start","text":"t","texx":"t","time":2.0}\n')
    with pytest.raises(StoreError, match=r"line 1: .*texx"):
        read_events(path)
    path.write_text('{"round":"three"}\n')
    with pytest.raises(StoreError, match="Expected `int`"):
        read_metrics(path)


def test_every_kind_is_kept_or_shown_and_none_is_both() -> None:
    kept, shown = set(get_args(facts.Kept)), set(get_args(facts.Shown))
    assert kept.isdisjoint(shown)
    assert kept | shown == set(get_args(facts.Fact))
    assert len(facts.KINDS) == len(kept | shown), "two kinds have the same name"
    assert is_kept(facts.Refused("b", 1, {}))
    assert not is_kept(facts.RefusedSoFar("b", 1, {}))


def test_a_fact_has_the_time_of_its_report_as_the_last_key() -> None:
    fact = stamped(facts.Back("board b is back", "b"), 12.34567)
    assert encode(fact).endswith(b'"time":12.346}')
    line = stamped(evaluated({"round": 1, "time": 5.0}), 9.0)
    assert line.time == 9.0


def test_a_line_of_metrics_keeps_apart_what_is_unknown_and_what_is_null() -> None:
    (line,) = parse_lines([{"round": 1, "train_loss": None, "updates": 2}])
    assert line == MetricsLine(1, train_loss=None, updates=2)
    assert msgspec.to_builtins(line).keys() >= {"round", "train_loss", "updates"}
    assert "seconds" not in msgspec.to_builtins(line)
