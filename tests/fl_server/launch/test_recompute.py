"""A finished run, trained again by its own account of whose updates it has used."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from common.errors import UsageError
from common.experiment.file import parse_experiment
from fl_server.cli import main
from fl_server.coordinator.local_clients import make_local_clients
from fl_server.launch.recompute import recompute
from fl_server.run.store import RunStore, create_run
from tests.fl_server.coordinator.test_buffered import ASYNC, MIXED
from tests.fl_server.coordinator.test_virtual import simulated


def recomputed(folder: Path, name: str) -> tuple[str, str]:
    store = RunStore(folder / name)
    done = recompute(store, make_local_clients(1), folder / "shards")
    return done.found, done.expected


@pytest.mark.slow
def test_the_order_of_a_buffered_run_leads_to_its_model(tmp_path: Path) -> None:
    ended, _ = simulated(tmp_path, "run", MIXED, **ASYNC)
    assert recomputed(tmp_path, "run") == (ended, ended)


@pytest.mark.slow
def test_so_does_that_of_a_run_with_dropped_clients(tmp_path: Path) -> None:
    hasty = {"deadline": 1.5, "grace": 60.0}
    ended, lines = simulated(tmp_path, "run", MIXED, experiment=hasty)
    assert any(line.get("dropped") for line in lines)
    assert recomputed(tmp_path, "run") == (ended, ended)


@pytest.mark.slow
def test_an_account_that_is_not_true_leads_elsewhere(tmp_path: Path) -> None:
    simulated(tmp_path, "run", MIXED, **ASYNC)
    path = tmp_path / "run" / "metrics.jsonl"
    text = path.read_text()
    changed = re.sub(r'"staleness":\[(\d+),[1-9]\]', r'"staleness":[\1,0]', text, count=1)
    assert changed != text
    path.write_text(changed)
    (tmp_path / "shards").rename(tmp_path / ".shards")
    said = CliRunner().invoke(main, ["recompute", "run", "--runs", str(tmp_path)])
    assert said.exit_code == 1
    assert "but the run ended with" in said.output


def test_a_run_that_is_not_finished_is_refused(tmp_path: Path) -> None:
    store = create_run(tmp_path, "run", parse_experiment({"data": {"clients": 4}}))
    with pytest.raises(UsageError, match="not finished"):
        recompute(store, make_local_clients(1), tmp_path / "shards")


def test_clients_that_keep_a_state_are_refused(tmp_path: Path) -> None:
    table = {"data": {"clients": 4}, "algorithm": {"name": "fedper"}}
    store = create_run(tmp_path, "run", parse_experiment(table))
    store.mark_finished()
    with pytest.raises(UsageError, match="whose clients keep nothing"):
        recompute(store, make_local_clients(1), tmp_path / "shards")
