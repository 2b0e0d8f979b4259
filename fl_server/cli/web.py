"""fl-server web: a page of all runs of a folder that stays."""

from __future__ import annotations

import signal
import threading
from contextlib import ExitStack
from pathlib import Path

import click

from common.access.address import probe
from common.access.credentials import reach
from common.errors import UsageError
from fl_server.cli.options import broker_options, control_option, runs_option, tokens_option
from fl_server.web.address import DEFAULT, read_page_address
from fl_server.web.site import Site


@click.command()
@click.argument("place", metavar="[HOST:PORT]", default=DEFAULT)
@control_option
@tokens_option
@broker_options
@runs_option
def web(
    place: str,
    control: bool,
    tokens: Path | None,
    broker: str | None,
    credentials: Path | None,
    federation: str | None,
    runs: Path,
) -> None:
    """Serve a page of all runs of a folder, finished or live, until Ctrl-C.

    With --broker or --credentials also the boards there, live. Beyond this machine the URL has
    a token.

    \b
    Example: fl-server web
    Example: fl-server web 0.0.0.0:8765 --credentials server.toml --control
    """
    if not runs.is_dir():
        raise UsageError(f"{runs} is no folder of runs; name one with --runs DIR")
    at = read_page_address(place, control=control, tokens=tokens)
    done = threading.Event()
    with ExitStack() as stack:
        reached = None
        if broker or credentials:
            reached = reach(broker, credentials, federation, "viewer", "coordinator")
            probe(reached.address)
        site = stack.enter_context(Site(at, runs, "runs"))
        if reached is not None:
            stack.enter_context(site.watching(reached.address, reached.federation))
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: done.set())
        click.echo(f"the page is at {site.url} (Ctrl-C ends)")
        done.wait()
