"""PURE: a secret in shares, of which `threshold` give it back and fewer say nothing about it.

Shamir (1979): the secret is the value at 0 of a polynomial of degree threshold - 1 over a prime
field, whose other coefficients are random; a share is its value at another place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from common.errors import ProtocolError

PRIME = 2**257 - 93  # the largest prime below 2^257, so that every secret of 32 bytes fits
SECRET_BYTES = 32
SHARE_BYTES = 33
COEFFICIENT_BYTES = 64  # far more than the field's 33, so that their remainders are uniform


def split(secret: bytes, places: Sequence[int], noise: bytes) -> dict[int, bytes]:
    """A share for each place (not 0); `noise` is random, COEFFICIENT_BYTES for each share
    beyond the first that is needed to give the secret back."""
    assert len(secret) == SECRET_BYTES, "a secret of another size"
    assert len(noise) % COEFFICIENT_BYTES == 0, "a part of a coefficient"
    assert all(0 < place < PRIME for place in places), "no share may be the secret itself"
    coefficients = [int.from_bytes(secret, "big")] + [
        int.from_bytes(noise[at : at + COEFFICIENT_BYTES], "big") % PRIME
        for at in range(0, len(noise), COEFFICIENT_BYTES)
    ]
    return {place: _value(coefficients, place) for place in places}


def _value(coefficients: Sequence[int], place: int) -> bytes:
    value = 0
    for coefficient in reversed(coefficients):
        value = (value * place + coefficient) % PRIME
    return value.to_bytes(SHARE_BYTES, "big")


def factors(places: Sequence[int]) -> dict[int, int]:
    """By what to multiply the shares of these places, so that their sum is the secret."""
    found: dict[int, int] = {}
    for place in places:
        above = below = 1
        for other in places:
            if other != place:
                above = above * other % PRIME
                below = below * (other - place) % PRIME
        found[place] = above * pow(below, -1, PRIME) % PRIME
    return found


def join(shares: Mapping[int, bytes], by: Mapping[int, int]) -> bytes:
    """The secret of exactly the shares whose `factors` these are."""
    total = sum(by[place] * int.from_bytes(share, "big") for place, share in shares.items())
    try:
        return (total % PRIME).to_bytes(SECRET_BYTES, "big")
    except OverflowError as error:
        raise ProtocolError("the shares of a secret do not belong together") from error
