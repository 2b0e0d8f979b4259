"""Differential privacy of the global model: noise, and what has been spent.

DP-FedAvg (McMahan et al., 2018): boards have shortened every move to `clip`; the sum of a
round's moves gets Gaussian noise of deviation `noise` x `clip`, and is divided by the number of
clients that are expected in a round, whoever has come.

Under secure aggregation every client adds a share of the noise under its mask, so that nobody
sees a sum without noise. Otherwise the coordinator adds it, made from a key of the system's
entropy. The key is on disk before it is used, and is gone with the journal of its round: a
coordinator that was killed in between makes the same model, and does not draw twice.
"""

from __future__ import annotations

import importlib.util
import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from common.algorithms.aggregation import move_length
from common.algorithms.base import Server
from common.arrays import Array, Arrays
from common.config import Experiment
from common.disk.atomic import disk_errors, write_atomic
from common.errors import ConfigError, ProtocolError, UsageError
from common.experiment.resolve import participants_of
from common.privacy.noise import KEY_BYTES, gaussian
from fl_server.rounds.selection import share_of

ROUNDING = 1.001  # of float32, in the length of a move


@dataclass(frozen=True, slots=True)
class Noise:
    """The noise of one experiment; `expected` of `population` clients are in a round.

    `by_clients`: they have added it themselves.
    """

    clip: float
    noise: float
    delta: float
    sampling: str
    expected: int
    population: int
    by_clients: bool = False

    def check(self, arrays: Arrays, download: Arrays) -> None:
        """ProtocolError if a board has not shortened a move."""
        if self.clip and (length := move_length(arrays, download)) > ROUNDING * self.clip:
            raise ProtocolError(f"a move of length {length:g}; privacy.clip is {self.clip:g}")

    @property
    def most_weight(self) -> Callable[[int], float] | None:
        """All clients count the same, if their moves are shortened."""
        return _equally if self.clip else None

    def on(self, server: Server, folder: Path) -> Server:
        """The server of a round, which is to know its mean only with noise; `folder` is the
        journal of the round."""
        if not self.clip:
            return server

        def release(mean: dict[str, Array], count: int) -> dict[str, Array]:
            drawn_here = self.noise and not self.by_clients
            key = draw_key(folder) if drawn_here else b""
            return self.released(mean, server.download, count, key)

        return replace(server, release=release)

    def released(
        self, mean: dict[str, Array], download: Arrays, count: int, key: bytes
    ) -> dict[str, Array]:
        """The mean of `count` moves, divided by the expected number instead, with the noise of
        a key, if there is one."""
        share = count / self.expected
        rng = gaussian(key)
        deviation = self.noise * self.clip / self.expected
        found: dict[str, Array] = {}
        for name, array in sorted(mean.items()):
            start = download[name].astype(np.float64)
            moved = start + share * (array - start)
            if key:
                moved += deviation * rng.standard_normal(array.shape)
            found[name] = moved.astype(array.dtype)
        return found


def draw_key(folder: Path) -> bytes:
    """The key of a round's noise: drawn and flushed to the disk, or as it was drawn before."""
    path = folder / "noise.key"
    with disk_errors(path):
        known = path.read_bytes() if path.exists() else b""
    if len(known) == KEY_BYTES:
        return known
    key = secrets.token_bytes(KEY_BYTES)
    write_atomic(path, key)
    return key


def _equally(_samples: int) -> float:
    return 1.0


def noise_of(
    experiment: Experiment, expected: Arrays, download: Arrays, *, by_clients: bool = False
) -> Noise:
    """The noise that an experiment asks for, if an update is nothing but a model's move."""
    privacy, population = experiment.privacy, len(participants_of(experiment))
    odd = [name for name, a in expected.items() if name not in download or a.dtype.kind != "f"]
    if privacy.clip and odd:
        raise ConfigError(
            f"privacy.clip is {privacy.clip:g}, but an update of algorithm.name = "
            f"{experiment.algorithm.name!r} has {odd[0]}, which is no move of a model's values"
        )
    if privacy.noise:
        check_accountant()
    return Noise(
        privacy.clip,
        privacy.noise,
        privacy.delta,
        privacy.sampling,
        share_of(population, experiment.selection.rate),
        population,
        by_clients,
    )


def check_accountant() -> None:
    """UsageError if the library that computes epsilon is not installed."""
    if importlib.util.find_spec("dp_accounting") is None:
        raise UsageError(
            "privacy.noise needs the library dp-accounting, which computes epsilon; install it "
            "with: pip install 'fedbed[accounting]'"
        )
