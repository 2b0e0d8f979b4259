"""Every error raised on purpose; the command line prints them as one line each.

FedbedError             exit code 1
├── UsageError          exit code 2: the user's input is wrong
│   └── ConfigError     an experiment file, a --set override, a name in it
├── BrokerError         the broker cannot be found, started, reached, or refuses us
├── DataError           a dataset or a shard is missing or damaged
├── StoreError          a run or state folder cannot be read, written or locked
├── ClaimError          this board name, client id or federation is already taken
├── RevealError         a request that would open a single update of a secured round
├── WithdrawnError      a client cannot take part in the rest of a secured round
└── ProtocolError       bytes that are not a valid message; never leaves a service
    ├── VersionError    a message of another protocol version
    ├── StrayUpdateError    bytes that are not the update they were sent as
    └── UnfitUpdateError    an update that no exact sum can hold
"""

from __future__ import annotations


class FedbedError(Exception):
    """Base of all errors raised on purpose."""


class UsageError(FedbedError):
    """What the user asked for does not make sense."""


class ConfigError(UsageError):
    """A setting is unknown, of the wrong type or out of range."""


class BrokerError(FedbedError):
    """The broker cannot be found, started or reached, or it refuses us."""


class DataError(FedbedError):
    """A dataset or shard is missing or damaged."""


class StoreError(FedbedError):
    """A run or state folder cannot be read, written or locked."""


class ClaimError(FedbedError):
    """A board name, client id or federation is already taken."""


class RevealError(FedbedError):
    """A request that would open a single update of a secured round."""


class WithdrawnError(FedbedError):
    """A client cannot take part in the rest of a secured round."""


class ProtocolError(FedbedError):
    """Bytes that are not a valid message."""


class VersionError(ProtocolError):
    """A message of another protocol version."""


class StrayUpdateError(ProtocolError):
    """Not an update of the client, round and run it was sent for: the right one may follow."""


class UnfitUpdateError(ProtocolError):
    """An update that no exact sum can hold; another training gives the same."""
