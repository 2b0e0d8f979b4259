"""Local training as a daemon does it, and the fastest plain loop, in one process on one core.

As a program: `python -m bench.loops FOLDER CLIENTS EPOCHS REPEATS KIND...` prints a JSON line
with samples per second for every kind ("daemon", "plain") and repeat.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from common.config import Experiment
from common.data.samples import Samples
from common.experiment.file import parse_experiment
from common.experiment.resolve import first_model
from common.learning.device import use_one_thread
from common.wire.tensors import ModelMeta, encode_tensors
from common.worker.bench import Workbench
from common.worker.orders import JobOrder

BATCH, RATE, MOMENTUM = 20, 0.01, 0.9


def experiment_of(clients: int, epochs: int) -> Experiment:
    """ConvNet on Fashion-MNIST images, batches of 20."""
    return parse_experiment(
        {
            "model": {"name": "convnet"},
            "data": {"clients": clients, "partition": "iid"},
            "training": {"epochs": epochs, "batch_size": BATCH, "learning_rate": RATE},
            "evaluation": {"stages": ["G"]},
        }
    )


class Daemons:
    """A training process of a daemon: reads a download, trains, writes its step to disk."""

    def __init__(self, folder: Path, experiment: Experiment) -> None:
        self._bench = Workbench(
            "bench",
            experiment,
            shards=folder / "shards",
            snapshots=folder / "snapshots",
            clients=(0,),
        )
        self._download = folder / "download.safetensors"
        meta = ModelMeta(run="bench", round=1)
        self._download.write_bytes(encode_tensors(first_model(experiment), meta))
        self.shards = self._bench.shards
        self._round = 0

    def train(self) -> float:
        """Samples per second."""
        self._round += 1
        order = JobOrder(
            job=1,
            kind="train",
            client=0,
            round=self._round,
            base=None,
            download=str(self._download),
        )
        passes = self._bench.experiment.training.epochs
        started = time.perf_counter()
        result = self._bench.train(order, lambda *_: None)
        return result.samples * passes / (time.perf_counter() - started)


class Plain:
    """Nothing but tensors in memory, channels_last, and the fused kernel of torch's SGD."""

    def __init__(self, samples: Samples, epochs: int) -> None:
        images = torch.tensor(samples.inputs[0], dtype=torch.float32).div_(127.5).sub_(1)
        self._images = images.contiguous(memory_format=torch.channels_last)
        self._labels = torch.tensor(samples.targets)
        self._epochs = epochs
        model = nn.Sequential(
            *(nn.Conv2d(1, 64, 5), nn.MaxPool2d(2), nn.ReLU()),
            *(nn.Conv2d(64, 64, 5), nn.MaxPool2d(2), nn.ReLU(), nn.Flatten()),
            *(nn.Linear(1024, 384), nn.ReLU(), nn.Linear(384, 192), nn.ReLU()),
            nn.Linear(192, 10),
        )
        self._model = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self._model.train()

    def train(self) -> float:
        """Samples per second."""
        parameters = list(self._model.parameters())
        velocity = [torch.zeros_like(parameter) for parameter in parameters]
        started, total = time.perf_counter(), 0
        for epoch in range(self._epochs):
            order = np.random.default_rng(epoch).permutation(len(self._labels))
            for batch in torch.from_numpy(order).split(BATCH):
                outputs = self._model(self._images.index_select(0, batch))
                loss = functional.cross_entropy(outputs, self._labels.index_select(0, batch))
                gradients = torch.autograd.grad(loss, parameters)
                self._step(parameters, list(gradients), velocity)
                total += len(batch)
        return total / (time.perf_counter() - started)

    @torch.no_grad()
    def _step(
        self,
        parameters: list[torch.Tensor],
        gradients: list[torch.Tensor],
        velocity: list[torch.Tensor],
    ) -> None:
        torch._fused_sgd_(
            parameters,
            gradients,
            velocity,
            weight_decay=0.0,
            momentum=MOMENTUM,
            lr=RATE,
            dampening=0.0,
            nesterov=False,
            maximize=False,
            is_first_step=False,
        )


def main(words: list[str]) -> None:
    """Measure, interleaved."""
    folder, clients, epochs, repeats, *kinds = words
    use_one_thread()
    torch.manual_seed(1)
    daemon = Daemons(Path(folder), experiment_of(int(clients), int(epochs)))
    plain = Plain(daemon.shards.load(0).train, int(epochs))
    measures = {"daemon": daemon.train, "plain": plain.train}
    for _ in range(int(repeats)):
        for kind in kinds:
            rate = measures[kind]()
            sys.stdout.write(json.dumps({"kind": kind, "rate": rate}) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
