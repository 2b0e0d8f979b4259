"""Certificates as bytes: a CA, and certificates that it signs. Files are authority.py's.

The only module here that imports cryptography, an optional package that the broker's machine
needs; `authority.py` imports this one when it is used.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from datetime import datetime, timedelta, timezone

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

Key = ec.EllipticCurvePrivateKey
Certificate = x509.Certificate

CA_DAYS = 3650
SERVER_DAYS = 730
# The clock of a board without a battery may be behind until it has reached a time server.
BACKDATE_DAYS = 30


def make_ca() -> tuple[Key, Certificate]:
    """A new CA with a name of its own."""
    key = _new_key()
    name = _distinguished(f"fedbed CA {x509.random_serial_number():x}"[:40])
    usage = x509.KeyUsage(
        digital_signature=False, content_commitment=False, key_encipherment=False,
        data_encipherment=False, key_agreement=False, key_cert_sign=True, crl_sign=True,
        encipher_only=False, decipher_only=False,
    )  # fmt: skip
    subject = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    certificate = (
        _builder(name, name, key, CA_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(subject, critical=False)
        .sign(key, hashes.SHA256())
    )
    return key, certificate


def issue(ca: Certificate, ca_key: Key, names: Iterable[str]) -> tuple[Key, Certificate]:
    """A server's certificate for host names and addresses, with its key."""
    key = _new_key()
    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key())
    usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
    hosts = x509.SubjectAlternativeName([_general_name(name) for name in names])
    certificate = (
        _builder(_distinguished("fedbed broker"), ca.subject, key, SERVER_DAYS)
        .add_extension(hosts, critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(usage, critical=False)
        .add_extension(issuer, critical=False)
        .sign(ca_key, hashes.SHA256())
    )
    return key, certificate


def names_of(certificate: Certificate) -> tuple[str, ...]:
    """The host names and addresses that a certificate is for."""
    extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    return tuple(str(name.value) for name in extension.value)


def load_certificate(pem: bytes) -> Certificate:
    """The certificate in a PEM text; ValueError if there is none."""
    return x509.load_pem_x509_certificate(pem)


def load_key(pem: bytes) -> Key:
    """The key in a PEM text; ValueError if there is none of ours."""
    key = load_pem_private_key(pem, password=None)
    if not isinstance(key, Key):
        raise ValueError("not a key that fl-broker made")  # noqa: TRY004 - a bad file
    return key


def key_pem(key: Key) -> bytes:
    """A key as PEM, not encrypted."""
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def certificate_pem(certificate: Certificate) -> bytes:
    """A certificate as PEM."""
    return certificate.public_bytes(Encoding.PEM)


def _new_key() -> Key:
    return ec.generate_private_key(ec.SECP256R1())


def _distinguished(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: Key, days: int
) -> x509.CertificateBuilder:
    now = datetime.now(timezone.utc)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=BACKDATE_DAYS))
        .not_valid_after(now + timedelta(days=days))
    )


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)
