"""The tables of settings in docs/experiment.md and of options in docs/algorithms.md.

They stand between `<!-- options: NAME -->` and `<!-- /options -->`; NAME is a section or an
algorithm. `python -m common.experiment.option_tables PAGE...` writes them anew (`make docs`).
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

from common.algorithms import find_builder, options_of
from common.config import Experiment
from common.experiment.file import description, settings_of
from common.experiment.toml_text import as_toml

_BLOCK = re.compile(r"(<!-- options: (\S+) -->\n).*?(<!-- /options -->)", re.S)
_NAMES = {bool: "`true`, `false`", int: "integer", float: "number", str: "text"}
_BOUNDS = {"gt": ">", "ge": "≥", "lt": "<", "le": "≤"}


def refreshed(page: str) -> str:
    """A page with all of its tables as the code has them now."""
    return _BLOCK.sub(lambda found: f"{found[1]}{table_of(found[2])}{found[3]}", page)


def table_of(name: str) -> str:
    """The table of a section of experiment files, or of an algorithm."""
    section = getattr(Experiment(), name, None)
    if section is not None:
        return _table("key", settings_of(section))
    options = options_of(find_builder(name)).items()
    return _table("option", {key: (default, hint) for key, (hint, default) in options})


def _table(first: str, settings: Mapping[str, tuple[object, Any]]) -> str:
    lines = [f"| {first} | default | values | meaning |", "|---|---|---|---|"]
    for key, (value, hint) in settings.items():
        cells = (f"`{key}`", f"`{as_toml(value)}`", allowed(hint), description(hint))
        lines.append(f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |")
    return "".join(f"{line}\n" for line in lines)


def allowed(hint: Any) -> str:  # noqa: ANN401 - a type, annotated or not
    """Which values a setting of this type may have."""
    if hint in _NAMES:
        return _NAMES[hint]
    inner = get_args(hint)
    if get_origin(hint) is Annotated:
        return " ".join([allowed(inner[0]), ", ".join(_bounds(inner[1:]))]).strip()
    if get_origin(hint) is Literal:
        return ", ".join(f"`{as_toml(value)}`" for value in inner)
    if get_origin(hint) is tuple:
        return f"list of {allowed(inner[0])}"
    return " or ".join(map(allowed, inner))


def _bounds(metas: tuple[Any, ...]) -> Iterator[str]:
    for meta in metas:
        for name, sign in _BOUNDS.items():
            if (bound := getattr(meta, name, None)) is not None:
                yield f"{sign} {bound}"


def main(pages: list[str]) -> None:
    """Write the tables of these pages anew."""
    for page in map(Path, pages):
        page.write_text(refreshed(page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
