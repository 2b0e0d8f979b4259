"""What an experiment's words stand for: algorithm, model, participants; no torch."""

from __future__ import annotations

from common.algorithms import build
from common.algorithms.base import Algorithm
from common.arrays import Arrays
from common.config import Experiment
from common.datasets import dataset_info
from common.errors import ConfigError, UsageError
from common.ids import parse_ids, show_ids
from common.models import ModelSpec, build_spec, initial
from common.rng import generator


def algorithm_of(experiment: Experiment) -> Algorithm:
    """The algorithm an experiment runs."""
    return build(experiment.algorithm.name, experiment.algorithm.options)


def spec_of(experiment: Experiment) -> ModelSpec:
    """The model an experiment trains."""
    info = dataset_info(experiment.data.dataset)
    return build_spec(
        experiment.model.name,
        shape=info.shape,
        classes=info.classes,
        head_depth=experiment.model.head_depth,
        hidden=experiment.model.hidden,
    )


def first_model(experiment: Experiment) -> Arrays:
    """The model everybody starts from."""
    return initial(spec_of(experiment), generator(experiment.experiment.seed, "model"))


def participants_of(experiment: Experiment) -> tuple[int, ...]:
    """The client ids that take part."""
    everybody = tuple(range(experiment.data.clients))
    text = experiment.selection.participants
    if text == "all":
        return everybody
    try:
        chosen = parse_ids(text)
    except UsageError as error:
        raise ConfigError(f"selection.participants: {error}") from error
    outside = sorted(set(chosen) - set(everybody))
    if outside:
        raise ConfigError(
            f"selection.participants names clients {show_ids(outside)}, "
            f"but data.clients = {experiment.data.clients} has only 0-{everybody[-1]}"
        )
    return chosen


def check(experiment: Experiment) -> None:
    """Refuse an experiment whose sections do not fit together."""
    algorithm_of(experiment)
    spec_of(experiment)
    participants = participants_of(experiment)
    wanted = experiment.selection.start_with
    if wanted != "all" and wanted > len(participants):
        raise ConfigError(
            f"selection.start_with is {wanted}, but only {len(participants)} clients take part"
        )
    if experiment.experiment.min_updates > len(participants):
        raise ConfigError(
            f"experiment.min_updates is {experiment.experiment.min_updates}, "
            f"but only {len(participants)} clients take part"
        )
    data, size = experiment.data, dataset_info(experiment.data.dataset).size
    smallest = data.min_size if data.partition == "dirichlet" else 2
    if data.clients * smallest > size:
        raise ConfigError(
            f"data.clients is {data.clients}, but {data.dataset} has only {size} samples; "
            f"every client needs at least {smallest}"
        )
