"""How fast this machine trains a model: a few steps on random samples, measured.

Time is that of the processor, so that what else runs here does not matter.
"""

from __future__ import annotations

import time
from functools import lru_cache

import numpy as np

from common.config import DataSection, Experiment, ModelSection, TrainingSection
from common.data.datasets import dataset_info
from common.data.samples import Samples
from common.experiment.resolve import network_of
from common.experiment.tasks import measure_of
from common.learning.device import use_one_thread
from common.learning.net import TorchNet
from common.learning.training import Plan, train
from fl_server.studies.costs import Speed

STEPS = 2
TESTED = 50


def measure(experiment: Experiment) -> Speed:
    """Seconds a sample takes; measured once for each model, dataset and kind of step."""
    training = experiment.training
    plain = TrainingSection(batch_size=training.batch_size, optimizer=training.optimizer)
    return _measured(experiment.data.dataset, experiment.model, plain)


@lru_cache
def _measured(dataset: str, model: ModelSection, training: TrainingSection) -> Speed:
    use_one_thread()
    info, rng = dataset_info(dataset), np.random.default_rng(1)
    size = max(STEPS * training.batch_size, TESTED)
    highest = 256 if len(info.shape) == 3 else info.classes
    samples = Samples(
        (rng.integers(0, highest, (size, *info.shape), np.uint8),),
        rng.integers(0, info.classes, size),
    )
    experiment = Experiment(model=model, data=DataSection(dataset=dataset))
    net, tester = TorchNet(network_of(experiment)), measure_of(experiment)
    train(net, samples, training, rng, Plan(steps=1))  # the first step is slower
    began = time.thread_time()
    train(net, samples, training, rng, Plan(steps=STEPS))
    trained = time.thread_time() - began
    part = samples.take(np.arange(TESTED))
    began = time.thread_time()
    tester.sums(net, part)
    tested = time.thread_time() - began
    return Speed(trained / (STEPS * training.batch_size), tested / TESTED)
