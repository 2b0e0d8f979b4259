"""Whether what `[privacy]` asks for is possible with the rest of an experiment."""

from __future__ import annotations

from common.algorithms.base import Algorithm
from common.config import Experiment
from common.errors import ConfigError
from common.privacy.rules import LEAST_SECURE, MOST_SECURE


def check_privacy(experiment: Experiment, algorithm: Algorithm, participants: int) -> None:
    """ConfigError if updates cannot be kept from the coordinator as the experiment wants it."""
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
