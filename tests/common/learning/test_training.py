from __future__ import annotations

import functools
import math
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from common.algorithms.base import Batch, Net
from common.arrays import Array, digest
from common.config import TrainingSection
from common.data.datasets import load_dataset
from common.data.samples import Samples
from common.learning.device import use_one_thread
from common.learning.inputs import normalised
from common.learning.net import TorchNet
from common.learning.networks import Network, extract, load
from common.learning.specs import build_spec, initial
from common.learning.training import Plan, TrainingStats, train
from common.rng import generator
from tests.measuring import correct

SPEC = build_spec("dnn", shape=(1, 28, 28), classes=10, head_depth=1)


@functools.cache
def some_samples() -> Samples:
    dataset = load_dataset("fmnist-mini")
    return Samples((dataset.inputs[0][:210],), dataset.targets[:210])


def fresh() -> Network:
    network = Network(SPEC)
    load(network, initial(SPEC, generator(1, "initial")))
    return network


def run(
    network: nn.Module,
    samples: Samples,
    settings: TrainingSection,
    rng: np.random.Generator,
    *,
    round_number: int = 1,
    progress: Callable[[int, int, float], None] | None = None,
    **plan: Any,
) -> TrainingStats:
    return train(
        TorchNet(network),
        samples,
        settings,
        rng,
        Plan(**plan),
        round_number=round_number,
        progress=progress,
    )


class Two(nn.Module):
    """Two parameters, one per part; its logits are (base * x, head)."""

    def __init__(self, base: float, head: float) -> None:
        super().__init__()
        self.base = nn.ParameterDict({"w": nn.Parameter(torch.tensor(base))})
        self.head = nn.ParameterDict({"w": nn.Parameter(torch.tensor(head))})

    def forward(self, x: Tensor) -> Tensor:
        x = x.flatten()
        return torch.stack([self.base["w"] * x, self.head["w"].expand(len(x))], dim=1)

    def values(self) -> tuple[float, float]:
        return self.base["w"].item(), self.head["w"].item()


WHITE = Samples((np.full((1, 1, 1, 1), 255, np.uint8),), np.zeros(1, np.int64))
WHITE_28 = Samples((np.full((1, 1, 28, 28), 255, np.uint8),), np.zeros(1, np.int64))


def test_two_steps_of_sgd_are_those_worked_out_by_hand() -> None:
    # x = 1, class 0, logits (b, h): with s = 1 / (1 + e^(b-h)) the gradients are -s and +s.
    # b = h = 0.5: s = 1/2; decay 0.1: g = (-0.45, 0.55) = v; rate 0.2: (0.59, 0.39).
    # b - h = 0.2: s = 0.450166; g = (-0.391166, 0.489166);
    # v = 0.9 v + g = (-0.796166, 0.984166); minus 0.2 v: (0.749233, 0.193167).
    settings = TrainingSection(
        epochs=1, batch_size=1, learning_rate=0.2, momentum=0.9, weight_decay=0.1
    )
    network = Two(0.5, 0.5)
    stats = run(network, WHITE, settings, generator(1, "shuffle"))
    assert network.values() == pytest.approx((0.59, 0.39), abs=1e-6)
    assert stats.loss == pytest.approx(math.log(2), abs=1e-6)

    network = Two(0.5, 0.5)
    stats = run(network, WHITE, settings, generator(1, "shuffle"), epochs=2)
    assert network.values() == pytest.approx((0.749233, 0.193167), abs=1e-6)
    assert stats.loss == pytest.approx(0.598139, abs=1e-6)
    assert stats.steps == 2


def test_momentum_starts_from_nothing_in_every_call() -> None:
    settings = TrainingSection(epochs=1, batch_size=1, learning_rate=0.2, momentum=0.9)
    network = Two(0.5, 0.5)
    run(network, WHITE, settings, generator(1, "shuffle"))
    assert network.values() == pytest.approx((0.6, 0.4), abs=1e-6)
    run(network, WHITE, settings, generator(1, "shuffle"))
    # b - h = 0.2: s = 0.450166, and nothing of the first step's velocity
    assert network.values() == pytest.approx((0.690033, 0.309967), abs=1e-6)


def test_extra_terms_are_added_to_the_gradients() -> None:
    settings = TrainingSection(epochs=1, batch_size=1, learning_rate=0.2, momentum=0.0)
    seen = []

    def extra(parameters: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        seen.append(sorted(parameters))
        return {"base.w": 3 * parameters["base.w"]}

    network = Two(0.5, 0.5)
    run(network, WHITE, settings, generator(1, "shuffle"), extra=extra)
    assert network.values() == pytest.approx((0.5 - 0.2 * (-0.5 + 1.5), 0.4), abs=1e-6)
    assert seen == [["base.w", "head.w"]]


def test_the_extra_term_gets_the_momentum_too() -> None:
    settings = TrainingSection(epochs=2, batch_size=1, learning_rate=1.0, momentum=0.5)
    network = Two(0.0, 0.0)
    frozen = run(
        network,
        WHITE,
        settings,
        generator(1, "shuffle"),
        extra=lambda _: {"base.w": torch.tensor(1.0)},
        loss=lambda _net, x, labels: functional.cross_entropy(
            torch.stack([network.base["w"] * 0 * x.flatten()] * 2, dim=1), labels
        ),
        only=("base",),
    )
    assert network.values() == (-(1.0 + 1.5), 0.0)
    assert frozen.loss == pytest.approx(math.log(2))


@pytest.mark.parametrize("part", ["base", "head"])
def test_only_the_named_part_is_trained(part: str) -> None:
    network = fresh()
    before = extract(network)
    run(
        network,
        some_samples(),
        TrainingSection(epochs=1, weight_decay=0.1),
        generator(1, "shuffle"),
        only=(part,),
    )
    after = extract(network)
    changed = {name for name in before if not np.array_equal(before[name], after[name])}
    assert changed == {name for name in before if name.startswith(part)}
    assert all(parameter.requires_grad for parameter in network.parameters())


def test_training_the_same_task_twice_gives_the_same_bytes() -> None:
    def trained(seed: int) -> str:
        network = fresh()
        run(network, some_samples(), TrainingSection(epochs=2), generator(seed, "shuffle"))
        return digest(extract(network))

    assert trained(1) == trained(1) != trained(2)


@pytest.mark.slow  # torch.optim takes seconds to import
def test_our_steps_are_those_of_torch_optim() -> None:
    samples = some_samples()
    settings = TrainingSection(epochs=2, batch_size=64, momentum=0.9, weight_decay=0.01)
    ours, theirs = fresh(), fresh()
    run(ours, samples, settings, generator(1, "shuffle"))

    optimizer = torch.optim.SGD(theirs.parameters(), lr=0.01, momentum=0.9, weight_decay=0.01)
    rng = generator(1, "shuffle")
    images, labels = normalised(samples.inputs[0]), torch.tensor(samples.targets)
    for _ in range(2):
        for batch in torch.tensor(rng.permutation(len(samples))).split(64):
            optimizer.zero_grad()
            nn.functional.cross_entropy(theirs(images[batch]), labels[batch]).backward()
            optimizer.step()

    expected: dict[str, Array] = extract(theirs)
    for name, array in extract(ours).items():
        np.testing.assert_allclose(array, expected[name], rtol=0, atol=1e-6)


def test_steps_stand_in_for_epochs_and_shuffle_anew_when_the_samples_are_used_up() -> None:
    # 210 samples in batches of 20 are 11 steps: 14 steps are one pass, and 3 of the next
    def trained(settings: TrainingSection) -> tuple[str, TrainingStats]:
        network = fresh()
        stats = run(network, some_samples(), settings, generator(1, "shuffle"))
        return digest(extract(network)), stats

    heard: list[tuple[int, int]] = []
    stats = run(
        fresh(),
        some_samples(),
        TrainingSection(steps=14),
        generator(1, "shuffle"),
        progress=lambda done, passes, _: heard.append((done, passes)),
    )
    assert (stats.steps, heard) == (14, [(1, 2), (2, 2)])
    assert trained(TrainingSection(steps=22)) == trained(TrainingSection(epochs=2))
    assert trained(TrainingSection(steps=3, epochs=5))[1].steps == 3


def test_epochs_that_an_algorithm_asks_for_hold_whatever_the_settings_say() -> None:
    settings = TrainingSection(steps=3)
    stats = run(fresh(), some_samples(), settings, generator(1, "shuffle"), epochs=2)
    assert stats.steps == 22


def test_a_later_round_takes_shorter_steps() -> None:
    settings = TrainingSection(
        epochs=1, batch_size=1, learning_rate=0.2, learning_rate_decay=0.5, momentum=0.0
    )
    network = Two(0.5, 0.5)
    run(network, WHITE, settings, generator(1, "shuffle"), round_number=3)
    assert network.values() == pytest.approx((0.525, 0.475), abs=1e-6)


def test_a_long_gradient_is_clipped_with_its_extra_terms() -> None:
    # gradients (-0.5, 0.5), and 3.5 more on the base: (3, 0.5), of norm 3.041381
    settings = TrainingSection(
        epochs=1, batch_size=1, learning_rate=1.0, momentum=0.0, grad_clip=0.1
    )
    network = Two(0.5, 0.5)
    terms = {"base.w": torch.tensor(3.5)}
    run(network, WHITE, settings, generator(1, "shuffle"), extra=lambda _: terms)
    assert network.values() == pytest.approx((0.5 - 0.0986394, 0.5 - 0.0164399), abs=1e-6)


def test_adam_takes_steps_of_the_learning_rate_at_first() -> None:
    settings = TrainingSection(epochs=1, batch_size=1, learning_rate=0.2, optimizer="adam")
    network = Two(0.5, 0.5)
    run(network, WHITE, settings, generator(1, "shuffle"))
    assert network.values() == pytest.approx((0.7, 0.3), abs=1e-6)


def test_dropout_is_on_in_training_only_and_comes_from_the_generator() -> None:
    spec = build_spec("s2cnn", shape=(1, 28, 28), classes=10, head_depth=1)
    modes: list[bool] = []

    def trained(seed: int) -> str:
        network = Network(spec)
        load(network, initial(spec, generator(1, "initial")))

        def loss(net: Net, images: Tensor, labels: Tensor) -> Tensor:
            modes.append(network.base.training and network.head.training)
            return functional.cross_entropy(net(images), labels)

        rng = generator(seed, "shuffle")
        settings = TrainingSection(steps=2, batch_size=4)
        run(network, some_samples(), settings, rng, loss=loss)
        modes.append(network.base.training or network.head.training)
        return digest(extract(network))

    before = torch.get_rng_state()
    assert trained(1) == trained(1) != trained(2)
    assert torch.equal(torch.get_rng_state(), before)
    assert modes == [True, True, False] * 3


def test_a_training_that_is_given_up_ends_in_evaluation_mode() -> None:
    def give_up(*_: object) -> None:
        raise InterruptedError

    network = fresh()
    with pytest.raises(InterruptedError):
        run(network, WHITE_28, TrainingSection(), generator(1, "shuffle"), progress=give_up)
    assert not network.base.training
    assert not network.head.training


def test_training_learns_and_tells_of_every_epoch() -> None:
    heard: list[tuple[int, int, float]] = []
    network, samples = fresh(), some_samples()
    before = correct(network, samples)
    stats = run(
        network,
        samples,
        TrainingSection(epochs=4),
        generator(1, "shuffle"),
        progress=lambda epoch, epochs, loss: heard.append((epoch, epochs, loss)),
    )
    assert [(epoch, epochs) for epoch, epochs, _ in heard] == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert heard[0][2] > heard[-1][2] == stats.loss
    assert stats.steps == 4 * 11  # 210 samples in batches of 20: the last, of 10, counts
    assert correct(network, samples) > before + 50


def test_a_training_that_diverges_reports_a_loss_that_is_not_finite() -> None:
    settings = TrainingSection(epochs=3, learning_rate=1e30)
    stats = run(fresh(), some_samples(), settings, generator(1, "shuffle"))
    assert not math.isfinite(stats.loss)


def test_another_loss_can_stand_in_for_the_usual_one() -> None:
    def sharper(net: Net, images: Tensor, labels: Tensor) -> Tensor:
        return functional.cross_entropy(2 * net(images), labels)

    plain, doubled = fresh(), fresh()
    settings = TrainingSection(epochs=1)
    run(plain, some_samples(), settings, generator(1, "shuffle"))
    run(
        doubled,
        some_samples(),
        settings,
        generator(1, "shuffle"),
        loss=sharper,
    )
    assert digest(extract(plain)) != digest(extract(doubled))


def test_black_is_minus_one_and_white_is_one() -> None:
    images = np.array([0, 255, 51], np.uint8).reshape(3, 1, 1, 1)
    images.flags.writeable = False
    pixels = normalised(images)
    assert pixels.dtype == torch.float32
    assert pixels.flatten().tolist() == pytest.approx([-1.0, 1.0, -0.6])


def test_numbers_stay_as_they_are_and_integers_are_symbols() -> None:
    numbers = normalised(np.array([[0.5, -3e30]], np.float64))
    assert numbers.dtype == torch.float32
    assert numbers.tolist() == [[0.5, pytest.approx(-3e30)]]
    for kind in (np.int64, np.int32, np.uint8):
        symbols = normalised(np.array([[7, 250]], kind))
        assert (symbols.dtype, symbols.tolist()) == (torch.int64, [[7, 250]])


class Sum(nn.Module):
    """A network with two inputs: an image and a number."""

    def __init__(self) -> None:
        super().__init__()
        self.base, self.head = nn.Identity(), nn.Linear(5, 2)

    def forward(self, image: Tensor, number: Tensor) -> Tensor:
        answer: Tensor = self.head(torch.cat([image.flatten(1), number], dim=1))
        return answer


def test_a_network_with_several_inputs_is_called_with_all_of_them() -> None:
    images = np.arange(24, dtype=np.uint8).reshape(6, 1, 2, 2)
    numbers = np.array([[1.0], [-1.0]] * 3, np.float32)
    samples = Samples((images, numbers), np.array([1, 0] * 3, np.int64))
    net = TorchNet(Sum())
    settings = TrainingSection(epochs=30, batch_size=2, learning_rate=0.5)
    assert train(net, samples, settings, generator(1, "x")).steps == 90
    assert correct(net, samples, 4) == 6
    assert len(samples.take(np.array([0, 3]))) == 2


@pytest.mark.parametrize("batch", [1, 3, 100])
def test_correct_answers_are_counted_whatever_the_batch(batch: int) -> None:
    images = np.array([0, 255, 255, 0, 0, 255, 0], np.uint8).reshape(7, 1, 1, 1)
    samples = Samples((images,), np.array([0, 1, 0, 0, 1, 1, 0], np.int64))
    images.flags.writeable = samples.targets.flags.writeable = False

    def white_is_one(x: Batch) -> Tensor:
        assert isinstance(x, Tensor), "a network with one input gets no tuple"
        return torch.stack([-x.flatten(), x.flatten()], dim=1)

    assert correct(white_is_one, samples, batch) == 5


@pytest.mark.slow
def test_training_does_not_import_the_compiler_and_keeps_torch_threads_as_they_are() -> None:
    program = (
        "import sys, torch; before = torch.get_num_threads()\n"
        "import numpy as np\n"
        "from common.data import samples\n"
        "from common.learning import device, net, networks, specs, training\n"
        "from common.config import TrainingSection\n"
        "assert torch.get_num_threads() == before\n"
        "spec = specs.build_spec('dnn', shape=(1, 28, 28), classes=10, head_depth=1)\n"
        "some = samples.Samples((np.zeros((3, 1, 28, 28), np.uint8),), np.zeros(3, np.int64))\n"
        "rng = np.random.default_rng(1)\n"
        "for optimizer in ('sgd', 'adam'):\n"
        "    settings = TrainingSection(weight_decay=0.1, grad_clip=1.0, optimizer=optimizer)\n"
        "    training.train(net.TorchNet(networks.Network(spec)), some, settings, rng)\n"
        "assert 'torch._dynamo' not in sys.modules\n"
        "device.use_one_thread()\n"
        "assert torch.get_num_threads() == 1\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_one_thread_can_be_asked_for_again() -> None:
    before = torch.get_num_threads()
    try:
        use_one_thread()
        use_one_thread()
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)


def test_text_is_not_normalised_and_trains_a_recurrent_network() -> None:
    spec = build_spec("char-lstm", shape=(80,), classes=80, head_depth=1)
    text = (np.arange(6 * 80) % 7).astype(np.uint8).reshape(6, 80)
    samples = Samples((text,), ((text[:, -1] + 1) % 7).astype(np.int64))
    assert normalised(text).dtype == torch.int64
    assert normalised(text).tolist() == text.tolist()
    first = initial(spec, generator(1, "initial"))
    network = Network(spec)
    load(network, first)
    settings = TrainingSection(epochs=1, batch_size=6, learning_rate=1.0, momentum=0.0)
    losses = [run(network, samples, settings, generator(1, "s", n)).loss for n in range(3)]
    assert losses == sorted(losses, reverse=True)
    assert 0 <= correct(TorchNet(network), samples) <= 6
    before = extract(network)
    run(network, samples, settings, generator(1, "s", 3), only=("head",))
    after = extract(network)
    assert {name for name in after if not np.array_equal(after[name], before[name])} == {
        "head.2.0.weight",
        "head.2.0.bias",
    }
