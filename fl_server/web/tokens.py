"""The tokens of the page's URL, and a private file that keeps them over restarts."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from common.disk.atomic import disk_errors, write_atomic
from common.errors import UsageError

PRIVATE = 0o600
OTHERS = 0o077


class Tokens(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """To look, and to do something."""

    look: Annotated[str, Meta(pattern="^[A-Za-z0-9_-]{16,100}$")]
    control: Annotated[str, Meta(pattern="^[A-Za-z0-9_-]{16,100}$")]


def new_tokens() -> Tokens:
    """That nobody knows yet."""
    return Tokens(secrets.token_urlsafe(16), secrets.token_urlsafe(16))


def read_tokens(path: Path) -> Tokens:
    """Those of the file, which is made if it is not there."""
    with disk_errors(path):
        if not path.exists():
            found = new_tokens()
            write_atomic(path, msgspec.json.encode(found) + b"\n", mode=PRIVATE)
            return found
        if path.stat().st_mode & OTHERS:
            raise UsageError(f"{path} can be read by others; make it private: chmod 600 {path}")
        content = path.read_bytes()
    try:
        return msgspec.json.decode(content, type=Tokens)
    except msgspec.DecodeError as error:
        raise UsageError(f"{path} is no file of tokens: {error}; remove it") from error
