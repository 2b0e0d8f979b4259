"""fl-server relay: between the boards of a site and the coordinator."""

from __future__ import annotations

import os
import time
from pathlib import Path

import click

from common.access.credentials import board_of, clients_of, reach
from common.disk.identity import next_identity
from common.disk.lock import FolderLock
from common.errors import UsageError
from common.ids import check_name
from common.program.cli import log_options, set_up_logging
from common.program.malloc import keep_buffers
from common.program.signals import stopped_by_signals
from common.wire.paho_link import PahoLink
from fl_server.site.service import Relay
from fl_server.site.settings import Settings


@click.command()
@click.option("--site", metavar="NAME",
              help="Name of the site, as the coordinator sees it.")  # fmt: skip
@click.option("--clients", metavar="IDS",
              help="All clients of the site's boards, such as 0-11.")  # fmt: skip
@click.option("--broker", metavar="HOST[:PORT]",
              help="The site's own broker.  [default: 127.0.0.1]")  # fmt: skip
@click.option("--credentials", type=click.Path(path_type=Path), metavar="FILE",
              help="For the site's broker, made there by 'fl-broker enroll NAME "
              "--coordinator'.")  # fmt: skip
@click.option("--uplink", metavar="HOST[:PORT]", help="The coordinator's broker.")
@click.option("--uplink-credentials", type=click.Path(path_type=Path), metavar="FILE",
              help="For the coordinator's broker, made there by 'fl-broker enroll SITE "
              "--clients IDS'; has name and clients.")  # fmt: skip
@click.option("--state", type=click.Path(path_type=Path), metavar="DIR",
              help="Where state is kept.  [default: ~/.local/state/fedbed/SITE]")  # fmt: skip
@click.option("--federation", help="First level of the site's topics.  [default: fl]")
@click.option("--uplink-federation", help="That of the coordinator's.  [default: fl]")
@log_options
def relay(
    site: str | None,
    clients: str | None,
    broker: str | None,
    credentials: Path | None,
    uplink: str | None,
    uplink_credentials: Path | None,
    state: Path | None,
    federation: str | None,
    uplink_federation: str | None,
    verbose: int,
    quiet: bool,
    log_format: str,
) -> None:
    """Stand between the boards of a site and the coordinator, for ever.

    The model comes once for the whole site, and the updates of its clients leave as one sum
    (aggregation.arithmetic = "exact"). Needs no data and no torch.

    \b
    Example: fl-server relay --site north --clients 0-11 --broker 10.1.0.2 --uplink 192.0.2.7
    Example: fl-server relay --credentials here.toml --uplink-credentials north.toml
    """
    set_up_logging(-1 if quiet else verbose, log_format)
    keep_buffers()
    below = reach(broker, credentials, federation, "coordinator")
    if uplink is None and uplink_credentials is None:
        raise UsageError(
            "where the coordinator's broker is, is missing; expected --uplink HOST, or "
            "--uplink-credentials FILE"
        )
    above = reach(uplink, uplink_credentials, uplink_federation, "board")
    if below.address == above.address and below.federation == above.federation:
        raise UsageError(
            f"the site's broker and the coordinator's are both {below.address}: the relay "
            "would hear itself; give --broker the site's own, or --federation another name"
        )
    name = board_of(above, site, uplink_credentials)
    if name is None:
        raise UsageError("--site is missing; expected the name of the site, such as north")
    ids = clients_of(above, clients, uplink_credentials)
    home = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    settings = Settings(
        site=check_name(name, "--site"),
        clients=ids,
        state=(state or Path(home) / "fedbed" / name).absolute(),
        federation=below.federation,
        uplink_federation=above.federation,
    )
    with FolderLock(settings.state, f"the relay of site {name!r}"):
        # beyond every start on another state folder, which boards may remember
        identity = next_identity(settings.state, least=int(time.time() // 60))
        below_link = PahoLink(below.address)
        above_link = PahoLink(above.address, wake=lambda: below_link.post(None))
        made = Relay(settings, identity, site=below_link, uplink=above_link)
        with stopped_by_signals(made.stop):
            made.run()
