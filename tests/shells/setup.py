"""A setup as an experiment, and the folder of its run."""

from __future__ import annotations

import functools
import math
import tempfile
from pathlib import Path

from common.config import (
    AggregationSection,
    AlgorithmSection,
    DataSection,
    EvaluationSection,
    Experiment,
    ExperimentSection,
    ModelSection,
    PrivacySection,
    SelectionSection,
)
from fl_server.run.aggregator import Aggregator
from fl_server.run.store import create_run
from tests.model.parts import Setup


def experiment_of(setup: Setup) -> Experiment:
    """The experiment that a setup describes."""
    return Experiment(
        experiment=ExperimentSection(
            seed=7,
            rounds=setup.rounds,
            grace="forever" if math.isinf(setup.grace) else setup.grace,
            deadline=0 if math.isinf(setup.deadline) else setup.deadline,
            min_updates=setup.min_updates,
        ),
        algorithm=AlgorithmSection(name="feddyn" if setup.coupled else "fedavg"),
        model=ModelSection(name="dnn", hidden=1),
        data=DataSection(dataset="fmnist-mini", clients=len(setup.clients)),
        selection=SelectionSection(rate=setup.rate, start_with=setup.start_with or "all"),
        aggregation=AggregationSection(
            arithmetic="exact" if setup.exact or setup.threshold else "float"
        ),
        privacy=PrivacySection(
            secure=setup.threshold > 0, threshold=setup.threshold or PrivacySection().threshold
        ),
        evaluation=EvaluationSection(every=setup.evaluate_every),
    )


@functools.cache
def memory_root() -> tempfile.TemporaryDirectory[str]:
    """A folder whose files are in memory, where there is one: nothing waits for a disk."""
    shared = Path("/dev/shm")
    return tempfile.TemporaryDirectory(dir=shared if shared.is_dir() else None)


@functools.cache
def new_run(setup: Setup) -> Path:
    """The folder of a run that was never started, to be copied."""
    folder = Path(tempfile.mkdtemp(dir=memory_root().name))
    experiment = experiment_of(setup)
    store = create_run(folder, "new", experiment)
    Aggregator(store, experiment).records.close()
    return store.folder
