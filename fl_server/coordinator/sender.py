"""What the coordinator publishes: the experiment, the models, the state of the round."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from common import VERSION
from common.config import Experiment
from common.wire.chunks import cut
from common.wire.json_codec import encode
from common.wire.link import Link, Session, Up
from common.wire.messages import PROTOCOL, CurrentRound, Selected, TrainDetail, TrainEnd
from common.wire.topics import Packet, packet, weights_topic
from fl_server.coordinator.conductor import Conductor
from fl_server.rounds.state import Working
from fl_server.run.store import RunStore


class Sender:
    """Publishes on the topics of the coordinator."""

    def __init__(
        self, link: Link, federation: str, conductor: Conductor, experiment: Experiment
    ) -> None:
        self._link = link
        self._federation = federation
        self._conductor = conductor
        self._aggregator = conductor.aggregator
        self._private_topics: set[str] = set()
        self._run = conductor.policy.run
        self._detail = TrainDetail(
            protocol=PROTOCOL,
            version=VERSION,
            run=self._run,
            experiment=msgspec.Raw(msgspec.json.encode(experiment)),
            code=conductor.aggregator.code,
        )

    def announce(self) -> None:
        """Publish train_detail."""
        self._link.publish(packet(self._federation, self._detail))

    def publish(self, message: CurrentRound | Selected | TrainEnd) -> None:
        """Publish a message."""
        self._link.publish(packet(self._federation, message))

    def send_weights(self, round_number: int) -> None:
        """Publish the global model of a round, a part at a time."""
        blob = self._aggregator.downloads.blob(round_number)
        state, tally = self._conductor.state, self._aggregator.tally
        present = [board for board in state.boards.values() if board.lost_at is None]
        tally.bytes_down += len(blob) * len(present)
        parts = self._parts(round_number, blob, None, self._aggregator.downloads.digest)
        self._link.stream(f"weights {round_number}", parts)
        for client in state.phase.selected if isinstance(state.phase, Working) else ():
            own = self._aggregator.downloads.private(round_number, client)
            if own is not None:
                tally.bytes_down += len(own)
                parts = self._parts(round_number, own, client)
                self._link.stream(f"weights {round_number} to {client}", parts)

    def send_secrets(self, round_number: int, clients: tuple[int, ...]) -> None:
        """Send each of these clients what it needs for the open step of a secured round."""
        journal = self._aggregator.secure
        assert journal is not None, "only secured rounds have steps"
        for client in clients:
            message = journal.message(round_number, client)
            blob = encode(message)
            self._aggregator.tally.bytes_down += len(blob)
            token = f"{message.step} of {round_number} to {client}"
            self._link.stream(token, self._parts(round_number, blob, client))

    def _parts(
        self, round_number: int, blob: bytes, client: int | None, digest: str = ""
    ) -> Iterator[Packet]:
        """The parts of a download: of all clients, or of one."""
        for chunk in cut(
            blob,
            run=self._run,
            round_number=round_number,
            client=client,
            down=True,
            digest=digest,
        ):
            ready = packet(self._federation, chunk)
            if client is not None:
                self._private_topics.add(ready.topic)
            yield ready

    def clear_weights(self) -> None:
        """Delete the retained parts of the last model: the broker would keep them for ever."""
        blob = self._aggregator.downloads.blob(self._conductor.policy.rounds + 1)
        for chunk in cut(blob, run=self._run, round_number=0, client=None):
            topic = weights_topic(self._federation, chunk.header.part)
            self._link.publish(Packet(topic, b"", retain=True))
        for topic in sorted(self._private_topics):
            self._link.publish(Packet(topic, b"", retain=True))


def publish_end_again(store: RunStore, link: Link, federation: str) -> bool:
    """Publish once more that a finished run is over; False if the broker is away."""
    link.open(Session(f"{federation}-end-{store.run}"))
    up = isinstance(link.receive(10.0), Up)
    if up:
        link.publish(packet(federation, TrainEnd(run=store.run, reason="finished")))
    link.close(timeout=5.0, forget_session=True)
    return up
