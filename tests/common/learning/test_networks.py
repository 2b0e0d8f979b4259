from __future__ import annotations

import numpy as np
import pytest
import torch

from common.arrays import digest
from common.learning.networks import Network, extract, load
from common.learning.specs import ModelOptions, ModelSpec, build_spec, initial
from common.rng import generator

SPECS = [
    build_spec(name, shape=(1, 28, 28), classes=10, head_depth=depth)
    for name, depth in (("dnn", 1), ("convnet", 1), ("convnet", 2), ("convnet", 3))
]

OTHERS = [
    build_spec(name, shape=(1, 28, 28), classes=10, head_depth=2, options=options)
    for name, options in (
        ("small", ModelOptions()),
        ("mcmahan", ModelOptions()),
        ("mcmahan", ModelOptions(padding="valid")),
        ("cifar-cnn", ModelOptions()),
        ("cifar-cnn", ModelOptions(padding="valid")),
        ("s2cnn", ModelOptions()),
        ("s2cnn", ModelOptions(pool="between")),
    )
]
WITH_DROPOUT = OTHERS[-1]


@pytest.mark.parametrize(
    "spec", SPECS + OTHERS, ids=lambda spec: f"{spec.name}-{spec.head_depth}"
)
def test_a_network_has_exactly_the_arrays_of_its_description(spec: ModelSpec) -> None:
    state = Network(spec).state_dict()
    assert {name: tuple(value.shape) for name, value in state.items()} == spec.shapes()
    assert list(state) == list(spec.shapes())


@pytest.mark.parametrize(
    "spec", SPECS + OTHERS, ids=lambda spec: f"{spec.name}-{spec.head_depth}"
)
def test_a_network_gives_one_logit_per_class(spec: ModelSpec) -> None:
    network = Network(spec)
    load(network, initial(spec, generator(1, "initial")))
    logits = network(torch.ones(3, 1, 28, 28))
    assert logits.shape == (3, 10)
    assert logits.min() < 0 < logits.max()


def test_a_recurrent_network_answers_from_the_last_step() -> None:
    spec = build_spec("char-lstm", shape=(80,), classes=80, head_depth=1)
    network, arrays = Network(spec), initial(spec, generator(1, "initial"))
    assert {name: tuple(value.shape) for name, value in network.state_dict().items()} == (
        spec.shapes()
    )
    load(network, arrays)
    text = torch.arange(3 * 80).reshape(3, 80) % 80
    lstm = torch.nn.LSTM(8, 256, 2, batch_first=True)
    lstm.load_state_dict(
        {
            name.removeprefix("base.1.0."): torch.tensor(array)
            for name, array in arrays.items()
            if name.startswith("base.1.0.")
        }
    )
    with torch.inference_mode():
        steps, _ = lstm(torch.tensor(arrays["base.0.0.weight"])[text])
        weight, bias = (torch.tensor(arrays[f"head.2.0.{name}"]) for name in ("weight", "bias"))
        assert torch.allclose(network(text), steps[:, -1] @ weight.T + bias, atol=1e-5)


@pytest.mark.parametrize("spec", OTHERS, ids=lambda spec: spec.name)
def test_arrays_come_out_as_they_went_in_whatever_layout_is_computed_with(
    spec: ModelSpec,
) -> None:
    network, arrays = Network(spec), initial(spec, generator(1, "initial"))
    load(network, arrays)
    out = extract(network)
    assert digest(out) == digest(arrays)
    assert all(array.flags.c_contiguous for array in out.values())


def test_the_split_does_not_change_what_is_computed() -> None:
    answers = []
    for spec in SPECS[1:]:
        network = Network(spec)
        load(network, initial(spec, generator(1, "initial")))
        answers.append(network(torch.ones(2, 1, 28, 28)))
    assert torch.equal(answers[0], answers[1])
    assert torch.equal(answers[0], answers[2])


def test_a_dnn_computes_what_numpy_computes() -> None:
    spec = SPECS[0]
    arrays = initial(spec, generator(1, "initial"))
    network = Network(spec)
    load(network, arrays)
    x = generator(1, "images").random((4, 784), dtype=np.float32)
    hidden = np.maximum(x @ arrays["base.0.1.weight"].T + arrays["base.0.1.bias"], 0)
    expected = hidden @ arrays["head.1.0.weight"].T + arrays["head.1.0.bias"]
    computed = network(torch.tensor(x.reshape(4, 1, 28, 28))).detach().numpy()
    np.testing.assert_allclose(computed, expected, atol=1e-5)


def test_arrays_come_out_as_they_went_in_and_share_no_memory() -> None:
    spec = SPECS[0]
    arrays = initial(spec, generator(1, "initial"))
    for array in arrays.values():
        array.flags.writeable = False
    network, before = Network(spec), digest(arrays)
    load(network, arrays)
    taken = extract(network)
    assert digest(taken) == before
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(1)
    assert digest(arrays) == digest(taken) == before


def test_a_padded_convolution_keeps_the_size_of_the_image() -> None:
    network = Network(OTHERS[1])
    features = network.base[:1](torch.ones(2, 1, 28, 28))
    assert features.shape == (2, 32, 14, 14)


def test_dropout_zeroes_its_share_and_scales_the_rest_in_training_only() -> None:
    network = Network(WITH_DROPOUT)
    dropout = network.base.get_submodule("1.2")  # of a quarter
    ones = torch.ones(100, 100)
    assert torch.equal(dropout(ones), ones)
    network.train()
    values, counts = dropout(ones).unique(return_counts=True)
    assert values.tolist() == pytest.approx([0, 4 / 3])
    assert counts[0] == pytest.approx(2_500, abs=200)


def test_making_a_network_leaves_the_global_generator_alone() -> None:
    before = torch.get_rng_state()
    Network(SPECS[1])
    Network(WITH_DROPOUT)
    assert torch.equal(torch.get_rng_state(), before)


def test_arrays_that_do_not_fit_are_refused_and_change_nothing() -> None:
    spec = SPECS[0]
    network = Network(spec)
    good = initial(spec, generator(1, "initial"))
    bias = good["head.1.0.bias"]
    missing = {name: array for name, array in good.items() if name != "head.1.0.bias"}
    with pytest.raises(ValueError, match=r"missing head.1.0.bias, unknown extra"):
        load(network, {**missing, "extra": bias})
    with pytest.raises(ValueError, match=r"head.1.0.bias is float32 \(1, 10\); .* \(10,\)"):
        load(network, {**good, "head.1.0.bias": bias[None]})
    with pytest.raises(ValueError, match=r"head.1.0.bias is float64"):
        load(network, {**good, "head.1.0.bias": bias.astype(np.float64)})
    assert not any(value.any() for value in extract(network).values())
