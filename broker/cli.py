"""fl-broker: run the broker, and say who may use it."""

from __future__ import annotations

import os
from pathlib import Path

import click

from broker.accounts import account_names, add_account, remove_account
from broker.config import BrokerConfig, is_loopback
from broker.process import Broker, mosquitto_version
from broker.supervisor import supervise
from common.cli import Commands, log_options, set_up_logging, version_option
from common.errors import UsageError


def _state_folder() -> Path:
    named = Path(os.environ.get("XDG_STATE_HOME", ""))
    state = named if named.is_absolute() else Path.home() / ".local" / "state"
    return state / "fedbed" / "broker"


_folder = click.option(
    "--folder",
    type=click.Path(file_okay=False, path_type=Path),
    default=_state_folder,
    show_default="~/.local/state/fedbed/broker",
    help="Where the broker keeps its state, its log and its accounts.",
)


@click.group(cls=Commands)
@version_option()
def main() -> None:
    """Run the MQTT broker of a testbed (Mosquitto), and say who may use it.

    \b
    Example:
      fl-broker up
    """


@main.command()
@click.option("--listen", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", type=int, default=1883, show_default=True, help="Port to listen on.")
@_folder
@log_options
def up(
    listen: str, port: int, folder: Path, verbose: int, quiet: bool, log_format: str
) -> None:
    """Run the broker until Ctrl-C or SIGTERM; it is started again when it dies.

    On a loopback address everybody on this machine may use it. Boards elsewhere need another
    address, such as 0.0.0.0; then everybody needs an account.

    \b
    Examples:
      fl-broker up
      fl-broker account board && fl-broker up --listen 0.0.0.0
    """
    set_up_logging(-1 if quiet else verbose, log_format)
    remote = not is_loopback(listen)
    config = BrokerConfig(address=listen, port=port, accounts=remote)
    if remote and not account_names(folder):
        raise UsageError(
            f"{listen} can be reached from other machines and there is no account in {folder}; "
            f"make one first: fl-broker account NAME"
        )
    broker = Broker(config, folder)
    version = mosquitto_version(broker.program)
    supervise(
        broker,
        lambda: click.echo(
            f"broker ready on {listen}:{port} (mosquitto {version}, folder {broker.folder})"
        ),
    )


@main.command()
@click.argument("name")
@_folder
def account(name: str, folder: Path) -> None:
    """Make account NAME with a random password; a running broker knows it at once.

    One account may serve the server and another all boards.

    \b
    Example:
      fl-broker account board
    """
    credentials = add_account(folder, name)
    click.echo(f"credentials of {name}: {credentials}")
    click.echo("copy the file to where it is needed, then:")
    click.echo(f"  fl-client run --credentials {credentials.name} ...")
    click.echo(f"  fl-server run --credentials {credentials.name} ...")


@main.command()
@_folder
def accounts(folder: Path) -> None:
    """List the accounts, one name per line.

    \b
    Example:
      fl-broker accounts
    """
    for name in account_names(folder):
        click.echo(name)


@main.command()
@click.argument("name")
@_folder
def revoke(name: str, folder: Path) -> None:
    """End account NAME; a running broker disconnects whoever uses it.

    \b
    Example:
      fl-broker revoke board
    """
    remove_account(folder, name)
    click.echo(f"account {name} is gone")
