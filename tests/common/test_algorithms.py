from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.algorithms import BUILDERS, build, find_builder, known_builders, options_of
from common.algorithms.base import (
    MODEL,
    Algorithm,
    Client,
    LocalModel,
    Logits,
    Predictor,
    Server,
    Update,
)
from common.arrays import Array, Arrays, digest, part_of, weighted_mean
from common.config import TrainingSection
from common.data.rebalance import Rebalanced
from common.data.samples import Samples
from common.errors import ConfigError
from common.rng import generator
from common.wire.tensors import ModelMeta, decode_tensors, encode_tensors

if TYPE_CHECKING:
    from torch import Tensor

SERVER = Server(
    clients=2, participants=2, classes=2, round=1, rng=lambda purpose: generator(1, purpose)
)


class Stepper:
    """A client whose training adds a fixed number to everything: no torch, no data."""

    client_id = 0
    round = 1
    rounds = 10
    training = TrainingSection()
    learning_rate = 0.01
    buffers: frozenset[str] = frozenset()

    def __init__(self, samples: int, step: float) -> None:
        self.samples = samples
        self.data = Samples(
            (np.zeros((samples, 1, 2, 2), np.uint8),), np.zeros(samples, np.int64)
        )
        self.rebalanced = Rebalanced(self.data, samples)
        self.counts: Array = np.array([samples, 0])
        self.sizes: Array = np.array([samples, samples])
        self._step = np.float32(step)

    def rng(self, purpose: str) -> np.random.Generator:
        return generator(1, purpose)

    def train(
        self, arrays: Arrays, *, only: Sequence[str] = MODEL, **_other: object
    ) -> LocalModel:
        moved = {
            name: array + self._step if part_of(name) in only else array
            for name, array in arrays.items()
        }
        return LocalModel(moved, 0.5, 3)

    def tensors(self, arrays: Arrays) -> dict[str, Any]:
        return dict(arrays)

    def predictor(self, arrays: Arrays, logits: Logits | None = None) -> Predictor:
        return cast("Predictor", lambda images: images)

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        raise AssertionError("only trainings with torch compute a loss")

    def mean_loss(self, arrays: Arrays, samples: Samples) -> float:
        return 0.5


def model(base: float, head: float) -> dict[str, Array]:
    return {"base.w": np.array([base], np.float32), "head.b": np.array(head, np.float32)}


def values(arrays: Arrays) -> tuple[float, float]:
    return arrays["base.w"].item(), arrays["head.b"].item()


def one_round(algorithm: Algorithm, clients: Sequence[Client], start: Arrays) -> Arrays:
    state = algorithm.server_init(SERVER, start)
    download = algorithm.broadcast(state)
    updates = []
    for client_id, client in enumerate(clients):
        trained = algorithm.client_update(
            client, algorithm.client_init(client, download), download
        )
        updates.append(Update(client_id, trained.arrays, trained.weights))
    return algorithm.global_model(algorithm.server_update(SERVER, state, updates))


def test_fedavg_weighs_clients_by_their_samples() -> None:
    # (1 * (2 + 1) + 3 * (2 + 5)) / 4 = 6; (1 * (8 + 1) + 3 * (8 + 5)) / 4 = 12
    clients = [Stepper(1, 1.0), Stepper(3, 5.0)]
    assert values(one_round(build("fedavg", {}), clients, model(2.0, 8.0))) == (6.0, 12.0)


def test_fedavg_can_count_all_clients_the_same() -> None:
    # ((2 + 1) + (2 + 5)) / 2 = 5; ((8 + 1) + (8 + 5)) / 2 = 11
    clients = [Stepper(1, 1.0), Stepper(3, 5.0)]
    uniform = build("fedavg", {"weighting": "uniform"})
    assert values(one_round(uniform, clients, model(2.0, 8.0))) == (5.0, 11.0)


def test_parts_of_the_model_may_have_weights_of_their_own() -> None:
    # base: (1 * 2 + 3 * 6) / 4 = 5; head: (1 * 10 + 1 * 20) / 2 = 15
    mean = weighted_mean(
        [
            (model(2.0, 10.0), {"base": 1.0, "head": 1.0}),
            (model(6.0, 20.0), {"base": 3.0, "head": 1.0}),
        ]
    )
    assert values(mean) == (5.0, 15.0)
    assert {a.dtype for a in mean.values()} == {np.dtype(np.float32)}


def test_sums_are_taken_in_double_precision() -> None:
    # in single precision 2^24 + 1 is 2^24, and the mean of these would be 0
    big = [model(2.0**24, 0.0), model(1.0, 0.0), model(-(2.0**24), 0.0), model(0.0, 0.0)]
    assert weighted_mean((m, {"base": 1, "head": 1}) for m in big)["base.w"].item() == 0.25


def test_one_client_alone_gives_its_own_model_bit_for_bit() -> None:
    rng = np.random.default_rng(1)
    arrays = {"base.w": rng.standard_normal((50, 40), np.float32)}
    for weight in (1.0, 3.0, 613.0):
        assert digest(weighted_mean([(arrays, {"base": weight})])) == digest(arrays)


@given(st.integers(0, 2**32), st.lists(st.integers(1, 999), min_size=1, max_size=4))
def test_the_average_of_the_same_updates_has_the_same_bits_whatever_order_they_came_in(
    seed: int, samples: list[int]
) -> None:
    """The server sorts by client id; the same order then gives the same bits, always."""
    rng = np.random.default_rng(seed)
    updates = [
        Update(client, {"base.w": rng.standard_normal((7, 3), np.float32)}, {"base": weight})
        for client, weight in enumerate(samples)
    ]
    average = build("fedavg", {}).server_update
    digests = {
        digest(average(SERVER, {}, sorted(arrived, key=lambda update: update.client)))
        for arrived in itertools.permutations(updates)
    }
    assert len(digests) == 1


def test_updates_are_looked_at_one_at_a_time() -> None:
    def updates() -> Iterator[tuple[Arrays, dict[str, float]]]:
        for value in (1.0, 3.0):
            yield model(value, value), {"base": 1.0, "head": 1.0}

    assert values(weighted_mean(updates())) == (2.0, 2.0)


@pytest.mark.parametrize("name", BUILDERS)
def test_no_algorithm_changes_its_inputs_and_all_it_makes_survives_the_codec(name: str) -> None:
    algorithm = build(name, {})
    assert algorithm.name == name

    def through_the_codec(arrays: Arrays) -> Arrays:
        blob = encode_tensors(arrays, ModelMeta(run="r", round=1))
        back, _ = decode_tensors(blob, ModelMeta)
        assert digest(back) == digest(arrays)
        return back  # read-only: a change in place raises

    client = Stepper(3, 0.25)
    start = {**model(1.0, 2.0), "head.w": np.ones((2, 1), np.float32)}
    state = through_the_codec(algorithm.server_init(SERVER, start))
    download = through_the_codec(algorithm.broadcast(state))
    mine = through_the_codec(algorithm.client_init(client, download))
    before = [digest(arrays) for arrays in (state, download, mine)]
    trained = algorithm.client_update(client, mine, download)
    through_the_codec(trained.state)
    update = Update(0, through_the_codec(trained.arrays), trained.weights)
    server = replace(SERVER, download=download)
    through_the_codec(algorithm.server_update(server, state, [update]))
    through_the_codec(algorithm.global_model(state))
    assert set(algorithm.stages(client, mine, download)) <= {"G", "L1", "L2"}
    assert [digest(arrays) for arrays in (state, download, mine)] == before
    again = algorithm.client_update(client, mine, download)
    assert digest(again.arrays) == digest(trained.arrays)
    assert dict(again.weights) == dict(trained.weights)


@pytest.mark.parametrize(
    ("name", "options", "problem"),
    [
        (
            "fedagv",
            {},
            "algorithm.name is 'fedagv', which is not known; did you mean 'fedavg'?",
        ),
        (
            "zzz",
            {},
            "algorithm.name is 'zzz', which is not known; expected one of "
            + ", ".join(sorted(known_builders())),
        ),
        (
            "fedavg",
            {"weightin": 1},
            "algorithm.weightin is not a setting of fedavg; did you mean 'weighting'?",
        ),
        (
            "fedavg",
            {"mu": 1},
            "algorithm.mu is not a setting of fedavg; expected one of weighting",
        ),
        (
            "fedavg",
            {"weighting": "size"},
            "algorithm.weighting is 'size'; expected 'samples' or 'uniform'",
        ),
        ("fedavg", {"weighting": 1}, "algorithm.weighting is 1; expected str, got int"),
        (
            "none.such:x",
            {},
            "algorithm.name is 'none.such:x', but no module none.such is installed",
        ),
        (":x", {}, "algorithm.name is ':x'; expected file.py:function or module:function"),
        (
            "json:none",
            {},
            "algorithm.name is 'json:none', but json has no 'none'",
        ),
        ("json:__doc__", {}, "algorithm.name is 'json:__doc__', which is not a function"),
        (
            "own_algorithms:text",
            {},
            "algorithm.name is 'own_algorithms:text', which does not build an Algorithm",
        ),
        ("own_algorithms:bare", {}, "algorithm.name is 'own_algorithms:bare'"),
        ("own_algorithms:halved", {"by": "x"}, "algorithm.by is 'x'; expected float, got str"),
        ("own_algorithms:halved", {"by": -1.0}, "algorithm.by is -1.0; expected float > 0.0"),
        (
            "own_algorithms:plain",
            {"x": 1},
            "algorithm.x is not a setting of own_algorithms:plain; it has none",
        ),
        (
            "own_algorithms:needs",
            {},
            "algorithm.mu is missing; own_algorithms:needs has no default for it",
        ),
    ],
)
def test_a_wrong_name_or_option_is_explained(
    own: Path, name: str, options: dict[str, Any], problem: str
) -> None:
    if name == "own_algorithms:bare":
        assert isinstance(build(name, options), Algorithm)
        return
    with pytest.raises(ConfigError) as caught:
        build(name, options)
    assert str(caught.value) == problem


def test_a_relative_module_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"algorithm\.name is '\.x:y'"):
        build(".x:y", {})


OWN = '''
from dataclasses import replace
from typing import Annotated

from msgspec import Meta

from common.algorithms.base import Algorithm
from common.algorithms.fedavg import fedavg


def halved(*, by: Annotated[float, Meta(gt=0, description="Divisor of the mean.")] = 2.0):
    """The mean of the models, divided."""

    def smaller(server, state, updates):
        mean = fedavg().server_update(server, state, updates)
        return {name: array / array.dtype.type(by) for name, array in mean.items()}

    return replace(fedavg(), name="halved", server_update=smaller)


def needs(*, mu: float) -> Algorithm:
    return fedavg()


def plain() -> Algorithm:
    return fedavg()


def bare(*, anything=1):
    return fedavg()


def text() -> str:
    return "not an algorithm"
'''


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Somebody's own module, where Python finds it."""
    (tmp_path / "own_algorithms.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    sys.modules.pop("own_algorithms", None)


def test_somebodys_own_algorithm_is_found_by_its_module_and_builder(own: Path) -> None:
    # ((2 + 1) + (2 + 5)) / 2 / 4 = 1.25; ((8 + 1) + (8 + 5)) / 2 / 4 = 2.75
    algorithm = build("own_algorithms:halved", {"by": 4})
    assert algorithm.name == "halved"
    clients = [Stepper(1, 1.0), Stepper(1, 5.0)]
    assert values(one_round(algorithm, clients, model(2.0, 8.0))) == (1.25, 2.75)
    kind, default = options_of(find_builder("own_algorithms:halved"))["by"]
    assert default == 2.0
    assert "Divisor" in repr(kind)


def test_required_options_can_be_given(own: Path) -> None:
    assert build("own_algorithms:needs", {"mu": 0.5}).name == "fedavg"
