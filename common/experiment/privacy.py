"""Whether what `[privacy]` asks for is possible with the rest of an experiment."""

from __future__ import annotations

from common.algorithms.base import Algorithm
from common.config import Experiment
from common.errors import ConfigError
from common.privacy.rules import LEAST_SECURE, MOST_SECURE


def check_privacy(experiment: Experiment, algorithm: Algorithm, participants: int) -> None:
    """ConfigError if updates cannot be kept from the coordinator as the experiment wants it."""
    _check_noise(experiment, algorithm)
    if not experiment.privacy.secure:
        return
    settings, trained = (
        experiment.aggregation,
        max(1, round(experiment.selection.rate * participants)),
    )
    if settings.arithmetic != "exact":
        raise ConfigError(
            f"privacy.secure is true, but aggregation.arithmetic is {settings.arithmetic!r}, "
            "in which masks do not cancel; expected 'exact'"
        )
    if settings.clip_norm:
        raise ConfigError(
            f"privacy.secure is true, but aggregation.clip_norm is {settings.clip_norm:g}: the "
            "coordinator sees no single update to shorten; expected 0"
        )
    if experiment.selection.extra:
        raise ConfigError(
            f"privacy.secure is true, but selection.extra is {experiment.selection.extra}: "
            "everybody whose keys are used counts; expected 0"
        )
    if algorithm.needs_each or algorithm.private is not None:
        raise ConfigError(
            f"privacy.secure is true, but the server of algorithm.name = "
            f"{experiment.algorithm.name!r} looks at single updates, which secure aggregation "
            "hides; expected an algorithm that needs only their mean"
        )
    if not LEAST_SECURE <= trained <= MOST_SECURE:
        raise ConfigError(
            f"privacy.secure is true with {trained} clients in a round; expected "
            f"{LEAST_SECURE} to {MOST_SECURE}"
        )


def _check_noise(experiment: Experiment, algorithm: Algorithm) -> None:
    """ConfigError if moves cannot be clipped, or noise would not hide a client."""
    privacy, settings = experiment.privacy, experiment.aggregation
    if privacy.noise and not privacy.clip:
        raise ConfigError(
            f"privacy.noise is {privacy.noise:g}, but privacy.clip is 0: noise hides a move "
            "only if its length is limited; set privacy.clip"
        )
    if not privacy.clip:
        return
    name = experiment.algorithm.name
    if algorithm.needs_each or algorithm.private is not None or algorithm.coupled:
        raise ConfigError(
            f"privacy.clip is {privacy.clip:g}, but algorithm.name is {name!r}, which sends or "
            "uses more than the move of a model; expected one like 'fedavg' or 'fedadam'"
        )
    others = {
        "aggregation.rule": (settings.rule, "mean"),
        "aggregation.clip_norm": (settings.clip_norm, 0),
        "communication.encoding": (experiment.communication.encoding, "float32"),
        "selection.extra": (experiment.selection.extra, 0),
        "aggregation.buffer": (settings.buffer, 0),
        "selection.rule": (experiment.selection.rule, "random"),
        "selection.gamma": (experiment.selection.gamma, 0),
    }
    for setting, (value, expected) in others.items():
        if value != expected:
            raise ConfigError(
                f"privacy.clip is {privacy.clip:g}, but {setting} is {value!r}, under which "
                f"epsilon would not be true; expected {expected!r}"
            )
