"""How the updates of an experiment are added up, and whether that is possible."""

from __future__ import annotations

from common.config import Experiment
from common.data.dataset import info_of
from common.errors import ConfigError
from common.privacy.exact import HEAVIEST, Scale, make_scale


def scale_of(experiment: Experiment) -> Scale | None:
    """The resolution of exact sums; None if means are added up in floating point.

    A client counts for at most the samples of the dataset, or as what its algorithm says.
    """
    settings = experiment.aggregation
    if settings.arithmetic != "exact":
        return None
    samples = min(float(info_of(experiment.data).size), HEAVIEST)
    return make_scale(
        updates=experiment.data.clients, heaviest=samples, largest=settings.largest
    )


def check_sums(experiment: Experiment, participants: int) -> None:
    """ConfigError if the updates cannot be added up as the experiment wants it."""
    settings = experiment.aggregation
    scale_of(experiment)
    least = 2 * settings.hostile + 3
    trained = max(1, round(experiment.selection.rate * participants))
    if "krum" in settings.rule and trained < least:
        raise ConfigError(
            f"aggregation.rule is {settings.rule!r} with aggregation.hostile = "
            f"{settings.hostile}, which needs at least {least} updates in a round; "
            f"{trained} clients train in one"
        )
    if settings.arithmetic == "exact" and settings.rule != "mean":
        raise ConfigError(
            f"aggregation.arithmetic is 'exact', but aggregation.rule is {settings.rule!r}, "
            "which is no sum; expected 'mean'"
        )
