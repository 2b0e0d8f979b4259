"""fl-server watch and status: looking at a run from anywhere, without touching it."""

from __future__ import annotations

import json
import signal
import sys
import threading
from pathlib import Path

import click
import msgspec

from common.access.address import probe
from common.access.credentials import reach
from fl_server.cli.options import broker_options, web_option
from fl_server.watch.displays import make_display, show_status
from fl_server.watch.topic_reader import TopicReader
from fl_server.watch.view import View
from fl_server.web.address import read_page_address
from fl_server.web.sections import model
from fl_server.web.site import serving

STATUS_SECONDS = 5.0
LOOK_SECONDS = 0.5


@click.command()
@broker_options
@web_option
@click.option("--plain", is_flag=True, help="Lines instead of the live screen.")
def watch(
    broker: str | None,
    credentials: Path | None,
    federation: str | None,
    web: str | None,
    plain: bool,
) -> None:
    """Watch whatever runs on a broker, live, from any machine that may read it.

    Only reads: no run notices. With --web a page for browsers instead of the terminal.

    \b
    Example: fl-server watch --broker 192.168.1.10
    Example: fl-server watch --web
    """
    reached = reach(broker, credentials, federation, "viewer", "coordinator")
    address, topics = reached.address, reached.federation
    options = read_page_address(web) if web is not None else None
    probe(address)
    done = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: done.set())
    if options is not None:
        with serving(options, address, topics) as served:
            click.echo(f"the page is at {served.url} (Ctrl-C ends)")
            done.wait()
        return
    with (
        make_display(f"{topics} at {address}", style="plain" if plain else "screen") as display,
        TopicReader(address, topics, display.observe) as viewer,
    ):
        while not done.is_set():
            viewer.look(LOOK_SECONDS)


@click.command()
@broker_options
@click.option("--json", "as_json", is_flag=True, help="For machines: one JSON object.")
def status(
    broker: str | None, credentials: Path | None, federation: str | None, as_json: bool
) -> None:
    """Print the state of a broker once; exit code 0 if a run is going on, else 1.

    \b
    Example: fl-server status --broker 192.168.1.10 --json
    """
    reached = reach(broker, credentials, federation, "viewer", "coordinator")
    address, topics = reached.address, reached.federation
    probe(address)
    seen = [View(title=f"{topics} at {address}")]
    with TopicReader(
        address, topics, lambda fact: seen.append(seen.pop().after(fact))
    ) as viewer:
        viewer.look_around(STATUS_SECONDS)
    view = seen[0]
    if as_json:
        plain = msgspec.json.decode(msgspec.json.encode(model(view)))
        click.echo(json.dumps(plain))  # in ASCII: nothing in it controls a terminal
    else:
        show_status(view)
    sys.exit(0 if view.going_on else 1)
