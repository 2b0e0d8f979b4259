"""What a relay keeps: the model that passes, and the updates of the open run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from common.errors import ProtocolError
from common.wire.messages import Chunk, TrainDetail
from common.wire.topics import Packet
from fl_server.site.adding import Adding
from fl_server.site.model import PassingModel
from fl_server.site.updates import SiteUpdates


class SiteFiles:
    """The state folder of a relay; at most one run is open."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._model = PassingModel(folder / "model")
        self._run = ""
        self._adding: Adding | None = None
        self._updates: SiteUpdates | None = None

    def open_run(self, detail: TrainDetail) -> tuple[float, float]:
        """Get ready for a run, whose grace and deadline it returns; ConfigError if its updates
        cannot be added up."""
        self._run, self._adding, self._updates = "", None, None
        adding = Adding(detail)
        folder = self._folder / "runs" / detail.run
        self._run, self._adding = detail.run, adding
        self._updates = SiteUpdates(folder, detail.run, adding)
        self._learn_model()
        return adding.grace, adding.deadline

    def open_round(self, round_number: int) -> tuple[frozenset[int], frozenset[int]]:
        """Who has an update on disk, and of whom no sum can hold it."""
        assert self._updates is not None, "a round is of an open run"
        return self._updates.open_round(round_number)

    def close_run(self, federation: str) -> Iterable[Packet]:
        """Forget the open run; what deletes its model from the site's broker."""
        if self._updates is not None:
            self._updates.remove()
        self._run, self._adding, self._updates = "", None, None
        return self._model.clearing(federation)

    def take_part(self, chunk: Chunk) -> bool:
        """Take one part of a model; True when it completes it."""
        complete = self._model.add(chunk)
        if complete:
            self._learn_model()
        return complete

    def _learn_model(self) -> None:
        if self._adding is not None and self._model.run == self._run:
            self._adding.learn_model(self._model.read())

    def take_update(self, client: int, chunk: Chunk) -> bool | None:
        """Take one part of a wanted update. Once it is complete and on disk: whether no sum
        can hold it. ProtocolError if it cannot be what it claims."""
        if self._updates is None or self._adding is None or not self._adding.has_model:
            return None  # it comes again when we know what it must look like
        if chunk.header.size > self._adding.largest_update:
            raise ProtocolError("an update far larger than the model")
        assembly = self._updates.add(client, chunk)
        if assembly is None:
            return None
        try:
            return self._updates.keep(client, assembly)
        except ProtocolError:
            assembly.discard()
            raise

    def model_packets(self, federation: str) -> Iterator[Packet]:
        """The parts of the model for the site's boards."""
        return self._model.packets(federation)

    def sum_packets(
        self, federation: str, round_number: int, clients: tuple[int, ...]
    ) -> Iterator[Packet]:
        """The parts of the sum of these clients' updates."""
        assert self._updates is not None, "a sum is of an open run"
        return self._updates.packets(federation, round_number, clients)
