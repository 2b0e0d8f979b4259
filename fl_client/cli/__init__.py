"""fl-client: the daemon that runs on every board."""

from __future__ import annotations

import logging
import os
import signal
import threading
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import click

from common.access.address import Address, probe
from common.disk.identity import next_identity
from common.disk.lock import FolderLock
from common.errors import BrokerError, UsageError
from common.program.cli import Commands, log_options, set_up_logging, version_option
from common.program.malloc import keep_buffers
from common.program.systemd import notifier_from
from common.wire.paho_link import PahoLink
from common.worker.forking import ForkServer, make_source
from common.worker.pool import ProcessPool
from fl_client.cli.doctor import doctor
from fl_client.cli.options import board_options, settings_from
from fl_client.cli.replay import replay_agent
from fl_client.daemon import Daemon
from fl_client.doctor.findings import NO_THREADS
from fl_client.hardware.capacity import has_room_for_torch
from fl_client.hardware.threads import threads_problem
from fl_client.settings import Settings

log = logging.getLogger(__name__)

LOOK_SECONDS = 5.0  # between two looks for a broker that is announced


@click.group(cls=Commands, commands=[doctor, replay_agent])
@version_option()
def main() -> None:
    """The board side of fedbed: simulates federated-learning clients on this machine.

    \b
    Example: fl-client run --credentials pi-1.toml
    """


@main.command()
@board_options
@click.option("--record", type=click.Path(path_type=Path), metavar="FILE",
              help="Append every event to this file, for 'fl-client replay'.")  # fmt: skip
@click.option("--cold", is_flag=True,
              help="Import torch only when an experiment begins, and free its memory after it: "
              "for small boards.")  # fmt: skip
@click.option("--speed", type=click.FloatRange(0), default=0.0, metavar="SAMPLES",
              help="Train no more samples per second in a training process than this: a slower "
              "board, as in a lab with --fleet.")  # fmt: skip
@log_options
def run(
    record: Path | None,
    cold: bool,
    speed: float,
    verbose: int,
    quiet: bool,
    log_format: str,
    **options: object,
) -> None:
    """Wait for experiments and take part in them, for ever.

    Runs until Ctrl-C or SIGTERM. What the clients know is kept in the state folder, so a
    daemon that was killed goes on where it was.

    \b
    Examples:
      fl-client run --credentials pi-1.toml
      fl-client run --board pi-1 --clients 0-2
    """
    set_up_logging(-1 if quiet else verbose, log_format)
    keep_buffers()
    settings = replace(_settings(options), record=record, speed=speed)
    if (problem := threads_problem()) is not None:
        raise UsageError(f"this system refuses to start a thread ({problem}); {NO_THREADS}")
    warm = not cold and has_room_for_torch()
    with (
        FolderLock(settings.state, f"the daemon of board {settings.board!r}"),
        closing(make_source(os.environ, keep=warm)) as source,
    ):
        link = PahoLink(settings.address)
        if warm and isinstance(source, ForkServer):
            source.warm_up()  # while we connect and wait for an experiment
        pool = ProcessPool(settings.workers, link.post, source, settings.memory)
        identity = next_identity(settings.state)
        daemon = Daemon(settings, identity, link, pool, notifier_from())
        for each in (signal.SIGINT, signal.SIGTERM):
            signal.signal(each, lambda *_: daemon.stop())
        _check_broker(settings.address)
        daemon.run()


def _settings(options: dict[str, object]) -> Settings:
    """What the options mean; waits until a broker is found where one is to be looked for."""
    told = False
    while True:
        try:
            return settings_from(**options)  # type: ignore[arg-type]  # click has checked them
        except BrokerError as error:
            if not told:
                log.warning("%s; looking for it again and again", error)
            told = True
            threading.Event().wait(LOOK_SECONDS)


def _check_broker(address: Address) -> None:
    """Warn at once if the broker does not answer; the daemon waits for it anyway."""
    try:
        probe(address)
    except BrokerError as error:
        log.warning("%s (waiting for a broker there)", error)
