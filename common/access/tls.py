"""TLS with a private CA, and what its failures mean.

Needs the standard library only, so that boards need nothing more; certificates are made by
`broker.authority`.
"""

from __future__ import annotations

import socket
import ssl
import time
from datetime import datetime, timezone
from typing import cast

_EXPIRED, _NOT_YET, _OTHER_HOST, _OTHER_ADDRESS = 10, 9, 62, 64
DAY_SECONDS = 86_400


def client_context(ca: str) -> ssl.SSLContext:
    """A context that accepts certificates of this CA (PEM) only, for the right host name."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_verify_locations(cadata=ca)
    return context


def connect(host: str, port: int, ca: str | None, timeout: float) -> socket.socket:
    """A connection, with TLS if there is a CA (PEM). OSError if it fails."""
    plain = socket.create_connection((host, port), timeout)
    if ca is None:
        return plain
    try:
        return client_context(ca).wrap_socket(plain, server_hostname=host)
    except BaseException:
        plain.close()
        raise


def shake_hands(host: str, port: int, ca: str, timeout: float) -> datetime:
    """Connect as a client; when the server's certificate expires. OSError if it fails."""
    with connect(host, port, ca, timeout) as guarded:
        assert isinstance(guarded, ssl.SSLSocket)
        certificate = guarded.getpeercert()
    assert certificate, "a verified connection has a certificate"
    return _end(cast("str", certificate["notAfter"]))


def ca_expiry(ca: str) -> datetime:
    """When a CA certificate (PEM) expires."""
    certificates = client_context(ca).get_ca_certs()
    return min(_end(cast("str", certificate["notAfter"])) for certificate in certificates)


def days_left(end: datetime) -> int:
    """Whole days until then; negative once it has passed."""
    return int((end.timestamp() - time.time()) // DAY_SECONDS)


def why(error: OSError, host: str) -> str:
    """Why a connection failed."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return _why_not_believed(error, host)
    if isinstance(error, ssl.SSLError):
        if error.reason in {"WRONG_VERSION_NUMBER", "HTTP_REQUEST"}:
            return "it does not speak TLS there; is the port right?"
        return f"TLS failed: {(error.reason or str(error)).lower().replace('_', ' ')}"
    return (error.strerror or str(error) or type(error).__name__).lower()


def _why_not_believed(error: ssl.SSLCertVerificationError, host: str) -> str:
    if error.verify_code == _EXPIRED:
        return "its certificate has expired; on the broker's machine run: fl-broker renew"
    if error.verify_code == _NOT_YET:
        return "its certificate is not valid yet; is the clock of this machine right?"
    if error.verify_code in {_OTHER_HOST, _OTHER_ADDRESS}:
        return (
            f"its certificate is not for {host}; on the broker's machine run: "
            f"fl-broker renew --name {host}"
        )
    return (
        "its certificate is not from the CA in the credentials file; is this the right broker? "
        "if it was set up anew, enroll again"
    )


def _end(text: str) -> datetime:
    return datetime.fromtimestamp(ssl.cert_time_to_seconds(text), timezone.utc)
