"""A network link of a lab's board that can be cut, frozen or shaped: a TCP relay of our own.

Runs in a thread of its own. Bytes are delayed and paced, never changed, lost or reordered: TCP
does not do that either. What TCP does do is hang (`freeze`) and break (`cut`).
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, Protocol

BLOCK = 16 * 1024
AHEAD = 0.2  # seconds that bytes are taken in before they would leave: timers are not exact


class Shaping(Protocol):
    """What a link is like; the clock is time.monotonic's."""

    def sent(self, start: float, size: int, *, up: bool) -> float:
        """When the last of so many bytes has left, if the first can leave at `start`."""

    def arrived(self, sent: float, *, up: bool) -> float:
        """When what has left then is there."""


@dataclass(slots=True)
class Shape:
    """Always the same: delay in seconds, bytes per second (0: no limit)."""

    delay: float = 0.0
    rate: float = 0.0

    def sent(self, start: float, size: int, *, up: bool) -> float:  # noqa: ARG002
        """When the last of so many bytes has left."""
        return start + size / self.rate if self.rate else start

    def arrived(self, sent: float, *, up: bool) -> float:  # noqa: ARG002
        """When what has left then is there."""
        return sent + self.delay


class Relay:
    """Listens on a port of this machine and passes everything on to the broker."""

    def __init__(self, broker_port: int) -> None:
        self.port = 0
        self.shape: Shaping = Shape()
        self.bytes_up = self.bytes_down = 0  # that have passed
        self._broker_port = broker_port
        self._open = True
        self._flowing: asyncio.Event | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._server = self._do(self._listen())

    def cut(self) -> None:
        """Break every connection and refuse new ones."""
        self._do(self._cut())

    def freeze(self) -> None:
        """Let no byte through, but keep the connections."""
        self._do(self._set_flowing(flowing=False))

    def mend(self) -> None:
        """Let new connections through again."""
        self._open = True

    def restore(self) -> None:
        """A good link again."""
        self.mend()
        self.shape = Shape()
        self._do(self._set_flowing(flowing=True))

    def close(self) -> None:
        """End the relay."""
        self._do(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _do(self, work: Coroutine[Any, Any, Any]) -> Any:  # noqa: ANN401 - the coroutine's result
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(10)

    async def _listen(self) -> asyncio.Server:
        self._flowing = asyncio.Event()
        self._flowing.set()
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        return server

    async def _set_flowing(self, *, flowing: bool) -> None:
        assert self._flowing is not None
        if flowing:
            self._flowing.set()
        else:
            self._flowing.clear()

    async def _cut(self) -> None:
        self._open = False
        await self._drop_all()

    async def _drop_all(self) -> None:
        for writer in list(self._writers):
            writer.transport.abort()

    async def _end(self) -> None:
        self._server.close()
        await self._drop_all()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await asyncio.sleep(0)  # what was aborted is closed now

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self._open:
            writer.transport.abort()
            return
        pair = {writer}
        self._writers |= pair
        try:
            up_reader, up_writer = await asyncio.open_connection("127.0.0.1", self._broker_port)
            pair.add(up_writer)
            self._writers |= pair
            await asyncio.gather(
                self._pass(reader, up_writer, up=True), self._pass(up_reader, writer, up=False)
            )
        except (OSError, asyncio.CancelledError):
            pass  # no broker; and only `close` cancels, which asyncio would report as an error
        finally:
            for one in pair:
                one.transport.abort()
            self._writers -= pair

    async def _pass(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, up: bool
    ) -> None:
        """One direction: read, wait according to the shape, write; its end ends both."""
        late: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(64)

        async def deliver() -> None:
            while True:
                due, data = await late.get()
                await asyncio.sleep(due - self._loop.time())
                await self._flowing_now()
                writer.write(data)
                await writer.drain()

        delivery = asyncio.ensure_future(deliver())
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            free = due = 0.0
            while data := await reader.read(BLOCK):
                self.bytes_up += len(data) if up else 0
                self.bytes_down += 0 if up else len(data)
                shape, now = self.shape, self._loop.time()
                free = shape.sent(max(now, free), len(data), up=up)
                due = max(due, shape.arrived(free, up=up))
                await asyncio.sleep(free - AHEAD - now)
                await late.put((due, data))
        while not late.empty() and not delivery.done():
            await asyncio.sleep(0.01)
        delivery.cancel()
        await asyncio.gather(delivery, return_exceptions=True)
        writer.transport.abort()

    async def _flowing_now(self) -> None:
        assert self._flowing is not None
        await self._flowing.wait()
