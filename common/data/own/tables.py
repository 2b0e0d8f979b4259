"""Tables: CSV with a header, and Parquet (which needs pyarrow)."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

from common.arrays import Array
from common.data.own.parts import Part
from common.errors import DataError

MOST_COLUMNS = 10_000


def read_csv(path: Path) -> Part:
    """A CSV file, all values as texts; the delimiter is whichever the header has."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            first = file.readline()
            file.seek(0)
            delimiter = max(",;\t", key=first.count)
            rows = [row for row in csv.reader(file, delimiter=delimiter, strict=True) if row]
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path} is not text in UTF-8 (byte {error.object[error.start]:#04x}); save it in "
            "that encoding"
        ) from error
    except (OSError, csv.Error) as error:
        raise DataError(f"{path} cannot be read as CSV: {error}") from error
    if not rows:
        raise DataError(f"{path} is empty; expected a header and a line for each sample")
    header, body = [name.strip() for name in rows[0]], rows[1:]
    _check_header(path, header)
    for at, row in enumerate(body):
        if len(row) != len(header):
            raise DataError(
                f"{path}, line {at + 2} has {len(row)} values; expected {len(header)}, as the "
                "header has"
            )
    if not body:
        raise DataError(f"{path} has a header, but no samples")
    columns = zip(header, zip(*body, strict=True), strict=True)
    texts = {name: np.char.strip(np.array(values, np.str_)) for name, values in columns}
    return Part(str(path), texts, table=True)


def read_parquet(path: Path) -> Part:
    """A Parquet file."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise DataError(
            f"{path} is read with pyarrow, which is not installed: pip install pyarrow"
        ) from error
    try:
        table = parquet.read_table(path)
    except (OSError, pyarrow.ArrowException) as error:
        raise DataError(f"{path} cannot be read as Parquet: {error}") from error
    _check_header(path, list(table.column_names))
    part = Part(
        str(path),
        {name: _values(table.column(name)) for name in table.column_names},
        table=True,
    )
    if not table.num_rows:
        raise DataError(f"{path} has no samples")
    return part


def _values(column: object) -> Array:
    """Numbers as float64, or texts; missing values are NaN or empty."""
    values = column.to_pylist()  # type: ignore[attr-defined]  # pyarrow has no types
    if all(value is None or isinstance(value, int | float) for value in values):
        return np.array([np.nan if value is None else value for value in values], np.float64)
    return np.array(["" if value is None else str(value) for value in values], np.str_)


def _check_header(path: Path, header: list[str]) -> None:
    if len(header) > MOST_COLUMNS:
        raise DataError(f"{path} has {len(header)} columns; expected at most {MOST_COLUMNS}")
    for name in header:
        if not name or header.count(name) > 1:
            what = "a column without a name" if not name else f"two columns {name!r}"
            raise DataError(f"{path} has {what} in its first line; expected a header")
