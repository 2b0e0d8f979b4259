"""An experiment in a few lines: what it trains, with what, what that costs, what is wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from common.config import Experiment
from common.data.dataset import find_data, load_data
from common.data.shards import assignment_of
from common.errors import FedbedError
from common.experiment.resolve import (
    algorithm_of,
    first_model,
    has_norm,
    network_of,
    participants_of,
    server_of,
    trial_of,
)
from common.wire.tensors import ModelMeta, encode_tensors
from fl_server.check.doubts import doubts
from fl_server.rounds.selection import share_of
from fl_server.run.model.first import start_errors
from fl_server.run.server_half import ServerHalf
from fl_server.watch.words import size


@dataclass(frozen=True, slots=True)
class Verdict:
    """What an experiment is and needs, by topic; what is doubtful; what stops it."""

    lines: tuple[tuple[str, str], ...]
    doubts: tuple[str, ...]
    problems: tuple[str, ...]


def judge(experiment: Experiment) -> Verdict:
    """Look at everything that can be looked at without training."""
    problems = [str(error) for error in start_errors(experiment)]

    def attempt(work: Callable[[], str]) -> str:
        try:
            return work()
        except FedbedError as error:
            problems.append(str(error))
            return "-"

    samples = _Samples(experiment)
    lines = (
        ("experiment", _experiment(experiment)),
        ("model", attempt(lambda: _model(experiment))),
        ("data", attempt(samples.line)),
        ("traffic", attempt(lambda: _traffic(experiment))),
        ("memory", attempt(lambda: _memory(experiment, samples.largest))),
    )
    selected = share_of(len(participants_of(experiment)), experiment.selection.rate)
    found = doubts(experiment, selected=selected, has_norm=has_norm(experiment))
    return Verdict(lines, (*found, *samples.doubts()), tuple(dict.fromkeys(problems)))


def _experiment(experiment: Experiment) -> str:
    participants = len(participants_of(experiment))
    selected = share_of(participants, experiment.selection.rate)
    rounds, steps = experiment.experiment.rounds, experiment.training.steps
    work = f"{steps} steps" if steps else f"{experiment.training.epochs} epochs"
    return (
        f"{rounds:,} rounds of {experiment.algorithm.name}; in each, {selected:,} of "
        f"{participants:,} clients train for {work}"
    )


def _model(experiment: Experiment) -> str:
    network = network_of(experiment)
    counts = {
        part: sum(value.numel() for value in network.get_submodule(part).parameters())
        for part in ("base", "head")
    }
    total = sum(counts.values())
    file = experiment.model.init_weights
    begins = f", begins with {file}" if file else ""
    text = f"{total:,} parameters ({counts['head']:,} of them in the head)"
    return f"{experiment.model.name}, {text}{begins}"


class _Samples:
    """How many samples the clients have, as far as that is known here."""

    def __init__(self, experiment: Experiment) -> None:
        self._experiment = experiment
        self._sizes: Sequence[int] = ()

    @property
    def largest(self) -> int:
        return max(self._sizes, default=0)

    def line(self) -> str:
        data = self._experiment.data
        folder = find_data(data)
        if folder is None:
            return f"{data.dataset}, which boards have; how much they report in the run"
        dataset = load_data(data)
        found = assignment_of(data, dataset, self._experiment.experiment.seed)
        self._sizes = [len(part) for part in found.train]
        tests = [len(part) for part in found.test]
        return (
            f"{data.dataset}, {len(dataset.targets):,} samples, found in {folder}; a client "
            f"trains with {_range(self._sizes)} and tests with {_range(tests)}"
        )

    def doubts(self) -> Iterator[str]:
        batch = self._experiment.training.batch_size
        if self._sizes and batch > self.largest:
            yield (
                f"training.batch_size is {batch}, more than any client has samples: "
                "an epoch is one step"
            )


def _range(sizes: Sequence[int]) -> str:
    low, high = min(sizes), max(sizes)
    if low == high:
        return f"{low:,}"
    return f"{low:,} to {high:,} (median {np.median(sizes):,.0f})"


def _traffic(experiment: Experiment) -> str:
    """Sizes of the first download and of an update like it, as they are sent."""
    half, server = ServerHalf(algorithm_of(experiment)), server_of(experiment)
    download = half.broadcast(half.server_init(server, first_model(experiment)))
    update = half.expects(server, download)
    encoding, meta = experiment.communication.encoding, ModelMeta(run="check", round=1)
    down = len(encode_tensors(download, meta, encoding))
    up = len(encode_tensors(update, meta, encoding))
    selected = share_of(len(participants_of(experiment)), experiment.selection.rate)
    more = ", and more to each client that trains" if half.has_private else ""
    return (
        f"in each round {size(down)} to every board{more}, and {size(up)} from every client "
        f"that trains: {size(up * selected)} up; in all rounds "
        f"{size(up * selected * experiment.experiment.rounds)} up"
    )


def _memory(experiment: Experiment, samples: int) -> str:
    from common.learning.footprint import training_bytes  # imports torch

    needed = training_bytes(
        network_of(experiment),
        trial_of(experiment),
        batch=experiment.training.batch_size,
        samples=samples,
    )
    return f"a board needs about {needed / 1e6:,.0f} MB for each training process"
