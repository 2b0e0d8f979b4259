"""The task of an experiment, and the functions that measure it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from common.algorithms.base import Algorithm
from common.config import Experiment
from common.config.task import AUTO, OF_ONE_CLASS
from common.data.dataset import info_of
from common.errors import ConfigError
from common.plugins import find_function
from common.tasks.task import Task, make_task, name_of, resolved, reveals_classes

IMAGE, CHANNELS = 3, (1, 3)  # dimensions of one, and what augmentation can change

if TYPE_CHECKING:
    from common.learning.evaluation import Measure, OwnMetric


def task_of(experiment: Experiment) -> Task:
    """What an experiment's models learn, and how they are measured."""
    section, info = experiment.task, info_of(experiment.data)
    if section.kind == AUTO:  # an experiment that was not read from a file
        section = resolved(section, info.kind)
    return make_task(section, info.classes)


def check_task(experiment: Experiment, algorithm: Algorithm) -> None:
    """ConfigError if the task is none for the algorithm, or asks for what is not there."""
    task, data = task_of(experiment), experiment.data
    needs_classes = algorithm.rebalance is not None and task.kind not in OF_ONE_CLASS
    if needs_classes or task.kind not in algorithm.tasks:
        raise ConfigError(
            f"algorithm.name is {experiment.algorithm.name!r}, which needs samples of one "
            f"class each, but task.kind is {task.kind!r}"
        )
    _check_augmentation(experiment, algorithm)
    if (
        data.partition == "local"
        and reveals_classes(experiment.task)
        and not data.report_classes
    ):
        raise ConfigError(
            "task.metrics asks for sums that reveal how many test samples of each class a "
            "client has; with data.partition = 'local' set data.report_classes = true, too, or "
            "leave out macro_f1, class_accuracy and confusion"
        )
    if ":" in experiment.task.loss:
        find_function("task.loss", experiment.task.loss)
    _own_metrics(experiment)


def _check_augmentation(experiment: Experiment, algorithm: Algorithm) -> None:
    rebalance, info = algorithm.rebalance, info_of(experiment.data)
    if rebalance is None or rebalance.augmentation == "duplicate":
        return
    pictures = len(info.shape) == IMAGE and info.shape[0] in CHANNELS
    if not pictures or any(one.dtype != "uint8" for one in info.inputs):
        raise ConfigError(
            f"algorithm.augmentation is {rebalance.augmentation!r}, which is for images with 1 "
            f"or 3 channels, but samples of {experiment.data.dataset!r} are none; expected "
            "'duplicate'"
        )


def _own_metrics(experiment: Experiment) -> dict[str, OwnMetric]:
    return {
        name_of(metric): find_function("task.metrics", metric)
        for metric in experiment.task.metrics
        if ":" in metric
    }


def measure_of(experiment: Experiment) -> Measure:
    """How an experiment's models are measured, with the functions that do it."""
    from common.learning.evaluation import Measure  # needs torch
    from common.learning.losses import LOSSES, own_loss

    task, name = task_of(experiment), experiment.task.loss
    loss = own_loss(name, find_function("task.loss", name)) if ":" in name else None
    return Measure(task, loss or LOSSES[task.loss], _own_metrics(experiment))
