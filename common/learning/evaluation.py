"""How good a model is on some samples: correct answers, mean loss."""

from __future__ import annotations

import torch
from torch.nn import functional

from common.algorithms.client import Predictor
from common.data.samples import Samples
from common.learning.device import device
from common.learning.inputs import batch_of
from common.learning.net import TorchNet


def count_correct(predict: Predictor, samples: Samples, batch: int = 100) -> int:
    """How many samples have their largest logit at their own class."""
    labels = torch.tensor(samples.targets, device=device())
    correct = 0
    with torch.inference_mode():
        for start in range(0, len(samples), batch):
            part = slice(start, start + batch)
            answers = predict(batch_of(samples, part)).argmax(dim=1)
            correct += int((answers == labels[part]).sum())
    return correct


def mean_loss(net: TorchNet, samples: Samples, batch: int = 100) -> float:
    """Mean cross-entropy of the model over some samples."""
    labels, total = torch.tensor(samples.targets, device=device()), 0.0
    with torch.inference_mode():
        for start in range(0, len(samples), batch):
            part = slice(start, start + batch)
            outputs = net(batch_of(samples, part))
            total += functional.cross_entropy(outputs, labels[part], reduction="sum").item()
    return total / len(samples)
