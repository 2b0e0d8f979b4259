"""A board whose daemon gets everything that can stand on the topics it reads."""

from __future__ import annotations

import struct
from pathlib import Path

import msgspec

from common.errors import ProtocolError
from common.wire.chunks import cut, encode_chunk
from common.wire.claims import clash
from common.wire.messages import (
    ChunkHeader,
    Connected,
    CurrentRound,
    Selected,
    TrainDetail,
    TrainEnd,
)
from common.wire.tensors import ModelMeta, UpdateMeta, decode_tensors
from common.wire.topics import Packet, unpack
from fl_client.agent.machine import MOST_ENDED
from tests.attacks.extremes import KINDS, Hostile, known_fields
from tests.attacks.hostile_updates import HostileUpdates
from tests.fl_client.board_rig import EXPERIMENT, RUN, Rig, weights

PLACES: dict[type[msgspec.Struct], str] = {
    TrainDetail: "fl/client/train_detail",
    CurrentRound: "fl/server/current_round",
    Selected: "fl/client/selected",
    TrainEnd: "fl/train/end",
    Connected: "fl/client/connected/",
    ChunkHeader: "fl/server/send_weights/0",
    UpdateMeta: "fl/server/send_weights/",
}
AFTER = "after.1"  # the run that follows the flood


class BoardFlood:
    """One daemon; afterwards it does what an undisturbed one does."""

    def __init__(self, folder: Path, seed: int) -> None:
        self._folder = folder
        self._rig = Rig(folder / "flooded")
        self._hostile = Hostile(seed)
        self.sent = 0

    def play(self, messages: int) -> None:
        rig = self._rig
        rig.open_round(1)
        rig.work()
        model = decode_tensors(bytes(weights(1)[0].body), ModelMeta)[0]
        models = HostileUpdates(self._hostile, model, poisoned=False)
        while self.sent < messages:
            for shot in self._shots(models):
                if not self._is_rival(shot):
                    rig.broker.publish(shot)
                self.sent += 1
            rig.work()
            if self.sent % 50 == 0:
                rig.wait(0.5)
            if self.sent % 5000 == 0:
                rig.restart()
            rig.broker.published.clear()
        rig.restart()
        rig.broker.retained.clear()
        rig.wait(10.0)
        mark = rig.mark
        rig.open_round(1, AFTER, testers=(0, 1))
        rig.wait(2.0)
        quiet = Rig(self._folder / "quiet")
        quiet.open_round(1, AFTER, testers=(0, 1))
        quiet.work()
        assert set(rig.updates(mark)) == set(quiet.updates())
        assert rig.presence().settled
        assert len(rig.daemon.state.ended) <= MOST_ENDED
        assert len(list((rig.settings.state / "downloads").iterdir())) < 10
        rig.daemon.close()

    def _is_rival(self, shot: Packet) -> bool:
        """Whether it is a credible claim to what is ours: that may end a daemon."""
        if not shot.topic.startswith(PLACES[Connected]):
            return False
        try:
            _, message = unpack("fl", shot.topic, shot.payload)
        except ProtocolError:
            return False
        return isinstance(message, Connected) and clash(self._rig.presence(), message)

    def _shots(self, models: HostileUpdates) -> list[Packet]:
        hostile = self._hostile
        kinds = tuple(PLACES)
        place, kind = kinds[hostile.pick(len(kinds))], kinds[hostile.pick(len(kinds))]
        if hostile.chance(0.9):
            kind = place
        if hostile.chance(0.05):
            kind = KINDS[hostile.pick(len(KINDS))]
        round_number, board = 1 + hostile.pick(3), f"x{hostile.pick(10_000)}"
        known = known_fields(RUN, round_number, hostile.pick(3), board)
        known |= {"experiment": EXPERIMENT, "down": True, "reason": "because"}
        retain = hostile.chance(0.3)
        if kind is UpdateMeta:
            client = hostile.pick(2) if hostile.chance(0.3) else None
            to = "" if client is None else f"to/{client}/"
            parts = cut(
                models.blob(known), run=RUN, round_number=round_number, client=client, down=True
            )
            where = PLACES[UpdateMeta] + to
            return [Packet(f"{where}{p.header.part}", encode_chunk(p), retain) for p in parts]
        body = hostile.message(kind, known)
        if kind is ChunkHeader:
            body = b"FBC1" + struct.pack(">I", len(body)) + body + bytes(hostile.pick(40))
        return [Packet(PLACES[place] + (board if place is Connected else ""), body, retain)]
