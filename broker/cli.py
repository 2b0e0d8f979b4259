"""fl-broker: run the broker, and manage its accounts."""

from __future__ import annotations

import os
import sys
from contextlib import nullcontext
from pathlib import Path

import click

from broker.accounts import Enrolled, accounts, enroll, prepare_files, revoke
from broker.acl import Account
from broker.authority import ensure_certificate, read_certificate, renew_certificate
from broker.check import check
from broker.config import GUARDED_PORT, PLAIN_PORT, PRIVATE, BrokerConfig, is_loopback
from broker.limits import memory_bytes
from broker.process import Broker
from broker.program import mosquitto_version
from broker.public_address import (
    PublicAddress,
    read_public_address,
    with_names,
    write_public_address,
)
from broker.supervisor import supervise
from common.access.address import probe
from common.access.credentials import (
    DEFAULT_FEDERATION,
    Role,
    join_address,
    reach,
    split_address,
)
from common.access.discovery import AUTO, announcing
from common.access.tls import days_left
from common.disk.atomic import write_atomic
from common.errors import UsageError
from common.ids import parse_ids, show_ids
from common.install.kit import what_to_type, write_kit
from common.program.cli import Commands, log_options, set_up_logging, version_option


def _state_folder() -> Path:
    named = Path(os.environ.get("XDG_STATE_HOME", ""))
    state = named if named.is_absolute() else Path.home() / ".local" / "state"
    return state / "fedbed" / "broker"


_folder = click.option(
    "--folder",
    type=click.Path(file_okay=False, path_type=Path),
    default=_state_folder,
    show_default="~/.local/state/fedbed/broker",
    help="Where the broker keeps its state, its log, its accounts and its CA.",
)
_names = click.option(
    "--name", "names", multiple=True, metavar="HOST",
    help="Another name or address of this machine for the certificate (may be repeated).",
)  # fmt: skip


@click.group(cls=Commands)
@version_option()
def main() -> None:
    """Run the MQTT broker of a testbed (Mosquitto), and manage its accounts.

    \b
    Example:
      fl-broker up
    """


@main.command()
@click.option("--listen", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port", type=int, help=f"Port.  [default: {PLAIN_PORT}, with TLS {GUARDED_PORT}]"
)
@click.option("--announce", is_flag=True,
              help="Let boards find it by '--broker auto'; needs avahi.")  # fmt: skip
@_names
@_folder
@log_options
def up(
    listen: str,
    port: int | None,
    announce: bool,
    names: tuple[str, ...],
    folder: Path,
    verbose: int,
    quiet: bool,
    log_format: str,
) -> None:
    """Run the broker until Ctrl-C or SIGTERM; it is started again when it dies.

    On a loopback address every user of this machine may use it. Boards elsewhere need another
    address, such as 0.0.0.0; then everything is TLS, every client needs an account ('fl-broker
    enroll'), and the first start makes a private CA and a certificate.

    \b
    Examples:
      fl-broker up
      fl-broker up --listen 0.0.0.0
    """
    set_up_logging(-1 if quiet else verbose, log_format)
    guarded = not is_loopback(listen)
    usual = GUARDED_PORT if guarded else PLAIN_PORT
    config = BrokerConfig(
        address=listen,
        port=usual if port is None else port,
        guarded=guarded,
        max_memory_bytes=memory_bytes(),
    )
    if guarded:
        public = with_names(
            PublicAddress(listen, config.port, read_public_address(folder).names), names
        )
        ensure_certificate(folder, public.certified)
        write_public_address(folder, public)
        prepare_files(folder)
    elif announce:
        raise UsageError("--announce needs --listen with an address that others reach: 0.0.0.0")
    broker = Broker(config, folder)
    version = mosquitto_version(broker.program)
    ready = (
        f"broker ready on {listen}:{config.port}{' with TLS' if guarded else ''} "
        f"(mosquitto {version}, folder {broker.folder})"
    )
    with announcing(config.port) if announce else nullcontext():
        supervise(broker, lambda: click.echo(ready))


@main.command("enroll")
@click.argument("name")
@click.option("--clients", metavar="IDS", help="For a board: its clients, such as 0-2.")
@click.option("--coordinator", is_flag=True, help="For fl-server run.")
@click.option("--viewer", is_flag=True, help="For watching only; reads no weights.")
@click.option("--broker", metavar="HOST[:PORT]",
              help="How it reaches this machine, or auto.  [default: found out]")  # fmt: skip
@click.option("--federation", default=DEFAULT_FEDERATION, show_default=True,
              help="First level of all topics.")  # fmt: skip
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
              help="Write the bundle there as well, and for a board beside it "
              "fedbed-board.tar.gz, which it is installed from.")  # fmt: skip
@_folder
def enroll_command(
    name: str,
    clients: str | None,
    coordinator: bool,
    viewer: bool,
    broker: str | None,
    federation: str,
    output: Path | None,
    folder: Path,
) -> None:
    """Make the credentials bundle of board NAME: one file with all it needs to take part.

    A running broker knows the account at once. Enrolling again changes the clients or the
    address and keeps the password; the old bundle is then to be replaced by the new one.

    \b
    Examples:
      fl-broker enroll pi-1 --clients 0-2 -o pi-1.toml
      fl-broker enroll server --coordinator
      fl-broker enroll screen --viewer
    """
    if (clients is not None) + coordinator + viewer != 1:
        raise UsageError("expected one of --clients IDS, --coordinator and --viewer")
    ids = () if clients is None else parse_ids(clients)
    role: Role = "coordinator" if coordinator else "viewer" if viewer else "board"
    account = Account(name, role, federation, ids)
    enrolled = enroll(folder, account, _public_address(folder, broker))
    if output is not None:
        write_atomic(output, enrolled.bundle.read_bytes(), mode=PRIVATE)
    _report(account, enrolled, output)


def _public_address(folder: Path, broker: str | None) -> str:
    """The address for a bundle; the certificate is made to hold it."""
    public = read_public_address(folder)
    host, port = split_address(broker or public.public, public.port)
    if host == AUTO:
        return join_address(host, port)
    if host.lower() not in public.certified:
        public = with_names(public, (host,))
        write_public_address(folder, public)
    ensure_certificate(folder, public.certified)
    return join_address(host.lower(), port)


def _report(account: Account, enrolled: Enrolled, output: Path | None) -> None:
    bundle = output or enrolled.bundle
    what = f" with clients {show_ids(account.clients)}" if account.clients else ""
    did = "enrolled" if enrolled.changed else "unchanged:"
    click.echo(f"{did} {account.role} {account.name}{what}: {bundle}")
    if account.role == "board" and output is not None:
        write_kit(output.absolute().parent)
        click.echo(what_to_type(output, account.name))
    elif enrolled.changed:
        command = {
            "board": "fl-client run --credentials",
            "coordinator": "fl-server run EXPERIMENT.toml --credentials",
            "viewer": "fl-server watch --credentials",
        }[account.role]
        click.echo(f"copy the file to where it is needed, then: {command} {bundle.name}")


@main.command("boards")
@_folder
def boards_command(folder: Path) -> None:
    """List the accounts, and until when the certificate is valid.

    \b
    Example:
      fl-broker boards
    """
    rows = [("NAME", "ROLE", "FEDERATION", "CLIENTS")]
    for one in accounts(folder):
        clients = show_ids(one.clients) if one.clients else "-"
        rows.append((one.name, one.role, one.federation, clients))
    widths = [max(len(row[at]) for row in rows) for at in range(4)]
    for row in rows:
        columns = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        click.echo("  ".join(columns).rstrip())
    certificate = read_certificate(folder)
    if certificate is None:
        click.echo("no certificate yet")
        return
    for what, end in (("certificate", certificate.end), ("CA", certificate.ca_end)):
        click.echo(f"{what} valid until {end:%Y-%m-%d} ({days_left(end)} days)")
    click.echo(f"certificate is for {', '.join(certificate.names)}")


@main.command("revoke")
@click.argument("name")
@_folder
def revoke_command(name: str, folder: Path) -> None:
    """End the account NAME, and delete what it left in the broker.

    A running broker is started again without the sessions, queues and retained messages of
    all accounts; the others reconnect within seconds and publish theirs again. Runs go on.

    \b
    Example:
      fl-broker revoke pi-1
    """
    revoke(folder, name)
    click.echo(f"account {name} is gone; the broker starts again without what it kept")


@main.command()
@_names
@_folder
def renew(names: tuple[str, ...], folder: Path) -> None:
    """Make a new certificate for the broker; a running one takes it at once.

    Bundles stay valid: they hold the CA, which stays as it is.

    \b
    Example:
      fl-broker renew --name broker.lan
    """
    public = with_names(read_public_address(folder), names)
    renew_certificate(folder, public.certified)
    write_public_address(folder, public)
    certificate = read_certificate(folder)
    assert certificate is not None
    end = certificate.end
    click.echo(f"certificate valid until {end:%Y-%m-%d} ({days_left(end)} days)")


@main.command("check")
@click.argument("host", metavar="HOST[:PORT]")
@click.option("--credentials", type=click.Path(path_type=Path), metavar="FILE",
              help="How to log in: the bundle of a coordinator.")  # fmt: skip
@click.option("--federation", help="First level of all topics.  [default: the bundle's, or fl]")
def check_command(host: str, credentials: Path | None, federation: str | None) -> None:
    """Try whether a broker does all that the protocol needs; takes about ten seconds.

    For brokers other than that of 'fl-broker up'. It may be in use: nothing of it is disturbed.
    Exit code 1 if something is missing.

    \b
    Examples:
      fl-broker check 127.0.0.1
      fl-broker check mqtt.example.org:8883 --credentials server.toml
    """
    reached, missing = reach(host, credentials, federation, "coordinator"), []
    probe(reached.address)
    marks = {"ok": "ok", "missing": "MISSING", "not checked": "-"}
    for finding in check(reached.address, reached.federation):
        click.echo(f"{marks[finding.level]:<7}  {finding.ability:<9}  {finding.found}")
        if finding.level != "ok":
            missing.append(finding.ability)
        if finding.advice:
            click.echo(f"{'':<7}  {'':<9}  -> {finding.advice}")
    if missing:
        click.echo(f"{reached.address} lacks: {', '.join(missing)}")
        sys.exit(1)
    click.echo(f"{reached.address} has all that the protocol needs")
