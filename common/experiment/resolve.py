"""What the names in an experiment stand for: algorithm, model, participants.

No torch, unless the model is a user's own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from common.algorithms import build, build_complete, complete_options
from common.algorithms.base import Algorithm, Server
from common.algorithms.local_norm import with_local_norm
from common.arrays import Arrays
from common.config import AlgorithmSection, Experiment
from common.config.task import AUTO, Kind
from common.data.datasets import dataset_info
from common.data.partition import no_natural_clients
from common.data.skews import smallest_of
from common.errors import ConfigError, UsageError
from common.ids import parse_ids, show_ids
from common.learning.specs import ModelOptions, ModelSpec, build_spec, initial
from common.plugins import find_function
from common.rng import generator
from common.tasks.task import Task, make_task, name_of, resolved

if TYPE_CHECKING:
    from torch import nn

    from common.learning.evaluation import Measure


def algorithm_of(experiment: Experiment) -> Algorithm:
    """The algorithm an experiment runs."""
    algorithm = build(experiment.algorithm.name, experiment.algorithm.options)
    return with_local_norm(algorithm) if experiment.model.batch_norm == "local" else algorithm


def task_of(experiment: Experiment) -> Task:
    """What an experiment's models learn, and how they are measured."""
    section = experiment.task
    if section.kind == AUTO:  # an experiment that was not read from a file
        section = resolved(section, target_kind(experiment))
    return make_task(section, outputs_of(experiment))


def measure_of(experiment: Experiment) -> Measure:
    """How an experiment's models are measured, with the functions that do it."""
    from common.learning.evaluation import Measure  # needs torch
    from common.learning.losses import LOSSES, own_loss

    task, name = task_of(experiment), experiment.task.loss
    loss = own_loss(name, find_function("task.loss", name)) if ":" in name else None
    own = {
        name_of(metric): find_function("task.metrics", metric)
        for metric in experiment.task.metrics
        if ":" in metric
    }
    return Measure(task, loss or LOSSES[task.loss], own)


def target_kind(experiment: Experiment) -> Kind:
    """The kind of task that the targets of the dataset are for."""
    info = dataset_info(experiment.data.dataset)
    return "next-token" if len(info.shape) == 1 else "classification"


def outputs_of(experiment: Experiment) -> int:
    """How many numbers a model answers with."""
    return dataset_info(experiment.data.dataset).classes


def server_of(
    experiment: Experiment, *, round_number: int = 0, download: Arrays | None = None
) -> Server:
    """What the algorithm's server half gets to know when a round closes."""
    seed = experiment.experiment.seed
    return Server(
        clients=experiment.data.clients,
        participants=len(participants_of(experiment)),
        classes=dataset_info(experiment.data.dataset).classes,
        round=round_number,
        rng=lambda purpose: generator(seed, purpose, round_number),
        buffers=buffers_of(experiment),
        aggregation=experiment.aggregation,
        download={} if download is None else download,
    )


def buffers_of(experiment: Experiment) -> frozenset[str]:
    """The arrays of the model that are not parameters; only users' own models have any."""
    if not has_user_model(experiment):
        return frozenset()
    return frozenset(name for name, _ in user_model(experiment).named_buffers())


def keeps_state(experiment: Experiment) -> bool:
    """Whether clients keep anything between rounds."""
    return algorithm_of(experiment).stateful or experiment.training.optimizer_state == "keep"


def spec_of(experiment: Experiment) -> ModelSpec:
    """The model an experiment trains, if it is one of ours."""
    info, model = dataset_info(experiment.data.dataset), experiment.model
    return build_spec(
        model.name,
        shape=info.shape,
        classes=info.classes,
        head_depth=model.head_depth,
        options=ModelOptions(hidden=model.hidden, padding=model.padding, pool=model.pool),
    )


def shapes_of(experiment: Experiment) -> dict[str, tuple[int, ...]]:
    """Name and shape of every array of the model an experiment trains."""
    if not has_user_model(experiment):
        return spec_of(experiment).shapes()
    return {name: array.shape for name, array in first_model(experiment).items()}


def first_model(experiment: Experiment) -> Arrays:
    """The model that the first round starts from."""
    if not has_user_model(experiment):
        return initial(spec_of(experiment), generator(experiment.experiment.seed, "model"))
    return {name: value.numpy() for name, value in user_model(experiment).state_dict().items()}


def has_user_model(experiment: Experiment) -> bool:
    """Whether the model is a user's own, named by `package.module:function`."""
    return ":" in experiment.model.name


def user_model(experiment: Experiment) -> nn.Module:
    """The user's own model with its first values."""
    name, info = experiment.model.name, dataset_info(experiment.data.dataset)
    function = find_function("model.name", name)
    from common.learning.user_models import (
        make_user_model,  # the one thing here that needs torch
    )

    return make_user_model(
        name,
        function,
        shape=info.shape,
        classes=info.classes,
        rng=generator(experiment.experiment.seed, "model"),
    )


def network_of(experiment: Experiment) -> nn.Module:
    """The network an experiment trains, on the device of this process."""
    from common.learning.device import device  # needs torch
    from common.learning.networks import Network

    ours = not has_user_model(experiment)
    return (Network(spec_of(experiment)) if ours else user_model(experiment)).to(device())


def participants_of(experiment: Experiment) -> tuple[int, ...]:
    """The client ids that take part."""
    everyone = tuple(range(experiment.data.clients))
    text = experiment.selection.participants
    if text == "all":
        return everyone
    try:
        chosen = parse_ids(text)
    except UsageError as error:
        raise ConfigError(f"selection.participants: {error}") from error
    outside = sorted(set(chosen) - set(everyone))
    if outside:
        raise ConfigError(
            f"selection.participants names clients {show_ids(outside)}, "
            f"but data.clients = {experiment.data.clients} has only 0-{everyone[-1]}"
        )
    return chosen


def checked(experiment: Experiment) -> Experiment:
    """The experiment with all options of its algorithm, if its sections fit together."""
    name = experiment.algorithm.name
    options = complete_options(name, experiment.algorithm.options)
    build_complete(name, options)  # builders refuse what types cannot express
    _check_sections(experiment)
    task = resolved(experiment.task, target_kind(experiment))
    algorithm = AlgorithmSection(name=name, options=options)
    found = msgspec.structs.replace(experiment, algorithm=algorithm, task=task)
    _check_task(found)
    return found


def _check_task(experiment: Experiment) -> None:
    task, algorithm = task_of(experiment), algorithm_of(experiment)
    if task.kind not in algorithm.tasks:
        raise ConfigError(
            f"algorithm.name is {experiment.algorithm.name!r}, which needs classes to learn "
            f"({', '.join(algorithm.tasks)}), but task.kind is {task.kind!r}"
        )


def _check_sections(experiment: Experiment) -> None:
    shapes_of(experiment)
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
    data, info = experiment.data, dataset_info(experiment.data.dataset)
    smallest = smallest_of(data)
    size = info.size if data.test == "pool" else info.official
    if data.clients * smallest > size:
        raise ConfigError(
            f"data.clients is {data.clients}, but {data.dataset} has only {size} samples"
            f"{'' if data.test == 'pool' else ' to train'}; "
            f"every client needs at least {smallest}"
        )
    if data.test != "pool" and info.official == info.size:
        raise ConfigError(
            f"data.test is {data.test!r}, but {data.dataset!r} has no official test set; "
            "expected 'pool'"
        )
    if data.partition == "natural" and not info.natural:
        raise no_natural_clients(data.dataset)
    if 0 < data.max_samples < smallest:
        raise ConfigError(
            f"data.max_samples is {data.max_samples}; expected 0 or at least {smallest}, "
            "as every client needs as many"
        )
    if data.partition == "classes" and data.classes_per_client > info.classes:
        raise ConfigError(
            f"data.classes_per_client is {data.classes_per_client}, "
            f"but {data.dataset} has only {info.classes} classes"
        )
