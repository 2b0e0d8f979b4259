"""The broker's own certificate authority: makes and renews the certificate of the listener.

`<folder>/tls/ca.key` never leaves the machine; `ca.pem` goes into every bundle. Boards are
known by their passwords, not by certificates: one secret per board, and revoking is one line.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from broker.config import CA, CERTIFICATE, TLS
from broker.hosts import is_host, normal
from broker.private_files import make_private, write_private, writing
from common.errors import StoreError, UsageError

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

CA_KEY = f"{TLS}/ca.key"
CA_DAYS = 3650
SERVER_DAYS = 730
RENEW_DAYS = 30  # a certificate that ends sooner is replaced when the broker starts
# The clock of a board without a battery may be behind until it has reached a time server.
BACKDATE_DAYS = 30


@dataclass(frozen=True, slots=True)
class Certificate:
    """What people want to know of the listener's certificate."""

    names: tuple[str, ...]
    end: datetime
    ca_end: datetime


def ensure_certificate(folder: Path, names: Iterable[str]) -> bool:
    """Make what is missing, no longer right or about to expire; True if something was."""
    wanted = _checked(names)
    _need_library()
    with writing(folder):
        made = _ensure_ca(folder)
        if not made and _is_good(folder, wanted):
            return False
        _issue(folder, wanted)
    return True


def renew_certificate(folder: Path, names: Iterable[str]) -> None:
    """Replace the listener's certificate; the CA and so all bundles stay as they are."""
    wanted = _checked(names)
    _need_library()
    with writing(folder):
        _ensure_ca(folder)
        _issue(folder, wanted)


def read_certificate(folder: Path) -> Certificate | None:
    """The listener's certificate, or None before the first start."""
    if not (folder / CERTIFICATE).exists():
        return None
    _need_library()
    server = _load(folder / CERTIFICATE)
    return Certificate(_names_in(server), _end(server), _end(_load(folder / CA)))


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


def _need_library() -> None:
    try:
        import cryptography  # noqa: F401 - optional, only the broker's machine needs it
    except ImportError as error:
        raise UsageError(
            "certificates need the package cryptography; install it: "
            "pip install 'fedbed[broker]'"
        ) from error


def _is_good(folder: Path, wanted: tuple[str, ...]) -> bool:
    if not (folder / CERTIFICATE).exists():
        return False
    server, ca = _load(folder / CERTIFICATE), _load(folder / CA)
    fresh = _end(server) - _now() > timedelta(days=RENEW_DAYS)
    return fresh and server.issuer == ca.subject and set(wanted) <= set(_names_in(server))


def _ensure_ca(folder: Path) -> bool:
    if (folder / CA_KEY).exists() and (folder / CA).exists():
        return False
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes

    make_private(folder / TLS)
    key = _new_key()
    name = _distinguished(f"fedbed CA {x509.random_serial_number():x}"[:40])
    usage = x509.KeyUsage(
        digital_signature=False, content_commitment=False, key_encipherment=False,
        data_encipherment=False, key_agreement=False, key_cert_sign=True, crl_sign=True,
        encipher_only=False, decipher_only=False,
    )  # fmt: skip
    certificate = (
        _builder(name, name, key, CA_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(
            x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False
        )
        .sign(key, hashes.SHA256())
    )
    # The key first: a crash in between leaves a CA to make again.
    write_private(folder / CA_KEY, _key_text(key))
    write_private(folder / CA, _text(certificate))
    return True


def _issue(folder: Path, names: tuple[str, ...]) -> None:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.x509.oid import ExtendedKeyUsageOID

    ca, ca_key = _load(folder / CA), _load_key(folder / CA_KEY)
    key = _new_key()
    certificate = (
        _builder(_distinguished("fedbed broker"), ca.subject, key, SERVER_DAYS)
        .add_extension(x509.SubjectAlternativeName(_general_names(names)), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()),
            critical=False,
        )
        .sign(ca_key, hashes.SHA256())
    )
    # One file for both, so that Mosquitto can never meet a key with another's certificate.
    write_private(folder / CERTIFICATE, _key_text(key) + _text(certificate))


def _new_key() -> EllipticCurvePrivateKey:
    from cryptography.hazmat.primitives.asymmetric import ec

    return ec.generate_private_key(ec.SECP256R1())


def _distinguished(common_name: str) -> x509.Name:
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: EllipticCurvePrivateKey, days: int
) -> x509.CertificateBuilder:
    from cryptography import x509

    now = _now()
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=BACKDATE_DAYS))
        .not_valid_after(now + timedelta(days=days))
    )


def _general_names(names: tuple[str, ...]) -> list[x509.GeneralName]:
    from cryptography import x509

    found: list[x509.GeneralName] = []
    for name in names:
        try:
            found.append(x509.IPAddress(ipaddress.ip_address(name)))
        except ValueError:
            found.append(x509.DNSName(name))
    return found


def _names_in(certificate: x509.Certificate) -> tuple[str, ...]:
    from cryptography import x509

    extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    return tuple(str(name.value) for name in extension.value)


def _load(path: Path) -> x509.Certificate:
    from cryptography import x509

    try:
        return x509.load_pem_x509_certificate(path.read_bytes())
    except (OSError, ValueError) as error:
        raise StoreError(f"cannot read the certificate {path}: {error}") from error


def _load_key(path: Path) -> EllipticCurvePrivateKey:
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        key = load_pem_private_key(path.read_bytes(), password=None)
    except (OSError, ValueError) as error:
        raise StoreError(f"cannot read the key {path}: {error}") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise StoreError(f"{path} is not a key that fl-broker made")
    return key


def _key_text(key: EllipticCurvePrivateKey) -> str:
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
    )

    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def _text(certificate: x509.Certificate) -> str:
    from cryptography.hazmat.primitives.serialization import Encoding

    return certificate.public_bytes(Encoding.PEM).decode()


def _end(certificate: x509.Certificate) -> datetime:
    return certificate.not_valid_after_utc


def _now() -> datetime:
    return datetime.now(timezone.utc)
