"""PURE: how many samples of each class each client gets: the label and size skews.

A recipe takes the settings, the size of every class and a generator, and returns a table
with a row per class and a column per client. Which samples these are is left to `partition.py`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from common.config import DataSection
from common.data.sinkhorn import balanced, rounded
from common.errors import ConfigError
from common.rng import dirichlet

Counts: TypeAlias = npt.NDArray[np.int64]
Recipe: TypeAlias = Callable[[DataSection, Counts, np.random.Generator], Counts]

MOST_DRAWS = 1000
SMALLEST = 2  # one sample to train, one to test

log = logging.getLogger(__name__)


def smallest_of(data: DataSection) -> int:
    """How many samples every client has at least."""
    floored = {"dirichlet", "qs", "lsqs", "natural"}
    return data.min_size if data.partition in floored else SMALLEST


def dirichlet_per_class(data: DataSection, sizes: Counts, rng: np.random.Generator) -> Counts:
    """Each class divided by a draw, redrawn until no client has fewer than `min_size`."""
    best = _draw_once(data, sizes, rng)
    for _ in range(MOST_DRAWS - 1):
        if best.sum(0).min() >= data.min_size:
            return best
        best = max(best, _draw_once(data, sizes, rng), key=lambda counts: counts.sum(0).min())
    log.info(
        "no draw in %d gave every client %d samples; small clients get some of large ones",
        MOST_DRAWS,
        data.min_size,
    )
    return _topped_up(best, data.min_size, rng)


def _draw_once(data: DataSection, sizes: Counts, rng: np.random.Generator) -> Counts:
    """One draw; a client with a fair share already gets nothing of the remaining classes."""
    fair = sizes.sum() / data.clients
    counts = np.zeros((len(sizes), data.clients), np.int64)
    for row, size in zip(counts, sizes, strict=True):
        shares = dirichlet(rng, data.alpha, np.ones(data.clients))
        capped = np.where(counts.sum(0) >= fair, 0.0, shares)
        ends = np.cumsum(capped if capped.sum() > 0 else shares)
        row[:] = np.diff(np.floor(ends / ends[-1] * size).astype(np.int64), prepend=0)
    return counts


def _topped_up(counts: Counts, min_size: int, rng: np.random.Generator) -> Counts:
    """Random samples of the largest client for the smallest, until all have `min_size`."""
    counts = counts.copy()
    while (sizes := counts.sum(0)).min() < min_size:
        smallest, largest = sizes.argmin(), sizes.argmax()
        given = min(min_size - sizes[smallest], sizes[largest] - min_size)
        moved = rng.multivariate_hypergeometric(counts[:, largest], given)
        counts[:, largest] -= moved
        counts[:, smallest] += moved
    return counts


def dirichlet_per_client(data: DataSection, sizes: Counts, rng: np.random.Generator) -> Counts:
    """Equal sizes; each client has its own label shares, around those of the dataset (Hsu)."""
    counts = np.zeros((len(sizes), data.clients), np.int64)
    left = sizes.copy()
    fair, over = divmod(int(sizes.sum()), data.clients)
    for client in range(data.clients):
        counts[:, client] = _drawn(left, fair + (client < over), data.alpha, sizes, rng)
        left -= counts[:, client]
    return counts


def _drawn(
    left: Counts, wanted: int, alpha: float, sizes: Counts, rng: np.random.Generator
) -> Counts:
    """What one client draws of the samples left; an exhausted class leaves its shares."""
    prior = sizes / sizes.sum()
    shares = dirichlet(rng, alpha, prior)
    drawn = np.zeros_like(left)
    while (lacking := wanted - drawn.sum()) > 0:
        there = np.flatnonzero(drawn < left)
        if shares[there].sum() <= 0:
            # what a Dirichlet draw leaves after some classes are gone is one over the others
            shares[there] = dirichlet(rng, alpha, prior[there])
        rest = shares[there] / shares[there].sum()
        drawn[there] = np.minimum(drawn[there] + rng.multinomial(lacking, rest), left[there])
    return drawn


def few_classes(data: DataSection, sizes: Counts, rng: np.random.Generator) -> Counts:
    """Exactly `classes_per_client` classes for each client, and as many samples of each."""
    each = data.classes_per_client
    if each > len(sizes):
        raise ConfigError(
            f"data.classes_per_client is {each}; "
            f"expected at most {len(sizes)}, as {data.dataset!r} has no more classes"
        )
    holds = np.zeros((len(sizes), data.clients), np.int64)
    for client, classes in enumerate(_dealt(data.clients, each, len(sizes), rng)):
        holds[classes, client] = 1
    owners = holds.sum(1)
    shares = sizes // np.maximum(owners, 1)
    scarce = int(np.where(owners > 0, shares, np.inf).argmin())
    if shares[scarce] * each < SMALLEST:
        raise ConfigError(
            f"data.clients is {data.clients}, of which {owners[scarce]} share a class with "
            f"{sizes[scarce]} samples; expected fewer, so that each client gets {SMALLEST} "
            f"samples or more at data.classes_per_client = {each}"
        )
    counts: Counts = holds * shares[scarce]
    return counts


def _dealt(clients: int, each: int, kinds: int, rng: np.random.Generator) -> list[list[int]]:
    """The classes of each client, from shuffled decks with every class once.

    A class the client already holds is swapped for the next one of the deck, where it stays for
    the next client; so no class has two owners more than another.
    """
    deck: list[int] = []
    hands: list[list[int]] = [[] for _ in range(clients)]
    for hand in (hand for hand in hands for _ in range(each)):
        deck = deck or rng.permutation(kinds).tolist()
        card = next(card for card in deck if card not in hand)
        deck.remove(card)
        hand.append(card)
    return hands


def label_skew(data: DataSection, sizes: Counts, rng: np.random.Generator) -> Counts:
    """Equal sizes, and label shares from a Dirichlet draw per client."""
    return _fitted(data, _label_shares(data, sizes, rng), np.ones(data.clients), sizes, rng)


def quantity_skew(data: DataSection, sizes: Counts, rng: np.random.Generator) -> Counts:
    """Sizes from a Dirichlet draw, and the dataset's label shares for every client."""
    even = np.ones((data.clients, len(sizes)))
    return _fitted(data, even, _size_shares(data, sizes, rng), sizes, rng)


def both_skews(data: DataSection, sizes: Counts, rng: np.random.Generator) -> Counts:
    """Sizes from one Dirichlet draw, label shares from another per client."""
    shares = _size_shares(data, sizes, rng)
    return _fitted(data, _label_shares(data, sizes, rng), shares, sizes, rng)


def _label_shares(
    data: DataSection, sizes: Counts, rng: np.random.Generator
) -> npt.NDArray[np.float64]:
    even = np.ones(len(sizes))
    return np.stack([dirichlet(rng, data.alpha, even) for _ in range(data.clients)])


def _size_shares(
    data: DataSection, sizes: Counts, rng: np.random.Generator
) -> npt.NDArray[np.float64]:
    drawn = dirichlet(rng, data.alpha, np.ones(data.clients)) * sizes.sum()
    floored: npt.NDArray[np.float64] = np.maximum(drawn, data.min_size)
    return floored


def _fitted(
    data: DataSection,
    labels: npt.NDArray[np.float64],
    shares: npt.NDArray[np.float64],
    sizes: Counts,
    rng: np.random.Generator,
) -> Counts:
    """Counts with these label and size shares that use every sample of every class."""
    rows = shares / shares.sum() * sizes.sum()
    try:
        table = rounded(balanced(labels, rows, sizes.astype(np.float64)), sizes)
    except ConfigError as error:
        asked = f"data.partition is {data.partition!r} and data.alpha is {data.alpha:g}"
        raise ConfigError(f"{asked}, but {error}") from error
    return _topped_up(table.T, smallest_of(data), rng)


RECIPES: dict[str, Recipe] = {
    "classes": few_classes,
    "dirichlet": dirichlet_per_class,
    "dirichlet-client": dirichlet_per_client,
    "ls": label_skew,
    "qs": quantity_skew,
    "lsqs": both_skews,
}
