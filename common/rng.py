"""Addressed randomness: a draw is named by (seed, purpose, numbers), not by earlier draws."""

from __future__ import annotations

import hashlib

import numpy as np


def generator(seed: int, purpose: str, *address: int) -> np.random.Generator:
    """The generator of one purpose and address, such as (seed, "shuffle", round, client)."""
    word = int.from_bytes(hashlib.blake2b(purpose.encode(), digest_size=8).digest(), "big")
    return np.random.Generator(np.random.PCG64([seed, word, *address]))
