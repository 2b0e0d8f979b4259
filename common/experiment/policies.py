"""Whether the rounds that an experiment wants fit to its algorithm and to each other."""

from __future__ import annotations

from common.algorithms import suggestion
from common.algorithms.base import Algorithm
from common.config import Experiment
from common.errors import ConfigError

RULES = ("random", "power-of-choice", "speed", "round-robin")


def check_policies(experiment: Experiment, algorithm: Algorithm, participants: int) -> None:
    """ConfigError if such rounds make no sense."""
    rule = experiment.selection.rule
    if ":" not in rule and rule not in RULES:
        near = suggestion(rule, dict.fromkeys(RULES))
        raise ConfigError(f"selection.rule is {rule!r}{near}")
    if experiment.training.seconds:
        _check_seconds(experiment, algorithm)
    if experiment.aggregation.buffer:
        _check_buffer(experiment, algorithm, participants)


def _check_seconds(experiment: Experiment, algorithm: Algorithm) -> None:
    seconds, name = experiment.training.seconds, experiment.algorithm.name
    several = algorithm.coupled or algorithm.stateful or algorithm.splits
    if several or algorithm.needs_each or algorithm.private is not None:
        raise ConfigError(
            f"training.seconds is {seconds:g}, but algorithm.name is {name!r}, whose clients "
            "keep a state or train in several stages, which cannot be cut off; expected one "
            "like 'fedavg'"
        )
    if experiment.privacy.clip:
        raise ConfigError(
            f"training.seconds is {seconds:g}, by which clients count by their steps, and with "
            "privacy.clip all count the same; expected one of them"
        )


def _check_buffer(experiment: Experiment, algorithm: Algorithm, participants: int) -> None:
    buffer, name = experiment.aggregation.buffer, experiment.algorithm.name
    if buffer > participants:
        raise ConfigError(
            f"aggregation.buffer is {buffer}, but only {participants} clients take part, and "
            "each is in a buffer once"
        )
    why = ""
    if algorithm.coupled:
        why = "whose clients go on from what the server has used of them"
    elif algorithm.needs_each or algorithm.private is not None:
        why = "whose server treats each client by itself"
    if why:
        raise ConfigError(
            f"aggregation.buffer is {buffer}, but algorithm.name is {name!r}, {why}; a buffer "
            "works with algorithms whose server takes the mean of the updates"
        )
    if experiment.experiment.deadline:
        raise ConfigError(
            f"aggregation.buffer is {buffer}, so that no round waits for anybody; expected "
            "experiment.deadline = 0 (aggregation.max_staleness bounds how late an update is)"
        )
    if experiment.privacy.secure:
        raise ConfigError(
            f"aggregation.buffer is {buffer}, by which single updates count by their age, and "
            "privacy.secure hides them; expected privacy.secure = false"
        )
    if experiment.selection.extra:
        raise ConfigError(
            f"aggregation.buffer is {buffer}, so that no update is one too many; expected "
            "selection.extra = 0"
        )
