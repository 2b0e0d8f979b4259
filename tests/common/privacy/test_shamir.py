"""Secrets in shares: enough of them give it back, whichever; fewer say nothing."""

from __future__ import annotations

import secrets

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.errors import ProtocolError
from common.privacy.shamir import (
    COEFFICIENT_BYTES,
    PRIME,
    SECRET_BYTES,
    factors,
    join,
    split,
)

places_of_shares = st.lists(st.integers(1, 10**9 + 1), min_size=2, max_size=20, unique=True)


def test_the_field_is_prime_and_holds_every_secret() -> None:
    assert 2**256 < PRIME < 2 ** (8 * 33)
    odd, twos = PRIME - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    for base in (2, 3, 5, 7, 11, 13, *(secrets.randbelow(PRIME - 3) + 2 for _ in range(30))):
        value = pow(base, odd, PRIME)  # Miller and Rabin
        powers = [pow(value, 2**at, PRIME) for at in range(twos)]
        assert value == 1 or PRIME - 1 in powers, base


@given(
    st.binary(min_size=SECRET_BYTES, max_size=SECRET_BYTES),
    places_of_shares,
    st.data(),
)
def test_any_shares_that_are_enough_give_the_secret_back(
    secret: bytes, places: list[int], data: st.DataObject
) -> None:
    threshold = data.draw(st.integers(1, len(places)))
    noise = data.draw(st.randoms(use_true_random=False)).randbytes(
        (threshold - 1) * COEFFICIENT_BYTES
    )
    shares = split(secret, places, noise)
    helpers = data.draw(st.permutations(places))[:threshold]
    assert join({place: shares[place] for place in helpers}, factors(helpers)) == secret


@given(st.binary(min_size=SECRET_BYTES, max_size=SECRET_BYTES), places_of_shares, st.data())
def test_with_one_share_too_few_every_secret_is_as_likely(
    secret: bytes, places: list[int], data: st.DataObject
) -> None:
    """For any other secret there is a polynomial through the same shares."""
    noise = secrets.token_bytes((len(places) - 1) * COEFFICIENT_BYTES)
    shares = split(secret, places, noise)
    known = {place: shares[place] for place in places[1:]}
    other = data.draw(st.binary(min_size=SECRET_BYTES, max_size=SECRET_BYTES))
    by = factors(places)
    missing = int.from_bytes(other, "big") - sum(
        by[place] * int.from_bytes(share, "big") for place, share in known.items()
    )
    fitting = missing * pow(by[places[0]], -1, PRIME) % PRIME
    assert join({places[0]: fitting.to_bytes(33, "big"), **known}, by) == other


def test_shares_that_do_not_belong_together_are_refused_or_give_another_secret() -> None:
    by = factors([1, 2])
    shares = {1: (PRIME - 1).to_bytes(33, "big"), 2: (0).to_bytes(33, "big")}
    with pytest.raises(ProtocolError, match="do not belong together"):
        join(shares, by)
