"""Windows of a text that overlap: splits in which no test answer was read in training.

Neighbouring windows show the same characters, so a random split of them would put most answers
of the tests into training windows. As in LEAF, the first part of a run of windows trains, the
last part tests, and the windows between them that overlap training windows are left out.

Pure: which windows, by their numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Indices: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Spans:
    """Where in the text each window begins, and its width; its answer is right behind it.

    A client's windows stand in the order of the text. Windows of different natural clients
    have no character in common.
    """

    starts: Indices
    width: int


def split_apart(run: Indices, ratio: float, spans: Spans) -> tuple[Indices, Indices]:
    """The first `ratio` of a run of windows to train with; to test, those behind all of them.

    The second part may be empty: then the run is too short for both.
    """
    train = run[: max(int(len(run) * ratio + 0.5), 1)]
    if not len(run):
        return train, run
    free = spans.starts[train[-1]] + spans.width
    return train, run[spans.starts[run] >= free]


def can_be_split(run: Indices, ratio: float, spans: Spans) -> bool:
    """Whether a run of windows is long enough for both parts."""
    return all(len(part) for part in split_apart(run, ratio, spans))


def sides(bounds: Indices, ratio: float, spans: Spans) -> tuple[Indices, Indices]:
    """All windows that train and all that test, of every natural client by itself.

    `bounds` says where each natural client's windows begin, and ends with their number. Of
    those with too few windows for both parts the first part trains.
    """
    halves = [
        split_apart(np.arange(begin, end), ratio, spans) for begin, end in pairwise(bounds)
    ]
    train, test = zip(*halves, strict=True)
    return np.concatenate(train), np.concatenate(test)


def held_back(
    windows: Indices, bounds: Indices, ratio: float, spans: Spans
) -> tuple[Indices, Indices]:
    """Of these windows, in any order, the places of those that train and of those held back.

    As in `sides`, of every natural client by itself.
    """
    order = np.argsort(windows, kind="stable")
    own = Spans(spans.starts[windows], spans.width)
    cuts = np.searchsorted(windows[order], bounds[1:-1])
    halves = [split_apart(run, ratio, own) for run in np.split(order, cuts)]
    train, held = zip(*halves, strict=True)
    return np.concatenate(train), np.concatenate(held)
