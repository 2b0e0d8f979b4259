"""How many samples the runs of a study train and test with, and how long that takes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from common.config import Experiment
from common.data.datasets import dataset_info
from common.experiment.resolve import participants_of
from fl_server.studies.runs import FoundRun

RELATIVE = {  # trainings of an algorithm, as multiples of FedAvg's
    "apfl": 2.0,
    "ditto": 2.0,
    "fedfomo": 1.3,
    "fedreg": 2.0,
    "fedrep": 0.35,
    "gpfl": 1.2,
    "perfedavg": 1.5,
}


@dataclass(frozen=True, slots=True)
class Speed:
    """Seconds for each sample, of training and of testing."""

    train: float
    test: float


Measure = Callable[[Experiment], Speed]


def seconds_of(one: FoundRun, measure: Measure) -> float:
    """How long a run still takes: from its own rounds if it has any, else from a few steps."""
    if one.finished:
        return 0.0
    experiment = one.run.experiment
    left = one.run.rounds - one.rounds
    if one.rounds and one.data is not None and (spent := one.data.summary.cost.seconds):
        return spent / one.rounds * left
    speed = measure(experiment)
    if one.run.central:
        trained, tested = float(training_size(experiment)), float(testing_size(experiment))
    else:
        trained, tested = trained_per_round(experiment), answers_per_round(experiment)
    return left * (trained * speed.train + tested * speed.test)


def training_size(experiment: Experiment) -> int:
    """Training samples of all clients together, roughly."""
    data, info = experiment.data, dataset_info(experiment.data.dataset)
    size = info.official if data.test != "pool" else info.size
    if data.max_samples:
        size = min(size, data.max_samples * data.clients)
    return round(size * (1.0 if data.test != "pool" else data.train_ratio))


def testing_size(experiment: Experiment) -> int:
    """Test samples of all clients together, roughly."""
    data, info = experiment.data, dataset_info(experiment.data.dataset)
    if data.test != "pool":
        return info.size - info.official
    size = min(info.size, data.max_samples * data.clients) if data.max_samples else info.size
    return round(size * (1 - data.train_ratio))


def trained_per_round(experiment: Experiment) -> float:
    """Samples that a round trains with, repeats counted."""
    training, data = experiment.training, experiment.data
    selected = max(1, round(experiment.selection.rate * len(participants_of(experiment))))
    shared = data.share * data.share_given * training_size(experiment)
    own = training_size(experiment) / data.clients + shared
    of_client = (
        training.steps * training.batch_size if training.steps else training.epochs * own
    )
    return selected * of_client * RELATIVE.get(experiment.algorithm.name, 1.0)


def answers_per_round(experiment: Experiment) -> float:
    """Answers that the tests of a round take, on average."""
    evaluation, participants = experiment.evaluation, len(participants_of(experiment))
    own = testing_size(experiment) * participants / experiment.data.clients
    union = evaluation.union_samples * participants * 2 / evaluation.union_every
    # stage L2 is tested right after a training, so only by those who trained
    stages = sum(stage != "L2" for stage in evaluation.stages) + experiment.selection.rate
    return own * stages / evaluation.every + union
