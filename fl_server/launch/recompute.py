"""A finished run once more, by its own account of who was used when: is that its model?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from common.arrays import digest
from common.config import Experiment
from common.errors import StoreError, UsageError
from common.experiment.resolve import keeps_state
from fl_server.coordinator.local_clients import LocalClients
from fl_server.coordinator.simulate import Simulation
from fl_server.rounds.state import Close, Open
from fl_server.run.journal import read_records
from fl_server.run.model.file import NAME, read_model
from fl_server.run.store import RunStore, create_run
from fl_server.watch.facts.lines import TrainingLine, parse_lines


@dataclass(frozen=True, slots=True)
class Recomputed:
    """What has come out, and what the run itself ended with."""

    rounds: int
    trainings: int
    found: str
    expected: str


class Recomputation(Simulation):
    """Rounds that follow an order instead of deciding one."""

    timed = True

    def run_again(self, lines: Sequence[TrainingLine]) -> str:
        """Train once more what these rounds have used; the digest of the last model."""
        try:
            self._prepare()
            for line in lines:
                self._do_again(line)
            return self._aggregator.digest
        finally:
            self._clients.release()
            self._aggregator.close()

    def _do_again(self, line: TrainingLine) -> None:
        number, used = line.round, line.clients or ()
        ages = line.staleness or (0,) * len(used)
        started = {c: number - age for c, age in zip(used, ages, strict=True)}
        self._aggregator.open_round(Open(number, used, (), started))
        self._write_downloads(number, used)
        trainings = enumerate(started.items())
        orders = [self._order("train", c, at, job) for job, (c, at) in trainings]
        for _ in self._clients.do(orders):
            pass
        for client, at in started.items():
            self._aggregator.accept(at, client, self._snapshots.update(client, at))
            self._snapshots.prune(client, frozenset({at}))
        self._aggregator.close_round(Close(number, used, (), training=True), 0.0)


def recompute(store: RunStore, clients: LocalClients, shards: Path) -> Recomputed:
    """Train everything that a run has used again, from the models that it started from."""
    experiment = store.experiment()
    _require_order(store, experiment)
    lines = _trained(store)
    expected = digest(read_model(store.folder / NAME))
    with TemporaryDirectory(prefix="fedbed-") as folder:
        copy = create_run(Path(folder), "again", experiment, store.code)
        again = Recomputation(copy, clients=clients, shards=shards, observe=lambda _: None)
        found = again.run_again(lines)
    trainings = sum(len(line.clients or ()) for line in lines)
    return Recomputed(len(lines), trainings, found, expected)


def _require_order(store: RunStore, experiment: Experiment) -> None:
    name, algorithm = store.folder.name, experiment.algorithm.name
    if not store.finished:
        raise UsageError(f"run {name!r} is not finished; there is no last model to compare")
    if keeps_state(experiment):
        raise UsageError(
            f"run {name!r} has algorithm.name = {algorithm!r}, or keeps optimizers: its "
            "clients went on from trainings that no round has used; only runs "
            "whose clients keep nothing can be recomputed"
        )
    if experiment.training.seconds:
        raise UsageError(
            f"run {name!r} has training.seconds: how many steps clients had time for is in no "
            "line"
        )
    if experiment.privacy.noise:
        raise UsageError(f"run {name!r} has privacy.noise, which nobody can draw again")
    if experiment.data.partition == "local":
        raise UsageError(f"run {name!r} has data that only its boards have")


def _trained(store: RunStore) -> Sequence[TrainingLine]:
    path = store.folder / "metrics.jsonl"
    try:
        lines = parse_lines(read_records(path))
    except msgspec.ValidationError as error:
        raise StoreError(f"{path} has a line that is none of a round: {error}") from error
    return [line for line in lines if line.round > 0]
