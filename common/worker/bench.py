"""Where jobs are computed, on a board and in a simulation alike.

Holds one network, and shards as long as they are small. Files come in and go out; which client
trains when is decided elsewhere.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from common.algorithms.aggregation import shortened
from common.algorithms.base import Predictor
from common.arrays import Array, Arrays, parts
from common.config import Experiment
from common.data.local_shards import data_of, standardised_samples
from common.data.rebalance import Rebalanced
from common.data.samples import Samples
from common.data.shard_file import Shard
from common.data.shards import ShardSet
from common.disk.flusher import Flusher
from common.errors import DataError
from common.experiment.resolve import (
    algorithm_of,
    buffers_of,
    first_model,
    keeps_state,
    network_of,
    server_of,
)
from common.experiment.tasks import measure_of
from common.learning.net import TorchNet
from common.learning.networks import extract, load
from common.tasks.task import reveals_classes
from common.wire.messages import ClientData, ClientMetrics, Stage, Sums, bounded
from common.wire.tensors import (
    ModelMeta,
    Statistics,
    UpdateMeta,
    check_arrays,
    decode_tensors,
    encode_tensors,
)
from common.worker.client import MEMORY, Budget, Progress, TorchClient
from common.worker.orders import JobOrder
from common.worker.snapshot_store import SnapshotStore

WORTH_FLUSHING = 1.0  # seconds of training, which a power cut would cost
SHARD_BYTES = 64 * 1024**2  # of shards that need not be read again in the next round


@dataclass(frozen=True, slots=True)
class JobResult:
    """What a training reports besides its files."""

    loss: float | None
    samples: int
    bytes: int


class Workbench:
    """The tools to train and test the clients of one run."""

    def __init__(
        self,
        run: str,
        experiment: Experiment,
        *,
        shards: Path,
        snapshots: Path,
        clients: Sequence[int],
        local: Path | None = None,
    ) -> None:
        self.run = run
        self.experiment = experiment
        self.algorithm = algorithm_of(experiment)
        self.measure = measure_of(experiment)
        self._like = self._first_download()
        self.network = network_of(experiment)
        self.buffers = buffers_of(experiment)
        self._nets: dict[tuple[str, ...], TorchNet] = {}
        self._snapshots = SnapshotStore(snapshots, run)
        self._keeps_state = keeps_state(experiment)
        self._flusher = Flusher()
        if experiment.data.partition == "local":  # frozen for this run
            shards = snapshots / "shards"
        wanted = ShardSet(shards, experiment, self.algorithm.rebalance, local)
        self.shards = wanted.ensure(clients)
        self._statistics: Statistics | None = None  # come with the first download
        self._kept: dict[int, Shard] = {}  # least recently used first
        self._download: tuple[Path, Arrays] | None = None
        self._loaded: Arrays | None = None

    def _first_download(self) -> Arrays:
        """Arrays with the names, shapes and kinds of every download."""
        server = server_of(self.experiment)
        model = first_model(self.experiment)
        return self.algorithm.broadcast(self.algorithm.server_init(server, model))

    def train(self, order: JobOrder, progress: Progress) -> JobResult:
        """One client's training in one round; its snapshot is on disk when this returns."""
        began = time.monotonic()
        client_id, round_number = order.client, order.round
        weights = self._weights(Path(order.download))
        client = self.client(client_id, round_number, progress)
        client.budget = Budget(self.experiment.training.seconds, order.most_steps)
        state = self._state(client, order.base, weights)
        if order.private:
            weights = {**weights, **self._read(Path(order.private))}
        trained = self.algorithm.client_update(client, state, weights)
        arrays, counted = trained.arrays, client.budget.scaled(trained.weights)
        if longest := self.experiment.privacy.clip:
            arrays, counted = shortened(arrays, weights, longest), dict.fromkeys(counted, 1.0)
        tests = union = None
        if "L2" in self.experiment.evaluation.stages:
            tests = self.measure.sums(trained.personal, client.shard.test)
            if client.shard.union is not None:
                union = self.measure.sums(trained.personal, client.shard.union, union=True)
        meta = UpdateMeta(
            run=self.run,
            round=round_number,
            client=client_id,
            samples=client.samples,
            steps=trained.steps,
            weights=counted,
            loss=bounded(trained.loss),
            values={
                name: value
                for name, value in trained.values.items()
                if bounded(value) is not None
            },
        )
        update = encode_tensors(arrays, meta, self.experiment.communication.encoding)
        if order.secret:
            from common.worker.secret_store import masked_update  # needs a package of its own

            update = masked_update(Path(order.secret), update, self.experiment)
        state = {**trained.state, **client.memory}
        self._snapshots.write(
            client_id,
            round_number,
            state=state,
            update=update,
            tests=tests,
            union=union,
            durable=self._keeps_state,
        )
        if not self._keeps_state and time.monotonic() - began > WORTH_FLUSHING:
            # it can be computed again, so nothing waits for the disk
            self._flusher.add(self._snapshots.path(client_id, round_number))
        return JobResult(meta.loss, client.samples, len(update))

    def test(self, order: JobOrder) -> ClientMetrics:
        """Test the models of one round on the client's samples."""
        client_id, round_number = order.client, order.round
        weights = self._weights(Path(order.download))
        client = self.client(client_id, round_number, _no_progress)
        state = self._state(client, order.base, weights)
        models = self.algorithm.stages(client, state, weights)
        own = self._tests(models, client.shard.test)
        union: dict[Stage, Sums] = {}
        if client.shard.union is not None and self._union_is_due(round_number):
            personal: dict[Stage, Predictor] = {**models}
            personal.pop("G", None)
            union = self._tests(personal, client.shard.union, union=True)
        if order.base is not None:
            last = self._snapshots.record(client_id, order.base)
            if last.tests is not None:
                own["L2"] = last.tests
            if last.union is not None and self._union_is_due(round_number):
                union["L2"] = last.union
        return ClientMetrics(
            run=self.run, round=round_number, client=client_id, own=own, union=union
        )

    def _union_is_due(self, round_number: int) -> bool:
        every, rounds = (
            self.experiment.evaluation.union_every,
            self.experiment.experiment.rounds,
        )
        return (round_number - 1) % every == 0 or round_number > rounds

    def _tests(
        self, models: Mapping[Stage, Predictor], samples: Samples, *, union: bool = False
    ) -> dict[Stage, Sums]:
        """Tests for each wanted stage; a model that serves two stages is tested once."""
        known: dict[int, Sums] = {}
        tests: dict[Stage, Sums] = {}
        for stage, predictor in models.items():
            if stage in self.experiment.evaluation.stages:
                if id(predictor) not in known:
                    known[id(predictor)] = self.measure.sums(predictor, samples, union=union)
                tests[stage] = known[id(predictor)]
        return tests

    def _state(self, client: TorchClient, base: int | None, weights: Arrays) -> Arrays:
        """The state the client continues from, without what its optimizers remember."""
        if base is None:
            return self.algorithm.client_init(client, weights)
        kept = self._snapshots.state(client.client_id, base)
        client.memory = parts(kept, [MEMORY])
        return {name: array for name, array in kept.items() if name not in client.memory}

    def client(self, client_id: int, round_number: int, progress: Progress) -> TorchClient:
        """A client, as an algorithm sees it in a round."""
        return TorchClient(self, client_id, round_number, self._shard(client_id), progress)

    def _shard(self, client_id: int) -> Shard:
        shard = self._kept.pop(client_id, None)
        if shard is None:
            size = self.shards.path(client_id).stat().st_size
            while (
                self._kept and size + sum(s.nbytes for s in self._kept.values()) > SHARD_BYTES
            ):
                del self._kept[next(iter(self._kept))]
            shard = self._standardised(self.shards.load(client_id))
        self._kept[client_id] = shard
        return shard

    def _standardised(self, shard: Shard) -> Shard:
        train, test = self.standardised(shard.train), self.standardised(shard.test)
        return replace(shard, train=train, test=test)

    def standardised(self, samples: Samples) -> Samples:
        """Samples of local tables, by the statistics of all clients."""
        known = self._statistics
        if known is None:
            return samples
        return standardised_samples(samples, known.mean, known.deviation)

    def rebalanced(self, client_id: int) -> Rebalanced:
        """A client's rebalanced set."""
        made = self.shards.load_rebalanced(client_id)
        return replace(made, samples=self.standardised(made.samples))

    def local_data(
        self, clients: Sequence[int], *, class_counts: bool
    ) -> dict[int, ClientData]:
        """What is reported of data that only this machine has."""
        data = self.experiment.data
        if data.partition != "local":
            return {}
        if reveals_classes(self.experiment.task) and not class_counts:
            raise DataError(
                "task.metrics asks for sums that tell how many test samples of each class "
                "there are, which this board does not allow (fl-client run --class-counts does)"
            )
        classes = class_counts and data.report_classes
        return {
            client: data_of(data, self.shards.load(client), classes=classes)
            for client in clients
        }

    def _weights(self, download: Path) -> Arrays:
        if self._download is None or self._download[0] != download:
            self._download = None
            encoding = self.experiment.communication.encoding
            arrays, meta = decode_tensors(download.read_bytes(), ModelMeta, encoding)
            check_arrays(arrays, self._like)
            self._statistics = meta.statistics
            self._download = (download, arrays)
        return self._download[1]

    def _read(self, download: Path) -> dict[str, Array]:
        encoding = self.experiment.communication.encoding
        return decode_tensors(download.read_bytes(), ModelMeta, encoding)[0]

    def net(self, arrays: Arrays) -> TorchNet:
        """The one network in memory (and what the algorithm adds to it) with these arrays."""
        names = tuple(sorted(arrays))
        if names not in self._nets:
            with torch.inference_mode(mode=False):  # a test may come first, training later
                self._nets[names] = TorchNet(self.network, arrays, self.algorithm.copies)
        if self._loaded is not arrays:
            load(self._nets[names], arrays)
            self._loaded = arrays
        return self._nets[names]

    def net_to_train(self, arrays: Arrays) -> TorchNet:
        """The same, to be changed; its content is unknown until `trained` is called."""
        net = self.net(arrays)
        self._loaded = None
        return net

    def trained(self, net: TorchNet) -> dict[str, Array]:
        """The arrays of the network after a training in place."""
        arrays = extract(net)
        self._loaded = arrays
        return arrays


def _no_progress(_epoch: int, _epochs: int, _loss: float) -> None:
    return None
