"""Secure aggregation: masked updates have the sum of plain ones, and nothing else opens."""

from __future__ import annotations

import itertools
import secrets
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from common.arrays import Array
from common.errors import ProtocolError, RevealError
from common.privacy.rules import Keys, check_request, needed
from common.privacy.secure import (
    Me,
    answer,
    masked,
    sealed_shares,
    unmask,
    unsealed_shares,
)

WHERE = "run.1 7"
SHAPES = {"base.w": (70_000,), "head.b": (3, 2), "empty": (0,), "one": ()}


def update_of(client: int) -> dict[str, Array]:
    rng = np.random.default_rng(client)
    return {
        name: rng.integers(0, 2**64, shape, np.uint64, endpoint=False)
        if shape
        else np.array(client, np.uint64)
        for name, shape in SHAPES.items()
    }


def total_of(updates: list[dict[str, Array]]) -> dict[str, Array]:
    total = {name: np.zeros(shape, np.uint64) for name, shape in SHAPES.items()}
    for one in updates:
        for name, array in one.items():
            total[name] += array
    return total


@dataclass
class Round:
    """All clients up to the point where their shares are exchanged."""

    clients: list[Me]
    threshold: int
    members: dict[int, Keys]
    sealed: dict[int, dict[int, bytes]]

    def received(self, client: int, sharers: list[int]) -> dict[int, bytes]:
        return {other: self.sealed[other][client] for other in sharers if other != client}

    def peers(self, sharers: list[int]) -> dict[int, Keys]:
        return {client: self.members[client] for client in sharers}


def begun(ids: list[int], threshold: int) -> Round:
    clients = [Me(WHERE, client, secrets.token_bytes(32)) for client in ids]
    members = {me.client: me.keys() for me in clients}
    sealed = {me.client: sealed_shares(me, members, threshold) for me in clients}
    return Round(clients, threshold, members, sealed)


def opened(
    state: Round, sharers: list[int], survivors: list[int], helpers: list[int]
) -> dict[str, Array]:
    """The sum of the survivors, as the coordinator gets it."""
    by_id = {me.client: me for me in state.clients}
    peers = state.peers(sharers)
    sums = [masked(by_id[client], peers, update_of(client)) for client in survivors]
    total = total_of(sums)
    answers = {
        helper: answer(
            by_id[helper],
            state.members,
            state.threshold,
            state.received(helper, sharers),
            survivors,
        )
        for helper in helpers
    }
    unmask(
        total,
        where=WHERE,
        peers=peers,
        threshold=state.threshold,
        survivors=survivors,
        answers=answers,
    )
    return total


def same(one: dict[str, Array], other: dict[str, Array]) -> bool:
    return all(np.array_equal(array, other[name]) for name, array in one.items())


@settings(max_examples=25)
@given(st.lists(st.integers(0, 10**9), min_size=3, max_size=7, unique=True), st.data())
def test_the_sum_of_masked_updates_is_that_of_plain_ones_whoever_drops_out(
    ids: list[int], data: st.DataObject
) -> None:
    threshold = needed(data.draw(st.floats(0.5, 1, exclude_min=True)), len(ids))
    state = begun(ids, threshold)
    count = data.draw(st.integers(threshold, len(ids)))
    sharers = data.draw(st.permutations(ids))[:count]
    survivors = data.draw(st.permutations(sharers))[
        : data.draw(st.integers(threshold, len(sharers)))
    ]
    helpers = data.draw(st.permutations(survivors))[
        : data.draw(st.integers(threshold, len(survivors)))
    ]
    total = opened(state, sharers, survivors, helpers)
    assert same(total, total_of([update_of(client) for client in survivors]))


def test_every_subset_of_five_above_the_threshold_opens_and_every_other_is_refused() -> None:
    ids = [0, 1, 2, 3, 4]
    state = begun(ids, needed(0.6, 5))
    for count in range(6):
        for survivors in map(list, itertools.combinations(ids, count)):
            if count >= state.threshold:
                total = opened(state, ids, survivors, survivors)
                assert same(total, total_of([update_of(client) for client in survivors]))
                continue
            with pytest.raises(ProtocolError, match="3 are needed to open the sum"):
                opened(state, ids, survivors, survivors)
            with pytest.raises(RevealError, match="fewer than 3 is not opened"):
                check_request(0, sharers=ids, threshold=3, survivors=survivors, answered=None)


@given(st.integers(2, 1000), st.floats(0.5, 1, exclude_min=True))
def test_two_disjoint_groups_are_never_both_enough(members: int, share: float) -> None:
    assert members / 2 < needed(share, members) <= members
    assert needed(0.6, 5) == 3


def test_only_the_first_request_is_answered() -> None:
    who = {"sharers": [0, 1, 2, 3], "threshold": 3}
    check_request(0, survivors=[0, 1, 2], answered=None, **who)  # type: ignore[arg-type]
    check_request(0, survivors=[2, 1, 0], answered=[0, 1, 2], **who)  # type: ignore[arg-type]
    with pytest.raises(RevealError, match="other survivors than the one answered before"):
        check_request(0, survivors=[0, 1, 3], answered=[0, 1, 2], **who)  # type: ignore[arg-type]
    with pytest.raises(RevealError, match="other survivors"):
        check_request(0, survivors=[0, 1, 2, 3], answered=[0, 1, 2], **who)  # type: ignore[arg-type]
    with pytest.raises(RevealError, match="among those that dropped out"):
        check_request(0, survivors=[1, 2, 3], answered=None, **who)  # type: ignore[arg-type]
    with pytest.raises(RevealError, match="3 survivors of 4 clients"):
        check_request(0, survivors=[0, 1, 9], answered=None, **who)  # type: ignore[arg-type]


def test_an_answer_never_has_both_shares_of_a_client() -> None:
    state = begun([0, 1, 2, 3], 3)
    me, received = state.clients[0], state.received(0, [0, 1, 2, 3])
    revealed = answer(me, state.members, 3, received, [0, 1, 2])
    pairs = unsealed_shares(me, state.members, 3, received)
    assert revealed == {0: pairs[0][0], 1: pairs[1][0], 2: pairs[2][0], 3: pairs[3][1]}


def test_a_client_that_was_killed_sends_the_same_again_and_another_round_is_another() -> None:
    state = begun([0, 1, 2], 2)
    me = state.clients[1]
    again = Me(WHERE, 1, me.secret)
    assert again.keys() == me.keys()
    assert sealed_shares(again, state.members, 2) == state.sealed[1]
    one, other = (masked(m, state.members, update_of(1)) for m in (me, again))
    assert same(one, other)
    next_round = Me("run.1 8", 1, me.secret)
    assert next_round.keys() != me.keys()
    assert next_round.mask_key != me.mask_key


def test_shares_are_for_the_eyes_of_their_receiver_only() -> None:
    state = begun([0, 1, 2], 2)
    misrouted = {1: state.sealed[1][2], 2: state.sealed[2][0]}  # of 1, and meant for 2
    with pytest.raises(ProtocolError, match="cannot be opened"):
        unsealed_shares(state.clients[0], state.members, 2, misrouted)


def test_wrong_shares_are_noticed_before_anything_is_opened() -> None:
    state = begun([0, 1, 2], 2)
    everybody, by_id = [0, 1, 2], {me.client: me for me in state.clients}
    peers = state.peers(everybody)
    for survivors, of, text in (([0, 1, 2], 2, "seed"), ([0, 1], 2, "mask key")):
        answers = {
            c: answer(by_id[c], state.members, 2, state.received(c, everybody), survivors)
            for c in survivors
        }
        answers[0][of] = answers[0][of][:-1] + bytes([answers[0][of][-1] ^ 1])
        total = total_of([])
        with pytest.raises(ProtocolError, match=f"(client 2's {text} are wrong|together)"):
            unmask(
                total,
                where=WHERE,
                peers=peers,
                threshold=2,
                survivors=survivors,
                answers=answers,
            )


def test_a_public_key_that_reveals_the_secret_is_refused() -> None:
    state = begun([0, 1, 2], 2)
    bad = {**state.members, 2: Keys(bytes(32), bytes(32), bytes(32))}
    with pytest.raises(ProtocolError, match="not a usable public key"):
        sealed_shares(state.clients[0], bad, 2)
    with pytest.raises(ProtocolError, match="not a usable public key"):
        masked(state.clients[0], bad, update_of(0))


def test_a_masked_update_looks_like_noise_even_if_all_but_one_mask_are_known() -> None:
    """Chi-squared over bytes; the update itself is all zeros, which would be seen."""
    state = begun([0, 1, 2], 2)
    zeros = {"w": np.zeros(200_000, np.uint64)}
    hidden = masked(state.clients[0], state.members, zeros)
    assert chi_squared(hidden["w"]) < 400  # of 255 degrees of freedom: 1 in 10^8 is above
    assert chi_squared(zeros["w"]) > 10**6


def chi_squared(array: Array) -> float:
    counts = np.bincount(array.view(np.uint8), minlength=256)
    expected = array.nbytes / 256
    return float(((counts - expected) ** 2 / expected).sum())
