"""Sections about a run: how long, who takes part, what is aggregated, tested and sent."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from common.config.section import Section
from common.wire.messages import Encoding

Positive = Annotated[int, Meta(ge=1)]


class ExperimentSection(Section, frozen=True, kw_only=True):
    """What is run, for how long, and how long a round waits."""

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
    rounds: Annotated[
        int, Meta(ge=1, le=1_000_000, description="Number of training rounds.")
    ] = 10
    grace: Annotated[
        float | Literal["forever"],
        Meta(
            description="Seconds a lost board is waited for before the round continues without "
            'it, or "forever" for runs that must be reproducible on flaky fleets (with each '
            "client on the same CPU and torch throughout)."
        ),
    ] = 60.0
    deadline: Annotated[
        float,
        Meta(ge=0, description="Seconds after which a round waits no longer; 0 = no limit."),
    ] = 0.0
    min_updates: Annotated[
        int,
        Meta(
            ge=1,
            description="A round does not stop waiting for boards before it has as many "
            "updates; it closes with fewer only if everybody has answered, and some updates "
            "were rejected or failed.",
        ),
    ] = 1

    def __post_init__(self) -> None:
        if not isinstance(self.grace, str) and self.grace < 0:
            raise ValueError('grace is negative; expected seconds or "forever"')


class SelectionSection(Section, frozen=True, kw_only=True):
    """Who takes part."""

    rate: Annotated[
        float,
        Meta(gt=0, le=1, description="Share of the participants that trains in each round."),
    ] = 1.0
    rule: Annotated[
        str,
        Meta(
            description='By what the clients of a round are selected: "random", '
            '"power-of-choice" (of three drawn for each place the one with the highest loss), '
            '"speed" (who is quick and has much to learn; a fifth is drawn), "round-robin" '
            '(board after board); or your own, as "file.py:function".'
        ),
    ] = "random"
    extra: Annotated[
        int,
        Meta(
            ge=0,
            le=100_000,
            description="So many more clients are selected in each round; the first updates "
            "count, as many as the rate wants, and the other clients are dropped.",
        ),
    ] = 0
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
        Literal["mean", "median", "trimmed-mean", "krum", "multi-krum"],
        Meta(
            description='"mean" (by weights); against hostile clients and without weights: for '
            'each value separately "median" or "trimmed-mean", or the updates that are '
            'nearest to the others: one ("krum"), or the mean of several ("multi-krum").'
        ),
    ] = "mean"
    hostile: Annotated[
        int,
        Meta(
            ge=0,
            description='How many updates of a round may be hostile ("krum" and "multi-krum").',
        ),
    ] = 1
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
            "started from; longer ones are shortened to it (norm bounding).",
        ),
    ] = 0.0
    buffer: Annotated[
        int,
        Meta(
            ge=0,
            le=100_000,
            description="If not 0: buffered asynchronous rounds (FedBuff). Every so many "
            "updates make a new model, and nobody waits: clients that still train an older one "
            "go on. selection.rate is the share that trains at any time. 1 = FedAsync.",
        ),
    ] = 0
    max_staleness: Annotated[
        int,
        Meta(
            ge=0,
            le=100,
            description="How many rounds old the model may be that an update started from "
            "(only with a buffer).",
        ),
    ] = 10
    staleness_exponent: Annotated[
        float,
        Meta(
            ge=0,
            le=10,
            description="An update whose model is s rounds old counts (1 + s)^-exponent times "
            "as much (only with a buffer); 0 = all the same.",
        ),
    ] = 0.5
    server_rate: Annotated[
        float,
        Meta(
            gt=0,
            le=10,
            description="How far the model moves towards the mean of a buffer's updates (only "
            "with a buffer).",
        ),
    ] = 1.0
    arithmetic: Annotated[
        Literal["float", "exact"],
        Meta(
            description='How a mean is added up: in "float" (64 bits, in the order of the '
            'clients\' ids), or "exact": as integers, the same in every order and grouping, '
            "while updates arrive."
        ),
    ] = "float"
    largest: Annotated[
        float,
        Meta(
            ge=1,
            le=1e9,
            description="The largest value that an update may have with exact arithmetic; "
            "the larger, the coarser.",
        ),
    ] = 4096.0


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
            description="The columns rho_l1 and rho_l2 count the clients whose own accuracy is "
            "above this.",
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
