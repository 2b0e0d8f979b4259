"""How good a model is, for tests that need one number."""

from __future__ import annotations

from common.algorithms.client import Predictor
from common.data.samples import Samples
from common.learning.evaluation import BATCH, Measure
from common.learning.losses import CROSS_ENTROPY
from tests.some_sums import classification


def correct(predict: Predictor, samples: Samples, batch: int = BATCH) -> int:
    """How many samples have their largest output at their own class."""
    tested = Measure(classification(), CROSS_ENTROPY).sums(predict, samples, batch=batch)
    return int(tested.sums["correct"][0])
