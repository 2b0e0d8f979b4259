"""PURE: settings that contradict each other, or have no effect beside the others."""

from __future__ import annotations

from collections.abc import Iterator

from common.config import Experiment, Schema, Section
from common.config.data import DataSection
from common.config.learning import ModelSection, TrainingSection
from common.config.privacy import PrivacySection
from common.config.run import AggregationSection, EvaluationSection

_BY_DRAW = {"dirichlet", "dirichlet-client", "ls", "qs", "lsqs"}
_WITH_LEAST = {"dirichlet", "qs", "lsqs", "natural", "local"}


def doubts(experiment: Experiment, *, selected: int, has_norm: bool) -> Iterator[str]:
    """Sentences about settings that do not do what one might expect of them.

    `selected` clients train in each round; `has_norm`: the model has BatchNorm layers.
    """
    yield from _contradictions(experiment, selected)
    if experiment.data.schema is not None:
        yield from doubtful_columns(experiment.data.schema)
    for name, without_effect in (
        ("model", _of_model(experiment.model, has_norm=has_norm)),
        ("training", _of_training(experiment.training)),
        ("data", _of_data(experiment.data)),
        ("aggregation", _of_aggregation(experiment.aggregation)),
        ("privacy", _of_privacy(experiment.privacy)),
        ("evaluation", _of_evaluation(experiment.evaluation)),
    ):
        section: Section = getattr(experiment, name)
        usual = type(section)()
        for key, why in without_effect.items():
            value = getattr(section, key)
            if why and value != getattr(usual, key):
                yield f"{name}.{key} = {value!r} has no effect: {why}"


def doubtful_columns(schema: Schema) -> Iterator[str]:
    """Texts that most rows have one of their own of: ids and dates, which teach nothing."""
    rows = schema.train + schema.test
    for column in schema.columns:
        different = len(column.categories)
        if rows and 2 * different > rows:
            yield (
                f"column {column.name!r} has {different} different texts in {rows} rows, as "
                "ids and dates have: nothing can be learned from it; name the other columns in "
                "data.features"
            )


def _contradictions(experiment: Experiment, selected: int) -> Iterator[str]:
    rounds, aggregation = experiment.experiment, experiment.aggregation
    if rounds.min_updates > selected:
        yield (
            f"experiment.min_updates is {rounds.min_updates}, but only {selected} clients are "
            "selected in a round: their updates are enough"
        )
    if rounds.grace == "forever" and rounds.deadline:
        yield (
            "experiment.grace is 'forever', but experiment.deadline closes rounds before: "
            "results depend on who is slow"
        )
    if aggregation.rule != "mean" and selected < 3:
        yield f"aggregation.rule is {aggregation.rule!r} of only {selected} updates in a round"
    stage = experiment.evaluation.personal_stage
    if stage not in experiment.evaluation.stages:
        yield (
            f"evaluation.personal_stage is {stage!r}, which is not in evaluation.stages: there "
            "will be no personal results"
        )
    model = experiment.model
    if experiment.algorithm.name in ("fedreg", "fedreb") and model.head_depth == 1:
        other = ", and so for another model than 'dnn'" if model.name == "dnn" else ""
        yield f"algorithm.name is 'fedreg', which is meant for model.head_depth = 2{other}"


def _of_model(model: ModelSection, *, has_norm: bool) -> dict[str, str]:
    own = ":" in model.name
    return {
        "hidden": "" if model.name == "dnn" else "the model is not 'dnn'",
        "padding": ""
        if model.name in ("mcmahan", "cifar-cnn")
        else "the model is not 'mcmahan' or 'cifar-cnn'",
        "pool": "" if model.name == "s2cnn" else "the model is not 's2cnn'",
        "head_depth": "the head of this model is named by model.head" if own else "",
        "batch_norm": "" if has_norm else "the model has no BatchNorm",
    }


def _of_training(training: TrainingSection) -> dict[str, str]:
    return {
        "epochs": f"training.steps is {training.steps}" if training.steps else "",
        "momentum": "the optimizer is 'adam'" if training.optimizer == "adam" else "",
    }


def _of_data(data: DataSection) -> dict[str, str]:
    partition = f"the partition is {data.partition!r}"
    return {
        "alpha": "" if data.partition in _BY_DRAW else partition,
        "classes_per_client": "" if data.partition == "classes" else partition,
        "min_size": "" if data.partition in _WITH_LEAST else partition,
        "train_ratio": "" if data.test == "pool" else f"data.test is {data.test!r}",
        "stratify": "" if data.test == "pool" else f"data.test is {data.test!r}",
        "share_given": "" if data.share else "data.share is 0",
        "share_removed": "" if data.share else "data.share is 0",
    }


def _of_aggregation(aggregation: AggregationSection) -> dict[str, str]:
    exact = aggregation.arithmetic == "exact"
    waits = "" if aggregation.buffer else "aggregation.buffer is 0"
    return {
        **dict.fromkeys(("max_staleness", "staleness_exponent", "server_rate"), waits),
        "trim": "" if aggregation.rule == "trimmed-mean" else "the rule is another one",
        "hostile": "" if "krum" in aggregation.rule else "the rule is another one",
        "largest": "" if exact else "the arithmetic is 'float'",
    }


def _of_privacy(privacy: PrivacySection) -> dict[str, str]:
    return {"threshold": "" if privacy.secure else "privacy.secure is false"}


def _of_evaluation(evaluation: EvaluationSection) -> dict[str, str]:
    return {"union_every": "" if evaluation.union_samples else "union_samples is 0"}
