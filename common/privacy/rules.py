"""PURE: what everybody may know of a client in a secured round, and what it may reveal.

No cryptography: the masks themselves are in `secure.py`.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta

from common.errors import RevealError
from common.privacy.shamir import SHARE_BYTES

LEAST_SECURE = 3  # clients in a sum: one of two would know the other's update
MOST_SECURE = 1000  # clients in a round: each sends a share to each
KEY_BYTES = 32
SEALED_BYTES = 2 * SHARE_BYTES + 16

ClientId = Annotated[int, Meta(ge=0, le=10**9)]
Key = Annotated[bytes, Meta(min_length=KEY_BYTES, max_length=KEY_BYTES)]
Share = Annotated[bytes, Meta(min_length=SHARE_BYTES, max_length=SHARE_BYTES)]
Sealed = Annotated[bytes, Meta(min_length=SEALED_BYTES, max_length=SEALED_BYTES)]


class Keys(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The public keys of a client in one round; `seal` is the digest of its seed."""

    channel: Key
    mask: Key
    seal: Key


class RoundKeys(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="keys"
):
    """What a client contributes first: its keys."""

    keys: Keys


class SealedShares(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="shares"
):
    """Then shares of its secrets, each sealed for one other client."""

    sealed: Annotated[dict[ClientId, Sealed], Meta(max_length=MOST_SECURE)]


class RevealedShares(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="opening"
):
    """At last one share for every client of the round, to open the sum."""

    shares: Annotated[dict[ClientId, Share], Meta(max_length=MOST_SECURE)]


Secret: TypeAlias = RoundKeys | SealedShares | RevealedShares


def needed(share: float, members: int) -> int:
    """How many of these members can open a sum: always more than half of them."""
    return min(members, max(2, math.ceil(share * members - 1e-9), members // 2 + 1))


def check_request(
    client: int,
    *,
    sharers: Collection[int],
    threshold: int,
    survivors: Collection[int],
    answered: Collection[int] | None,
) -> None:
    """RevealError if a client must not answer a request to open the sum of these survivors.

    The first request that was answered is final: a second one for another set would reveal
    both the seed and the mask key of somebody.
    """
    asked = set(survivors)
    if answered is not None and asked != set(answered):
        raise RevealError(
            "the request names other survivors than the one answered before: both together "
            "would open single updates"
        )
    if len(asked) < threshold or not asked <= set(sharers):
        raise RevealError(
            f"the request names {len(asked)} survivors of {len(sharers)} clients; the sum of "
            f"fewer than {threshold} is not opened"
        )
    if client not in asked:
        raise RevealError("the request counts this client among those that dropped out")
