"""What a client's jobs take, in training samples: for virtual time, and for slowed boards."""

from __future__ import annotations

from common.config import Experiment
from common.experiment.resolve import keeps_state

TESTED = 1 / 3  # of a training sample: one way through the model, not there and back


def training_effort(experiment: Experiment, train: int, test: int) -> float:
    """A training in one round, and the test at its end if there is one."""
    training = experiment.training
    after = TESTED * test if "L2" in experiment.evaluation.stages else 0.0
    return (training.steps * training.batch_size or training.epochs * train) + after


def testing_effort(experiment: Experiment, test: int) -> float:
    """The tests of one round."""
    both = keeps_state(experiment) and {"G", "L1"} <= {*experiment.evaluation.stages}
    return (2 if both else 1) * TESTED * test
