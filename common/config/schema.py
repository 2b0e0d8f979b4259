"""What the samples of a dataset are: `[data.schema]`.

Of a dataset that is read where the experiment is, it is made from the data and need not be
written. Of data that only boards have, the experiment states it.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from msgspec import Meta

from common.config.section import Section

Kind: TypeAlias = Literal["classification", "multi-label", "regression", "next-token"]
Length = Annotated[int, Meta(ge=1, le=10**9)]
Number = Annotated[int, Meta(ge=0, le=10**12)]


class InputSchema(Section, frozen=True, kw_only=True):
    """One input of the network: images are uint8, numbers float32, symbols int64."""

    name: str = "features"
    dtype: Literal["uint8", "float32", "int64"] = "float32"
    shape: tuple[Length, ...] = ()


class ColumnSchema(Section, frozen=True, kw_only=True, omit_defaults=True):
    """A column of a table: numbers, or one of these categories."""

    name: str
    categories: tuple[str, ...] = ()

    @property
    def width(self) -> int:
        """How many numbers the network gets for it."""
        return len(self.categories) or 1


class Schema(Section, frozen=True, kw_only=True, omit_defaults=True):
    """What a sample is and what its target is.

    `outputs` is how many classes, labels or numbers a target is of, `names` what they are
    called. A table has `columns`, everything else has `inputs`. `mean` and `deviation` are
    those of the table's training samples, for every number that the network gets.
    """

    kind: Kind
    outputs: Length = 1
    names: tuple[str, ...] = ()
    columns: tuple[ColumnSchema, ...] = ()
    inputs: tuple[InputSchema, ...] = ()
    train: Number = 0
    test: Number = 0
    groups: Number = 0
    digest: str = ""
    mean: tuple[float, ...] = ()
    deviation: tuple[float, ...] = ()

    @property
    def all_inputs(self) -> tuple[InputSchema, ...]:
        """The inputs of the network; those of a table are one."""
        if not self.columns:
            return self.inputs
        return (InputSchema(shape=(sum(column.width for column in self.columns),)),)
