"""PURE: metrics as functions of sums, so that pooling the tests of many clients is exact.

A client sends sums over its test samples, each one or several numbers under a name. Sums of
all clients are added, and only then a metric is computed from them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

Added: TypeAlias = Mapping[str, Sequence[float]]  # sums by name, as they were added
Number: TypeAlias = int | float
Value: TypeAlias = Number | list[Number | list[Number] | None] | None

LOSS = "loss"
CLASS_HITS, CLASS_SAMPLES, CLASS_ANSWERS = "class_hits", "class_samples", "class_answers"
LABEL_HITS, LABEL_SAMPLES, LABEL_ANSWERS = "label_hits", "label_samples", "label_answers"
TARGET_SUM, TARGET_SQUARES, OUTPUT_ERRORS = "target_sum", "target_squares", "output_errors"


@dataclass(frozen=True, slots=True)
class Metric:
    """A number of interest: which sums it needs, and what it is made of.

    `share`: it lies between 0 and 1 and is shown in percent. `lower`: less is better. `single`
    is False for one that has a value per class.
    """

    name: str
    sums: tuple[str, ...]
    value: Callable[[int, Added], Value]
    share: bool = True
    lower: bool = False
    single: bool = True


def ratio(upper: float, lower: float) -> float | None:
    """A quotient, if there is one."""
    return upper / lower if lower > 0 else None


def mean_of(name: str) -> Callable[[int, Added], Value]:
    """The mean over the samples of what a sum has added up."""
    return lambda samples, sums: sums[name][0] / samples


def _root(samples: int, sums: Added) -> Value:
    return math.sqrt(max(0.0, sums["squared_error"][0]) / samples)


def _perplexity(samples: int, sums: Added) -> Value:
    return math.exp(min(700.0, sums[LOSS][0] / samples))


def f1(hits: float, wanted: float, answered: float) -> float | None:
    """The harmonic mean of precision and recall; None for what neither is nor was answered."""
    return ratio(2 * hits, wanted + answered)


def _macro(names: tuple[str, str, str]) -> Callable[[int, Added], Value]:
    """The plain mean of the F1 of each class that occurs in targets or answers."""

    def value(_samples: int, sums: Added) -> Value:
        each = [f1(*three) for three in zip(*(sums[name] for name in names), strict=True)]
        known = [one for one in each if one is not None]
        return sum(known) / len(known) if known else None

    return value


def _micro(_samples: int, sums: Added) -> Value:
    return f1(sums["found"][0], sums["wanted"][0], sums["answered"][0])


def _by_class(_samples: int, sums: Added) -> Value:
    pairs = zip(sums[CLASS_HITS], sums[CLASS_SAMPLES], strict=True)
    return [ratio(hits, samples) for hits, samples in pairs]


def _matrix(_samples: int, sums: Added) -> Value:
    """Rows are classes, columns are answers."""
    flat = sums["confusion"]
    size = math.isqrt(len(flat))
    return [list(flat[at : at + size]) for at in range(0, len(flat), size)]


def _r2(samples: int, sums: Added) -> Value:
    """1 - squared errors / squared distances from the mean; the mean over the outputs."""
    found = []
    for error, total, squares in zip(
        sums[OUTPUT_ERRORS], sums[TARGET_SUM], sums[TARGET_SQUARES], strict=True
    ):
        spread = ratio(error, squares - total * total / samples)
        if spread is not None:
            found.append(1 - spread)
    return sum(found) / len(found) if found else None


LOSS_METRIC = Metric(LOSS, (LOSS,), mean_of(LOSS), share=False, lower=True)
_CLASSES = (CLASS_HITS, CLASS_SAMPLES, CLASS_ANSWERS)
_LABELS = (LABEL_HITS, LABEL_SAMPLES, LABEL_ANSWERS)
ACCURACY = Metric("accuracy", ("correct",), mean_of("correct"))
OF_CLASSES = (
    ACCURACY,
    Metric("macro_f1", _CLASSES, _macro(_CLASSES)),
    Metric("class_accuracy", (CLASS_HITS, CLASS_SAMPLES), _by_class, single=False),
    Metric("confusion", ("confusion",), _matrix, share=False, single=False),
)
OF_TEXT = (
    *OF_CLASSES,
    Metric("perplexity", (LOSS,), _perplexity, share=False, lower=True),
)
OF_LABELS = (
    Metric("micro_f1", ("found", "wanted", "answered"), _micro),
    Metric("macro_f1", _LABELS, _macro(_LABELS)),
    Metric("exact_match", ("exact",), mean_of("exact")),
    Metric("label_accuracy", ("right",), mean_of("right")),
)
OF_NUMBERS = (
    Metric("mse", ("squared_error",), mean_of("squared_error"), share=False, lower=True),
    Metric("rmse", ("squared_error",), _root, share=False, lower=True),
    Metric("mae", ("absolute_error",), mean_of("absolute_error"), share=False, lower=True),
    Metric("r2", (OUTPUT_ERRORS, TARGET_SUM, TARGET_SQUARES), _r2, share=False),
)


def own_metric(name: str, *, lower: bool) -> Metric:
    """A user's metric: the quotient of the two sums that its function returns."""

    def value(_samples: int, sums: Added) -> Value:
        return ratio(*sums[name])

    return Metric(name, (name,), value, share=False, lower=lower)
