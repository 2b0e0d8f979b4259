"""PURE: secure aggregation (Bonawitz et al., 2017; honest but curious coordinator).

In every round each client has two new X25519 keys and a seed, all derived from one secret:

    channel  seals the shares that clients send each other through the coordinator
    mask     each two clients agree on a mask, which one adds and the other subtracts
    seed     each client adds another mask of its own, made from this

Masks of pairs cancel in the sum. What does not is taken away with the help of the clients: the
seed of everybody whose update is in the sum, the mask key of everybody who dropped out. Clients
hold shares of both, and reveal for each client one of the two at most, once and for all: what
is known of a round never opens a single update, and tells nothing of other rounds.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from common.arrays import Array, Arrays
from common.errors import ProtocolError
from common.privacy import shamir
from common.privacy.ciphers import (
    agree,
    derive,
    public_key,
    random_bytes,
    seal,
    stream,
    unseal,
)
from common.privacy.rules import Keys


@dataclass(frozen=True, slots=True)
class Me:
    """A client in one round (`where` names run and round), and its secret of this round."""

    where: str
    client: int
    secret: bytes

    def keys(self) -> Keys:
        """The public half."""
        mask, channel = public_key(self.mask_key), public_key(self.channel_key)
        return Keys(channel, mask, hashlib.sha256(self.seed).digest())

    @property
    def channel_key(self) -> bytes:
        """Private."""
        return derive(self.secret, f"{self.where} channel")

    @property
    def mask_key(self) -> bytes:
        """Private; whoever has it knows the masks of this client's pairs."""
        return derive(self.secret, f"{self.where} mask")

    @property
    def seed(self) -> bytes:
        """Private; whoever has it knows this client's own mask."""
        return derive(self.secret, f"{self.where} seed")


# what a client does


def sealed_shares(me: Me, members: Mapping[int, Keys], threshold: int) -> dict[int, bytes]:
    """For every other member: its shares of this client's seed and mask key, for its eyes."""
    mine = _shares(me, members, threshold)
    channel = me.channel_key
    return {
        other: seal(_channel(me, channel, other, keys, out=True), mine[other], me.where)
        for other, keys in members.items()
        if other != me.client
    }


def _shares(me: Me, members: Mapping[int, Keys], threshold: int) -> dict[int, bytes]:
    """The same shares whenever they are made: a client that was killed sends them again."""
    size = (threshold - 1) * shamir.COEFFICIENT_BYTES
    places = [client + 1 for client in members]
    found: list[dict[int, bytes]] = []
    for name, secret in (("seed", me.seed), ("mask", me.mask_key)):
        noise = random_bytes(derive(me.secret, f"{me.where} shares of {name}"), size)
        found.append(shamir.split(secret, places, noise))
    return {client: found[0][client + 1] + found[1][client + 1] for client in members}


def _channel(me: Me, private: bytes, other: int, keys: Keys, *, out: bool) -> bytes:
    """The key of one direction between two clients."""
    first, last = (me.client, other) if out else (other, me.client)
    return agree(private, keys.channel, f"{me.where} from {first} to {last}")


def unsealed_shares(
    me: Me, members: Mapping[int, Keys], threshold: int, sealed: Mapping[int, bytes]
) -> dict[int, tuple[bytes, bytes]]:
    """This client's shares of the seed and the mask key of everybody, and of its own."""
    channel = me.channel_key
    found = {me.client: _shares(me, members, threshold)[me.client]}
    for other, data in sealed.items():
        key = _channel(me, channel, other, members[other], out=False)
        found[other] = unseal(key, data, me.where)
    size = shamir.SHARE_BYTES
    if any(len(pair) != 2 * size for pair in found.values()):
        raise ProtocolError("a sealed message is not a pair of shares")
    return {client: (pair[:size], pair[size:]) for client, pair in found.items()}


def masked(me: Me, peers: Mapping[int, Keys], integers: Arrays) -> dict[str, Array]:
    """An update under all its masks: uniform integers to everybody who lacks one of them.

    `peers` are all clients that have shared their secrets, this one among them.
    """
    found = {name: np.array(array) for name, array in integers.items()}
    _add(found, me.seed, up=True)
    private = me.mask_key
    for other, keys in peers.items():
        if other != me.client:
            _add(found, _pair(me.where, private, keys), up=me.client < other)
    return found


def _pair(where: str, private: bytes, keys: Keys) -> bytes:
    return agree(private, keys.mask, f"{where} pair")


def _add(arrays: dict[str, Array], key: bytes, *, up: bool) -> None:
    """Add (or subtract) one mask, in place; arrays in the order of their names."""
    flat = [arrays[name].reshape(-1) for name in sorted(arrays)]
    pieces = stream(key, sum(array.size for array in flat))
    left: Array = np.empty(0, "<u8")
    for array in flat:
        at = 0
        while at < array.size:
            left = left if left.size else next(pieces)
            count = min(left.size, array.size - at)
            part = array[at : at + count]
            (np.add if up else np.subtract)(part, left[:count], out=part)
            left, at = left[count:], at + count


def answer(
    me: Me,
    members: Mapping[int, Keys],
    threshold: int,
    sealed: Mapping[int, bytes],
    survivors: Sequence[int],
) -> dict[int, bytes]:
    """What this client reveals: of survivors a share of the seed, of others of the mask key.

    Whether it may is asked before (`check_request` in `rules.py`).
    """
    pairs = unsealed_shares(me, members, threshold, sealed)
    alive = set(survivors)
    return {client: pair[client not in alive] for client, pair in pairs.items()}


# what the coordinator does


def unmask(
    total: dict[str, Array],
    *,
    where: str,
    peers: Mapping[int, Keys],
    threshold: int,
    survivors: Sequence[int],
    answers: Mapping[int, Mapping[int, bytes]],
) -> None:
    """Take the masks off the sum of the survivors' updates, in place.

    `peers` are all who have shared their secrets; `answers` what survivors have revealed.
    ProtocolError if that is too little, or wrong.
    """
    helpers = sorted(answers)[:threshold]
    if len(helpers) < threshold or not set(helpers) <= set(survivors):
        raise ProtocolError(
            f"{len(answers)} clients have answered; {threshold} are needed to open the sum"
        )
    by = shamir.factors([helper + 1 for helper in helpers])
    secrets = dict(_secrets(peers, helpers, answers, by))
    for client in sorted(survivors):
        if hashlib.sha256(secrets[client]).digest() != peers[client].seal:
            raise ProtocolError(f"the shares of client {client}'s seed are wrong")
        _add(total, secrets[client], up=False)
    for gone in sorted(set(peers) - set(survivors)):
        if public_key(secrets[gone]) != peers[gone].mask:
            raise ProtocolError(f"the shares of client {gone}'s mask key are wrong")
        for client in sorted(survivors):
            pair = _pair(where, secrets[gone], peers[client])
            _add(total, pair, up=client > gone)  # survivors below it have added it


def _secrets(
    peers: Mapping[int, Keys],
    helpers: Sequence[int],
    answers: Mapping[int, Mapping[int, bytes]],
    by: Mapping[int, int],
) -> Iterator[tuple[int, bytes]]:
    for client in peers:
        try:
            shares = {helper + 1: answers[helper][client] for helper in helpers}
        except KeyError as error:
            raise ProtocolError(f"an answer lacks the share of client {client}") from error
        yield client, shamir.join(shares, by)
