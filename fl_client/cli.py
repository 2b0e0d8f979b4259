"""fl-client: the daemon that runs on every board."""

from __future__ import annotations

import os
import platform
import re
import signal
from pathlib import Path

import click

from common.cli import Commands, set_up_logging, version_option
from common.credentials import board_of, clients_of, reach
from common.ids import check_name
from common.storage import FolderLock
from fl_client.identity import next_identity
from fl_client.service import Daemon, Settings, check_broker


@click.group(cls=Commands)
@version_option()
def main() -> None:
    """The board side of fedbed: simulates federated-learning clients on this machine.

    \b
    Example: fl-client run --credentials pi-1.toml
    """


@main.command()
@click.option("--credentials", type=click.Path(path_type=Path), metavar="FILE",
              help="This board's bundle, made by 'fl-broker enroll'.")  # fmt: skip
@click.option("--broker", metavar="HOST[:PORT]",
              help="Where the MQTT broker is.  [default: 127.0.0.1]")  # fmt: skip
@click.option("--board", metavar="NAME", help="Name of this board.  [default: the host name]")
@click.option("--clients", metavar="IDS",
              help="The clients to simulate, such as 0,1,2 or 0-9.")  # fmt: skip
@click.option("--state", type=click.Path(path_type=Path), metavar="DIR",
              help="Where state is kept.  [default: ~/.local/state/fedbed/BOARD]")  # fmt: skip
@click.option("--workers", type=click.IntRange(1, 64), default=1, show_default=True,
              help="Training processes that work side by side.")  # fmt: skip
@click.option("--federation", help="First level of all topics.  [default: fl]")
@click.option("-v", "--verbose", count=True, help="Log every message.")
@click.option("-q", "--quiet", is_flag=True, help="Log only warnings.")
def run(
    credentials: Path | None,
    broker: str | None,
    board: str | None,
    clients: str | None,
    state: Path | None,
    workers: int,
    federation: str | None,
    verbose: int,
    quiet: bool,
) -> None:
    """Wait for experiments and take part in them, for ever.

    Runs until Ctrl-C or SIGTERM. What the clients know is kept in the state folder, so a
    daemon that was killed goes on where it was.

    \b
    Example: fl-client run --credentials pi-1.toml
    Example: fl-client run --board pi-1 --clients 0-2
    """
    set_up_logging(-1 if quiet else verbose)
    reached = reach(broker, credentials, federation, "board")
    name = check_name(board_of(reached, board, credentials) or _host_name(), "--board")
    settings = Settings(
        address=reached.address,
        board=name,
        clients=clients_of(reached, clients, credentials),
        state=(state or _default_state() / name).absolute(),
        federation=reached.federation,
        workers=workers,
    )
    with FolderLock(settings.state, f"the daemon of board {name!r}"):
        daemon = Daemon(settings, next_identity(settings.state))
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: daemon.stop())
        check_broker(settings.address)
        daemon.run()


def _host_name() -> str:
    return re.sub(r"[^A-Za-z0-9_.-]", "-", platform.node()) or "board"


def _default_state() -> Path:
    home = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(home) / "fedbed"
