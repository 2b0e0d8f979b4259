"""Which server halves need only the mean of the updates: a secured run has nothing else."""

from __future__ import annotations

import numpy as np
import pytest

from common.algorithms import BUILDERS, build
from common.algorithms.base import Update
from common.arrays import Array
from common.config import DataSection, Experiment, ModelSection
from common.errors import FedbedError
from common.experiment.resolve import first_model, server_of
from common.wire.tensors import UpdateMeta
from fl_server.run.server_half import RoundUpdates

EXPERIMENT = Experiment(model=ModelSection(name="dnn", hidden=4), data=DataSection(clients=4))


class LookedAtError(FedbedError):
    """A single update was looked at."""


def refuse(client: int) -> tuple[dict[str, Array], UpdateMeta]:
    raise LookedAtError(f"client {client}")


@pytest.mark.parametrize("name", BUILDERS)
def test_a_server_half_looks_at_single_updates_only_if_its_algorithm_says_so(name: str) -> None:
    algorithm = build(name, {})
    server = server_of(EXPERIMENT, round_number=1)
    state = algorithm.server_init(server, first_model(EXPERIMENT))
    download = algorithm.broadcast(state)
    server = server_of(EXPERIMENT, round_number=1, download=download)
    expected = algorithm.expects(server, download)
    mean = {key: np.asarray(array) * 0 + array for key, array in expected.items()}
    updates = RoundUpdates(refuse, [0, 1, 2], mean=mean)
    assert isinstance(updates[:0], list)
    if not algorithm.needs_each:
        assert algorithm.server_update(server, state, updates)
        return
    with pytest.raises(LookedAtError):
        algorithm.server_update(server, state, updates)


def test_an_update_is_what_it_is_asked_for() -> None:
    with pytest.raises(LookedAtError, match="client 7"):
        _: Update = RoundUpdates(refuse, [7])[0]
