"""A process that trains a first model on the shared samples of a run: FOLDER MODEL-FILE."""

from __future__ import annotations

import sys
from pathlib import Path

import safetensors.numpy

from common.data.shards import ShardSet
from common.disk.atomic import write_atomic
from fl_server.central.learner import Learner
from fl_server.run.store import RunStore


def main(folder: Path, file: Path) -> None:
    """Train the model in the file and put the result in its place."""
    experiment = RunStore(folder).experiment()
    shared = ShardSet(folder.parent / ".shards", experiment).ensure_shared()
    learner = Learner(experiment, safetensors.numpy.load_file(file))
    rate = experiment.training.learning_rate
    losses = [
        learner.epoch(shared, epoch, rate, augment=False)
        for epoch in range(1, experiment.model.warm_up + 1)
    ]
    write_atomic(file, safetensors.numpy.save(learner.model()))
    sys.stdout.write(f"{len(losses)} epochs on {len(shared)} samples, loss {losses[-1]:.3f}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
