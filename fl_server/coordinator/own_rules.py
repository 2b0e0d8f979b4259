"""Rules of selection that are users' own, made known to the round machine."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import cast

import numpy as np

from common.config import Experiment
from common.errors import FedbedError
from common.plugins import find_function, user_errors
from fl_server.rounds.rules import OWN, Candidate


def rule_of(experiment: Experiment) -> str:
    """The name of the rule by which clients are selected; the machine can find its code."""
    name = experiment.selection.rule
    if ":" in name:
        found = find_function("selection.rule", name, name)
        function = cast("Callable[..., Collection[int]]", found)  # the machine checks it

        def rule(
            candidates: Sequence[Candidate], wanted: int, rng: np.random.Generator
        ) -> Collection[int]:
            with user_errors(f"selection.rule {name!r}", function, kind=FedbedError):
                return [int(client) for client in function(candidates, wanted, rng)]

        OWN[name] = rule
    return name
