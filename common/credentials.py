"""How to reach the broker: an address as people write it, and a credentials file."""

from __future__ import annotations

import stat
import sys
from pathlib import Path

import msgspec

from common.address import Address
from common.errors import UsageError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

DEFAULT_PORT = 1883


class Credentials(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a credentials file holds (see `fl-broker account`)."""

    username: str
    password: str


def read_address(text: str, credentials: Path | None) -> Address:
    """HOST, HOST:PORT or [IPV6]:PORT, with the login from a file only its owner can read."""
    host, port = _split(text)
    if credentials is None:
        return Address(host, port)
    try:
        if sys.platform != "win32" and credentials.stat().st_mode & (
            stat.S_IRWXG | stat.S_IRWXO
        ):
            raise UsageError(f"{credentials} is open to others; run: chmod 600 {credentials}")
        login = msgspec.convert(tomllib.loads(credentials.read_text()), Credentials)
    except OSError as error:
        raise UsageError(f"{credentials} cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, msgspec.ValidationError, UnicodeDecodeError) as error:
        raise UsageError(f"{credentials} is not a credentials file: {error}") from error
    return Address(host, port, login.username, login.password)


def _split(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or text.endswith("]") or (":" in host and not host.startswith("[")):
        host, port = text, str(DEFAULT_PORT)
    host = host.strip("[]")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise UsageError(f"--broker is {text!r}; expected HOST or HOST:PORT")
    return host, int(port)
