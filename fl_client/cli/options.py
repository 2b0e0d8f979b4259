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
from fl_client.hardware.capacity import usual_workers
from fl_client.settings import Settings

F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS = (
    click.option("--credentials", type=click.Path(path_type=Path), metavar="FILE",
                 help="This board's bundle, made by 'fl-broker enroll'; has the rest."),
    click.option("--broker", metavar="HOST[:PORT]",
                 help="Where the MQTT broker is.  [default: 127.0.0.1]"),
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
    federation: str | None,
) -> Settings:
    """The settings these options mean."""
    reached = reach(broker, credentials, federation, "board")
    name = check_name(board_of(reached, board, credentials) or _host_name(), "--board")
    ids = clients_of(reached, clients, credentials)
    return Settings(
        address=reached.address,
        board=name,
        clients=ids,
        state=(state or _default_state() / name).absolute(),
        federation=reached.federation,
        workers=workers or usual_workers(len(ids)),
        data=_data(data, reached.credentials),
        class_counts=class_counts,
        code=code and code.absolute(),
    )


def _data(given: Path | None, credentials: Credentials | None) -> Path | None:
    if given is None and credentials is not None and credentials.data:
        given = Path(credentials.data)
    return None if given is None else given.expanduser().absolute()


def _host_name() -> str:
    return re.sub(r"[^A-Za-z0-9_.-]", "-", platform.node()) or "board"


def _default_state() -> Path:
    home = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(home) / "fedbed"
