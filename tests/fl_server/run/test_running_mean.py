from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from common.arrays import Array, digest, weighted_mean
from common.wire.tensors import UpdateMeta
from fl_server.run.updates.open_updates import OpenUpdates
from fl_server.run.updates.running_mean import RunningMean

SELECTED = (2, 3, 5, 7, 11)


def arrays(client: int) -> dict[str, Array]:
    rng = np.random.default_rng(client)
    return {"base.w": rng.normal(size=(40, 7)).astype(np.float32), "head.n": np.array([client])}


def meta(client: int) -> UpdateMeta:
    weights = {"base": client / 3, "head": 1.0}
    return UpdateMeta(
        run="r", round=1, client=client, samples=client, steps=1, weights=weights, loss=0.5
    )


def load(client: int) -> tuple[dict[str, Array], UpdateMeta]:
    return arrays(client), meta(client)


def expected(clients: tuple[int, ...]) -> str:
    return digest(weighted_mean((arrays(c), meta(c).weights) for c in sorted(clients)))


def filled(order: tuple[int, ...]) -> tuple[OpenUpdates, list[int]]:
    read: list[int] = []

    def from_disk(client: int) -> tuple[dict[str, Array], UpdateMeta]:
        read.append(client)
        return load(client)

    updates = OpenUpdates(from_disk, None, in_order=True)
    updates.open(SELECTED)
    for client in order:
        updates.add(client, *load(client), size=1000)
    return updates, read


@given(st.permutations(SELECTED))
def test_in_whatever_order_updates_come_the_mean_has_the_same_bits(
    order: tuple[int, ...],
) -> None:
    updates, read = filled(order)
    found = updates.updates(SELECTED, {})
    mean = found.mean()
    assert mean is not None
    assert digest(mean) == expected(SELECTED)
    assert [one.client for one in found.metas] == [*SELECTED]
    assert read == []  # neither for the sum nor for what clients report


@given(st.permutations(SELECTED), st.sets(st.sampled_from(SELECTED), min_size=1))
def test_who_does_not_count_is_not_in_the_mean(order: tuple[int, ...], used: set[int]) -> None:
    updates, _ = filled(order)
    found = updates.updates(tuple(used), {})
    mean = found.mean()
    if mean is None:  # somebody is in the sum who must not be: all are read again
        mean = weighted_mean((update.arrays, update.weights) for update in found)
    assert digest(mean) == expected(tuple(used))


def test_a_round_that_goes_on_with_more_clients_counts_all() -> None:
    updates, _ = filled((2, 3))
    updates.open((*SELECTED, 6, 1))
    for client in (5, 6, 7, 11):
        updates.add(client, *load(client), size=1000)
    everybody = (2, 3, 5, 6, 7, 11)
    mean = updates.updates(everybody, {}).mean()
    assert mean is None or digest(mean) == expected(everybody)


def test_the_next_round_begins_with_nothing() -> None:
    updates, _ = filled(SELECTED)
    updates.clear()
    assert updates.updates((), {}).mean() is None
    assert RunningMean().result(SELECTED, load) is None


def test_large_updates_are_added_up_when_the_round_closes() -> None:
    updates, read = filled(())
    for client in SELECTED:
        updates.add(client, *load(client), size=5 * 1024**2)
    found = updates.updates(SELECTED, {})
    assert found.mean() is None
    assert [update.client for update in found] == read == [*SELECTED]
