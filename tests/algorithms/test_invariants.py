"""What must hold of every algorithm, whatever it learns: equal where it has to be equal.

Bit for bit where the arithmetic is the same; else to 1e-6, for sums in another order.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path

import msgspec
import numpy as np
import pytest
import torch

from common.arrays import Arrays, digest, from_under, parts, renamed
from common.config import Option, TrainingSection
from common.data.samples import Samples
from common.rng import generator
from common.worker import client as torch_client
from tests.algorithms.federation import (
    CLASSES,
    HEAVY,
    PLAIN,
    THREE,
    Federation,
    close,
    samples,
)

ONE_SHUFFLE = msgspec.structs.replace(PLAIN, steps=1)
EQUAL = samples(*[2] * CLASSES)


@pytest.fixture
def same_shuffles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever it is for, a client's training in a round goes through its samples as one."""

    def shuffles(seed: int, _purpose: str, *numbers: int) -> np.random.Generator:
        return generator(seed, "shuffle", *numbers)

    monkeypatch.setattr(torch_client, "generator", shuffles)


def ran(
    folder: Path,
    name: str,
    rounds: int = 3,
    training: TrainingSection = HEAVY,
    model: str = "linear",
    clients: tuple[Samples, ...] = THREE,
    **options: Option,
) -> Federation:
    """An algorithm after some rounds with everybody."""
    return Federation(folder, name, options, model, clients, training).run(rounds)


def own_states(federation: Federation) -> list[str]:
    return [digest(federation.state_of(client)) for client in range(len(federation.clients))]


# one algorithm as a special case of another


def test_fedprox_without_a_pull_is_fedavg(tmp_path: Path) -> None:
    assert ran(tmp_path, "fedprox", mu=0.0).digest == ran(tmp_path, "fedavg").digest


def test_the_first_round_of_a_feddyn_client_is_that_of_fedprox(tmp_path: Path) -> None:
    training = msgspec.structs.replace(HEAVY, grad_clip=10.0)
    dyn = ran(tmp_path, "feddyn", 1, training, alpha=0.25).history[0]
    prox = ran(tmp_path, "fedprox", 1, training, mu=0.25).history[0]
    assert [digest(dyn.update(k)) for k in range(3)] == [
        digest(prox.update(k)) for k in range(3)
    ]


@pytest.mark.parametrize("dampening", [False, True])
def test_fedavgm_without_memory_is_fedavg(tmp_path: Path, dampening: bool) -> None:
    momentum = ran(tmp_path, "fedavgm", beta=0.0, dampening=dampening)
    assert close(momentum.global_model, ran(tmp_path, "fedavg").global_model)


def test_the_first_round_of_scaffold_is_fedavg_with_plain_sgd(tmp_path: Path) -> None:
    scaffold = ran(tmp_path, "scaffold", 1, HEAVY)
    plain = msgspec.structs.replace(HEAVY, momentum=0.0)
    fedavg = ran(tmp_path, "fedavg", 1, plain, weighting="uniform")
    for client in range(3):
        sent = parts(scaffold.history[0].update(client), ("base", "head"))
        assert digest(sent) == digest(fedavg.history[0].update(client))
    assert close(scaffold.global_model, fedavg.global_model)


def test_fliu_that_keeps_nothing_is_fedavg(tmp_path: Path) -> None:
    fliu = ran(tmp_path, "fliu", gamma=0.0)
    fedavg = ran(tmp_path, "fedavg", weighting="uniform")
    assert digest(fliu.global_model) == digest(fedavg.global_model)


def test_fliu_that_keeps_everything_trains_alone(tmp_path: Path) -> None:
    fliu, clt = ran(tmp_path, "fliu", gamma=1.0), ran(tmp_path, "clt", report_mean=True)
    assert own_states(fliu) == own_states(clt)
    assert digest(fliu.global_model) == digest(clt.global_model)


@pytest.mark.usefixtures("same_shuffles")
def test_ditto_without_a_pull_trains_alone_by_plain_sgd(tmp_path: Path) -> None:
    ditto = ran(tmp_path, "ditto", training=HEAVY, lam=0.0, personal_epochs=2)
    clt = ran(tmp_path, "clt", training=msgspec.structs.replace(HEAVY, momentum=0.0))
    assert own_states(ditto) == own_states(clt)


def test_the_global_model_of_ditto_is_that_of_fedavg(tmp_path: Path) -> None:
    assert digest(ran(tmp_path, "ditto").global_model) == ran(tmp_path, "fedavg").digest


def test_apfl_with_nothing_of_its_own_keeps_the_shared_model(tmp_path: Path) -> None:
    apfl = ran(tmp_path, "apfl", alpha=0.0, adaptive=False)
    for client in range(3):
        kept, sent = apfl.history[-1].kept(client), apfl.history[-1].update(client)
        own = {**renamed(kept, "own_base", "base"), **renamed(kept, "own_head", "head")}
        assert digest(own) == digest(sent)


def test_apfl_through_a_mixture_with_nothing_of_its_own_tests_the_shared_model(
    tmp_path: Path,
) -> None:
    apfl = ran(tmp_path, "apfl", alpha=0.0, adaptive=False, variant="mixture")
    inputs = torch.randn(20, 1, 2, 2)
    for client in range(3):
        trained = apfl.history[-1].trained[client]
        shared = apfl.client(client).predictor(trained.arrays)
        assert torch.equal(trained.personal(inputs), shared(inputs))
        assert digest(trained.state) == digest(apfl.history[0].kept(client))  # never moved
        counts = apfl.count(client)
        assert counts["L1"] == counts["G"]


def test_fedper_whose_whole_model_is_head_trains_alone(tmp_path: Path) -> None:
    fedper, clt = (ran(tmp_path, name, model="all_head") for name in ("fedper", "clt"))
    for client in range(3):
        alone = parts(clt.state_of(client), ["head"])
        assert digest(fedper.state_of(client)) == digest(alone)


def test_fedper_without_a_head_is_fedavg(tmp_path: Path) -> None:
    fedper, fedavg = (ran(tmp_path, name, model="all_base") for name in ("fedper", "fedavg"))
    assert digest(fedper.global_model) == digest(fedavg.global_model)


def test_fedrep_with_one_step_is_fedavg_with_one_step(tmp_path: Path) -> None:
    fedrep = ran(tmp_path, "fedrep", variant="steps", steps=1)
    fedavg = ran(tmp_path, "fedavg", training=msgspec.structs.replace(HEAVY, steps=1))
    assert digest(fedrep.global_model) == digest(fedavg.global_model)


@pytest.mark.parametrize("variant", ["steps", "heads"])
def test_fedavg2rep_that_never_changes_is_fedavg(tmp_path: Path, variant: str) -> None:
    both = ran(tmp_path, "fedavg2rep", first_rounds=3, variant=variant)
    fedavg = ran(tmp_path, "fedavg", weighting="uniform")
    assert digest(both.global_model) == digest(fedavg.global_model)


def test_fedavg2rep_goes_on_as_fedrep_from_where_fedavg_ended(tmp_path: Path) -> None:
    both = ran(tmp_path, "fedavg2rep", 2, first_rounds=2, variant="heads")
    learnt = parts(both.global_model, ["head"])
    assert digest(from_under("initial", both.state)) == digest(learnt)
    both.round((0,))
    assert digest(from_under("initial", both.state)) == digest(learnt)
    assert digest(both.state_of(0)) == digest(parts(both.history[-1].update(0), ["head"]))
    inputs = torch.randn(20, 1, 2, 2)
    unselected = both.algorithm.stages(both.client(1), both.state_of(1), both.download)["L1"]
    own = both.client(1).predictor({**both.global_model, **learnt})
    assert torch.equal(unselected(inputs), own(inputs))


def test_fedfomo_without_models_of_others_trains_alone_on_what_it_does_not_judge_with(
    tmp_path: Path,
) -> None:
    fomo = ran(tmp_path, "fedfomo", models=0)
    learn = []
    for client, own in enumerate(THREE):
        order = generator(1, "validation", 0, client).permutation(len(own))
        learn.append(own.take(order[: len(own) - round(0.2 * len(own))]))
    clt = ran(tmp_path / "clt", "clt", clients=tuple(learn))
    assert own_states(fomo) == own_states(clt)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("fedavg", {}),
        ("fedprox", {"mu": 0.0}),
        ("fedavgm", {"beta": 0.0}),
        ("scaffold", {}),
        ("fedper", {}),
        ("fedavg2rep", {}),
        ("fliu", {"gamma": 0.3}),
        ("ditto", {}),
        ("apfl", {}),
        ("apfl", {"variant": "mixture"}),
        ("clt", {"report_mean": True}),
        ("fedreg", {"single_head": True, "skip_phase1": True, "phase2_data": "original"}),
    ],
)
def test_one_client_alone_is_central_training_with_the_same_shuffles(
    tmp_path: Path,
    same_shuffles: None,
    name: str,
    options: Mapping[str, Option],
) -> None:
    alone = Federation(tmp_path, name, options, clients=THREE[:1], training=PLAIN).run(3)
    assert close(alone.global_model, central(alone.first, THREE[0], rounds=3), 1e-5)


def central(first: Arrays, own: Samples, rounds: int) -> Arrays:
    """Plain SGD, written down once more."""
    model = {name: torch.tensor(array).requires_grad_() for name, array in first.items()}
    inputs = torch.tensor(own.inputs[0].reshape(-1, 4) / 127.5 - 1, dtype=torch.float32)
    labels = torch.tensor(own.targets)
    for round_number in range(1, rounds + 1):
        rng = generator(1, "shuffle", round_number, 0)
        for _ in range(PLAIN.epochs):
            for batch in torch.tensor(rng.permutation(len(own))).split(PLAIN.batch_size):
                features = inputs[batch] @ model["base.1.weight"].T + model["base.1.bias"]
                logits = features @ model["head.0.weight"].T + model["head.0.bias"]
                torch.nn.functional.cross_entropy(logits, labels[batch]).backward()
                with torch.no_grad():
                    for value in model.values():
                        assert value.grad is not None
                        value -= PLAIN.learning_rate * value.grad
                        value.grad = None
    return {name: value.detach().numpy() for name, value in model.items()}


# what is kept in step


def test_the_drift_of_a_feddyn_server_is_the_mean_of_its_clients_drifts(tmp_path: Path) -> None:
    """In the paper's words, sum_k g_k / N = h; and whoever was not heard has not moved."""
    fed = Federation(tmp_path, "feddyn", {"alpha": 0.1}, training=HEAVY)
    plan = [((0, 1, 2), None), ((0, 1), (1,)), ((0, 2), ()), ((0, 1, 2), (0, 2)), ((1,), None)]
    for selected, used in plan:
        before = [digest(fed.state_of(client)) for client in range(3)]
        fed.round(selected, used)
        drifts = [fed.state_of(client) for client in range(3)]
        drift = from_under("drift", fed.state)
        for name, array in drift.items():
            assert np.allclose(array, sum(d[name] for d in drifts) / 3, atol=1e-6)
        for client in set(range(3)) - set(selected if used is None else used):
            assert digest(drifts[client]) == before[client]
    assert any(np.abs(array).max() > 1e-3 for array in fed.state_of(0).values())


def test_the_control_of_a_scaffold_server_is_the_mean_of_its_clients(tmp_path: Path) -> None:
    fed = Federation(tmp_path, "scaffold", training=HEAVY)
    plan = [((0, 1, 2), None), ((0, 1, 2), None), ((0, 1), (1,)), ((0, 1, 2), (0, 2))]
    for selected, used in plan:
        fed.round(selected, used)
        controls = [fed.state_of(client) for client in range(3)]
        for name, array in from_under("control", fed.state).items():
            assert np.allclose(array, sum(c[name] for c in controls) / 3, atol=1e-6)


@pytest.mark.parametrize("name", ["feddyn", "scaffold"])
def test_clients_that_take_no_part_do_not_count(tmp_path: Path, name: str) -> None:
    fed = Federation(tmp_path, name, training=HEAVY, participants="0-1")
    word = {"feddyn": "drift", "scaffold": "control"}[name]
    for _ in range(2):
        fed.round((0, 1))
        one, two = fed.state_of(0), fed.state_of(1)
        for key, array in from_under(word, fed.state).items():
            assert np.allclose(array, (one[key] + two[key]) / 2, atol=1e-6)


def test_the_head_of_fedbabu_is_the_same_for_ever(tmp_path: Path) -> None:
    fed = Federation(tmp_path, "fedbabu", training=HEAVY)
    for selected in [(0, 1, 2), (1,), (0, 2)]:
        done = fed.round(selected)
        assert digest(parts(fed.state, ["head"])) == digest(parts(fed.first, ["head"]))
        assert all(set(parts(done.update(k), ["head"])) == set() for k in selected)
    assert digest(parts(fed.state, ["base"])) != digest(parts(fed.first, ["base"]))


@pytest.mark.parametrize("name", ["fedper", "fedrep", "gpfl"])
def test_a_download_never_changes_a_clients_head(tmp_path: Path, name: str) -> None:
    fed = Federation(tmp_path, name, training=HEAVY)
    fed.round((0, 1))
    kept = digest(fed.state_of(0))
    fed.round((1, 2))
    assert digest(fed.state_of(0)) == kept
    never = Federation(tmp_path, name, training=HEAVY)
    never.round((0, 1))
    assert digest(never.state_of(2)) == digest(parts(never.first, ["head"]))


def test_the_averaged_head_of_gpfl_is_the_head_if_there_is_only_one(tmp_path: Path) -> None:
    fed = Federation(tmp_path, "gpfl", training=HEAVY)
    for client in (1, 2):
        fed.round((client,))
        assert digest(parts(fed.state, ["head"])) == digest(fed.state_of(client))


# balance


def test_fedrod_on_balanced_classes_trains_its_shared_model_as_fedavg(tmp_path: Path) -> None:
    """The same number is added to all logits, and that changes no loss."""
    fedrod, fedavg = (ran(tmp_path, name, 2, clients=(EQUAL,)) for name in ("fedrod", "fedavg"))
    assert close(fedrod.global_model, fedavg.global_model, 1e-5)


def test_the_rebalanced_set_of_a_balanced_client_is_its_own(tmp_path: Path) -> None:
    own = samples(0, 4, 4, 0, 4)
    fed = Federation(tmp_path, "fedreg", clients=(own,))
    rebalanced = fed.client(0).rebalanced
    assert rebalanced.effective == len(own) == len(rebalanced.samples)
    assert rows(rebalanced.samples) == rows(own)
    assert dict(fed.train(0).weights) == {"base": 12.0, "head": 12.0}


def rows(some: Samples) -> list[bytes]:
    return sorted(
        bytes([label]) + image.tobytes()
        for image, label in zip(some.inputs[0], some.targets, strict=True)
    )


def test_fliu_keeps_more_the_more_samples_a_client_has(tmp_path: Path) -> None:
    from common.algorithms.fliu import adapted

    sizes = (1, 2, 3, 30, 2, 2, 2, 2, 2, 2, 2, 2)
    fed = Federation(tmp_path, "fliu", clients=tuple(samples(size) for size in sizes))
    # the mean is 52 / 12 = 4.33, so the steps are at 2.17, 4.33, 21.7 and 43.3
    assert [adapted(fed.client(k)) for k in range(4)] == [0.1, 0.1, 0.25, 0.75]


def test_fliu_gives_equal_clients_a_quarter(tmp_path: Path) -> None:
    from common.algorithms.fliu import adapted

    fed = Federation(tmp_path, "fliu", clients=(samples(4), samples(2, 2)))
    assert [adapted(fed.client(k)) for k in range(2)] == [0.25, 0.25]


# accuracy


def test_the_pooled_accuracy_before_training_is_the_global_one_in_fedavg(
    tmp_path: Path,
) -> None:
    fed = ran(tmp_path, "fedavg")
    union = Samples(
        (np.concatenate([own.inputs[0] for own in THREE]),),
        np.concatenate([own.targets for own in THREE]),
    )
    whole = ran(tmp_path / "union", "fedavg", 0, clients=(union,))
    whole.download = fed.download
    counts = [fed.count(client) for client in range(3)]
    assert sum(c["L1"] for c in counts) == sum(c["G"] for c in counts) == whole.count(0)["G"]


def test_it_does_not_matter_in_which_order_clients_train(tmp_path: Path) -> None:
    found = set()
    for order in itertools.permutations(range(3)):
        fed = Federation(tmp_path, "fedreg", training=HEAVY)
        for _ in range(2):
            fed.round(order)
        found.add(fed.digest)
    assert len(found) == 1
