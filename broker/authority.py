"""The broker's own certificate authority: makes and renews the certificate of the listener.

`<folder>/tls/ca.key` never leaves the machine; `ca.pem` goes into every bundle. Boards log in
with passwords, not with certificates: one secret per board, and revoking is one line.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from broker.config import CA, CERTIFICATE, PRIVATE, TLS
from broker.hosts import is_host, normal
from common.disk.atomic import write_atomic
from common.disk.lock import FolderLock
from common.errors import StoreError, UsageError

if TYPE_CHECKING:
    from broker import certificates

CA_KEY = f"{TLS}/ca.key"
RENEW_DAYS = 30  # a certificate that ends sooner is replaced when the broker starts


@dataclass(frozen=True, slots=True)
class Certificate:
    """The listener's certificate: whom it is for, and when it and its CA expire."""

    names: tuple[str, ...]
    end: datetime
    ca_end: datetime


def ensure_certificate(folder: Path, names: Iterable[str]) -> bool:
    """Make what is missing, no longer right or about to expire; True if something was."""
    wanted = _checked(names)
    _library()
    with FolderLock(folder, "fl-broker", wait=True):
        made = _ensure_ca(folder)
        if not made and _is_good(folder, wanted):
            return False
        _issue(folder, wanted)
    return True


def renew_certificate(folder: Path, names: Iterable[str]) -> None:
    """Replace the listener's certificate; the CA and so all bundles stay as they are."""
    wanted = _checked(names)
    _library()
    with FolderLock(folder, "fl-broker", wait=True):
        _ensure_ca(folder)
        _issue(folder, wanted)


def read_certificate(folder: Path) -> Certificate | None:
    """The listener's certificate, or None before the first start."""
    if not (folder / CERTIFICATE).exists():
        return None
    server, ca = _load(folder / CERTIFICATE), _load(folder / CA)
    names = _library().names_of(server)
    return Certificate(names, server.not_valid_after_utc, ca.not_valid_after_utc)


def ca_text(folder: Path) -> str:
    """The CA's certificate (PEM), for the bundles."""
    try:
        return (folder / CA).read_text(encoding="ascii")
    except OSError as error:
        raise StoreError(f"cannot read {folder / CA}: {error.strerror}") from error


def _checked(names: Iterable[str]) -> tuple[str, ...]:
    wanted = set()
    for name in names:
        if not is_host(name):
            raise UsageError(f"--name is {name!r}; expected a host name or an IP address")
        wanted.add(normal(name))
    return tuple(sorted(wanted))


def _is_good(folder: Path, wanted: tuple[str, ...]) -> bool:
    if not (folder / CERTIFICATE).exists():
        return False
    server, ca = _load(folder / CERTIFICATE), _load(folder / CA)
    fresh = server.not_valid_after_utc - datetime.now(timezone.utc) > timedelta(days=RENEW_DAYS)
    certified = set(_library().names_of(server))
    return fresh and server.issuer == ca.subject and set(wanted) <= certified


def _ensure_ca(folder: Path) -> bool:
    if (folder / CA_KEY).exists() and (folder / CA).exists():
        return False
    library = _library()
    key, certificate = library.make_ca()
    (folder / TLS).mkdir(mode=0o700, exist_ok=True)
    # The key first: a crash in between leaves a CA to make again.
    write_atomic(folder / CA_KEY, library.key_pem(key), mode=PRIVATE)
    write_atomic(folder / CA, library.certificate_pem(certificate), mode=PRIVATE)
    return True


def _issue(folder: Path, names: tuple[str, ...]) -> None:
    library = _library()
    key, certificate = library.issue(_load(folder / CA), _load_key(folder / CA_KEY), names)
    # One file for both, so that Mosquitto never reads a key with another's certificate.
    text = library.key_pem(key) + library.certificate_pem(certificate)
    write_atomic(folder / CERTIFICATE, text, mode=PRIVATE)


def _load(path: Path) -> certificates.Certificate:
    library = _library()
    try:
        found: certificates.Certificate = library.load_certificate(path.read_bytes())
    except (OSError, ValueError) as error:
        raise StoreError(f"cannot read the certificate {path}: {error}") from error
    return found


def _load_key(path: Path) -> certificates.Key:
    library = _library()
    try:
        found: certificates.Key = library.load_key(path.read_bytes())
    except (OSError, ValueError) as error:
        raise StoreError(f"cannot read the key {path}: {error}") from error
    return found


def _library() -> ModuleType:
    """`broker.certificates`, imported at the first use."""
    try:
        return importlib.import_module("broker.certificates")
    except ImportError as error:
        raise UsageError(
            "certificates need the package cryptography; install it: "
            "pip install 'fedbed[broker]'"
        ) from error
