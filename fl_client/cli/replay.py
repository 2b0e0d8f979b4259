"""fl-client replay: the recorded events of a daemon once more through its agent."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import click

from common.disk.recording import Machine, replay
from common.ids import show_ids
from fl_client.agent.machine import step
from fl_client.agent.state import Event, Policy, State


def summary(state: State) -> tuple[str, ...]:
    """Where the board stands."""
    work = state.work
    if work is None:
        wanted = state.detail.run if state.detail is not None else ""
        return (f"preparing run {state.opening}" if state.opening else f"no run {wanted}",)
    current = state.current.get(work.run)
    where = f"round {current.round}" if current is not None else "no round yet"
    running = ", ".join(f"{job.kind} client {job.client}" for job in work.jobs) or "nothing"
    snapshots = (
        f"client {client_id} has {show_ids(sorted(rounds))}"
        for client_id, rounds in sorted(work.snapshots.items())
    )
    return (
        f"run {work.run}, {where}; running: {running}",
        f"snapshots of rounds: {'; '.join(snapshots) or 'none'}",
    )


AGENT: Machine[Policy, State, Event] = Machine(Policy, State, get_args(Event), step, summary)


@click.command(name="replay")
@click.argument("file", type=click.Path(path_type=Path))
def replay_agent(file: Path) -> None:
    """Show each decision of a daemon that was recorded with 'fl-client run --record FILE'.

    Feeds the events to the same state machine: one line per event, its actions indented, and at
    the end where the board stood. Exit code 1, with the number of the line, if the machine
    fails.

    \b
    Example: fl-client replay board.events
    """
    for line in replay(file, AGENT):
        click.echo(line)
