"""run.json: who a run is, and in which format its folder is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from common.errors import StoreError
from common.wire.messages import Ids, Natural, Text, Wire

FORMAT = 3


class RunRecord(Wire, frozen=True, kw_only=True):
    """Who a run is; `id` is its name on the wire, unique even if the folder is made anew.

    `computed`: CPU and torch -> the clients that they computed.
    """

    format: int
    id: Text
    name: Text
    incarnation: Natural
    finished: bool
    code: str = ""  # the folder of users' code; its files and their digests
    digests: dict[str, str] = {}  # noqa: RUF012 - msgspec copies it
    computed: dict[Text, Ids] = msgspec.field(default_factory=dict)


def read_record(folder: Path) -> RunRecord:
    """Of this format, or a StoreError."""
    path = folder / "run.json"
    try:
        data = path.read_bytes()
    except OSError as error:
        raise StoreError(f"{folder} is not a run folder: no run.json in it") from error
    try:
        head = msgspec.json.decode(data, type=dict[str, Any])
        if head.get("format") != FORMAT:
            raise StoreError(
                f"{folder} has run format {head.get('format')}, this fedbed reads {FORMAT}; "
                "finish it with the version that started it"
            )
        return msgspec.convert(head, RunRecord)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise StoreError(f"{path} is damaged: {error}") from error
