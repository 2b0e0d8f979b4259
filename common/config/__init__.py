"""What an experiment is: typed sections with a default and a description for every key.

Reading TOML files and overrides is in `experiment_file.py`; this file only says what is valid.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from common.config.data import DataSection as DataSection
from common.config.section import Section as Section
from common.wire.messages import Encoding as Encoding

Positive = Annotated[int, Meta(ge=1)]


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
        Meta(ge=0, description="Seconds after which a round waits for nobody; 0 = no limit."),
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
        str,
        Meta(
            description="One of those that `fl-server algorithms` lists; or your own, as "
            '"package.module:builder".'
        ),
    ] = "fedavg"
    options: dict[str, Option] = {}  # noqa: RUF012 - msgspec copies it


class ModelSection(Section, frozen=True, kw_only=True):
    """The network that is trained."""

    name: Annotated[
        str,
        Meta(
            description='"dnn" (one hidden layer), "convnet" (two convolutions), "small" (a '
            'little convnet), "mcmahan", "cifar-cnn", "s2cnn" or, for text, "char-lstm"; or '
            'your own, as "package.module:function".'
        ),
    ] = "convnet"
    init_weights: Annotated[
        str,
        Meta(
            description="File with trained weights to start from, such as the "
            "model.safetensors of another run; what does not fit is drawn as usual."
        ),
    ] = ""
    warm_up: Annotated[
        int,
        Meta(
            ge=0,
            description="Epochs that the server trains on the shared samples before round 1 "
            "(needs data.share).",
        ),
    ] = 0
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
    batch_norm: Annotated[
        Literal["shared", "local"],
        Meta(
            description='"shared": averaged like all else; "local": each client keeps its own '
            "BatchNorm layers (FedBN)."
        ),
    ] = "shared"
    pool: Annotated[
        Literal["after", "between"],
        Meta(description='Pooling "after" or "between" the convolutions (only "s2cnn").'),
    ] = "after"


class CentralSection(Section, frozen=True, kw_only=True):
    """How `fl-server central` trains on the samples of all clients together."""

    epochs: Annotated[int, Meta(ge=1, description="Passes over all training samples.")] = 20
    schedule: Annotated[
        Literal["cosine", "constant"],
        Meta(description="Learning rate: falling to 0 along a cosine, or always the same."),
    ] = "cosine"
    augment: Annotated[
        bool, Meta(description="Random crops and flips of the images, anew in every epoch.")
    ] = False
    validation: Annotated[
        float,
        Meta(
            ge=0,
            lt=1,
            description="Share of the training samples that chooses the best epoch instead of "
            "training; 0 = the last epoch counts.",
        ),
    ] = 0.0


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
        Meta(description='"sgd" or "adam".'),
    ] = "sgd"
    learning_rate: Annotated[float, Meta(gt=0, description="Step size of the optimizer.")] = (
        0.01
    )
    learning_rate_decay: Annotated[
        float,
        Meta(gt=0, le=1, description="Factor on the learning rate after every round."),
    ] = 1.0
    momentum: Annotated[float, Meta(ge=0, lt=1, description='Momentum (only "sgd").')] = 0.9
    optimizer_state: Annotated[
        Literal["reset", "keep"],
        Meta(
            description='"reset": the optimizer starts anew in every training; "keep": each '
            "client goes on with its momentum, as if the model had not been exchanged."
        ),
    ] = "reset"
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
    union_every: Annotated[
        int, Meta(ge=1, description="Test on those samples after every n-th round.")
    ] = 10
    personal_stage: Annotated[
        Literal["L1", "L2"],
        Meta(description="The stage that summaries and reports call the personal accuracy."),
    ] = "L1"
    epsilon: Annotated[
        float,
        Meta(
            ge=0,
            le=1,
            description="rho counts the clients whose personal accuracy is above this.",
        ),
    ] = 0.95


class CommunicationSection(Section, frozen=True, kw_only=True):
    """How models travel to the boards and updates back."""

    encoding: Annotated[
        Encoding,
        Meta(
            description='"float32" (exact), "float16" (half the bytes) or "int8" (a quarter).'
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
    central: CentralSection = CentralSection()
