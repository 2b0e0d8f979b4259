"""The steps of the open round of a secured run, on disk: who is in each, and what they sent.

<journal>/secure/<step>-<client>.json   what a client contributed; if lost, it sends it again
                 members.json           the keys of all who share their secrets
                 sharers.json           all sealed shares, of those who train
                 survivors.json         whose updates are in the sum

The last three are flushed to the disk before they are published: boards accept no others later.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import msgspec

from common.disk.atomic import disk_errors, write_atomic
from common.errors import ProtocolError
from common.privacy.rules import (
    Keys,
    RevealedShares,
    RoundKeys,
    Sealed,
    SealedShares,
    Secret,
)
from common.wire.json_codec import INVALID, decodable, decoder
from common.wire.messages import Ids, Natural, SecureRound, Step, Wire
from fl_server.rounds.actions import Settle
from fl_server.rounds.steps import Sealing

log = logging.getLogger(__name__)

W = TypeVar("W", bound=Wire)


@decodable
class _Contributed(Wire, frozen=True, kw_only=True):
    secret: Secret


@decodable
class _Members(Wire, frozen=True, kw_only=True):
    threshold: Natural
    members: dict[Natural, Keys]


@decodable
class _Sharers(Wire, frozen=True, kw_only=True):
    sealed: dict[Natural, dict[Natural, Sealed]]


@decodable
class _Survivors(Wire, frozen=True, kw_only=True):
    survivors: Ids


@dataclass(frozen=True, slots=True)
class Opening:
    """All that opens the sum of a round."""

    where: str
    peers: Mapping[int, Keys]
    threshold: int
    survivors: tuple[int, ...]
    answers: Mapping[int, Mapping[int, bytes]]


@dataclass(slots=True)
class _Round:
    number: int = 0
    threshold: int = 0
    members: dict[int, Keys] = field(default_factory=dict)
    sealed: dict[int, dict[int, bytes]] = field(default_factory=dict)
    survivors: tuple[int, ...] = ()
    contributed: dict[str, dict[int, Secret]] = field(default_factory=dict)


class SecureJournal:
    """One run's; `folder` gives that of a round."""

    def __init__(self, run: str, folder: Callable[[int], Path]) -> None:
        self._run = run
        self._folder = folder
        self._round = _Round()

    def keep(self, round_number: int, client: int, secret: Secret) -> Step:
        """Keep what a client contributes, and to which step; ProtocolError if it is not fit."""
        at = self._at(round_number)
        step = step_of(secret)
        match secret:
            case SealedShares(sealed=sealed):
                if set(sealed) != set(at.members) - {client}:
                    raise ProtocolError("shares for other clients than the members")
            case RevealedShares(shares=shares):
                if set(shares) != set(at.sealed):
                    raise ProtocolError("shares of other clients than those who train")
            case RoundKeys(keys=keys):
                from common.privacy.ciphers import check_public_key  # an optional package

                check_public_key(keys.channel)
                check_public_key(keys.mask)
        path = self._folder(round_number) / f"{step}-{client}.json"
        data = msgspec.json.encode(_Contributed(secret=secret))
        write_atomic(path, data, durable=False)
        at.contributed.setdefault(step, {})[client] = secret
        return step

    def settle(self, settled: Settle) -> None:
        """Write down who is in a step from now on."""
        at = self._at(settled.round_number)
        given = at.contributed
        match settled.step:
            case "shares":
                keys = {c: given["keys"][c] for c in settled.clients}
                members = {c: k.keys for c, k in keys.items() if isinstance(k, RoundKeys)}
                at.members, at.threshold = members, settled.threshold
                self._write("members", at, _Members(threshold=at.threshold, members=members))
            case "updates":
                sent = {c: given["shares"][c] for c in settled.clients}
                at.sealed = {
                    c: s.sealed for c, s in sent.items() if isinstance(s, SealedShares)
                }
                self._write("sharers", at, _Sharers(sealed=at.sealed))
            case "opening":
                at.survivors = settled.clients
                self._write("survivors", at, _Survivors(survivors=at.survivors))
            case "" | "keys":
                raise AssertionError("in which everybody is who was selected")

    def sealing(self, round_number: int) -> Sealing:
        """Where a round is."""
        at = self._at(round_number)
        step: Step = "keys"
        clients: tuple[int, ...] = ()
        if at.members:
            step, clients = "shares", tuple(sorted(at.members))
        if at.sealed:
            step, clients = "updates", tuple(sorted(at.sealed))
        if at.survivors:
            step, clients = "opening", at.survivors
        answered = frozenset(at.contributed.get(step, ()))
        return Sealing(step, clients, at.threshold, answered)

    def message(self, round_number: int, client: int) -> SecureRound:
        """What a client needs for the open step."""
        at = self._at(round_number)
        sealed = {c: mine[client] for c, mine in at.sealed.items() if c != client}
        return SecureRound(
            run=self._run,
            round=round_number,
            client=client,
            threshold=at.threshold,
            members=at.members,
            sealed=sealed,
            survivors=at.survivors,
        )

    def opening(self, round_number: int) -> Opening:
        """All that opens the sum."""
        at = self._at(round_number)
        answers = {
            client: secret.shares
            for client, secret in at.contributed.get("opening", {}).items()
            if isinstance(secret, RevealedShares) and client in at.survivors
        }
        peers = {client: at.members[client] for client in at.sealed}
        where = f"{self._run} {round_number}"
        return Opening(where, peers, at.threshold, at.survivors, answers)

    def _at(self, round_number: int) -> _Round:
        if self._round.number != round_number:
            self._round = self._read(round_number)
        return self._round

    def _read(self, round_number: int) -> _Round:
        folder, found = self._folder(round_number), _Round(round_number)
        if (members := _load(folder / "members.json", _Members)) is not None:
            found.members, found.threshold = members.members, members.threshold
        if (sharers := _load(folder / "sharers.json", _Sharers)) is not None:
            found.sealed = sharers.sealed
        if (survivors := _load(folder / "survivors.json", _Survivors)) is not None:
            found.survivors = survivors.survivors
        for path in sorted(folder.glob("*-*.json")):
            step, _, client = path.stem.partition("-")
            kept = _load(path, _Contributed)
            if kept is not None and client.isdecimal():
                found.contributed.setdefault(step, {})[int(client)] = kept.secret
        return found

    def _write(self, name: str, at: _Round, content: Wire) -> None:
        path = self._folder(at.number) / f"{name}.json"
        write_atomic(path, msgspec.json.encode(content))


def step_of(secret: Secret) -> Step:
    """The step to which a contribution belongs."""
    match secret:
        case RoundKeys():
            return "keys"
        case SealedShares():
            return "shares"
        case RevealedShares():
            return "opening"


def _load(path: Path, kind: type[W]) -> W | None:
    """A file of ours, if it is there and whole; a power cut may leave anything."""
    if not path.exists():
        return None
    with disk_errors(path):
        data = path.read_bytes()
    try:
        return decoder(kind).decode(data)
    except INVALID as error:
        log.warning("passed over %s: %s", path, error)
        return None
