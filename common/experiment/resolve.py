"""What the names in an experiment stand for: algorithm, model, participants.

No torch, unless the model is a user's own.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from common.algorithms import (
    ALIASES,
    BUILDERS,
    build,
    build_complete,
    complete_options,
    known_builders,
)
from common.algorithms.base import Algorithm, Server
from common.algorithms.local_norm import with_local_norm
from common.arrays import Arrays
from common.config import AlgorithmSection, Experiment, InputSchema
from common.data.dataset import info_of
from common.data.datasets import DatasetInfo
from common.data.own.sources import is_function
from common.data.partition import no_natural_clients
from common.data.skews import smallest_of
from common.data.strata import strata_count
from common.errors import ConfigError, UsageError
from common.experiment.own_data import with_moments, with_schema
from common.experiment.policies import check_policies
from common.experiment.privacy import check_privacy
from common.experiment.sums import check_sums, scale_of
from common.experiment.tasks import check_task
from common.ids import parse_ids, show_ids
from common.learning.specs import ModelOptions, ModelSpec, Sample, Shape, build_spec, initial
from common.plugins import code_folder
from common.rng import generator
from common.tasks.task import resolved

if TYPE_CHECKING:
    from torch import Tensor, nn


def own_code(experiment: Experiment) -> tuple[str, ...]:
    """The places of all functions in it that are users' own."""
    name, places = experiment.algorithm.name, []
    if name not in BUILDERS and name not in ALIASES:
        place = known_builders().get(name, name)
        places += [place] if ":" in place else []
    if has_user_model(experiment) and not experiment.model.name.startswith("torchvision:"):
        places.append(experiment.model.name)
    if experiment.data.partition == "local" and is_function(experiment.data.dataset):
        places.append(experiment.data.dataset)
    places += [name for name in (experiment.task.loss, *experiment.task.metrics) if ":" in name]
    return tuple(dict.fromkeys(places))


def algorithm_of(experiment: Experiment) -> Algorithm:
    """The algorithm an experiment runs."""
    algorithm = build(experiment.algorithm.name, experiment.algorithm.options)
    return with_local_norm(algorithm) if experiment.model.batch_norm == "local" else algorithm


def server_of(
    experiment: Experiment, *, round_number: int = 0, download: Arrays | None = None
) -> Server:
    """What the algorithm's server half gets to know when a round closes."""
    seed = experiment.experiment.seed
    return Server(
        clients=experiment.data.clients,
        participants=len(participants_of(experiment)),
        classes=info_of(experiment.data).classes,
        round=round_number,
        rng=lambda purpose: generator(seed, purpose, round_number),
        buffers=buffers_of(experiment),
        aggregation=experiment.aggregation,
        download={} if download is None else download,
        scale=scale_of(experiment),
    )


def buffers_of(experiment: Experiment) -> frozenset[str]:
    """The arrays of the model that are not parameters; only users' own models have any."""
    if not has_user_model(experiment):
        return frozenset()
    info, model = info_of(experiment.data), experiment.model
    return _buffers(code_folder(), model.name, model.head, info.shapes, info.classes)


@functools.lru_cache(maxsize=8)  # asked for in every round, and networks are large
def _buffers(
    _code: Path | None,
    name: str,
    head: str,
    shape: Shape | tuple[Shape, ...],
    classes: int,
) -> frozenset[str]:
    from common.learning.user_models import make_user_model

    rng = generator(0, "model")
    model = make_user_model(name, head, shape=shape, classes=classes, rng=rng)
    return frozenset(name for name, _ in model.named_buffers())


def keeps_state(experiment: Experiment) -> bool:
    """Whether clients keep anything between rounds."""
    return algorithm_of(experiment).stateful or experiment.training.optimizer_state == "keep"


def spec_of(experiment: Experiment) -> ModelSpec:
    """The model an experiment trains, if it is one of ours."""
    info, model = info_of(experiment.data), experiment.model
    return build_spec(
        model.name,
        shape=info.shape,
        classes=info.classes,
        head_depth=model.head_depth,
        sample=sample_of(info),
        options=ModelOptions(hidden=model.hidden, padding=model.padding, pool=model.pool),
    )


def sample_of(info: DatasetInfo) -> Sample:
    """What our models may be for."""
    if len(info.inputs) > 1:
        return "several inputs"
    if len(info.shape) != 1:
        return "images" if len(info.shape) == 3 else "other arrays"
    is_numbers = bool(info.inputs) and info.inputs[0].dtype == "float32"
    return "numbers" if is_numbers else "text"


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
    """Whether the model is a user's own, or torchvision's: named with a colon."""
    return ":" in experiment.model.name


def head_of(experiment: Experiment) -> str:
    """What the head of a user's model was called before it became the part `head`."""
    return experiment.model.head or str(getattr(user_model(experiment), "head_name", "head"))


def user_model(experiment: Experiment, *, tried: bool = False) -> nn.Module:
    """The user's own model with its first values; `tried`: on samples like the dataset's."""
    model, info = experiment.model, info_of(experiment.data)
    from common.learning.user_models import (
        make_user_model,  # the one thing here that needs torch
    )

    return make_user_model(
        model.name,
        model.head,
        shape=info.shapes,
        classes=info.classes,
        rng=generator(experiment.experiment.seed, "model"),
        trial=trial_of(experiment) if tried else None,
    )


def trial_of(experiment: Experiment) -> tuple[Tensor, ...]:
    """The inputs of two samples like those of the dataset, for a network to be tried on."""
    from common.learning.inputs import normalised

    info = info_of(experiment.data)
    inputs = info.inputs or (InputSchema(dtype="uint8", shape=info.shape),)
    return tuple(normalised(np.zeros((2, *one.shape), one.dtype)) for one in inputs)


def has_norm(experiment: Experiment) -> bool:
    """Whether the model has BatchNorm layers; only users' own models may."""
    return any(name.endswith(".running_mean") for name in buffers_of(experiment))


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
    experiment = with_schema(experiment)
    name = experiment.algorithm.name
    options = complete_options(name, experiment.algorithm.options)
    built = build_complete(name, options)  # builders refuse what types cannot express
    _check_sections(experiment)
    experiment = with_moments(experiment)
    task = resolved(experiment.task, info_of(experiment.data).kind)
    algorithm = AlgorithmSection(name=name, options=options)
    found = msgspec.structs.replace(experiment, algorithm=algorithm, task=task)
    check_task(found, built)
    check_sums(found, len(participants_of(found)))
    check_policies(found, built, len(participants_of(found)))
    check_privacy(found, built, len(participants_of(found)))
    return found


def _check_model(experiment: Experiment) -> None:
    if not has_user_model(experiment):
        if experiment.model.head:
            raise ConfigError(
                f"model.head is {experiment.model.head!r}, but {experiment.model.name} is not "
                "a model of your own; its head is the last model.head_depth layers"
            )
        spec_of(experiment)
        return
    model = user_model(experiment, tried=True)
    if algorithm_of(experiment).splits and not model.get_submodule("head").state_dict():
        parts = ", ".join(name for name, _ in model.get_submodule("base").named_children())
        raise ConfigError(
            f"algorithm.name is {experiment.algorithm.name!r}, which treats the model's head "
            f"by itself; name that part in model.head: the model has {parts}"
        )


def _check_sections(experiment: Experiment) -> None:
    _check_model(experiment)
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
    data, info = experiment.data, info_of(experiment.data)
    smallest = smallest_of(data)
    size = info.size if data.test == "pool" else info.official
    if data.clients * smallest > size:
        raise ConfigError(
            f"data.clients is {data.clients}, but {data.dataset} has only {size} samples"
            f"{'' if data.test == 'pool' else ' to train'}; "
            f"every client needs at least {smallest}"
        )
    if data.test != "pool" and info.official == info.size and data.partition != "local":
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
    strata = strata_count(data, info)
    if data.partition == "classes" and data.classes_per_client > strata:
        raise ConfigError(
            f"data.classes_per_client is {data.classes_per_client}, "
            f"but {data.dataset} has only {strata} classes"
        )
