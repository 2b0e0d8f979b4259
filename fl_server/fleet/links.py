"""PURE: when bytes get through: rates, outages and absences of one board, drawn by address.

Whether a link is away at some time is a function of the fleet's seed and that time alone, so a
simulation and a lab have the same outages.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from common.rng import generator
from fl_server.fleet.kinds import FleetBoard, Network, Span

SEGMENT = 1448 * 8  # bits of a TCP segment
PACKETS = 1.22  # Mathis et al., 1997: rate <= MSS / RTT * 1.22 / sqrt(loss)
LEAST = 1e-3  # seconds: nothing is away for less


class Link:
    """The network of one board over the time of a run."""

    def __init__(self, board: FleetBoard, seed: int) -> None:
        self._board = board
        self._seed = seed
        network = board.group.network
        self._outages = _Spans(_outages(board, seed))
        self.absences = _Spans(_absences(board, seed))
        self.up = _bits_per_second(network, network.up)
        self.down = _bits_per_second(network, network.down)
        self.one_way = network.latency / 2000
        self._jitter = network.jitter / 1000

    def sent(self, start: float, size: int, *, up: bool) -> float:
        """When the last of so many bytes has left, if the first leaves at `start`."""
        flowing = size * 8 / (self.up if up else self.down)
        now = self.flows_from(start)
        while True:
            away = self.next_gap(now)
            if now + flowing <= away:
                return now + flowing
            flowing -= away - now
            now = self.flows_from(away)

    def delay(self, address: int) -> float:
        """How long a message is on its way, besides its bytes."""
        if not self._jitter:
            return self.one_way
        drawn = generator(self._seed, "jitter", self._board.index, address).random()
        return self.one_way + self._jitter * float(drawn)

    def flows_from(self, time: float) -> float:
        """The first moment from `time` on at which bytes get through."""
        while True:
            later = self.absences.end(self._outages.end(time))
            if later == time:
                return time
            time = later

    def next_gap(self, time: float) -> float:
        """When bytes stop getting through next."""
        return min(self._outages.next_start(time), self.absences.next_start(time))


class _Spans:
    """Spans of time in ascending order, drawn as far as somebody has asked."""

    def __init__(self, source: Iterator[Span]) -> None:
        self._source = source
        self._known: list[Span] = []
        self._horizon = 0.0

    def _up_to(self, time: float) -> None:
        while self._horizon <= time:
            span = next(self._source, None)
            if span is None:
                self._horizon = math.inf
            else:
                start, end = (round(at, 6) for at in span)  # as everything that happens
                self._known.append((start, end))
                self._horizon = end

    def _at(self, time: float) -> Span:
        """The span that `time` is in, or the next one."""
        self._up_to(time)
        low, high = 0, len(self._known)
        while low < high:
            middle = (low + high) // 2
            if self._known[middle][1] <= time:
                low = middle + 1
            else:
                high = middle
        return self._known[low] if low < len(self._known) else (math.inf, math.inf)

    def end(self, time: float) -> float:
        """The end of the span that `time` is in; `time` itself if it is in none."""
        start, end = self._at(time)
        return end if start <= time else time

    def next_start(self, time: float) -> float:
        """When the next span begins; `time` is in none."""
        return self._at(time)[0]


def _bits_per_second(network: Network, rate: float) -> float:
    bits = rate * 1e6
    if network.loss and network.latency:
        bits = min(bits, SEGMENT / (network.latency / 1000) * PACKETS / math.sqrt(network.loss))
    return bits


def _outages(board: FleetBoard, seed: int) -> Iterator[Span]:
    network = board.group.network
    yield from network.outages
    if network.outages or not network.outage_every:
        return
    end, at = 0.0, 0
    while True:
        rng = generator(seed, "outage", board.index, at)
        start = end + max(LEAST, float(rng.exponential(network.outage_every)))
        end = start + max(LEAST, float(rng.exponential(network.outage_seconds)))
        yield start, end
        at += 1


def _absences(board: FleetBoard, seed: int) -> Iterator[Span]:
    presence = board.group.presence
    yield from presence.away
    if presence.away or not presence.on:
        return
    cycle = presence.on + presence.off
    start = float(generator(seed, "presence", board.index).random()) * cycle
    if start > presence.on:  # away when the run begins
        yield 0.0, start - presence.on
    while True:
        yield start, start + presence.off
        start += cycle
