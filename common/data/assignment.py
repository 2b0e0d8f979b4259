"""PURE: which samples each client trains and tests with, and which samples all of them share.

The same settings, labels and seed give the same indices on every machine.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

import numpy as np

from common.config import DataSection
from common.data.partition import Indices, partition, split, split_by_class
from common.data.samples import Labels
from common.data.windows import Spans, sides, split_apart
from common.errors import ConfigError, DataError
from common.rng import generator

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class Assignment:
    """Each client's samples to train and to test, and the samples shared by all (if any)."""

    train: tuple[Indices, ...]
    test: tuple[Indices, ...]
    shared: Indices

    def sizes(self) -> Indices:
        """How many training samples each client has."""
        return np.array([len(train) for train in self.train], np.int64)


def allot(
    data: DataSection,
    labels: Labels,
    *,
    classes: int,
    official: int,
    seed: int,
    natural: Indices | None = None,
    spans: Spans | None = None,
) -> Assignment:
    """The samples of every client; the first `official` are the dataset's training part.

    `natural` tells the dataset's own clients apart, as in `partition`. Where samples are
    windows of a text, `spans`, no answer of a pool's test is in any client's training windows.
    """
    if data.test == "pool":
        train, test = _pool(data, labels, seed, natural, spans)
    else:
        train = tuple(partition(data, labels[:official], seed, natural))
        if data.test == "official":
            test = _dealt(data, np.arange(official, len(labels)), seed)
        else:
            test = _alike(data, labels, official, train, seed)
    if not data.share:
        return Assignment(train, test, np.zeros(0, np.int64))
    shared = _shared(data, labels, np.concatenate(train), classes, seed)
    return Assignment(_with_shared(data, train, shared, seed), test, shared)


def union_of(allotment: Assignment, labels: Labels, wanted: int, seed: int) -> Indices:
    """At most `wanted` samples of all test sets together, with about their label shares."""
    everything = np.unique(np.concatenate(allotment.test))
    counts = np.bincount(labels[everything])
    chosen = rounded_shares(counts, min(wanted, len(everything)))
    return _drawn(everything, labels, chosen, generator(seed, "union"))


def rounded_shares(weights: Indices, total: int) -> Indices:
    """Whole numbers in proportion to the weights, with this sum (largest remainders)."""
    exact = weights * total  # in units of 1/sum(weights), so that nothing is rounded
    shares, remainders = np.divmod(exact, weights.sum())
    left = total - int(shares.sum())
    shares[np.argsort(-remainders, kind="stable")[:left]] += 1
    return shares.astype(np.int64)


def _pool(
    data: DataSection,
    labels: Labels,
    seed: int,
    natural: Indices | None,
    spans: Spans | None,
) -> tuple[tuple[Indices, ...], tuple[Indices, ...]]:
    """Both parts of the dataset in one pool, and a split of each client's share of it."""
    if spans is not None:
        return _pool_of_windows(data, labels, seed, natural, spans)
    train, test = [], []
    for client, part in enumerate(partition(data, labels, seed, natural)):
        rng = generator(seed, "split", client)
        if data.stratify:
            ours, theirs = split_by_class(part, labels[part], data.train_ratio, rng)
        else:
            ours, theirs = split(part, data.train_ratio, rng)
        train.append(ours)
        test.append(theirs)
    return tuple(train), tuple(test)


def _pool_of_windows(
    data: DataSection, labels: Labels, seed: int, natural: Indices | None, spans: Spans
) -> tuple[tuple[Indices, ...], tuple[Indices, ...]]:
    """Windows to train and to test that do not overlap, also between clients.

    A natural client's run of windows is split as LEAF does it. For all other partitions every
    natural client's text is split before its windows are dealt out, and what a client got of
    either part stays in it.
    """
    if data.stratify:
        raise ConfigError(
            f"data.stratify is true, but samples of {data.dataset!r} are windows of a text, "
            "which are split by their places; expected false"
        )
    if data.partition == "natural":
        runs = partition(data, labels, seed, natural, spans)
        halves = [split_apart(run, data.train_ratio, spans) for run in runs]
    else:
        bounds = np.array([0, len(labels)]) if natural is None else natural
        training, testing = sides(bounds, data.train_ratio, spans)
        usable = np.sort(np.concatenate([training, testing]))
        trains = np.zeros(len(labels), np.bool_)
        trains[training] = True
        parts = [usable[part] for part in partition(data, labels[usable], seed)]
        halves = [(part[trains[part]], part[~trains[part]]) for part in parts]
    for client, half in enumerate(halves):
        if not all(map(len, half)):
            raise DataError(
                f"client {client} has {len(half[0])} windows to train and {len(half[1])} to "
                "test; expected some of both: more samples for each client"
            )
    train, test = zip(*halves, strict=True)
    return train, test


def _dealt(data: DataSection, indices: Indices, seed: int) -> tuple[Indices, ...]:
    """Equal random shares for all clients."""
    if data.clients > len(indices):
        raise ConfigError(
            f"data.clients is {data.clients}, but the official test set of {data.dataset} has "
            f"only {len(indices)} samples; expected no more clients, or data.test = 'pool'"
        )
    shuffled = generator(seed, "test").permutation(indices)
    return tuple(np.sort(shuffled[client :: data.clients]) for client in range(data.clients))


def _alike(
    data: DataSection, labels: Labels, official: int, train: tuple[Indices, ...], seed: int
) -> tuple[Indices, ...]:
    """Samples of the official test set for each client, with the label shares of its training.

    Every client would get an equal share of the set; one that needs more of a class than exists
    gets all of that class. Different clients may have the same samples.
    """
    indices = np.arange(official, len(labels))
    there = np.bincount(labels[indices], minlength=int(labels.max()) + 1)
    fair = max(1, len(indices) // data.clients)
    test = []
    for client, ours in enumerate(train):
        wanted = rounded_shares(np.bincount(labels[ours], minlength=len(there)), fair)
        wanted = np.minimum(wanted, there)
        if not wanted.any():
            raise DataError(
                f"the official test set of {data.dataset} has none of the classes of client "
                f"{client}; expected data.test = 'official' or 'pool'"
            )
        test.append(_drawn(indices, labels, wanted, generator(seed, "test", client)))
    return tuple(test)


def _shared(
    data: DataSection, labels: Labels, pool: Indices, classes: int, seed: int
) -> Indices:
    """As many samples of each class, drawn from all clients' training samples."""
    each = int(data.share * len(pool) / classes + 1e-9)  # 0.1 of 30 is 3, also for floats
    if each < 1:
        raise ConfigError(
            f"data.share is {data.share}; expected 0, or at least {classes / len(pool):.2g}: "
            "one sample of each class"
        )
    there = np.bincount(labels[pool], minlength=classes)
    if there.min() < each:
        log.warning("some classes have fewer than the %d samples to be shared", each)
    return _drawn(pool, labels, np.minimum(there, each), generator(seed, "shared"))


def _with_shared(
    data: DataSection, train: tuple[Indices, ...], shared: Indices, seed: int
) -> tuple[Indices, ...]:
    """The training samples of each client, and behind them those it got of the shared ones."""
    count = int(data.share_given * len(shared) + 1e-9)
    enriched = []
    for client, ours in enumerate(train):
        given = generator(seed, "share", client).choice(shared, count, replace=False)
        kept = np.setdiff1d(ours, shared) if data.share_removed else ours
        if not len(kept) + count:
            raise DataError(
                f"client {client} has no samples left after sharing; expected a smaller "
                "data.share, a larger data.share_given or data.share_removed = false"
            )
        enriched.append(np.concatenate([kept, np.sort(given)]))
    return tuple(enriched)


def _drawn(
    indices: Indices, labels: Labels, counts: Indices, rng: np.random.Generator
) -> Indices:
    """So many random samples of each class, ascending."""
    groups = [
        rng.choice(indices[labels[indices] == label], count, replace=False)
        for label, count in enumerate(counts)
        if count
    ]
    return np.sort(np.concatenate(groups))
