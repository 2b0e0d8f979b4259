"""Rounds that do not fit to an algorithm, or to each other, are refused in a sentence."""

from __future__ import annotations

from typing import Any

import pytest

from common.errors import ConfigError
from common.experiment.file import parse_experiment

BUFFER = {"buffer": 2}


@pytest.mark.parametrize(
    ("sections", "said"),
    [
        (
            {"training": {"seconds": 5.0}, "algorithm": {"name": "scaffold"}},
            "which cannot be cut off",
        ),
        (
            {"training": {"seconds": 5.0}, "algorithm": {"name": "fedrep"}},
            "which cannot be cut off",
        ),
        ({"training": {"seconds": 5.0}, "privacy": {"clip": 1.0}}, "all count the same"),
        ({"selection": {"rule": "sped"}}, "did you mean 'speed'"),
        ({"aggregation": {"buffer": 5}}, "only 4 clients take part"),
        ({"aggregation": BUFFER, "experiment": {"deadline": 5.0}}, "experiment.deadline = 0"),
        (
            {"aggregation": {**BUFFER, "arithmetic": "exact"}, "privacy": {"secure": True}},
            "privacy.secure = false",
        ),
        ({"aggregation": BUFFER, "selection": {"extra": 1}}, "selection.extra = 0"),
        (
            {"aggregation": BUFFER, "algorithm": {"name": "scaffold"}},
            "go on from what the server",
        ),
        (
            {"aggregation": BUFFER, "algorithm": {"name": "feddyn"}},
            "go on from what the server",
        ),
        (
            {"aggregation": BUFFER, "algorithm": {"name": "fedfomo"}},
            "treats each client by itself",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(sections: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said) as caught:
        parse_experiment({"data": {"clients": 4}, **sections})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["fedavg", "fedprox", "fedavgm", "fedadam", "fedper", "ditto"])
def test_algorithms_whose_server_takes_a_mean_may_have_a_buffer(name: str) -> None:
    table = {"data": {"clients": 4}, "aggregation": BUFFER, "algorithm": {"name": name}}
    assert parse_experiment(table).aggregation.buffer == 2
