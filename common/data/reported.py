"""What boards have reported of data that only they have, and what is pooled from it.

runs/<name>/data.json   written when round 1 opens: from then on the statistics stay
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from common.config import DataSection
from common.data.local_shards import columns_of
from common.data.own.load import with_statistics
from common.data.own.statistics import Moments, pooled
from common.disk.atomic import write_atomic
from common.errors import ProtocolError, StoreError
from common.wire.messages import ClientData
from common.wire.tensors import Statistics

FILE = "data.json"


class DataFile(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The content of the file."""

    clients: dict[int, ClientData]
    statistics: Statistics | None = None


class LocalData:
    """The reports of a run."""

    def __init__(self, folder: Path, data: DataSection) -> None:
        self._path = folder / FILE
        self._data = data
        found = read_data_file(folder)
        self.clients: dict[int, ClientData] = {} if found is None else dict(found.clients)
        self.statistics = None if found is None else found.statistics
        self._fixed = found is not None

    def note(self, client: int, data: ClientData) -> None:
        """Take a report; the statistics of a run that has begun stay as they are."""
        self.clients[client] = data
        if self._fixed:
            self._write()

    def fix(self) -> None:
        """Round 1 opens: pool what has been reported, once."""
        if self._fixed or self._data.partition != "local":
            return
        self.statistics = pooled_statistics(self._data, self.clients)
        self._write()
        self._fixed = True

    def _write(self) -> None:
        ordered = dict(sorted(self.clients.items()))
        content = DataFile(clients=ordered, statistics=self.statistics)
        write_atomic(self._path, msgspec.json.format(msgspec.json.encode(content)) + b"\n")


def read_data_file(folder: Path) -> DataFile | None:
    """What boards have reported in a run, if it has begun."""
    try:
        content = (folder / FILE).read_bytes()
    except FileNotFoundError:
        return None
    try:
        return msgspec.json.decode(content, type=DataFile)
    except msgspec.DecodeError as error:
        raise StoreError(f"{folder / FILE} is damaged: {error}") from error


def pooled_statistics(
    data: DataSection, clients: Mapping[int, ClientData]
) -> Statistics | None:
    """Mean and deviation over the training samples of all clients, in ascending order."""
    if data.schema is None or not (data.schema.columns and data.standardise):
        return None
    parts = [Moments(one.train, one.mean, one.squares) for _, one in sorted(clients.items())]
    schema = with_statistics(data.schema, pooled(parts))
    return Statistics(mean=schema.mean, deviation=schema.deviation)


def check_data(section: DataSection, data: ClientData) -> None:
    """Refuse a report that does not fit the schema; ProtocolError with the reason."""
    schema = section.schema
    if schema is None or section.partition != "local":
        raise ProtocolError("a report of local data, but the run has none")
    if data.train < 1 or data.test < 1:
        raise ProtocolError(f"{data.train} samples to train and {data.test} to test")
    wanted = columns_of(schema) if section.standardise else 0
    if not len(data.mean) == len(data.squares) == wanted:
        raise ProtocolError(f"means of {len(data.mean)} columns; expected {wanted}")
    if data.classes and (not section.report_classes or len(data.classes) != schema.outputs):
        raise ProtocolError(f"sizes of {len(data.classes)} classes, which nobody asked for")
