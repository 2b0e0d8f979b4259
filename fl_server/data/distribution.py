"""How many samples of each class each client has: what tables, bars and manifests show."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from common.config import DataSection, Experiment
from common.data.assignment import Assignment
from common.data.dataset import load_data
from common.data.rebalance import (
    Counts,
    Rebalance,
    effective_samples,
    rebalanced_counts,
    target_of,
)
from common.data.samples import Labels
from common.data.shards import assignment_of
from common.data.strata import strata_count, strata_of


@dataclass(frozen=True, slots=True, eq=False)
class Distribution:
    """Tables with a row per client and a column per class."""

    train: Counts
    test: Counts
    shared: int

    @property
    def sizes(self) -> Counts:
        """How many training samples each client has."""
        sizes: Counts = self.train.sum(1)
        return sizes


@dataclass(frozen=True, slots=True, eq=False)
class RebalancedDistribution:
    """The same of the rebalanced sets: the table, and how many samples are originals."""

    train: Counts
    effective: Counts

    @property
    def sizes(self) -> Counts:
        """How many samples each rebalanced set has."""
        sizes: Counts = self.train.sum(1)
        return sizes


def distribution_of(experiment: Experiment) -> Distribution:
    """The distribution an experiment has."""
    dataset = load_data(experiment.data)
    assignment = assignment_of(experiment.data, dataset, experiment.experiment.seed)
    strata, count = strata_of(experiment.data, dataset), strata_count(experiment.data, dataset)
    return counted(assignment, strata, count)


def counted(assignment: Assignment, labels: Labels, classes: int) -> Distribution:
    """The counts of an assignment of samples with these labels."""
    train, test = (
        np.array([np.bincount(labels[part], minlength=classes) for part in parts], np.int64)
        for parts in (assignment.train, assignment.test)
    )
    return Distribution(train, test, len(assignment.shared))


def rebalanced(distribution: Distribution, rebalance: Rebalance) -> RebalancedDistribution:
    """The distribution of the rebalanced sets, which need not be made for that."""
    table, effective = [], []
    for counts in distribution.train:
        target = target_of(rebalance, counts, distribution.sizes)
        table.append(rebalanced_counts(counts, target))
        effective.append(effective_samples(counts, target))
    return RebalancedDistribution(np.array(table), np.array(effective, np.int64))


def title_of(data: DataSection) -> str:
    """What is divided and how, as a short text."""
    names = {
        "iid": "IID",
        "classes": f"{data.classes_per_client} classes each",
        "dirichlet": f"Dirichlet({data.alpha:g})",
        "dirichlet-client": f"Dirichlet({data.alpha:g}) per client",
        "natural": "natural clients",
        "local": "as boards reported",
    }
    how = names.get(data.partition, f"{data.partition.upper()}({data.alpha:g})")
    return f"{data.dataset}, {data.clients} clients, {how}"


def rebalance_title(rebalance: Rebalance) -> str:
    """How the classes are brought to the same number, as a short text."""
    if rebalance.statistic == "number":
        return f"rebalanced to {rebalance.number} of each class"
    of = "the client's classes" if rebalance.scope == "client" else "all clients' sizes"
    return f"rebalanced to the {rebalance.statistic} of {of}"
