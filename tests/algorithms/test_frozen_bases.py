"""Features of a base that stays as it is are computed once, and that changes no result."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from torch import nn

from common.config import Option
from common.data.samples import Samples
from common.learning.net import TorchNet
from tests.algorithms.federation import HEAVY, THREE, Federation, close

EPOCHS, STEPS = 5, 3  # of the head; of one epoch of client 0, which has ten samples


def enlarged(own: Samples) -> Samples:
    """Images of 28x28 pixels, as the built-in models need them."""
    return Samples((np.repeat(np.repeat(own.inputs[0], 14, axis=2), 14, axis=3),), own.targets)


def federation(folder: Path, name: str, options: dict[str, Option]) -> Federation:
    clients = tuple(enlarged(own) for own in THREE)
    return Federation(folder, name, options, "dnn", clients, HEAVY)


class Counter:
    """Counts how often the base is computed."""

    def __init__(self, fed: Federation) -> None:
        self.calls = 0
        base = fed.bench.network.get_submodule("base")
        base.register_forward_hook(self._count)

    def _count(self, _module: nn.Module, _inputs: object, _outputs: object) -> None:
        self.calls += 1


def test_fedrep_computes_the_features_for_its_head_once(tmp_path: Path) -> None:
    fed = federation(tmp_path, "fedrep", {"head_epochs": EPOCHS})
    counter = Counter(fed)
    fed.train(0)
    assert counter.calls == 1 + STEPS


def test_fedbabu_computes_the_features_for_its_fine_tuning_once(tmp_path: Path) -> None:
    fed = federation(tmp_path, "fedbabu", {"tune_epochs": EPOCHS, "tune_every": 1})
    counter = Counter(fed)
    fed.train(0)
    assert counter.calls == 1 + HEAVY.epochs * STEPS
    counter.calls = 0
    assert set(fed.count(0)) == {"G", "L1"}
    assert counter.calls == 1 + 2, "once for the fine-tuning, once for each of two tests"


@pytest.mark.parametrize(
    ("name", "options"),
    [("fedrep", {"head_epochs": EPOCHS}), ("fedrep", {"variant": "steps"})],
)
def test_results_are_the_same_as_without_features_kept(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    options: dict[str, Option],
) -> None:
    kept = federation(tmp_path, name, options).run(2)
    monkeypatch.setattr(TorchNet, "has_fixed_features", False)
    anew = federation(tmp_path, name, options)
    counter = Counter(anew)
    anew.run(2)
    assert counter.calls > 2 * 3 * STEPS
    assert close(kept.global_model, anew.global_model)


def test_a_base_that_changes_in_training_is_computed_every_time(tmp_path: Path) -> None:
    """Somebody's own model may do anything in its forward pass, so nothing is kept of it."""
    fed = Federation(tmp_path, "fedrep", {"head_epochs": EPOCHS}, training=HEAVY)
    counter = Counter(fed)
    fed.train(0)
    assert counter.calls == (EPOCHS + 1) * STEPS
