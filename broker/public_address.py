"""Where the guarded broker can be reached: the last options of `up`, for the bundles."""

from __future__ import annotations

from pathlib import Path

import msgspec

from broker.config import GUARDED_PORT, PRIVATE
from broker.hosts import main_address, own_names
from common.access.credentials import join_address
from common.disk.atomic import write_atomic
from common.disk.lock import FolderLock
from common.errors import StoreError

_FILE = "place.json"
_ANYWHERE = ("0.0.0.0", "::")  # noqa: S104 - compared, not bound


class PublicAddress(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The listener, and names of this machine that it cannot know itself."""

    listen: str = "0.0.0.0"  # noqa: S104 - guarded, see BrokerConfig
    port: int = GUARDED_PORT
    names: tuple[str, ...] = ()

    @property
    def certified(self) -> tuple[str, ...]:
        """All names and addresses that the certificate must hold."""
        listen = () if self.listen in _ANYWHERE else (self.listen,)
        return (*self.names, *listen, *own_names())

    @property
    def public(self) -> str:
        """How boards reach it, as HOST:PORT: by the name it was given first, if it was."""
        if self.names:
            host = self.names[0]
        else:
            host = main_address() if self.listen in _ANYWHERE else self.listen
        return join_address(host, self.port)


def read_public_address(folder: Path) -> PublicAddress:
    """The last options of `up`; before its first start, the defaults."""
    path = folder / _FILE
    try:
        return msgspec.json.decode(path.read_bytes(), type=PublicAddress)
    except FileNotFoundError:
        return PublicAddress()
    except (OSError, msgspec.MsgspecError) as error:
        raise StoreError(f"cannot read {path}: {error}") from error


def write_public_address(folder: Path, public: PublicAddress) -> None:
    """Keep it for later commands."""
    with FolderLock(folder, "fl-broker", wait=True):
        write_atomic(folder / _FILE, msgspec.json.encode(public) + b"\n", mode=PRIVATE)


def with_names(public: PublicAddress, names: tuple[str, ...]) -> PublicAddress:
    """The same with more names; none is forgotten, since bundles may hold it."""
    added = tuple(dict.fromkeys((*public.names, *(name.lower() for name in names))))
    return msgspec.structs.replace(public, names=added)
