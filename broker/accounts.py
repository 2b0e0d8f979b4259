"""Who may log in: credentials files for people and boards, and Mosquitto's file of hashes.

`<folder>/passwords` decides; `<folder>/accounts/<name>.toml` is made to be handed to its owner.
A password stands in that file only, never on a command line, on the screen or in a log.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import os
import re
import secrets
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from broker.config import PASSWORDS
from common.errors import StoreError, UsageError

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
# As mosquitto_passwd 2.0 writes them. Our passwords are 256 random bits, which no number of
# iterations makes harder to guess, and each login costs Mosquitto's only thread that many.
_SALT_BYTES = 12
_ITERATIONS = 101


def add_account(folder: Path, name: str) -> Path:
    """Make an account with a random password; the credentials file that lets its owner in."""
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"account name is {name!r}; expected up to 64 letters, digits, '_', '.' or '-'"
        )
    credentials = folder / "accounts" / f"{name}.toml"
    with _writing(folder):
        entries = _entries(folder)
        if name in entries:
            raise UsageError(f"account {name} exists; revoke it first for a new password")
        password = secrets.token_urlsafe(32)
        _make_private(credentials.parent)
        # The credentials first: a crash in between leaves a file to write again, not an
        # account that nobody can use.
        _write(credentials, f'username = "{name}"\npassword = "{password}"\n')
        _write_entries(folder, {**entries, name: _hashed(password)})
    return credentials


def remove_account(folder: Path, name: str) -> None:
    """End an account: its password no longer opens anything, its credentials file is gone."""
    with _writing(folder):
        entries = _entries(folder)
        if name not in entries:
            known = ", ".join(sorted(entries)) or "none"
            raise UsageError(f"there is no account {name!r}; accounts: {known}")
        _write_entries(folder, {key: entries[key] for key in entries if key != name})
        (folder / "accounts" / f"{name}.toml").unlink(missing_ok=True)


def account_names(folder: Path) -> tuple[str, ...]:
    """Who may log in, sorted."""
    try:
        return tuple(sorted(_entries(folder)))
    except OSError as error:
        raise StoreError(f"cannot read the accounts in {folder}: {error.strerror}") from error


def _hashed(password: str) -> str:
    salt = secrets.token_bytes(_SALT_BYTES)
    digest = hashlib.pbkdf2_hmac("sha512", password.encode(), salt, _ITERATIONS)
    salt_text, digest_text = (base64.b64encode(part).decode() for part in (salt, digest))
    return f"$7${_ITERATIONS}${salt_text}${digest_text}"


def _entries(folder: Path) -> dict[str, str]:
    try:
        text = (folder / PASSWORDS).read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    pairs = (line.partition(":") for line in text.splitlines() if line)
    return {name: entry for name, _, entry in pairs}


def _write_entries(folder: Path, entries: Mapping[str, str]) -> None:
    lines = [f"{name}:{entry}\n" for name, entry in sorted(entries.items())]
    _write(folder / PASSWORDS, "".join(lines))


def _make_private(folder: Path) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)


def _write(path: Path, text: str) -> None:
    """Put a file in place, whole or not at all; nobody else can read it at any moment."""
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with os.fdopen(
            os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w"
        ) as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


@contextlib.contextmanager
def _writing(folder: Path) -> Iterator[None]:
    """One writer at a time, so that no account is lost; failures of the disk become ours."""
    try:
        _make_private(folder)
        with (folder / ".accounts.lock").open("w") as lock:
            if sys.platform != "win32":
                import fcntl

                fcntl.flock(lock, fcntl.LOCK_EX)
            yield
    except OSError as error:
        raise StoreError(f"cannot write the accounts in {folder}: {error.strerror}") from error
