"""The settings of `[task]`: what a model learns, and how good it is."""

from __future__ import annotations

from typing import Annotated, Final, Literal, get_args

from msgspec import Meta

from common.config.schema import Kind as Kind
from common.config.section import Section

Level = Annotated[float, Meta(ge=-1e30, le=1e30)]
KINDS: tuple[Kind, ...] = get_args(Kind)
OF_ONE_CLASS: tuple[Kind, ...] = ("classification", "next-token")  # samples have one class
AUTO: Final = "auto"


class TaskSection(Section, frozen=True, kw_only=True):
    """What a model learns, and how good it is."""

    kind: Annotated[
        Literal["auto"] | Kind,
        Meta(
            description='"classification" (one class each), "multi-label" (any number of '
            'labels each), "regression" (numbers) or "next-token" (text); "auto" = what the '
            "targets of the dataset are."
        ),
    ] = "auto"
    loss: Annotated[
        str,
        Meta(
            description='"cross-entropy" (classes), "binary-cross-entropy" (labels), "mse", '
            '"mae" or "huber" (numbers); or your own, as "file.py:function"; "auto" = the '
            "first that fits."
        ),
    ] = "auto"
    metrics: Annotated[
        tuple[str, ...],
        Meta(
            max_length=16,
            description="What tests measure besides the loss. Classes: accuracy, macro_f1, "
            "class_accuracy, confusion; text also perplexity; labels: micro_f1, macro_f1, "
            "exact_match, label_accuracy; numbers: mse, rmse, mae, r2; or your own, as "
            '"file.py:function". None = what is usual for the kind.',
        ),
    ] = ()
    main: Annotated[
        str,
        Meta(
            description="The metric that summaries, curves and reports follow: one of those, "
            'or "loss"; "auto" = the first.'
        ),
    ] = "auto"
    lower: Annotated[
        tuple[str, ...],
        Meta(max_length=16, description="Which of your own metrics are better when lower."),
    ] = ()
    levels: Annotated[
        tuple[Level, ...],
        Meta(
            max_length=32,
            description="Values of the main metric whose cost in rounds is shown; none = 0.5 "
            "to 0.95 for shares, and 1, 2, 5, 10, ... for others.",
        ),
    ] = ()
