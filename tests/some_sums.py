"""Tests of clients, as boards report them for a classification."""

from __future__ import annotations

from common.config import TaskSection
from common.tasks.task import Task, make_task, resolved
from common.wire.messages import Sums


def counted(correct: int, total: int, loss: float = 1.0) -> Sums:
    """So many correct answers, with the same loss for each sample."""
    return Sums(samples=total, sums={"correct": (float(correct),), "loss": (loss * total,)})


def classification(outputs: int = 10) -> Task:
    """The task of an experiment with images that says nothing about it."""
    return make_task(resolved(TaskSection(), "classification"), outputs)
