"""Large messages are sent in parts, a few at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field

from common.wire.topics import Packet

WINDOW = 8  # parts that are not yet acknowledged: bounds memory and the delay of other messages


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
        """Add a stream, unless one with this token is being sent."""
        if all(stream.token != token for stream in self._streams):
            self._streams.append(_Stream(token, packets))

    def acknowledged(self, message_id: int) -> bool:
        """The broker has acknowledged a part; False if it belongs to no stream."""
        for stream in self._streams:
            if message_id in stream.open:
                stream.open.discard(message_id)
                return True
        return False

    def forget(self) -> None:
        """Give up all streams."""
        self._streams.clear()

    def pump(self, send: Callable[[Packet], int | None]) -> tuple[Hashable, ...]:
        """Hand over as many parts as there is room for; returns the tokens of finished streams.

        `send` returns the id by which a part will be acknowledged, None if it never is.
        """
        room = WINDOW - sum(len(stream.open) for stream in self._streams)
        for stream in self._streams:
            while room > 0 and not stream.exhausted:
                packet = next(stream.packets, None)
                if packet is None:
                    stream.exhausted = True
                elif (message_id := send(packet)) is not None:
                    stream.open.add(message_id)
                    room -= 1
        through = [s for s in self._streams if s.exhausted and not s.open]
        for stream in through:
            self._streams.remove(stream)
        return tuple(stream.token for stream in through)
