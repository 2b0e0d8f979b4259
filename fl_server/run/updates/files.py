"""The updates of an open round on disk, each whole or absent.

<folder>/round-<n>/client-<id>-<place>-<digest>.safetensors   an update
                   sum-<id>-<place>-<digest>.safetensors      the sum of several; the lowest id
                   odd-<id>-<place>-<digest>.safetensors      at a site: one no sum can hold

Places are the order in which they were accepted. The files are not flushed: after a loss of
power the boards, which keep their step until the next round, send them again.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal, TypeAlias

from common.disk.atomic import disk_errors
from common.errors import FedbedError, ProtocolError, StoreError
from common.wire.chunks import blob_digest
from common.wire.tensors import SumMeta, decode_meta

log = logging.getLogger(__name__)

Kind: TypeAlias = Literal["client", "sum", "odd"]


class UpdateFiles:
    """The journal of one coordinator, or of a site's relay."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._last = (0, 0)  # the last update that was accepted: its round, and its place
        self._paths: dict[tuple[Kind, int], Path] = {}  # of that round, as far as known

    def folder(self, round_number: int) -> Path:
        """Where the updates of a round are."""
        return self._root / f"round-{round_number:06d}"

    def secure_folder(self, round_number: int) -> Path:
        """Where the steps of a secured round are."""
        return self.folder(round_number) / "secure"

    def part_path(self, client: int) -> Path:
        """Where an update is put together; its round may close before it is complete."""
        return self._root / f"client-{client:06d}.part"

    def path(self, round_number: int, client: int, digest: str, kind: Kind = "client") -> Path:
        """Where a complete, verified update is kept until its round is over."""
        folder = self.folder(round_number)
        if self._last[0] != round_number:
            places = (_place(path) for path in folder.glob("*-*.safetensors"))
            self._last = (round_number, max(places, default=0))
            self._paths.clear()
        place = self._last[1] + 1
        self._last = (round_number, place)
        path = folder / f"{kind}-{client:06d}-{place:06d}-{digest}.safetensors"
        self._paths[kind, client] = path
        return path

    def load(self, round_number: int, client: int, kind: Kind = "client") -> bytes:
        """A safe update, as it came."""
        folder = self.folder(round_number)
        path = self._paths.get((kind, client)) if self._last[0] == round_number else None
        if path is None or not path.exists():  # it was accepted before a restart
            path = next(folder.glob(f"{kind}-{client:06d}-*.safetensors"), None)
        if path is None:
            raise StoreError(f"the update of client {client} in round {round_number} is gone")
        blob = path.read_bytes()
        if path.stem.rpartition("-")[2] != blob_digest(blob):
            set_aside(path)
            raise StoreError(f"{path} is damaged and was set aside; resume the run")
        return blob

    def safe(self, round_number: int, kind: Kind = "client") -> tuple[int, ...]:
        """Clients whose own update of a round is safe, in the order in which they were
        accepted; damaged ones are set aside."""
        found = (client for client, _ in self._whole(round_number, kind))
        return tuple(dict.fromkeys(found))

    def safe_sums(self, round_number: int) -> Mapping[int, tuple[int, ...]]:
        """The lowest client of every sum that is safe, and all clients in it."""
        found = {}
        for client, blob in self._whole(round_number, "sum"):
            try:
                members = decode_meta(blob, SumMeta).members
            except ProtocolError as error:
                log.warning("passed over the sum of client %d: %s", client, error)
                continue
            found[client] = tuple(member.client for member in members)
        return found

    def _whole(self, round_number: int, kind: Kind) -> Iterator[tuple[int, bytes]]:
        paths = self.folder(round_number).glob(f"{kind}-*.safetensors")
        for path in sorted(paths, key=_place):
            client = int(path.name.split("-")[1])
            try:
                yield client, self.load(round_number, client, kind)
            except FedbedError as error:
                log.warning("%s", error)

    def remove_before(self, round_number: int) -> None:
        """Forget all rounds before this one, whose result is in a checkpoint."""
        for path in self._root.glob("round-*"):
            if path.name < self.folder(round_number).name:
                shutil.rmtree(path, ignore_errors=True)

    def remove(self, round_number: int) -> None:
        """Forget a round."""
        shutil.rmtree(self.folder(round_number), ignore_errors=True)


def _place(update: Path) -> int:
    return int(update.name.split("-")[2])


def set_aside(path: Path) -> None:
    """Keep a damaged file under a name by which nobody looks for it."""
    with disk_errors(path):
        path.replace(path.with_suffix(".damaged"))
