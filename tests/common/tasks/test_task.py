"""Tasks: what follows from settings and data, metrics from sums, and what is refused."""

from __future__ import annotations

import math

import pytest

from common.config import TaskSection
from common.config.task import Kind
from common.errors import ConfigError, ProtocolError
from common.tasks.sums import added
from common.tasks.task import Task, make_task, resolved, reveals_classes, usual_levels
from common.wire.messages import Sums


def task(kind: Kind = "classification", outputs: int = 3, **settings: object) -> Task:
    section = TaskSection(**settings)  # type: ignore[arg-type]
    return make_task(resolved(section, kind), outputs)


def sums(samples: int, **numbers: tuple[float, ...]) -> Sums:
    return Sums(samples=samples, sums=numbers)


@pytest.mark.parametrize(
    ("kind", "loss", "metrics", "main"),
    [
        ("classification", "cross-entropy", ["accuracy", "loss"], "accuracy"),
        ("next-token", "cross-entropy", ["accuracy", "loss"], "accuracy"),
        (
            "multi-label",
            "binary-cross-entropy",
            ["micro_f1", "exact_match", "loss"],
            "micro_f1",
        ),
        ("regression", "mse", ["mse", "mae", "r2", "loss"], "mse"),
    ],
)
def test_everything_follows_from_what_the_targets_are(
    kind: Kind, loss: str, metrics: list[str], main: str
) -> None:
    found = task(kind)
    assert (found.kind, found.loss, found.main.name) == (kind, loss, main)
    assert [metric.name for metric in found.metrics] == metrics
    assert found.main.lower == (kind == "regression")


def test_a_resolved_section_stays_as_it_is() -> None:
    once = resolved(TaskSection(), "regression")
    assert resolved(once, "regression") == once


@pytest.mark.parametrize(
    ("kind", "settings", "words"),
    [
        ("regression", {"kind": "classification"}, "task.kind is 'classification', but the"),
        ("classification", {"kind": "multi-label"}, "targets of the data are for classif"),
        ("regression", {"loss": "cross-entropy"}, "for regression expected 'mse', 'mae'"),
        ("regression", {"metrics": ("accuracy",)}, "has 'accuracy'; for regression expected"),
        ("classification", {"metrics": ("macro_fi",)}, "did you mean 'macro_f1'"),
        ("classification", {"metrics": ("loss",)}, "always measured; leave it out"),
        ("regression", {"metrics": ("mse", "mse")}, "has 'mse' twice"),
        ("regression", {"metrics": ("a.py:mse",)}, "'mse' is a name of ours"),
        ("regression", {"metrics": ("a.py:Cost",)}, "with a name of lower-case letters"),
        (
            "regression",
            {"main": "r3"},
            "task.main is 'r3', which is not measured; expected one",
        ),
        ("classification", {"metrics": ("confusion",)}, "'confusion', which is not measured"),
        ("regression", {"lower": ("mse",)}, "task.lower names 'mse'; expected names of your"),
    ],
)
def test_settings_that_do_not_fit_are_refused_in_one_sentence(
    kind: Kind, settings: dict[str, object], words: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        make_task(resolved(TaskSection(**settings), kind), 3)  # type: ignore[arg-type]
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_matrix_of_too_many_classes_is_refused() -> None:
    metrics = ("accuracy", "confusion")
    assert task(outputs=100, metrics=metrics).kinds["confusion"].numbers(100) == 10_000
    with pytest.raises(ConfigError, match="needs 40,000 sums for 200 outputs; at most 10,000"):
        task(outputs=200, metrics=metrics)


def test_pooled_classes_have_accuracy_f1_and_a_matrix_and_a_class_never_tested_has_none() -> (
    None
):
    wanted = task(metrics=("accuracy", "macro_f1", "class_accuracy", "confusion"))
    ones = sums(
        3,
        correct=(2.0,),
        class_hits=(2.0, 0.0, 0.0),
        class_samples=(2.0, 1.0, 0.0),
        class_answers=(3.0, 0.0, 0.0),
        confusion=(2.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0),
        loss=(3.0,),
    )
    wanted.check(ones)
    found = wanted.values(added([ones, ones]))
    assert found["accuracy"] == 4 / 6
    assert found["macro_f1"] == pytest.approx((0.8 + 0) / 2)  # the third class does not occur
    assert found["class_accuracy"] == [1.0, 0.0, None]
    assert found["confusion"] == [[4.0, 0, 0], [2, 0, 0], [0, 0, 0]]
    assert found["loss"] == 1.0


def test_r2_of_the_pool_is_not_the_mean_of_the_clients() -> None:
    wanted = task("regression", 1, metrics=("r2", "rmse"))
    low = sums(2, output_errors=(0.5,), target_sum=(1.0,), target_squares=(1.0,),
               squared_error=(0.5,), loss=(0.5,))  # fmt: skip
    high = sums(2, output_errors=(0.5,), target_sum=(21.0,), target_squares=(221.0,),
                squared_error=(0.5,), loss=(0.5,))  # fmt: skip
    alone = wanted.values(added([low]))["r2"]
    pooled = wanted.values(added([low, high]))
    assert alone == 0.0
    assert pooled["r2"] == pytest.approx(1 - 1.0 / (222 - 22**2 / 4))
    assert pooled["rmse"] == 0.5


def test_targets_that_are_all_the_same_have_no_r2() -> None:
    wanted = task("regression", 1, metrics=("r2",), main="loss")
    same = sums(2, output_errors=(1.0,), target_sum=(4.0,), target_squares=(8.0,), loss=(1.0,))
    assert wanted.values(added([same]))["r2"] is None


GOOD: dict[str, tuple[float, ...]] = {
    "correct": (3.0,),
    "class_hits": (2.0, 1.0),
    "class_samples": (2.0, 2.0),
    "class_answers": (2.0, 2.0),
    "loss": (4.0,),
}


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"correct": (5.0,)}, "correct is 5, of 4 test samples"),
        ({"correct": (-1.0,)}, "correct is -1"),
        ({"correct": (2.5,)}, "correct is 2.5"),
        ({"correct": (1.0, 1.0)}, "2 numbers of correct; expected 1"),
        ({"class_samples": (2.0, 1.0)}, "class_samples is 2, 1"),
        ({"class_hits": (4.0, 1.0)}, "class_hits is 4, 1"),
        ({"class_hits": (1.0, 3.0)}, "class_hits is more than class_samples"),
        ({"loss": (-1.0,)}, "loss is -1"),
        ({"more": (1.0,)}, "sums class_answers, class_hits"),
        ({"loss": None}, "expected class_answers, class_hits, class_samples, correct, loss"),
    ],
)
def test_sums_that_no_test_can_have_are_refused(
    wrong: dict[str, tuple[float, ...] | None], words: str
) -> None:
    wanted = task(outputs=2, metrics=("accuracy", "macro_f1"))
    wanted.check(Sums(samples=4, sums=GOOD))
    numbers = {name: value for name, value in {**GOOD, **wrong}.items() if value is not None}
    with pytest.raises(ProtocolError) as caught:
        wanted.check(Sums(samples=4, sums=numbers))
    assert words in str(caught.value)


def test_labels_have_micro_and_macro_f1_and_exact_matches() -> None:
    wanted = task(
        "multi-label", 2, metrics=("micro_f1", "macro_f1", "exact_match", "label_accuracy")
    )
    tested = sums(
        4, found=(3.0,), wanted=(4.0,), answered=(5.0,), exact=(2.0,), right=(2.5,),
        label_hits=(3.0, 0.0), label_samples=(3.0, 1.0), label_answers=(3.0, 2.0), loss=(1.0,),
    )  # fmt: skip
    wanted.check(tested)
    found = wanted.values(added([tested]))
    assert found["micro_f1"] == pytest.approx(6 / 9)
    assert found["macro_f1"] == pytest.approx(0.5)
    assert (found["exact_match"], found["label_accuracy"]) == (0.5, 0.625)


def test_an_own_metric_is_a_quotient_of_two_sums() -> None:
    wanted = task("regression", 1, metrics=("a.py:cost", "mse"), lower=("cost",))
    assert (wanted.main.name, wanted.main.lower) == ("cost", True)
    one = sums(2, cost=(3.0, 2.0), squared_error=(1.0,), loss=(-1.0,))
    with pytest.raises(ProtocolError, match="loss is -1"):
        wanted.check(one)
    other = task("regression", 1, metrics=("a.py:cost", "mse"), loss="a.py:own")
    other.check(one)  # a loss of one's own may be anything
    assert wanted.values(added([one, one]))["cost"] == 1.5
    assert wanted.values(None)["cost"] is None


def test_levels_are_those_of_the_experiment_or_lie_between_the_first_and_the_best() -> None:
    assert usual_levels(task(), [0.1])[0] == 0.5
    numbers = task("regression", 1)
    assert usual_levels(numbers, [130.0, 3.1, 0.21]) == (100, 50, 20, 10, 5, 2, 1, 0.5)
    assert usual_levels(numbers, []) == ()
    assert usual_levels(numbers, [1.0]) == (1.0,)
    assert usual_levels(task("regression", 1, levels=(1.0, 3.0)), [9.0]) == (3.0, 1.0)
    assert len(usual_levels(numbers, [1e30, 1e-30])) == 12
    assert usual_levels(numbers, [0.0, -5.0]) == ()


def test_only_some_metrics_tell_how_many_samples_of_a_class_there_are() -> None:
    assert not reveals_classes(TaskSection(metrics=("accuracy", "a.py:own")))
    assert reveals_classes(TaskSection(metrics=("accuracy", "macro_f1")))


def test_a_perplexity_of_a_diverged_model_is_a_number() -> None:
    wanted = task("next-token", metrics=("accuracy", "perplexity"))
    found = wanted.values(added([sums(1, correct=(0.0,), loss=(1e30,))]))["perplexity"]
    assert isinstance(found, float)
    assert math.isfinite(found)
