"""PURE: how many numbers each sum of a test has, which are possible, and their total."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from common.errors import ProtocolError
from common.tasks.metrics import (
    CLASS_ANSWERS,
    CLASS_HITS,
    CLASS_SAMPLES,
    LABEL_ANSWERS,
    LABEL_HITS,
    LABEL_SAMPLES,
    OUTPUT_ERRORS,
    TARGET_SQUARES,
    TARGET_SUM,
    Added,
)
from common.wire.messages import Sums

Rule: TypeAlias = Literal["count", "part", "parts", "share", "size", "any", "quotient"]


@dataclass(frozen=True, slots=True)
class SumKind:
    """What a sum consists of.

    `length`: of one number, one per output, or a matrix of them. `rule`: "count" (whole, at
    most the samples), "part" (the same, also together), "parts" (whole, together exactly the
    samples), "share" (at most the samples), "size" (not negative), "any" or "quotient" (two
    numbers, the second not negative).
    """

    length: Literal["one", "outputs", "matrix", "two"] = "one"
    rule: Rule = "any"
    per_output: bool = False  # a count of answers, of which every sample has several

    def numbers(self, outputs: int) -> int:
        """How many numbers there are."""
        return {"one": 1, "two": 2, "outputs": outputs, "matrix": outputs**2}[self.length]


KINDS: Mapping[str, SumKind] = {
    "correct": SumKind(rule="count"),
    CLASS_HITS: SumKind("outputs", "part"),
    CLASS_SAMPLES: SumKind("outputs", "parts"),
    CLASS_ANSWERS: SumKind("outputs", "parts"),
    "confusion": SumKind("matrix", "parts"),
    "found": SumKind(rule="count", per_output=True),
    "wanted": SumKind(rule="count", per_output=True),
    "answered": SumKind(rule="count", per_output=True),
    LABEL_HITS: SumKind("outputs", "count"),
    LABEL_SAMPLES: SumKind("outputs", "count"),
    LABEL_ANSWERS: SumKind("outputs", "count"),
    "exact": SumKind(rule="count"),
    "right": SumKind(rule="share"),
    "squared_error": SumKind(rule="size"),
    "absolute_error": SumKind(rule="size"),
    OUTPUT_ERRORS: SumKind("outputs", "size"),
    TARGET_SUM: SumKind("outputs", "any"),
    TARGET_SQUARES: SumKind("outputs", "size"),
}
_NOT_MORE = (
    (CLASS_HITS, CLASS_SAMPLES),
    (CLASS_HITS, CLASS_ANSWERS),
    (LABEL_HITS, LABEL_SAMPLES),
    (LABEL_HITS, LABEL_ANSWERS),
    ("found", "wanted"),
    ("found", "answered"),
)


def check_sums(tested: Sums, kinds: Mapping[str, SumKind], outputs: int) -> None:
    """Refuse sums that no test can have; ProtocolError with the reason."""
    if tested.sums.keys() != kinds.keys():
        names = ", ".join(sorted(tested.sums)) or "none"
        raise ProtocolError(f"sums {names[:200]}; expected {', '.join(sorted(kinds))}")
    for name, kind in kinds.items():
        wanted, numbers = kind.numbers(outputs), tested.sums[name]
        if len(numbers) != wanted:
            raise ProtocolError(f"{len(numbers)} numbers of {name}; expected {wanted}")
        if not _is_possible(kind, numbers, tested.samples, outputs):
            shown = ", ".join(f"{number:g}" for number in numbers[:4])
            raise ProtocolError(f"{name} is {shown}, of {tested.samples} test samples")
    for less, more in _NOT_MORE:
        if less in kinds and more in kinds:
            pairs = zip(tested.sums[less], tested.sums[more], strict=True)
            if any(one > other for one, other in pairs):
                raise ProtocolError(f"{less} is more than {more}")


def _is_possible(kind: SumKind, numbers: tuple[float, ...], samples: int, outputs: int) -> bool:
    most = samples * (outputs if kind.per_output else 1)
    match kind.rule:
        case "count":
            return all(number.is_integer() and 0 <= number <= most for number in numbers)
        case "part" | "parts":
            whole = all(number.is_integer() and number >= 0 for number in numbers)
            total = sum(numbers)
            return whole and (total <= most if kind.rule == "part" else total == most)
        case "share":
            return all(0 <= number <= most * (1 + 1e-6) for number in numbers)
        case "size":
            return all(number >= 0 for number in numbers)
        case "quotient":
            return numbers[1] >= 0
        case "any":
            return True


TotalSums: TypeAlias = tuple[int, Added]


def added(tests: Iterable[Sums]) -> TotalSums | None:
    """The total of several tests, added in the order given; None of none."""
    samples, total = 0, dict[str, list[float]]()
    for tested in tests:
        samples += tested.samples
        for name, numbers in tested.sums.items():
            before = total.get(name)
            total[name] = (
                list(numbers)
                if before is None
                else [one + other for one, other in zip(before, numbers, strict=True)]
            )
    return (samples, total) if samples else None
