"""The credentials bundle: one private file with all that a board needs to find its broker.

`fl-broker enroll` makes it. A command-line option wins over the bundle; one that contradicts it
(another board, other clients) is refused.
"""

from __future__ import annotations

import stat
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from common.access.address import Address
from common.access.discovery import AUTO, find_broker
from common.errors import UsageError
from common.ids import check_name, parse_ids, show_ids

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 1883
DEFAULT_FEDERATION = "fl"

Role: TypeAlias = Literal["board", "coordinator", "viewer"]
_ENROLL: dict[Role, str] = {
    "board": "fl-broker enroll BOARD --clients IDS",
    "coordinator": "fl-broker enroll NAME --coordinator",
    "viewer": "fl-broker enroll NAME --viewer",
}


class Credentials(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a bundle holds; `name` is the account and, for a board, the board's name."""

    role: Role
    name: str
    password: str
    broker: str
    federation: str
    ca: str
    clients: str = ""
    data: str = ""  # of a board, if its owner adds it: where its own data is

    def __repr__(self) -> str:
        return f"Credentials(role={self.role!r}, name={self.name!r})"


@dataclass(frozen=True, slots=True)
class BrokerAccess:
    """How a command reaches the broker, from its options and its bundle."""

    address: Address
    federation: str
    credentials: Credentials | None


def reach(
    broker: str | None, file: Path | None, federation: str | None, *roles: Role
) -> BrokerAccess:
    """The broker, login and federation from options and a bundle made for one of the roles."""
    credentials = None if file is None else read_credentials(file)
    if credentials is not None and roles and credentials.role not in roles:
        raise UsageError(
            f"{file} is for a {credentials.role}; expected one for a {' or '.join(roles)}, "
            f"made by: {_ENROLL[roles[0]]}"
        )
    own = None if credentials is None else credentials.federation
    return BrokerAccess(
        _address(broker, credentials),
        check_name(_agree("--federation", federation, own, file) or DEFAULT_FEDERATION,
                   "--federation"),
        credentials,
    )  # fmt: skip


def board_of(access: BrokerAccess, board: str | None, file: Path | None) -> str | None:
    """The board's name, from the option or the bundle, if either has it."""
    own = None if access.credentials is None else access.credentials.name
    return _agree("--board", board, own, file)


def clients_of(access: BrokerAccess, clients: str | None, file: Path | None) -> tuple[int, ...]:
    """The clients of the board, from the option or the bundle."""
    own = None if access.credentials is None else access.credentials.clients
    wanted = None if clients is None else show_ids(parse_ids(clients))
    text = _agree("--clients", wanted, own, file)
    if text is None:
        raise UsageError("--clients is missing; expected such as 0,1,2 or 0-9")
    return parse_ids(text)


def _agree(option: str, given: str | None, own: str | None, file: Path | None) -> str | None:
    if given is not None and own is not None and given != own:
        raise UsageError(
            f"{option} is {given!r}, but {file} is for {own!r}; leave the option out, or "
            "enroll anew on the broker's machine"
        )
    return given if given is not None else own


def read_credentials(path: Path) -> Credentials:
    """A bundle from a file that only its owner can read."""
    try:
        if path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise UsageError(f"{path} is open to others; run: chmod 600 {path}")
        return msgspec.convert(tomllib.loads(path.read_text(encoding="utf-8")), Credentials)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, msgspec.ValidationError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is not a credentials file: {error}") from error


def credentials_text(credentials: Credentials) -> str:
    """A bundle as `read_credentials` reads it; no value of a bundle contains quotes."""
    lines = [
        "# Opens the broker for one account; keep it private (chmod 600).",
        *(
            f'{name} = "{value}"'
            for name, value in msgspec.structs.asdict(credentials).items()
            if name not in ("ca", "data") or (name == "data" and value)
        ),
        f"ca = '''\n{credentials.ca.strip()}\n'''",
    ]
    return "\n".join(lines) + "\n"


def _address(text: str | None, credentials: Credentials | None) -> Address:
    if credentials is None:
        host, port = split_address(text or DEFAULT_HOST)
        if host == AUTO:
            raise UsageError(
                f"--broker {AUTO} needs --credentials: their CA tells our broker from others"
            )
        return Address(host, port)
    host, port = split_address(credentials.broker)
    if text is not None:
        host, port = split_address(text, port)
    if host == AUTO:
        found = find_broker(credentials.ca)
        host, port = found.host, found.port
    return Address(host, port, credentials.name, credentials.password, credentials.ca)


def split_address(text: str, default_port: int = DEFAULT_PORT) -> tuple[str, int]:
    """HOST, HOST:PORT or [IPV6]:PORT as host and port."""
    host, colon, port = text.rpartition(":")
    if not colon or text.endswith("]") or (":" in host and not host.startswith("[")):
        host, port = text, str(default_port)
    host = host.strip("[]")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise UsageError(f"--broker is {text!r}; expected HOST or HOST:PORT")
    return host, int(port)


def join_address(host: str, port: int) -> str:
    """The inverse of `split_address`."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
