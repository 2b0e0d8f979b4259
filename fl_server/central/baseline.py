"""The centralized baseline: one model, trained on the samples of all clients together.

runs/<name>/central.safetensors   model and optimizer after the last finished epoch
            central.json          where users' own code is
            metrics.jsonl         a line per epoch
            model.safetensors     the result; a run can start from it (model.init_weights)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
import safetensors.numpy
import torch
from msgspec import UNSET, UnsetType

from common.arrays import Array, digest, from_under, under
from common.config import Experiment
from common.data.datasets import Windows, dataset_info, load_dataset
from common.data.samples import Samples
from common.data.shards import ShardSet, assignment_of
from common.data.windows import Indices, Spans, held_back
from common.disk.atomic import write_atomic
from common.errors import StoreError
from common.experiment.file import RECORDS, CodeRecord, read_experiment, write_text
from common.plugins import code_folder
from common.rng import generator
from common.tasks.metrics import Value
from fl_server.central.learner import Learner, rate_of
from fl_server.run.journal import Journal, read_records
from fl_server.run.model.file import NAME, read_model, write_model
from fl_server.run.model.first import starting_model


class EpochLine(msgspec.Struct, frozen=True):
    """A line of metrics.jsonl: the task's metrics on all test samples.

    `validation` is the main one, on samples that were held back, if there are any.
    """

    epoch: int
    learning_rate: float
    train_loss: float
    tests: dict[str, Value]
    validation: float | UnsetType = UNSET

    def record(self) -> dict[str, object]:
        """As it stands in the file: the tests beside the other keys."""
        found: dict[str, object] = msgspec.to_builtins(self)
        found.pop("tests")
        return {**found, **self.tests}


@dataclass(frozen=True, slots=True, eq=False)
class PooledData:
    """All samples together."""

    train: Samples
    held: Samples | None
    test: Samples


def pool_of(experiment: Experiment, shards: Path) -> PooledData:
    """The union of the clients' training sets, and of their test sets."""
    clients = range(experiment.data.clients)
    made = ShardSet(shards, experiment).ensure(clients)
    loaded = [made.load(client_id) for client_id in clients]
    train = _joined([shard.train for shard in loaded])
    test = _joined([shard.test for shard in loaded])
    kept, held = _validation(experiment, len(train))
    return PooledData(train.take(kept), train.take(held) if len(held) else None, test)


def _validation(experiment: Experiment, size: int) -> tuple[Indices, Indices]:
    """Which of all training samples train, and which are held back, by their places."""
    share, seed = experiment.central.validation, experiment.experiment.seed
    order = generator(seed, "central-validation").permutation(size)
    if share and len(dataset_info(experiment.data.dataset).shape) == 1:
        return _apart(experiment, 1 - share)
    kept = size - round(share * size)
    return order[:kept], order[kept:]


def _apart(experiment: Experiment, ratio: float) -> tuple[Indices, Indices]:
    """The same for windows of a text: no answer held back is in a window that trains."""
    dataset = load_dataset(experiment.data.dataset)
    text = dataset.inputs[0]
    assert isinstance(text, Windows)
    assert dataset.natural is not None
    spans = Spans(text.starts, text.width)
    parts = assignment_of(experiment.data, dataset, experiment.experiment.seed).train
    return held_back(np.concatenate(parts), dataset.natural, ratio, spans)


def _joined(samples: list[Samples]) -> Samples:
    parts = zip(*(one.inputs for one in samples), strict=True)
    targets = np.concatenate([one.targets for one in samples])
    return Samples(tuple(map(np.concatenate, parts)), targets)


class Central:
    """One centralized training in a folder; killed, it goes on after the last whole epoch."""

    def __init__(self, folder: Path, experiment: Experiment) -> None:
        self.folder = folder
        self._experiment = experiment
        file, text = folder / "experiment.toml", write_text(experiment)
        if file.exists() and write_text(read_experiment(file)) != text:
            raise StoreError(f"{folder} is of another experiment; choose another --run")
        folder.mkdir(parents=True, exist_ok=True)
        write_atomic(file, text.encode())
        record = CodeRecord(str(code_folder() or ""))
        write_atomic(folder / RECORDS[1], msgspec.json.encode(record))

    def run(self, shards: Path, report: Callable[[EpochLine], None]) -> str:
        """All epochs; the digest of the resulting model."""
        learner, done, best = self._load()
        pool = pool_of(self._experiment, shards)
        with closing(Journal(self.folder / "metrics.jsonl")) as journal:
            self._epochs(learner, pool, journal, done, best, report)
        model = self._chosen(learner)
        write_model(self.folder / NAME, model)
        return digest(model)

    def _epochs(
        self,
        learner: Learner,
        pool: PooledData,
        journal: Journal,
        done: int,
        best: float,
        report: Callable[[EpochLine], None],
    ) -> None:
        central = self._experiment.central
        known = {line["epoch"] for line in read_records(journal.path)}
        for epoch in range(done + 1, central.epochs + 1):
            rate = rate_of(self._experiment, epoch)
            loss = learner.epoch(pool.train, epoch, rate, augment=central.augment)
            held = UNSET if pool.held is None else learner.main(pool.held)
            line = EpochLine(epoch, rate, loss, learner.tests(pool.test), held)
            best = self._keep(learner, line, best)
            if epoch not in known:
                journal.append(line.record(), sync=True)
            report(line)

    def _load(self) -> tuple[Learner, int, float]:
        path = self.folder / "central.safetensors"
        if not path.exists():
            start = starting_model(self._experiment, self.folder)
            return Learner(self._experiment, start.model), 0, -math.inf
        kept = safetensors.numpy.load_file(path)
        memory = {n: torch.tensor(a) for n, a in from_under("memory", kept).items()}
        learner = Learner(self._experiment, from_under("model", kept), memory)
        return learner, int(kept["epoch"]), float(kept["best"])

    def _keep(self, learner: Learner, line: EpochLine, best: float) -> float:
        """The state after an epoch; returns the best value in validation so far.

        Of a metric that is better when lower, it is the negative.
        """
        model, sign = learner.model(), -1 if learner.measure.task.main.lower else 1
        found = sign * line.validation if isinstance(line.validation, float) else -math.inf
        if found > best:
            write_model(self.folder / "best.safetensors", model)
        best = max(best, found)
        memory: dict[str, Array] = {
            name: tensor.cpu().numpy().copy() for name, tensor in learner.memory.items()
        }
        numbers: dict[str, Array] = {"epoch": np.array(line.epoch), "best": np.array(best)}
        kept = {**under("model", model), **under("memory", memory), **numbers}
        write_atomic(self.folder / "central.safetensors", safetensors.numpy.save(kept))
        return best

    def _chosen(self, learner: Learner) -> dict[str, Array]:
        path = self.folder / "best.safetensors"
        if not path.exists():
            return learner.model()
        return read_model(path)
