"""What an experiment is: typed sections with a default and a description for every key.

Reading TOML files and overrides is in `experiment_file.py`; this file only says what is valid.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

Positive = Annotated[int, Meta(ge=1)]
Encoding = Literal["float32", "float16", "int8"]


class Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of all sections: frozen, keyword-only, no unknown keys."""


class ExperimentSection(Section, frozen=True, kw_only=True):
    """What is run, for how long, and how patiently."""

    name: Annotated[
        str,
        Meta(
            pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}\Z",
            description="Name of the experiment; the run folder is named after it.",
        ),
    ] = "experiment"
    seed: Annotated[
        int, Meta(ge=0, description="Seed of every random draw: same seed, same bits.")
    ] = 1
    rounds: Annotated[int, Meta(ge=1, description="Number of training rounds.")] = 10
    grace: Annotated[
        float | Literal["forever"],
        Meta(
            description="Seconds a lost board is waited for before the round goes on without it"
            ', or "forever" for runs that must be reproducible on flaky fleets.'
        ),
    ] = 60.0
    deadline: Annotated[
        float,
        Meta(
            ge=0,
            description="Seconds after which a round waits for nobody any more; 0 = no limit.",
        ),
    ] = 0.0
    min_updates: Annotated[
        int, Meta(ge=1, description="A round never closes with fewer updates than this.")
    ] = 1

    def __post_init__(self) -> None:
        if not isinstance(self.grace, str) and self.grace < 0:
            raise ValueError('grace is negative; expected seconds or "forever"')


Option = bool | int | float | str


class AlgorithmSection(Section, frozen=True, kw_only=True):
    """The federated algorithm, and its own options (in a file they stand beside `name`)."""

    name: Annotated[
        str, Meta(description='"fedavg"; or your own, as "package.module:builder".')
    ] = "fedavg"
    options: dict[str, Option] = {}


class ModelSection(Section, frozen=True, kw_only=True):
    """The network that is trained."""

    name: Annotated[
        str,
        Meta(
            description='"dnn" (one hidden layer), "convnet" (two convolutions), "small" (a '
            'little convnet), "mcmahan", "cifar-cnn" or "s2cnn"; or your own, as '
            '"package.module:function".'
        ),
    ] = "convnet"
    head_depth: Annotated[
        int,
        Meta(
            ge=1,
            description="How many of the last linear layers are the head; the rest is base "
            "(your own model says it itself).",
        ),
    ] = 1
    hidden: Annotated[
        int, Meta(ge=1, le=100_000, description='Neurons in the hidden layer (only "dnn").')
    ] = 100
    padding: Annotated[
        Literal["same", "valid"],
        Meta(
            description='"same": 5x5 convolutions keep the size of the image; "valid": no '
            'padding (only "mcmahan" and "cifar-cnn").'
        ),
    ] = "same"
    pool: Annotated[
        Literal["after", "between"],
        Meta(description='Pooling "after" or "between" the convolutions (only "s2cnn").'),
    ] = "after"


class DataSection(Section, frozen=True, kw_only=True):
    """Which samples there are and who has them."""

    dataset: Annotated[
        str,
        Meta(
            description='"fmnist-mini" (10,000 images, built in) or "fashion-mnist" (70,000).'
        ),
    ] = "fmnist-mini"
    clients: Annotated[
        int,
        Meta(
            ge=1, description="Number of clients the dataset is divided among (ids 0, 1, ...)."
        ),
    ] = 12
    partition: Annotated[
        Literal["iid", "classes", "dirichlet", "dirichlet-client", "ls", "qs", "lsqs"],
        Meta(
            description='"iid" (equal shares of everything), "classes" (a few classes each), '
            '"dirichlet" (label skew, each class divided by a draw), "dirichlet-client" (label '
            'skew, equal sizes, labels drawn for each client), "ls" (label skew, equal sizes, '
            'by Sinkhorn-Knopp), "qs" (only sizes are skewed) or "lsqs" (labels and sizes).'
        ),
    ] = "dirichlet"
    alpha: Annotated[
        float,
        Meta(
            gt=0,
            description="Concentration of the Dirichlet draws: the smaller, the more skew.",
        ),
    ] = 0.5
    classes_per_client: Annotated[
        int, Meta(ge=1, description='How many classes every client has (only "classes").')
    ] = 2
    min_size: Annotated[
        int,
        Meta(
            ge=2,
            description="Smallest number of samples a client may get "
            '(only "dirichlet", "qs" and "lsqs").',
        ),
    ] = 10
    train_ratio: Annotated[
        float,
        Meta(
            gt=0,
            lt=1,
            description="Share of each client's samples used for training; the rest tests.",
        ),
    ] = 0.75
    stratify: Annotated[
        bool,
        Meta(description="Whether train_ratio holds for each class of a client by itself."),
    ] = False
    test: Annotated[
        Literal["pool", "official", "official-like"],
        Meta(
            description='"pool": the official training and test parts are mixed and each '
            'client keeps some samples to test; "official": clients train with all they have '
            "of the training part, and each tests on a share of the official test set; "
            '"official-like": on samples of that set with the labels of its training.'
        ),
    ] = "pool"
    share: Annotated[
        float,
        Meta(
            ge=0,
            lt=1,
            description="Size of the set of samples shared by all, balanced over the classes, "
            "as a share of all training samples; 0 = nothing is shared.",
        ),
    ] = 0.0
    share_given: Annotated[
        float,
        Meta(gt=0, le=1, description="Share of the shared samples each client gets."),
    ] = 0.5
    share_removed: Annotated[
        bool, Meta(description="Whether their owners lose the samples that are shared.")
    ] = False


class TrainingSection(Section, frozen=True, kw_only=True):
    """What a selected client does in a round."""

    epochs: Annotated[int, Meta(ge=1, description="Passes over the client's samples.")] = 5
    steps: Annotated[
        int,
        Meta(
            ge=0,
            description="If not 0: train for this many steps instead of epochs; the samples "
            "are shuffled anew when all were used.",
        ),
    ] = 0
    batch_size: Annotated[int, Meta(ge=1, description="Samples per step.")] = 20
    optimizer: Annotated[
        Literal["sgd", "adam"],
        Meta(description='"sgd" or "adam"; both start anew in every training.'),
    ] = "sgd"
    learning_rate: Annotated[float, Meta(gt=0, description="Step size of the optimizer.")] = (
        0.01
    )
    learning_rate_decay: Annotated[
        float,
        Meta(gt=0, le=1, description="Factor on the learning rate after every round."),
    ] = 1.0
    momentum: Annotated[float, Meta(ge=0, lt=1, description='Momentum (only "sgd").')] = 0.9
    weight_decay: Annotated[float, Meta(ge=0, description="L2 penalty on the parameters.")] = (
        0.0
    )
    grad_clip: Annotated[
        float,
        Meta(
            ge=0,
            description="Largest norm of the whole gradient, a longer one is shortened; "
            "0 = no limit.",
        ),
    ] = 0.0


class SelectionSection(Section, frozen=True, kw_only=True):
    """Who takes part."""

    rate: Annotated[
        float,
        Meta(gt=0, le=1, description="Share of the participants that trains in each round."),
    ] = 1.0
    gamma: Annotated[
        float,
        Meta(
            ge=0,
            description="Concentration of the Dirichlet draw that gives each client its chance "
            "to be selected: the smaller, the more skew; 0 = the same chance for all.",
        ),
    ] = 0.0
    participants: Annotated[
        str,
        Meta(description='Client ids that take part, such as "0-3,8", or "all".'),
    ] = "all"
    start_with: Annotated[
        Literal["all"] | Positive,
        Meta(
            description="Round 1 starts when this many participants are connected, "
            'or "all" of them.'
        ),
    ] = "all"


class AggregationSection(Section, frozen=True, kw_only=True):
    """How the server makes one model of the updates, where the algorithm takes their mean."""

    rule: Annotated[
        Literal["mean", "median", "trimmed-mean"],
        Meta(
            description='"mean" (by weights); against hostile clients, for each number by '
            'itself and without weights: "median" or "trimmed-mean".'
        ),
    ] = "mean"
    trim: Annotated[
        float,
        Meta(
            ge=0,
            lt=0.5,
            description='Share of the updates left out at either end (only "trimmed-mean").',
        ),
    ] = 0.1
    clip_norm: Annotated[
        float,
        Meta(
            ge=0,
            description="If not 0: the longest distance an update may have from the model it "
            "started from; longer ones are shortened to it.",
        ),
    ] = 0.0


class EvaluationSection(Section, frozen=True, kw_only=True):
    """When the models are tested, and which."""

    every: Annotated[
        int, Meta(ge=1, description="Test after every n-th round (and always after the last).")
    ] = 1
    stages: Annotated[
        tuple[Literal["G", "L1", "L2"], ...],
        Meta(
            description="G: global model; L1: personal model before the client's training; "
            "L2: after it."
        ),
    ] = ("G", "L1", "L2")
    union_samples: Annotated[
        int,
        Meta(
            ge=0,
            description="Samples of all clients' test sets together that every client keeps, "
            "the same for all, to test its own model on; 0 = none.",
        ),
    ] = 0


class CommunicationSection(Section, frozen=True, kw_only=True):
    """How models and updates travel."""

    encoding: Annotated[
        Encoding,
        Meta(
            description='"float32" (exact), "float16" (half the bytes) or "int8" (a quarter), '
            "for models to the boards and updates back."
        ),
    ] = "float32"


class Experiment(Section, frozen=True, kw_only=True):
    """One experiment, complete: every key that the user left out has its default."""

    experiment: ExperimentSection = ExperimentSection()
    algorithm: AlgorithmSection = AlgorithmSection()
    model: ModelSection = ModelSection()
    data: DataSection = DataSection()
    training: TrainingSection = TrainingSection()
    selection: SelectionSection = SelectionSection()
    aggregation: AggregationSection = AggregationSection()
    evaluation: EvaluationSection = EvaluationSection()
    communication: CommunicationSection = CommunicationSection()
