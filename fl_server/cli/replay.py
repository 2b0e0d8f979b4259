"""fl-server replay: a recorded run through the round machine again, each decision shown."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import click

from common.disk.recording import Machine, replay
from common.ids import show_ids
from fl_server.rounds import machine
from fl_server.rounds.state import Event, Policy, State


def summary(state: State) -> tuple[str, ...]:
    """Where the run stands."""
    boards = (
        f"  board {name}: {'lost' if board.lost_at is not None else 'present'}, "
        f"clients {show_ids(board.clients)}"
        for name, board in sorted(state.boards.items())
    )
    return (f"after {state.done} rounds: {state.phase}", *boards)


ROUNDS: Machine[Policy, State, Event] = Machine(
    Policy, State, get_args(Event), machine.step, summary
)


@click.command(name="replay")
@click.argument("file", metavar="RECORDING", type=click.Path(path_type=Path))
def replay_run(file: Path) -> None:
    """Show what the coordinator decided, event by event, from a file written by --record.

    Every line is an event; the actions that it caused are indented below it.

    \b
    Example: fl-server lab examples/demo.toml --record run.events
    Example: fl-server replay run.events
    """
    for line in replay(file, ROUNDS):
        click.echo(line)
