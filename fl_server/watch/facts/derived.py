"""PURE: numbers of a round that follow from others of its line, for tables and plots."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fl_server.watch.facts.lines import TrainingLine, number_in


def _sum(stage: str) -> Callable[[TrainingLine], float | None]:
    """Acc = Acc(L) + Acc(G) of personal models (the FLIU study): at most 2."""

    def found(line: TrainingLine) -> float | None:
        own, union = number_in(line, f"mean_{stage}"), number_in(line, f"union_{stage}")
        return None if own is None or union is None else own + union

    return found


def _below(stage: str) -> Callable[[TrainingLine], float | None]:
    """How many of the tested clients are not above `evaluation.epsilon`."""

    def found(line: TrainingLine) -> float | None:
        above, tested = number_in(line, f"rho_{stage}"), number_in(line, "tested_clients")
        return None if above is None or tested is None else tested - above

    return found


DERIVED: Mapping[str, Callable[[TrainingLine], float | None]] = {
    "sum_l1": _sum("l1"),
    "sum_l2": _sum("l2"),
    "below_l1": _below("l1"),
    "below_l2": _below("l2"),
}


def value_in(line: TrainingLine, name: str) -> float | None:
    """A number of a line, or one that follows from it; None if the line does not have it."""
    made = DERIVED.get(name)
    return number_in(line, name) if made is None else made(line)
