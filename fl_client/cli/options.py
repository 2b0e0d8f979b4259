"""Options for all commands of fl-client: which board this is, and where its broker is."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from common.access.credentials import Credentials, board_of, clients_of, reach
from common.ids import check_name
from fl_client.hardware.capacity import memory_for_each, usual_workers
from fl_client.settings import Settings

MEGABYTE = 1 << 20
F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS = (
    click.option("--credentials", type=click.Path(path_type=Path), metavar="FILE",
                 help="This board's bundle, made by 'fl-broker enroll'; has the rest."),
    click.option("--broker", metavar="HOST[:PORT]|auto",
                 help="Where the MQTT broker is; auto: look for the one of the credentials in "
                 "the local network.  [default: 127.0.0.1]"),
    click.option("--board", metavar="NAME",
                 help="Name of this board.  [default: the host name]"),
    click.option("--clients", metavar="IDS",
                 help="The clients to simulate, such as 0,1,2 or 0-9."),
    click.option("--state", type=click.Path(path_type=Path), metavar="DIR",
                 help="Where state is kept.  [default: ~/.local/state/fedbed/BOARD]"),
    click.option("--workers", type=click.IntRange(1, 64),
                 help="Training processes that work side by side.  [default: one per core, as "
                 "far as memory and clients reach]"),
    click.option("--data", type=click.Path(path_type=Path), metavar="FOLDER",
                 help="Where this board's own data is, for data.partition = \"local\"."),
    click.option("--class-counts", is_flag=True,
                 help="Allow that the coordinator learns the sizes of the classes in it."),
    click.option("--code", type=click.Path(path_type=Path, file_okay=False), metavar="DIR",
                 help="Where this board has the users' own algorithms and models."),
    click.option("--memory", type=click.IntRange(200), metavar="MB",
                 help="Most memory of one training process.  [default: what is available, "
                 "shared among them]"),
    click.option("--federation", help="First level of all topics.  [default: fl]"),
)  # fmt: skip


def board_options(function: F) -> F:
    """All of them as one decorator; `settings_from` takes what they give."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def settings_from(
    *,
    credentials: Path | None,
    broker: str | None,
    board: str | None,
    clients: str | None,
    state: Path | None,
    workers: int | None,
    data: Path | None,
    class_counts: bool,
    code: Path | None,
    memory: int | None,
    federation: str | None,
) -> Settings:
    """The settings these options mean."""
    reached = reach(broker, credentials, federation, "board")
    name = check_name(board_of(reached, board, credentials) or host_name(), "--board")
    ids = clients_of(reached, clients, credentials)
    return Settings(
        address=reached.address,
        board=name,
        clients=ids,
        state=state_folder(state=state, board=name),
        federation=reached.federation,
        workers=(many := workers or usual_workers(len(ids))),
        memory=memory * MEGABYTE if memory is not None else memory_for_each(many),
        data=_data(data, reached.credentials),
        class_counts=class_counts,
        code=code and code.absolute(),
    )


def _data(given: Path | None, credentials: Credentials | None) -> Path | None:
    if given is None and credentials is not None and credentials.data:
        given = Path(credentials.data)
    return None if given is None else given.expanduser().absolute()


def host_name() -> str:
    """What a board is called that was given no name."""
    return re.sub(r"[^A-Za-z0-9_.-]", "-", platform.node()) or "board"


def state_folder(*, state: Path | None, board: str | None, **_: object) -> Path:
    """Where state is kept."""
    home = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return (state or Path(home) / "fedbed" / (board or host_name())).absolute()
