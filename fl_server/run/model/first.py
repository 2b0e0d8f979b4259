"""The model that round 1 starts from: drawn, from a file, or warmed up on shared samples."""

from __future__ import annotations

import logging
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import safetensors
import safetensors.numpy

from common.arrays import Array, Arrays
from common.config import Experiment
from common.errors import ConfigError, FedbedError
from common.experiment.resolve import first_model, has_user_model, head_of
from common.plugins import beside
from common.program.child import python_module

MOST_LISTED = 12  # arrays that are named one by one

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class Start:
    """A first model, and notes about where it comes from."""

    model: Arrays
    notes: tuple[str, ...] = ()


def check_start(experiment: Experiment) -> None:
    """Refuse, before a run begins, what `starting_model` could not do."""
    for error in start_errors(experiment):
        raise error


def start_errors(experiment: Experiment) -> Iterator[ConfigError]:
    """Everything that `starting_model` could not do."""
    if file := experiment.model.init_weights:
        try:
            _warm_start(Start(first_model(experiment)), beside(file), experiment)
        except ConfigError as error:
            yield error
    if experiment.model.warm_up and not experiment.data.share:
        yield ConfigError("model.warm_up needs samples to train on; set data.share, too")


def starting_model(experiment: Experiment, folder: Path) -> Start:
    """The model of round 1; `folder` is the run's."""
    start = Start(first_model(experiment))
    if experiment.data.share:
        text = "shared samples: raw data of clients is known to the server and to other clients"
        start = Start(start.model, (text,))
    if file := experiment.model.init_weights:
        start = _warm_start(start, beside(file), experiment)
    if experiment.model.warm_up:
        start = _warm_up(start, experiment.model.warm_up, folder)
    return start


def read_weights(path: Path) -> dict[str, Array]:
    """The arrays of a safetensors file."""
    try:
        return safetensors.numpy.load_file(path)
    except (OSError, safetensors.SafetensorError) as error:
        raise ConfigError(
            f"model.init_weights is {str(path)!r}, which cannot be read: {error}; expected a "
            "safetensors file, such as the model.safetensors of a finished run"
        ) from error


def _warm_start(start: Start, path: Path, experiment: Experiment) -> Start:
    """Take every array whose name and shape fit; note which, and which are drawn."""
    found = read_weights(path)
    other_names = _other_names(experiment)
    model, taken, drawn = dict(start.model), [], []
    for name, array in start.model.items():
        source = name if name in found else other_names(name)
        if source in found and found[source].shape == array.shape:
            model[name] = found[source].astype(array.dtype)
            taken.append(name if source == name else f"{name} (there {source})")
        else:
            there = f" (there {found[source].shape})" if source in found else ""
            drawn.append(f"{name}{there}")
    what = f"model.init_weights is {str(path)!r}"
    if not taken:
        theirs = ", ".join(f"{name} {found[name].shape}" for name in list(found)[:3])
        raise ConfigError(f"{what}, of which no array fits; it has {theirs or 'none'}")
    if not all(np.isfinite(array).all() for array in model.values()):
        raise ConfigError(f"{what}, with values not finite")
    text = f"warm start from {path}: took {_listed(taken)}"
    left = f"; drew {_listed(drawn)}" if drawn else ""
    return Start(model, (*start.notes, text + left))


def _other_names(experiment: Experiment) -> Callable[[str], str]:
    """What an array of the model may be called elsewhere.

    In our models, blocks are counted through base and head, so that a layer is the same one
    whichever part it is in. In all others, it is what it was before the model had parts.
    """
    if not has_user_model(experiment):
        return _in_the_other_part
    head = head_of(experiment)
    return lambda name: (
        name.removeprefix("base.")
        if name.startswith("base.")
        else f"{head}.{name.removeprefix('head.')}"
    )


def _in_the_other_part(name: str) -> str:
    part, _, place = name.partition(".")
    return f"{'base' if part == 'head' else 'head'}.{place}"


def _listed(names: list[str]) -> str:
    if len(names) <= MOST_LISTED:
        return ", ".join(names)
    return f"{len(names)} arrays ({names[0]} to {names[-1]})"


def _warm_up(start: Start, epochs: int, folder: Path) -> Start:
    """Train in a process of its own, for the server itself does without torch."""
    with tempfile.TemporaryDirectory(dir=folder) as beside:
        file = Path(beside) / "model.safetensors"
        file.write_bytes(safetensors.numpy.save(dict(start.model)))
        command = python_module("fl_server.central.warm_up", str(folder), str(file))
        log.info("warming up for %d epochs", epochs)
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        if done.returncode != 0:
            last = (done.stderr.strip() or "no message").splitlines()[-1]
            raise FedbedError(f"the warm-up on the shared samples failed: {last}")
        model = safetensors.numpy.load_file(file)
    return Start(model, (*start.notes, f"warmed up: {done.stdout.strip()}"))
