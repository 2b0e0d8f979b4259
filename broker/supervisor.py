"""Keeps a Mosquitto running until a signal ends it: restarts it, reloads accounts, bounds it.

Mosquitto 2.0 has no bound on what one account makes it keep: sessions that sleep, each with a
full queue. Before it reaches its memory limit, where every client fails, it is emptied: started
again without sessions, queues and retained messages. All of them are published again by those
who need them. Its log is bounded here, too.
"""

from __future__ import annotations

import logging
import queue
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from broker.config import ACL, CERTIFICATE, PASSWORDS
from broker.limits import allow_connections, resident_bytes
from broker.process import Broker
from common.errors import BrokerError, FedbedError
from common.program.systemd import Notifier, notifier_from

log = logging.getLogger(__name__)

LOOK_SECONDS = 0.2
FULL = 0.75  # of the memory limit
FORGET_SECONDS = 30.0  # at most one emptying for memory within that time

Fingerprint = tuple[tuple[int, int, int], ...]


@dataclass(frozen=True, slots=True)
class Deaths:
    """The recent deaths of mosquitto, and what follows from them."""

    limit: int = 5
    window_seconds: float = 30.0
    times: tuple[float, ...] = ()

    def after(self, now: float) -> Deaths:
        """The same with one more death; those out of the window are forgotten."""
        recent = tuple(then for then in self.times if now - then < self.window_seconds)
        return Deaths(self.limit, self.window_seconds, (*recent, now))

    @property
    def too_many(self) -> bool:
        """Starting it again has no point."""
        return len(self.times) >= self.limit

    @property
    def pause_seconds(self) -> float:
        """How long to wait before the next start: nothing after one death, then 0.5, 1, 2 s."""
        return 0.0 if len(self.times) <= 1 else min(0.25 * 2 ** (len(self.times) - 1), 5.0)


def supervise(broker: Broker, ready: Callable[[], None]) -> None:
    """Run `broker` in the main thread until SIGTERM or SIGINT; raises when it keeps dying.

    `ready` is called once, when it first answers.
    """
    # The one primitive a signal handler may touch while the same thread waits on it.
    signals: queue.SimpleQueue[int] = queue.SimpleQueue()

    def note(number: int, _frame: FrameType | None) -> None:
        signals.put(number)

    before = {number: signal.signal(number, note) for number in (signal.SIGTERM, signal.SIGINT)}
    notifier = notifier_from()
    allow_connections(broker.config.max_connections)
    accounts = _fingerprint(broker.folder)  # before it reads them: then no change is missed
    try:
        with broker:
            ready()
            notifier.ready(f"mosquitto on {broker.host}:{broker.port}")
            _keep_alive(broker, accounts, signals, notifier)
            notifier.stopping()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _keep_alive(
    broker: Broker,
    accounts: Fingerprint,
    signals: queue.SimpleQueue[int],
    notifier: Notifier,
) -> None:
    deaths, emptied = Deaths(), float("-inf")
    while not _asked_to_stop(signals, LOOK_SECONDS):
        notifier.beat(time.monotonic())
        broker.log.rotate()
        if broker.alive():
            accounts = _reloaded(broker, accounts)
            emptied = _emptied(broker, emptied, time.monotonic())
            continue
        deaths = deaths.after(time.monotonic())
        if deaths.too_many:
            raise BrokerError(
                f"mosquitto died {deaths.limit} times within {deaths.window_seconds:.0f} s; "
                f"its last lines: {broker.log.last_lines()}"
            )
        log.warning("mosquitto died; starting it again in %.1f s", deaths.pause_seconds)
        if _asked_to_stop(signals, deaths.pause_seconds):
            return
        _start_again(broker, broker.start)


def _emptied(broker: Broker, last: float, now: float) -> float:
    """Empty the broker if an account was revoked or it is nearly full; when that was last."""
    if broker.must_forget:
        log.info("an account was revoked; mosquitto starts again without what it kept")
    elif (used := resident_bytes(broker.pid)) > FULL * broker.config.max_memory_bytes:
        if now - last < FORGET_SECONDS:
            return last
        log.warning(
            "mosquitto uses %d MB of at most %d; it starts again without sessions and queues "
            "(if this repeats, an account floods it; its log names the accounts)",
            used >> 20,
            broker.config.max_memory_bytes >> 20,
        )
    else:
        return last
    _start_again(broker, broker.forget)
    return now


def _start_again(broker: Broker, start: Callable[[], None]) -> None:
    """Try once; a failure is seen, and counted as a death, at the next look."""
    try:
        start()
    except FedbedError as error:
        log.warning("mosquitto did not start: %s", error)
    else:
        log.info("mosquitto is back on %s:%d", broker.host, broker.port)


def _reloaded(broker: Broker, before: Fingerprint) -> Fingerprint:
    after = _fingerprint(broker.folder)
    if after != before:
        log.info("accounts or certificate changed; mosquitto reads them again")
        broker.reload()
    return after


def _asked_to_stop(signals: queue.SimpleQueue[int], seconds: float) -> bool:
    try:
        number = signals.get(timeout=seconds)
    except queue.Empty:
        return False
    log.info("%s: stopping", signal.Signals(number).name)
    return True


def _fingerprint(folder: Path) -> Fingerprint:
    """Changes whenever one of the files that Mosquitto reads again is replaced."""
    return tuple(_mark(folder / name) for name in (PASSWORDS, ACL, CERTIFICATE))


def _mark(path: Path) -> tuple[int, int, int]:
    try:
        status = path.stat()
    except FileNotFoundError:
        return 0, 0, 0
    return status.st_ino, status.st_mtime_ns, status.st_size
