"""A recorded run through the round machine again."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from common.disk.recording import Recorder, Start, Torn, read
from fl_server.cli import main
from fl_server.cli.replay import ROUNDS
from fl_server.coordinator.service import Coordinator
from fl_server.rounds import machine
from fl_server.rounds.state import Event, Policy, State
from fl_server.run.store import RunStore
from tests.fl_server.coordinator.scripted import Stage
from tests.memory_broker import Killed, MemoryLink


def recorded(stage: Stage, path: Path, *, kill_after: int | None = None) -> Coordinator:
    """Play a run (or until it is killed) while every event is recorded."""
    link = MemoryLink(stage.broker)
    recorders: list[Recorder] = []

    def start(policy: Policy, state: State) -> Callable[[Event], None]:
        recorders.append(Recorder(path, policy, state))
        return recorders[-1].write

    coordinator = Coordinator(
        RunStore(stage.store.folder),
        link,
        federation="fl",
        observe=stage.reported.append,
        background=lambda work: work(),
        clock=stage.broker.clock,
        record=start,
    )
    coordinator.open()
    if kill_after is None:
        stage.play(coordinator)
    else:
        link.kill_after(kill_after)
        with pytest.raises(Killed):
            stage.play(coordinator)
        coordinator.conductor.aggregator.close()
    recorders[0].close()
    return coordinator


def last_state(path: Path) -> State:
    now: State | None = None
    policy = None
    for _, item in read(path, ROUNDS):
        assert not isinstance(item, Torn)
        if isinstance(item, Start):
            policy, now = item.policy, item.state
        else:
            assert policy is not None
            assert now is not None
            now, _ = machine.step(policy, now, item)
    assert now is not None
    return now


def test_a_recording_replays_to_the_state_that_the_coordinator_had(tmp_path: Path) -> None:
    stage, path = Stage(tmp_path / "runs"), tmp_path / "run.events"
    killed = recorded(stage, path, kill_after=60)
    assert last_state(path) == killed.conductor.state
    ended = recorded(stage, path)
    assert last_state(path) == ended.conductor.state
    result = CliRunner().invoke(main, ["replay", str(path)])
    assert result.exit_code == 0, result.output
    assert result.output.count("started (fedbed") == 2
    assert "    Close(round_number=1" in result.output
    assert "after 2 rounds: Finished" in result.output


def test_a_file_that_is_no_recording_is_named(tmp_path: Path) -> None:
    path = tmp_path / "x.events"
    path.write_text('{"start": 1}\nnonsense\n{}\n')
    result = CliRunner().invoke(main, ["replay", str(path)])
    assert result.exit_code != 0
    assert str(path) in result.output
    assert "Traceback" not in result.output


def test_a_policy_survives_the_file(tmp_path: Path) -> None:
    stage, path = Stage(tmp_path / "runs"), tmp_path / "run.events"
    coordinator = recorded(stage, path)
    starts = [item for _, item in read(path, ROUNDS) if isinstance(item, Start)]
    assert starts[0].policy == coordinator.conductor.policy
    assert dataclasses.asdict(starts[0].policy)["grace"] == float("inf")
