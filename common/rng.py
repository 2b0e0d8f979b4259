"""Addressed randomness: a draw is named by (seed, purpose, numbers), not by earlier draws."""

from __future__ import annotations

import hashlib

import numpy as np
import numpy.typing as npt


def generator(seed: int, purpose: str, *address: int) -> np.random.Generator:
    """The generator of one purpose and address, such as (seed, "shuffle", round, client)."""
    word = int.from_bytes(hashlib.blake2b(purpose.encode(), digest_size=8).digest(), "big")
    return np.random.Generator(np.random.PCG64([seed, word, *address]))


def dirichlet(
    rng: np.random.Generator, alpha: float, weights: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """A draw from Dir(alpha * weights), for any positive alpha."""
    # beyond these bounds the draws no longer change, and their arithmetic overflows
    return rng.dirichlet(min(max(alpha, 1e-6), 1e6) * weights)
