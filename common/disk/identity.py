"""Who a daemon or a relay is: the same across restarts, different from every other one."""

from __future__ import annotations

import logging
import secrets
from pathlib import Path

import msgspec

from common.disk.atomic import disk_errors, write_atomic

log = logging.getLogger(__name__)


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """A random name for this state folder, and how often a daemon was started on it."""

    instance: str
    starts: int


def next_identity(folder: Path, *, least: int = 0) -> Identity:
    """The identity of a daemon that starts now on this state folder.

    The number of its start is at least `least`.
    """
    path = folder / "daemon.json"
    known = Identity(instance=secrets.token_hex(6), starts=0)
    with disk_errors(path):
        data = path.read_bytes() if path.exists() else b""
    if data:
        try:
            known = msgspec.json.decode(data, type=Identity)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            log.warning("%s is damaged (%s): this daemon gets a new identity", path, error)
    identity = msgspec.structs.replace(known, starts=max(known.starts + 1, least))
    write_atomic(path, msgspec.json.encode(identity))
    return identity
