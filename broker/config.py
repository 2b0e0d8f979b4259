"""PURE: the settings of our Mosquitto, `BrokerConfig` -> the text of mosquitto.conf."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass

from common.errors import ConfigError

PASSWORDS = "passwords"
ACL = "acl"
TLS = "tls"
CA = f"{TLS}/ca.pem"
CERTIFICATE = f"{TLS}/server.pem"  # with its key
STATE = "mosquitto.db"  # sessions, queues, retained messages
FORGET = "forget"  # while this file is there, STATE is not to be used again
PLAIN_PORT, GUARDED_PORT = 1883, 8883
HIGHEST_PORT = 65535
PRIVATE = 0o600  # of every file in the broker's folder

MOST_MEMORY_BYTES = 2 * 1024 * 1024 * 1024 - 1  # Mosquitto 2.0 reads no larger number
LEAST_QUEUE_BYTES = 256 * 1024 * 1024

# Nothing that could end the line or the word: the address is written into a configuration file.
_ADDRESS = re.compile(r"[A-Za-z0-9_.:%-]{1,253}")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfig:
    """One listener and its limits.

    A listener that other machines can reach is `guarded`: TLS, accounts, and rules for what
    each may publish and read. Otherwise the class cannot be made. There is no plain listener
    beside a guarded one: clients on this machine log in, too.
    """

    address: str = "127.0.0.1"
    port: int = PLAIN_PORT
    guarded: bool = False
    # A chunk is at most 512 KiB. A larger packet than this ends its sender's connection, and a
    # sender that repeats it after each reconnect never gets another message through.
    max_packet_bytes: int = 1024 * 1024
    # Per session, for what waits until its client reads; Mosquitto drops the rest silently. One
    # model must fit: a board that subscribes gets all its parts at once.
    max_queued_messages: int = 50_000
    max_inflight_messages: int = 100
    # Also those that never log in; Mosquitto keeps them for 90 s, at 41 KB each with TLS.
    max_connections: int = 10_000
    # For everything; Mosquitto 2.0 has no bound per account. Beyond it every client fails, so
    # the supervisor empties the broker before (see supervisor.py).
    max_memory_bytes: int = MOST_MEMORY_BYTES
    autosave_seconds: int = 30
    # The shortest time Mosquitto knows: what a session holds is published again anyway.
    forget_clients_after_hours: int = 1

    def __post_init__(self) -> None:
        """Refuse what Mosquitto would misread, and open doors."""
        if not _ADDRESS.fullmatch(self.address):
            raise ConfigError(
                f"broker address is {self.address!r}; expected a host or IP address"
            )
        if not 1 <= self.port <= HIGHEST_PORT:
            raise ConfigError(f"broker port is {self.port}; expected 1 to {HIGHEST_PORT}")
        for name in (
            "max_packet_bytes",
            "max_queued_messages",
            "max_memory_bytes",
        ):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} is {getattr(self, name)}; expected at least 1")
        for name in (
            "max_inflight_messages",
            "max_connections",
            "autosave_seconds",
            "forget_clients_after_hours",
        ):
            if not 1 <= getattr(self, name) <= HIGHEST_PORT:
                raise ConfigError(
                    f"{name} is {getattr(self, name)}; expected 1 to {HIGHEST_PORT}"
                )
        if not self.guarded and not is_loopback(self.address):
            raise ConfigError(
                f"broker address {self.address} can be reached from other machines; "
                "expected a guarded broker"
            )


def is_loopback(address: str) -> bool:
    """Only this machine can reach `address`; a name other than localhost might be anything."""
    if address.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


def bind_address(config: BrokerConfig) -> str:
    """The address Mosquitto binds: `localhost` is not left to the resolver."""
    return "127.0.0.1" if config.address.lower() == "localhost" else config.address


def queue_bytes(config: BrokerConfig) -> int:
    """How much may wait for one session: above all, for the coordinator the updates of all.

    A third of the memory: before, the model was on its way to all boards, a copy for each, and
    with both the broker must stay below where it is emptied.
    """
    return max(LEAST_QUEUE_BYTES, config.max_memory_bytes // 3)


def mosquitto_conf(config: BrokerConfig, folder: str, *, user: str = "") -> str:
    """The configuration of a Mosquitto that keeps everything in `folder` and runs as `user`."""
    if _CONTROL.search(folder) or folder != folder.strip():
        raise ConfigError(f"broker folder is {folder!r}; expected a path without odd blanks")
    access = (
        [
            f"certfile {folder}/{CERTIFICATE}",
            f"keyfile {folder}/{CERTIFICATE}",
            "tls_version tlsv1.2",  # or later
            "allow_anonymous false",
            f"password_file {folder}/{PASSWORDS}",
            f"acl_file {folder}/{ACL}",
        ]
        if config.guarded
        else ["allow_anonymous true"]
    )
    lines = [
        "# Written by fl-broker at every start; changes here are lost.",
        f"listener {config.port} {bind_address(config)}",
        f"max_connections {config.max_connections}",
        *access,
        "persistence true",
        f"persistence_location {folder}",
        f"autosave_interval {config.autosave_seconds}",
        f"persistent_client_expiration {config.forget_clients_after_hours}h",
        f"max_packet_size {config.max_packet_bytes}",
        f"max_inflight_messages {config.max_inflight_messages}",
        f"max_queued_messages {config.max_queued_messages}",
        f"max_queued_bytes {queue_bytes(config)}",
        f"memory_limit {config.max_memory_bytes}",
        "set_tcp_nodelay true",
        "log_dest stderr",
        "log_type error",
        "log_type warning",
        "log_type notice",
        "log_timestamp_format %Y-%m-%dT%H:%M:%S",
        # Started as root, Mosquitto becomes the user `mosquitto`, who cannot write our folder.
        *([f"user {user}"] if user else []),
    ]
    return "\n".join(lines) + "\n"
