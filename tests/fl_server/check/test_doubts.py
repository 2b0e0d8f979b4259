from __future__ import annotations

from typing import Any

import pytest

from common.experiment.file import parse_experiment
from fl_server.check.doubts import doubts


def found(table: dict[str, Any], *, selected: int = 12, has_norm: bool = False) -> list[str]:
    return [*doubts(parse_experiment(table), selected=selected, has_norm=has_norm)]


def test_the_defaults_leave_no_doubt() -> None:
    assert found({}) == []


@pytest.mark.parametrize(
    ("table", "doubt"),
    [
        ({"model": {"hidden": 5}}, "model.hidden = 5 has no effect: the model is not 'dnn'"),
        (
            {"model": {"padding": "valid"}},
            "model.padding = 'valid' has no effect: the model is",
        ),
        ({"model": {"pool": "between"}}, "model.pool = 'between' has no effect: the model is"),
        ({"model": {"batch_norm": "local"}}, "has no effect: the model has no BatchNorm"),
        ({"training": {"optimizer": "adam", "momentum": 0.1}}, "the optimizer is 'adam'"),
        ({"training": {"steps": 9, "epochs": 2}}, "has no effect: training.steps is 9"),
        ({"data": {"partition": "iid", "alpha": 0.1}}, "alpha = 0.1 has no effect: the partit"),
        ({"data": {"classes_per_client": 3}}, "has no effect: the partition is 'dirichlet'"),
        ({"data": {"partition": "iid", "min_size": 3}}, "min_size = 3 has no effect: the part"),
        ({"data": {"share_given": 0.1}}, "has no effect: data.share is 0"),
        ({"data": {"share_removed": True}}, "has no effect: data.share is 0"),
        ({"aggregation": {"trim": 0.2}}, "has no effect: the rule is another one"),
        ({"privacy": {"threshold": 0.7}}, "has no effect: privacy.secure is false"),
        ({"evaluation": {"union_every": 3}}, "has no effect: union_samples is 0"),
        ({"evaluation": {"stages": ["G"]}}, "which is not in evaluation.stages"),
        ({"experiment": {"grace": "forever", "deadline": 9.0}}, "depend on who is slow"),
        ({"algorithm": {"name": "fedreg"}}, "which is meant for model.head_depth = 2"),
        (
            {"algorithm": {"name": "fedreg"}, "model": {"name": "dnn"}},
            "for model.head_depth = 2, and so for another model than 'dnn'",
        ),
    ],
)
def test_a_setting_that_does_nothing_or_contradicts_is_named(
    table: dict[str, Any], doubt: str
) -> None:
    (text,) = found(table)
    assert doubt in text


def test_what_depends_on_the_number_of_clients_in_a_round_is_named() -> None:
    assert found({"experiment": {"min_updates": 3}}, selected=3) == []
    assert (
        "their updates are enough" in found({"experiment": {"min_updates": 3}}, selected=2)[0]
    )
    assert (
        "'median' of only 2 updates"
        in found({"aggregation": {"rule": "median"}}, selected=2)[0]
    )


def test_layers_of_batch_norm_can_stay_with_the_clients() -> None:
    assert found({"model": {"batch_norm": "local"}}, has_norm=True) == []
