"""Accounts: bundles to hand out, and the two files that Mosquitto reads.

`<folder>/accounts/<name>.toml` is the bundle for its owner, and the record of which board has
which clients; `passwords` (hashes) and `acl` (rules) are made from these. A password is in that
file only, never on a command line, on the screen or in a log.
"""

from __future__ import annotations

import base64
import hashlib
import secrets
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from broker.acl import Account, acl_text
from broker.authority import ca_text
from broker.config import ACL, FORGET, PASSWORDS, PRIVATE
from common.access.credentials import Credentials, credentials_text, read_credentials
from common.disk.atomic import disk_errors, write_atomic
from common.disk.lock import FolderLock
from common.errors import UsageError
from common.ids import check_name, parse_ids, show_ids

# As mosquitto_passwd 2.0 writes them. Our passwords are 256 random bits, which no number of
# iterations makes harder to guess, and each login costs Mosquitto's only thread that many.
_SALT_BYTES = 12
_ITERATIONS = 101


@dataclass(frozen=True, slots=True)
class Enrolled:
    """The bundle of an account, and whether anything about it is new."""

    bundle: Path
    changed: bool


def enroll(folder: Path, account: Account, broker: str) -> Enrolled:
    """Make an account, or change what it is for; its password stays."""
    check_name(account.name, "name")
    check_name(account.federation, "--federation")
    path = _bundle(folder, account.name)
    with _writing(folder):
        known = _read_all(folder)
        _refuse_overlap(account, known.values())
        entries = _entries(folder)
        before = known.get(account.name) if account.name in entries else None
        wanted = Credentials(
            role=account.role,
            name=account.name,
            password=before.password if before else secrets.token_urlsafe(32),
            broker=broker,
            federation=account.federation,
            clients=show_ids(account.clients) if account.clients else "",
            ca=ca_text(folder).strip() + "\n",
        )
        known[account.name] = wanted
        if wanted == before:
            _write_if_new(folder / ACL, _rules(known))
            return Enrolled(path, changed=False)
        path.parent.mkdir(mode=0o700, exist_ok=True)
        # The bundle first: a crash in between leaves a file to write again, not an account
        # whose password is lost.
        write_atomic(path, credentials_text(wanted).encode(), mode=PRIVATE)
        _write_if_new(folder / ACL, _rules(known))
        if before is None:
            _write_entries(folder, {**entries, account.name: _hashed(wanted.password)})
    return Enrolled(path, changed=True)


def revoke(folder: Path, name: str) -> None:
    """End an account: its password is no longer valid, its bundle is deleted.

    Mosquitto cannot end the sessions, queues and retained messages of one account: the
    broker drops those of all, now or at its next start, and the others publish theirs again.
    """
    with _writing(folder):
        entries = _entries(folder)
        if name not in entries:
            known = ", ".join(sorted(entries)) or "none"
            raise UsageError(f"there is no account {name!r}; accounts: {known}")
        _write_entries(folder, {key: entries[key] for key in entries if key != name})
        _bundle(folder, name).unlink(missing_ok=True)
        _write_if_new(folder / ACL, _rules(_read_all(folder)))
        (folder / FORGET).touch(PRIVATE)


def accounts(folder: Path) -> tuple[Account, ...]:
    """All accounts, sorted by name."""
    with disk_errors(folder):
        entries = _entries(folder)
        known = _read_all(folder)
    return tuple(_account(known[name]) for name in sorted(known) if name in entries)


def prepare_files(folder: Path) -> None:
    """Write the files that Mosquitto needs to start, if they are missing."""
    with _writing(folder):
        _write_if_new(folder / ACL, _rules(_read_all(folder)))
        if not (folder / PASSWORDS).exists():
            _write_entries(folder, {})


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    """One writer at a time, so that no change is lost."""
    with disk_errors(folder), FolderLock(folder, "fl-broker", wait=True):
        yield


def _bundle(folder: Path, name: str) -> Path:
    return folder / "accounts" / f"{name}.toml"


def _read_all(folder: Path) -> dict[str, Credentials]:
    found = (read_credentials(path) for path in sorted((folder / "accounts").glob("*.toml")))
    return {credentials.name: credentials for credentials in found}


def _account(credentials: Credentials) -> Account:
    clients = parse_ids(credentials.clients) if credentials.clients else ()
    return Account(credentials.name, credentials.role, credentials.federation, clients)


def _rules(known: Mapping[str, Credentials]) -> str:
    return acl_text(_account(credentials) for credentials in known.values())


def _refuse_overlap(account: Account, known: Iterable[Credentials]) -> None:
    for other in map(_account, known):
        if other.name == account.name or other.federation != account.federation:
            continue
        if shared := set(account.clients) & set(other.clients):
            raise UsageError(
                f"clients {show_ids(tuple(shared))} are already those of board {other.name}; "
                f"give {account.name} others, or first: fl-broker revoke {other.name}"
            )


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
    write_atomic(folder / PASSWORDS, "".join(lines).encode(), mode=PRIVATE)


def _write_if_new(path: Path, text: str) -> None:
    """Write a file only if it changes: at every new one the broker reloads everything."""
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        write_atomic(path, text.encode(), mode=PRIVATE)
