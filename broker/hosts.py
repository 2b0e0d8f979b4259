"""What this machine is called, and under which addresses others reach it."""

from __future__ import annotations

import contextlib
import ipaddress
import re
import socket
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

_NAME = re.compile(r"(?=.{1,253}$)[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?(\.[A-Za-z0-9_-]+)*")
_SIOCGIFADDR = 0x8915
# Addresses of the documentation range: connecting a UDP socket sends nothing, but shows
# which of our own addresses would be used towards other machines.
_ELSEWHERE = ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1"))


def is_host(text: str) -> bool:
    """A host name or an IP address, as it may stand in a certificate."""
    return _is_address(text) or _NAME.fullmatch(text) is not None


def normal(name: str) -> str:
    """One way of writing each name or address."""
    return str(ipaddress.ip_address(name)) if _is_address(name) else name.lower()


def own_names() -> tuple[str, ...]:
    """Names and addresses that lead to this machine, loopback included."""
    names = {"localhost", "127.0.0.1", "::1"}
    host = socket.gethostname()
    if is_host(host):
        names |= {host, f"{host.split('.', maxsplit=1)[0]}.local"}
    with contextlib.suppress(OSError):
        names |= {name for name in (socket.getfqdn(),) if is_host(name)}
    names |= {*_outgoing(), *_interfaces(), *_interfaces6()}
    return tuple(sorted(name for name in names if not _is_link_local(name)))


def main_address() -> str:
    """The address by which other machines most likely reach this one."""
    return next(_outgoing(), socket.gethostname())


def _outgoing() -> Iterator[str]:
    for family, elsewhere in _ELSEWHERE:
        with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((elsewhere, 9))
            yield probe.getsockname()[0]


def _interfaces() -> Iterator[str]:
    if sys.platform != "linux":
        return
    import fcntl

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            with contextlib.suppress(OSError):  # an interface without an address
                request = struct.pack("256s", name.encode()[:15])
                yield socket.inet_ntoa(fcntl.ioctl(probe, _SIOCGIFADDR, request)[20:24])


def _interfaces6() -> Iterator[str]:
    with contextlib.suppress(OSError):  # no IPv6 here
        for line in Path("/proc/net/if_inet6").read_text().splitlines():
            yield str(ipaddress.IPv6Address(bytes.fromhex(line.split()[0])))


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _is_link_local(name: str) -> bool:
    """Such an address needs an interface's name beside it and is no good in a certificate."""
    return _is_address(name) and ipaddress.ip_address(name).is_link_local
