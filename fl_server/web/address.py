"""Where the page is served, who may look and who may do something."""

from __future__ import annotations

import contextlib
import hmac
import ipaddress
import socket
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from common.errors import UsageError
from fl_server.web.tokens import new_tokens, read_tokens

DEFAULT = "127.0.0.1:8765"
EVERYWHERE = ("0.0.0.0", "::")  # noqa: S104 - names, not a choice


def is_loopback(host: str) -> bool:
    """Whether a host is this machine."""
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


def is_number(host: str) -> bool:
    """Whether a host is an address and not a name, which others could let lead here."""
    with contextlib.suppress(ValueError):
        ipaddress.ip_address(host)
        return True
    return False


@dataclass(frozen=True, slots=True)
class PageAddress:
    """Where the page is served; other machines than this one need the token to look.

    `control` is the token of those who may do something; without one nobody may.
    """

    host: str
    port: int
    token: str
    control: str = ""

    def url(self, port: int) -> str:
        """The URL for a browser; a browser sends nothing of what is behind the #."""
        host = socket.gethostname() if self.host in EVERYWHERE else self.host
        host = f"[{host}]" if ":" in host else host
        look = f"?token={self.token}" if self.token else ""
        return f"http://{host}:{port}/{look}" + (
            f"#control={self.control}" if self.control else ""
        )

    def may_look(self, token: str, host: str) -> bool:
        """Whether a request with this token, for this `Host`, may read."""
        if self.token:
            return hmac.compare_digest(token.encode(), self.token.encode())
        # Without a token only pages of this machine: no other site may read it by a name
        # of its own that leads here.
        return is_loopback(hostname(host))

    def may_ask(self, token: str) -> bool:
        """Whether a request with this token may change something."""
        return bool(self.control) and hmac.compare_digest(token.encode(), self.control.encode())

    def is_own(self, origin: str, host: str) -> bool:
        """Whether a request comes from our own page, under a name that is ours."""
        name = hostname(host)
        known = is_loopback(name) or (
            not is_loopback(self.host)
            and (is_number(name) or name in (self.host, socket.gethostname()))
        )
        return known and origin == f"http://{host}"


def hostname(host: str) -> str:
    """The host of a `Host` header, without its port; ValueError if it is none."""
    return urlsplit(f"//{host}").hostname or ""


def read_page_address(
    text: str, *, control: bool = False, tokens: Path | None = None
) -> PageAddress:
    """HOST:PORT, PORT or HOST; to look from another machine than this one needs a token.

    Tokens are made anew, unless a file keeps them.
    """
    host, colon, port = text.rpartition(":")
    if not colon and not text.isdecimal():
        host, port = text, DEFAULT.rpartition(":")[2]
    host = host.strip("[]") or "127.0.0.1"
    if "/" in text or not port.isdecimal() or int(port) > 65535:
        raise UsageError(f"--web is {text!r}; expected HOST:PORT, such as {DEFAULT}")
    found = new_tokens() if tokens is None else read_tokens(tokens)
    look = "" if is_loopback(host) else found.look
    return PageAddress(host, int(port), look, found.control if control else "")
