"""What a client's jobs take, in training samples: for virtual time, and for slowed boards."""

from __future__ import annotations

from common.config import Experiment
from common.experiment.resolve import keeps_state

TESTED = 1 / 3  # of a training sample: one way through the model, not there and back


def most_steps(experiment: Experiment, speed: float) -> int:
    """How many steps a training may have at so many samples per second; 0: all of them."""
    training = experiment.training
    if not training.seconds:
        return 0
    return max(1, int(training.seconds * speed / training.batch_size))


def training_effort(experiment: Experiment, train: int, test: int, speed: float = 0.0) -> float:
    """A training in one round, and the test at its end if there is one.

    Only with a speed is it cut off by `training.seconds`.
    """
    training = experiment.training
    after = TESTED * test if "L2" in experiment.evaluation.stages else 0.0
    whole = training.steps * training.batch_size or training.epochs * train
    most = most_steps(experiment, speed) * training.batch_size if speed else 0
    return (min(whole, most) if most else whole) + after


def testing_effort(experiment: Experiment, test: int) -> float:
    """The tests of one round."""
    both = keeps_state(experiment) and {"G", "L1"} <= {*experiment.evaluation.stages}
    return (2 if both else 1) * TESTED * test
