"""Large things on their way out, a few parts at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field

from common.wire.topics import Packet

WINDOW = 8  # parts on their way at once: bounds memory and everybody's delay


@dataclass(slots=True)
class _Stream:
    token: Hashable
    packets: Iterator[Packet]
    open: set[int] = field(default_factory=set)
    exhausted: bool = False


class Streams:
    """Streams that share one window."""

    def __init__(self) -> None:
        self._streams: deque[_Stream] = deque()

    def add(self, token: Hashable, packets: Iterator[Packet]) -> None:
        """One more, unless it is on its way."""
        if all(stream.token != token for stream in self._streams):
            self._streams.append(_Stream(token, packets))

    def acknowledged(self, number: int) -> bool:
        """A part has arrived; False if it is none of ours."""
        for stream in self._streams:
            if number in stream.open:
                stream.open.discard(number)
                return True
        return False

    def forget(self) -> None:
        """Give up everything that is on its way."""
        self._streams.clear()

    def pump(self, send: Callable[[Packet], int | None]) -> tuple[Hashable, ...]:
        """Hand over as many parts as there is room for; names the streams that are through.

        `send` returns the number by which a part will be acknowledged, None if it never is.
        """
        room = WINDOW - sum(len(stream.open) for stream in self._streams)
        for stream in self._streams:
            while room > 0 and not stream.exhausted:
                packet = next(stream.packets, None)
                if packet is None:
                    stream.exhausted = True
                elif (number := send(packet)) is not None:
                    stream.open.add(number)
                    room -= 1
        through = [s for s in self._streams if s.exhausted and not s.open]
        for stream in through:
            self._streams.remove(stream)
        return tuple(stream.token for stream in through)
