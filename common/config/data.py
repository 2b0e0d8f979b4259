"""The settings of `[data]`: which samples there are and who has them."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from common.config.schema import Schema
from common.config.section import Section


class DataSection(Section, frozen=True, kw_only=True):
    """Which samples there are and who has them."""

    dataset: Annotated[
        str,
        Meta(
            description='"fmnist-mini" (10,000 images, built in), "fashion-mnist", "mnist", '
            '"emnist" (balanced), "cifar-10", "cifar-100", "tiny-imagenet" (as 32x32) or '
            '"shakespeare" (text); or your own (docs/own.md): "csv:FILE", "parquet:FILE", '
            '"npz:FILE", "folder:PATH" or a function, as "file.py:function".'
        ),
    ] = "fmnist-mini"
    target: Annotated[
        str | tuple[str, ...],
        Meta(
            description="Of your own dataset: the column (or columns, or array) that models "
            'learn to answer; "" = "target", "targets" or "label".'
        ),
    ] = ""
    features: Annotated[
        tuple[str, ...],
        Meta(
            description="Of your own dataset: the columns (or arrays) that models get; none = "
            "all others."
        ),
    ] = ()
    group: Annotated[
        str,
        Meta(
            description="Of your own dataset: the column (or array) that says to which natural "
            'client a sample belongs, for partition = "natural".'
        ),
    ] = ""
    standardise: Annotated[
        bool,
        Meta(
            description="Whether the numbers of your own table get mean 0 and deviation 1 over "
            "all training samples."
        ),
    ] = True
    image_size: Annotated[
        int,
        Meta(
            ge=0,
            le=10_000,
            description="Side of the squares that the images of your own folder are scaled "
            "to; 0 = they stay as they are.",
        ),
    ] = 0
    clients: Annotated[
        int,
        Meta(
            ge=1, description="Number of clients the dataset is divided among (ids 0, 1, ...)."
        ),
    ] = 12
    partition: Annotated[
        Literal[
            "iid",
            "classes",
            "dirichlet",
            "dirichlet-client",
            "ls",
            "qs",
            "lsqs",
            "natural",
            "local",
        ],
        Meta(
            description='"iid" (equal shares of everything), "classes" (a few classes each), '
            '"dirichlet" (label skew, each class divided by a draw), "dirichlet-client" (label '
            'skew, equal sizes, labels drawn for each client), "ls" (label skew, equal sizes, '
            'by Sinkhorn-Knopp), "qs" (only sizes are skewed), "lsqs" (labels and sizes), '
            '"natural" (the clients the dataset itself has: of "shakespeare" the roles) or '
            '"local" (boards have the data, and nobody else sees it: docs/own.md).'
        ),
    ] = "dirichlet"
    alpha: Annotated[
        float,
        Meta(
            gt=0,
            description="Concentration of the Dirichlet draws: the smaller, the more skew.",
        ),
    ] = 0.5
    bins: Annotated[
        int,
        Meta(
            ge=2,
            le=1000,
            description="Where targets are numbers: how many equally large groups of similar "
            "ones take the place of classes.",
        ),
    ] = 10
    classes_per_client: Annotated[
        int, Meta(ge=1, description='How many classes every client has (only "classes").')
    ] = 2
    min_size: Annotated[
        int,
        Meta(
            ge=2,
            description="Smallest number of samples a client may get "
            '(only "dirichlet", "qs", "lsqs", "natural" and "local").',
        ),
    ] = 10
    max_samples: Annotated[
        int,
        Meta(
            ge=0,
            description="Largest number of samples a client keeps, drawn from all it would "
            "have; 0 = no limit.",
        ),
    ] = 0
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
        Meta(description="Whether train_ratio holds for each class of a client separately."),
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
    report_classes: Annotated[
        bool,
        Meta(
            description="Whether boards are asked how many samples of each class they have "
            '(only "local"); those that allow it answer.'
        ),
    ] = False
    schema: Annotated[
        Schema | None,
        Meta(
            description="What a sample is: made from your own data, or stated for local data."
        ),
    ] = None
