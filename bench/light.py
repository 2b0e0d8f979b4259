"""Light boards: they speak the whole protocol and return every model at once, without torch.

As a program: `python -m bench.light PORT FIRST BOARDS CLIENTS` is BOARDS boards in one
process (a thread of paho's each) with CLIENTS clients each, the first of them client FIRST.
"""

from __future__ import annotations

import math
import queue
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from common.access.address import Address
from common.errors import ProtocolError
from common.wire.chunks import cut
from common.wire.link import Arrived, Session, Up
from common.wire.messages import Chunk, ClientMetrics, Connected, CurrentRound, Selected, Sums
from common.wire.paho_link import PahoLink
from common.wire.presence import Presence, first_claim
from common.wire.tensors import ModelMeta, UpdateMeta, decode_tensors, encode_tensors
from common.wire.topics import Packet, board_subscriptions, connected_topic, packet, unpack
from fl_client.agent.duties import RESEND_SECONDS, UNCONFIRMED_BYTES
from fl_client.downloads import Downloads

TICK_SECONDS = 0.5


class LightBoard:
    """One board; `work` never returns."""

    def __init__(
        self, address: Address, name: str, clients: tuple[int, ...], folder: Path
    ) -> None:
        self._clients = clients
        self._downloads = Downloads(folder)
        self._link = PahoLink(address)
        claim = first_claim(name, instance=name, starts=1, clients=clients)
        self._presence = Presence("fl", claim, self._link.publish)
        others = connected_topic("fl", "+")  # as on a guarded broker, where boards are alone
        mine = connected_topic("fl", name)
        topics = tuple(
            mine if topic == others else topic for topic in board_subscriptions("fl", clients)
        )
        self._link.open(Session(f"light-{name}", topics, self._presence.will))
        self._current: CurrentRound | None = None
        self._selected: Selected | None = None
        self._complete: tuple[str, int] = ("", 0)
        self._answered: tuple[str, int] = ("", 0)
        self._sent: dict[int, float] = {}  # when
        self._confirmed_at = -math.inf  # anything of any board

    def work(self) -> None:
        """Serve rounds, for ever."""
        while True:
            happening = self._link.receive(TICK_SECONDS)
            if isinstance(happening, Up):
                self._presence.connected(happening.connection)
            elif isinstance(happening, Arrived):
                self._hear(happening)
                self._link.confirm(happening)
            elif happening is None:
                self._answer()  # what is overdue is sent again
            self._presence.tick()

    def _hear(self, arrived: Arrived) -> None:
        try:
            _, message = unpack("fl", arrived.topic, arrived.payload)
        except ProtocolError:
            return
        match message:
            case Connected():
                self._presence.received(message, stored=arrived.retained)
            case Chunk(header) if self._downloads.add(message):
                self._complete = (header.run, header.round)
            case CurrentRound():
                if self._current is not None and len(message.safe) > len(self._current.safe):
                    self._confirmed_at = time.monotonic()
                self._current = message
            case Selected():
                self._selected = message
            case _:
                return
        self._answer()

    def _answer(self) -> None:
        current, selected = self._current, self._selected
        if current is None or selected is None:
            return
        place = (current.run, current.round)
        agreed = place == (selected.run, selected.round) == self._complete
        if not agreed:
            return
        if place != self._answered:
            self._answered, self._sent = place, {}
            self._measure(current, selected)
        self._send(current, selected)

    def _send(self, current: CurrentRound, selected: Selected) -> None:
        """Updates, again if they are not safe after a while, but no more than a board sends
        before some of them are safe."""
        size, now = self._downloads.path(*self._complete).stat().st_size, time.monotonic()
        most, safe = max(1, UNCONFIRMED_BYTES // size), frozenset(current.safe)
        for client in self._clients:
            waiting = now - max(self._sent.get(client, -math.inf), self._confirmed_at)
            due = client not in self._sent or waiting >= RESEND_SECONDS
            if client not in selected.clients or client in safe or not due:
                continue
            if client in self._sent or len(self._sent.keys() - safe) < most:
                self._sent[client] = now
                packets = self._update(client, current.run, current.round)
                self._link.stream(f"{client} {current.round}", packets)

    def _measure(self, current: CurrentRound, selected: Selected) -> None:
        for client in self._clients:
            if client in selected.testers:
                counts = {"G": Sums(samples=1, sums={"correct": (1.0,), "loss": (1.0,)})}
                metrics = ClientMetrics(
                    run=current.run,
                    round=current.round,
                    client=client,
                    own=counts,  # type: ignore[arg-type]
                )
                self._link.publish(packet("fl", metrics))

    def _update(self, client: int, run: str, number: int) -> Iterator[Packet]:
        data = self._downloads.path(run, number).read_bytes()
        meta = UpdateMeta(
            run=run,
            round=number,
            client=client,
            samples=1,
            steps=0,
            weights={"base": 1.0, "head": 1.0},
            loss=0.0,
        )
        blob = encode_tensors(decode_tensors(data, ModelMeta)[0], meta)
        for chunk in cut(blob, run=run, round_number=number, client=client):
            yield packet("fl", chunk)


def main(words: list[str]) -> None:
    """All boards of this process; whatever ends one of them ends it."""
    port, first, boards, clients = map(int, words)
    failed: queue.SimpleQueue[str] = queue.SimpleQueue()

    def serve(at: int, folder: Path) -> None:
        start = first + at * clients
        try:
            LightBoard(
                Address("127.0.0.1", port),
                f"light-{start}",
                tuple(range(start, start + clients)),
                folder,
            ).work()
        finally:
            failed.put(f"board {at} has ended")

    with tempfile.TemporaryDirectory() as folder:
        for at in range(boards):
            place = Path(folder) / str(at)
            threading.Thread(target=serve, args=(at, place), daemon=True).start()
        sys.exit(failed.get())


if __name__ == "__main__":
    main(sys.argv[1:])
