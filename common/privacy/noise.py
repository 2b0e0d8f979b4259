"""PURE: Gaussian noise from a key, for a mean or for the integers of an exact sum.

Whoever draws the key takes it from the system's entropy and keeps it, or what was made with it,
before it is used.
"""

from __future__ import annotations

import math

import numpy as np

from common.arrays import Array, Arrays
from common.privacy.exact import SUMS, Scale

KEY_BYTES = 32


def gaussian(key: bytes) -> np.random.Generator:
    """The noise of a key."""
    return np.random.Generator(np.random.Philox(np.random.SeedSequence([*key])))


def with_share(
    integers: Arrays, scale: Scale, *, deviation: float, helpers: int, key: bytes
) -> dict[str, Array]:
    """The integers of an update with a client's share of a sum's noise.

    So many `helpers` together have the deviation; more of them have more. Rounding to integers
    does not matter: the deviation is millions of them.
    """
    rng, found = gaussian(key), dict(integers)
    each = math.ldexp(deviation / math.sqrt(helpers), scale.bits)
    for name, array in sorted(integers.items()):
        if name != SUMS:
            drawn = np.rint(each * rng.standard_normal(array.shape)).astype(np.int64)
            found[name] = array + drawn.view(np.uint64)
    return found
