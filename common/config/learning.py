"""Sections about learning: the algorithm, the network and its training."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from msgspec import Meta

from common.config.section import Section

Option: TypeAlias = bool | int | float | str


class AlgorithmSection(Section, frozen=True, kw_only=True):
    """The federated algorithm, and its own options (in a file they stand beside `name`)."""

    name: Annotated[
        str,
        Meta(
            description="One of those that `fl-server algorithms` lists; or your own, as "
            '"file.py:builder" (a file beside the experiment) or "package.module:builder".'
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
            'torchvision\'s, as "torchvision:resnet18"; or your own, as "file.py:function" or '
            '"package.module:function".'
        ),
    ] = "convnet"
    head: Annotated[
        str,
        Meta(
            description="The part of your own model that is its head, such as "
            '"fc"; only algorithms that treat the head by itself need it.'
        ),
    ] = ""
    init_weights: Annotated[
        str,
        Meta(
            description="Safetensors file with trained weights to start from, such as the "
            "model.safetensors of another run, or pretrained ones; a relative path begins "
            "at the experiment's folder. Only the coordinator needs it. What does not fit "
            "(the head, with other classes) is drawn as usual."
        ),
    ] = ""
    warm_up: Annotated[
        int,
        Meta(
            ge=0,
            le=1_000_000,
            description="Epochs that the server trains on the shared samples before round 1 "
            "(needs data.share).",
        ),
    ] = 0
    head_depth: Annotated[
        int,
        Meta(
            ge=1,
            description="How many of the last linear layers are the head; the rest is base "
            "(your own model defines it itself).",
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
            description='"shared": averaged like everything else; "local": each client keeps '
            "its own BatchNorm layers (FedBN)."
        ),
    ] = "shared"
    pool: Annotated[
        Literal["after", "between"],
        Meta(description='Pooling "after" or "between" the convolutions (only "s2cnn").'),
    ] = "after"


class TrainingSection(Section, frozen=True, kw_only=True):
    """What a selected client does in a round."""

    epochs: Annotated[
        int, Meta(ge=1, le=1_000_000, description="Passes over the client's samples.")
    ] = 5
    steps: Annotated[
        int,
        Meta(
            ge=0,
            le=1_000_000_000,
            description="If not 0: train for this many steps instead of epochs; the samples "
            "are shuffled anew when all were used.",
        ),
    ] = 0
    seconds: Annotated[
        float,
        Meta(
            ge=0,
            le=1e6,
            description="If not 0: a client that is not through after so many seconds stops, "
            "sends the steps that it has done, and counts by their share.",
        ),
    ] = 0.0
    batch_size: Annotated[int, Meta(ge=1, le=1_000_000, description="Samples per step.")] = 20
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
            "client continues with its momentum, as if the model had not been exchanged."
        ),
    ] = "reset"
    weight_decay: Annotated[float, Meta(ge=0, description="L2 penalty on the parameters.")] = (
        0.0
    )
    grad_clip: Annotated[
        float,
        Meta(
            ge=0,
            description="Largest norm of the whole gradient, longer ones are shortened; "
            "0 = no limit.",
        ),
    ] = 0.0


class CentralSection(Section, frozen=True, kw_only=True):
    """How `fl-server central` trains on the samples of all clients together."""

    epochs: Annotated[
        int, Meta(ge=1, le=1_000_000, description="Passes over all training samples.")
    ] = 20
    schedule: Annotated[
        Literal["cosine", "constant", "linear", "step", "exponential"],
        Meta(
            description='Learning rate: falling to 0 along a "cosine" or a line ("linear"), '
            'always the same ("constant"), a tenth after half of the epochs and a hundredth '
            'after three quarters ("step"), or by the same factor in every epoch, to a '
            'hundredth ("exponential").'
        ),
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
            "training (of a text the last part of each natural client's); 0 = the last epoch "
            "counts.",
        ),
    ] = 0.0
