"""Where the guarded broker can be found: what `up` was told last, for the bundles to say."""

from __future__ import annotations

from pathlib import Path

import msgspec

from broker.config import GUARDED_PORT
from broker.hosts import main_address, own_names
from broker.private_files import write_private, writing
from common.access.credentials import join_address
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
    """What `up` was told last; before its first start, the defaults."""
    path = folder / _FILE
    try:
        return msgspec.json.decode(path.read_bytes(), type=PublicAddress)
    except FileNotFoundError:
        return PublicAddress()
    except (OSError, msgspec.MsgspecError) as error:
        raise StoreError(f"cannot read {path}: {error}") from error


def write_public_address(folder: Path, public: PublicAddress) -> None:
    """Write it down for later commands."""
    with writing(folder):
        write_private(folder / _FILE, msgspec.json.encode(public).decode() + "\n")


def with_names(public: PublicAddress, names: tuple[str, ...]) -> PublicAddress:
    """The same with more names; none is forgotten, since bundles may hold it."""
    added = tuple(dict.fromkeys((*public.names, *(name.lower() for name in names))))
    return msgspec.structs.replace(public, names=added)
