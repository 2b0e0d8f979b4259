"""Announcing a broker in the local network, and finding it: DNS-SD, by the programs of avahi.

What is announced is a hint that anybody in the network can give. Whom to trust is decided by
the CA of the credentials: the first announced broker that it vouches for is taken.
"""

from __future__ import annotations

import contextlib
import ipaddress
import logging
import re
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from common.access.address import Address
from common.access.tls import shake_hands, why
from common.errors import BrokerError, UsageError
from common.program.child import dies_with_parent

log = logging.getLogger(__name__)

AUTO = "auto"
SERVICE = "_secure-mqtt._tcp"  # registered at IANA for MQTT over TLS
INSTALL = "install it (Debian: apt-get install avahi-daemon avahi-utils)"
BROWSE_SECONDS, ANSWER_SECONDS = 20.0, 5.0
MOST_ANNOUNCED, MOST_NAMED = 16, 3  # anybody may announce any number
_HOST = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,252}")
_START = "start it with 'fl-broker up --listen 0.0.0.0 --announce'"
_NAMED = "or name the broker's address: --broker HOST:PORT"


@dataclass(frozen=True, slots=True)
class Announced:
    """One broker, as avahi knows it: the name and the address of its machine, and the port."""

    host: str
    address: str
    port: int


def find_broker(ca: str) -> Address:
    """Where an announced broker is whose certificate is from this CA (PEM)."""
    reasons = []
    for one in _browse():
        # The name first: by it, a machine is found again after its address has changed. Where
        # this system does not resolve such names, the address is left.
        why_not = ""
        for host in (one.host, one.address):
            try:
                shake_hands(host, one.port, ca, ANSWER_SECONDS)
            except OSError as error:
                why_not = f"{Address(host, one.port)}: {why(error, host).partition('; ')[0]}"
            else:
                return Address(host, one.port)
        reasons.append(why_not)
    if not reasons:
        raise BrokerError(f"no broker is announced in this network; {_START}, {_NAMED}")
    named = ", ".join(reasons[:MOST_NAMED])
    more = f" and {len(reasons) - MOST_NAMED} more" if len(reasons) > MOST_NAMED else ""
    raise BrokerError(
        f"no announced broker is that of the credentials ({named}{more}); {_START}, {_NAMED}"
    )


def read_announced(printed: str) -> Sequence[Announced]:
    """The brokers in what `avahi-browse --parsable --resolve` prints; the rest is left out."""
    found = {}
    for line in printed.splitlines():
        fields = line.split(";")
        if len(fields) < 9 or fields[0] != "=" or not fields[8].isdecimal():
            continue
        host, address, port = fields[6], fields[7], int(fields[8])
        if _HOST.fullmatch(host) and _is_routable(address) and 0 < port < 65536:
            found[address, port] = Announced(host, address, port)
    # IPv4 first: that is where a broker on 0.0.0.0 listens.
    return sorted(found.values(), key=lambda one: ":" in one.address)[:MOST_ANNOUNCED]


def _is_routable(text: str) -> bool:
    """An address that stands for itself; a link-local one needs an interface beside it."""
    try:
        return not ipaddress.ip_address(text).is_link_local
    except ValueError:
        return False


def _browse() -> Sequence[Announced]:
    program = shutil.which("avahi-browse")
    if program is None:
        raise UsageError(f"--broker {AUTO} needs the program avahi-browse; {INSTALL}, {_NAMED}")
    options = ("--parsable", "--resolve", "--terminate", "--no-db-lookup")
    try:
        done = subprocess.run(
            [program, *options, SERVICE],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=BROWSE_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        late = f"avahi-browse gave no answer within {BROWSE_SECONDS:.0f} s"
        raise BrokerError(f"{late}; is avahi-daemon well? Restart it, {_NAMED}") from error
    if done.returncode != 0:
        reason = " ".join(done.stderr.split()) or f"exit code {done.returncode}"
        raise BrokerError(
            f"avahi-browse: {reason}; start it: systemctl start avahi-daemon, {_NAMED}"
        )
    return read_announced(done.stdout)


@contextlib.contextmanager
def announcing(port: int) -> Iterator[None]:
    """Announce the broker with TLS on this port of this machine, while the context lasts."""
    program = shutil.which("avahi-publish")
    if program is None:
        raise UsageError(f"--announce needs the program avahi-publish; {INSTALL}")
    name = f"fedbed on {socket.gethostname()[:40]}, port {port}"  # unique, at most 63 bytes
    process = subprocess.Popen(
        [program, "--service", "--no-fail", name, SERVICE, str(port)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        preexec_fn=dies_with_parent(),
    )
    over = threading.Event()
    reader = threading.Thread(target=_log_output, args=(process, over), name="announcement")
    reader.start()
    try:
        yield
    finally:
        over.set()
        process.terminate()
        process.wait()
        reader.join()


def _log_output(process: subprocess.Popen[str], over: threading.Event) -> None:
    """Log what avahi-publish prints: that it waits for its daemon, or its name."""
    assert process.stdout is not None
    with process.stdout as lines:
        for line in lines:
            log.info("avahi: %s", line.strip())
    code = process.wait()
    if not over.is_set():
        log.warning(
            "avahi-publish ended (exit code %d): boards do not find this broker any more; is "
            "avahi-daemon running? Then start fl-broker again",
            code,
        )
