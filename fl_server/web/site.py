"""The web page being served: what is live, and the runs of a folder; standard library only.

One thread answers, one sends what has changed, one listens to a broker while something is
watched there. Every browser has a thread and a bounded queue; one that is too slow is dropped,
comes back by itself and gets everything anew.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from common.access.address import Address
from common.errors import UsageError
from fl_server.watch import facts
from fl_server.watch.facts.making import stamped
from fl_server.watch.topic_reader import TopicReader
from fl_server.web.address import PageAddress
from fl_server.web.answers import Shown
from fl_server.web.audience import Audience
from fl_server.web.page_server import PageServer
from fl_server.web.runs.archive import Archive, described

LOOK_SECONDS = 0.25  # between two messages to a browser, at least

log = logging.getLogger(__name__)


class Site:
    """Answers browsers until it is closed."""

    def __init__(
        self, at: PageAddress, runs: Path | None = None, home: Literal["live", "runs"] = "live"
    ) -> None:
        self.audience = Audience()
        self._closed = threading.Event()
        archive = None if runs is None else Archive(runs)
        try:
            shown = Shown(self.audience, archive, home, may_ask=bool(at.control))
            self._server = PageServer(at, shown)
        except OSError as error:
            raise UsageError(
                f"cannot serve the page at {at.host}:{at.port}: {error.strerror}; "
                "choose another place with --web HOST:PORT"
            ) from error
        self.url = at.url(self._server.server_address[1])
        self._threads = [
            threading.Thread(target=self._server.serve_forever, name="web", daemon=True),
            threading.Thread(target=self._send, name="web-sender", daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def _send(self) -> None:
        while not self._closed.wait(LOOK_SECONDS):
            self.audience.send_changes(time.time())

    @contextmanager
    def watching(self, address: Address, federation: str) -> Iterator[None]:
        """Show what is live on a broker, for as long as the block lasts."""
        reader = TopicReader(address, federation, self.audience.observe)
        ended = threading.Event()
        thread = threading.Thread(
            target=self._listen, args=(reader, ended), name="web-reader", daemon=True
        )
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join(5.0)
            reader.close()

    def _listen(self, reader: TopicReader, ended: threading.Event) -> None:
        while not ended.is_set():
            begun = time.monotonic()
            try:
                reader.look(LOOK_SECONDS)
            except Exception as error:  # noqa: BLE001 - the run must go on
                self.audience.observe(stamped(facts.Problem(str(error)), time.time()))
                log.warning("the web page sees nothing any more: %s", error)
                return
            ended.wait(LOOK_SECONDS - (time.monotonic() - begun))

    @contextmanager
    def showing(self, folder: Path, run: str) -> Iterator[facts.Observer]:
        """Show a run without a broker: its facts are reported to what is given."""
        now = time.time()
        self.audience.observe(stamped(described(folder, run), now))
        self.audience.observe(facts.Coordinator(connected=True, since=now, run=run, time=now))
        try:
            yield self.audience.observe
        finally:
            self.audience.observe(
                facts.Coordinator(connected=False, since=now, run=run, time=time.time())
            )

    def close(self) -> None:
        """Stop, and end every browser's stream."""
        self._closed.set()
        self.audience.send_changes(time.time())
        self.audience.close()
        self._server.shutdown()
        self._server.server_close()
        for thread in self._threads:
            thread.join(5.0)

    def __enter__(self) -> Site:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@contextmanager
def serving(at: PageAddress, address: Address, federation: str) -> Iterator[Site]:
    """The page of whatever is live on a broker, for as long as the block lasts."""
    with Site(at) as site, site.watching(address, federation):
        yield site
