"""The model of a run as a torch module, for a notebook or a script of one's own."""

from __future__ import annotations

from pathlib import Path

from torch import nn

from common.experiment.file import load_experiment
from common.experiment.resolve import network_of
from common.learning.networks import load
from fl_server.run.model.file import NAME, read_model


def load_run(folder: str | Path) -> nn.Module:
    """The network of a finished run (or baseline) with its final values, ready to predict."""
    network = network_of(load_experiment(Path(folder) / "experiment.toml"))
    load(network, read_model(Path(folder) / NAME))
    return network.eval()
