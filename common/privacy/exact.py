"""PURE: weighted updates as integers modulo 2^64, whose sum is the same in every order.

A value x with weight w becomes the integer nearest to w * x * 2^bits. `bits` is chosen so that
the sum over as many updates as there may be, of the heaviest weights and largest values that
are allowed, is below 2^63: with values and weights checked, a sum cannot overflow. Whoever adds
masks (modulo 2^64, too) and takes them away again has the same integers.

Whole numbers in a model (counters of batches) are added as they are; their mean is rounded
down. The sums that a round reports are added in the same way, under the name of SUMS.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from common.arrays import Array, Arrays, part_of
from common.errors import ConfigError, ProtocolError

SUMS = (
    "@sums"  # no array of a model has this name: samples, losses, and the weight of each part
)
HEAVIEST = 2.0**20  # no client counts for more samples; the dataset's size bounds them, too
LARGEST_WHOLE = 2**40
MOST_UPDATES = 2**20
LEAST_BITS = 16
_PIECE = 32 * 1024
_REPORTED = 3  # samples, samples whose loss is known, their loss


@dataclass(frozen=True, slots=True)
class Scale:
    """How numbers become integers; `updates` of them can be added."""

    bits: int
    largest: float
    heaviest: float
    updates: int


@dataclass(frozen=True, slots=True, eq=False)
class Summed:
    """What the sum of a round gives: the mean of the updates, and what clients report."""

    arrays: dict[str, Array]
    samples: int
    loss: float | None


def make_scale(*, updates: int, heaviest: float, largest: float) -> Scale:
    """The finest resolution at which no sum overflows."""
    heaviest = min(max(1.0, heaviest), HEAVIEST)
    bits = 62 - math.ceil(math.log2(updates * heaviest * max(1.0, largest)))
    if bits < LEAST_BITS or updates > MOST_UPDATES:
        raise ConfigError(
            f"aggregation.arithmetic is 'exact', but the values of {updates} clients up to "
            f"{largest:g} leave {bits} bits behind the point; expected at least {LEAST_BITS}: "
            "lower aggregation.largest"
        )
    return Scale(bits, largest, heaviest, updates)


def fixed(
    scale: Scale,
    arrays: Arrays,
    weights: Mapping[str, float],
    *,
    samples: int = 0,
    loss: float | None = None,
) -> dict[str, Array]:
    """A weighted update as integers modulo 2^64; ProtocolError if it is out of range."""
    _check(scale, arrays, weights)
    found: dict[str, Array] = {}
    for name, array in arrays.items():
        if np.issubdtype(array.dtype, np.integer):
            found[name] = array.astype(np.int64).view(np.uint64)
        else:
            found[name] = _fixed(array, math.ldexp(weights[part_of(name)], scale.bits))
    counted = min(float(samples), scale.heaviest)
    shown = 0.0 if loss is None else max(-scale.largest, min(scale.largest, loss))
    reported = [counted, 0.0 if loss is None else counted, counted * shown]
    numbers = np.array([*reported, *(weights[part] for part in _parts(arrays))])
    found[SUMS] = _fixed(numbers, math.ldexp(1.0, scale.bits))
    return found


def sums_of(parts: int) -> int:
    """How many numbers a model of so many parts has under the name of SUMS."""
    return _REPORTED + parts


def _parts(arrays: Arrays) -> list[str]:
    return sorted({part_of(name) for name in arrays})


def _check(scale: Scale, arrays: Arrays, weights: Mapping[str, float]) -> None:
    """Refuse what could make a sum overflow."""
    for part in _parts(arrays):
        if part not in weights:
            raise ProtocolError("a part of the model has no weight")
        if not 0 < weights[part] <= scale.heaviest:
            raise ProtocolError(
                f"weight {weights[part]:g} of {part[:40]!r}; exact sums hold at most "
                f"{scale.heaviest:g} for each client"
            )
    for name, array in arrays.items():
        whole = np.issubdtype(array.dtype, np.integer)
        most = LARGEST_WHOLE if whole else scale.largest
        if array.size and not (
            array.min() >= -most and array.max() <= most
        ):  # nor not a number
            raise ProtocolError(
                f"{name} has values beyond {most:g}, which exact sums do not hold (a larger "
                "aggregation.largest does, at a coarser resolution)"
            )


def _fixed(array: Array, factor: float) -> Array:
    """The nearest integers, in pieces that stay in the processor's cache."""
    flat = np.ascontiguousarray(array).reshape(-1)
    whole = np.empty(flat.size, np.int64)
    product = np.empty(min(_PIECE, flat.size))
    for start in range(0, flat.size, _PIECE):
        piece = flat[start : start + _PIECE]
        scaled = np.multiply(piece, factor, out=product[: piece.size], dtype=np.float64)
        np.rint(scaled, out=scaled)
        whole[start : start + _PIECE] = scaled
    return whole.view(np.uint64).reshape(array.shape)


class ExactSum:
    """The sum of updates, one after another or of whole groups; one model of memory."""

    def __init__(self, scale: Scale) -> None:
        self.scale = scale
        self.clients: set[int] = set()
        self.total: dict[str, Array] = {}

    def add(self, clients: Sequence[int], integers: Arrays) -> None:
        """Add the integers of an update, or of the sum of several; nobody counts twice."""
        twice = self.clients.intersection(clients)
        if twice or len(self.clients) + len(clients) > self.scale.updates:
            raise ProtocolError(f"clients {sorted(twice) or 'of more updates'} are in the sum")
        self.clients.update(clients)
        if not self.total:
            self.total = {name: np.array(array) for name, array in integers.items()}
            return
        for name, array in integers.items():
            self.total[name] += array

    def is_possible(self) -> bool:
        """Whether samples and weights are those of so many clients; noise has others."""
        sums = self.total[SUMS].view(np.int64)
        most = len(self.clients) * math.ldexp(self.scale.heaviest, self.scale.bits)
        samples, weights = sums[:2], sums[_REPORTED:]
        return bool(
            (samples >= 0).all()
            and (samples <= most).all()
            and (weights > 0).all()
            and (weights <= most).all()
        )

    def result(self, like: Arrays) -> Summed:
        """The mean of the updates, with the kinds of `like`, and the sums of their reports."""
        bits, count = self.scale.bits, len(self.clients)
        sums = self.total[SUMS].view(np.int64).astype(np.float64)
        weight = dict(zip(_parts(like), sums[_REPORTED:], strict=True))
        means: dict[str, Array] = {}
        for name, wanted in like.items():
            whole = self.total[name].view(np.int64)
            if np.issubdtype(wanted.dtype, np.integer):
                means[name] = (whole // count).astype(wanted.dtype)
                continue
            mean = whole.astype(np.float64)
            mean /= weight[part_of(name)]
            means[name] = mean.astype(wanted.dtype)
        samples, known, loss = (math.ldexp(value, -bits) for value in sums[:_REPORTED])
        return Summed(means, round(samples), loss / known if known else None)


def exact_mean(
    scale: Scale, items: Iterable[tuple[Arrays, Mapping[str, float]]]
) -> dict[str, Array]:
    """The mean of weighted arrays, one of which is held at a time."""
    total, like = ExactSum(scale), dict[str, Array]()
    for at, (arrays, weights) in enumerate(items):
        total.add([at], fixed(scale, arrays, weights))
        like = {name: np.empty(0, array.dtype) for name, array in arrays.items()}
        del arrays  # before the next are loaded
    return total.result(like).arrays
