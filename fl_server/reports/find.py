"""Which runs a person names: by name, by folder, by a pattern, or all."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from pathlib import Path

from common.errors import UsageError

MOST_NAMES = 8
MARK = "experiment.toml"  # every run has it, and every centralized training


def find_folders(names: Sequence[str], runs: Path) -> list[Path]:
    """The folders of runs, each once; without names all that are in `runs`.

    A name is that of a run in `runs`, the path of a run or of a folder of runs, or a pattern
    such as `demo-*` of either.
    """
    if not names:
        found = _inside(runs)
        if not found:
            raise UsageError(f"no run in {runs}; name one, or their folder with --runs")
        return found
    folders = [folder for name in names for folder in _find(name, runs)]
    return list({folder.resolve(): folder for folder in folders}.values())


def _find(name: str, runs: Path) -> list[Path]:
    for folder in (Path(name), runs / name):
        if (folder / MARK).exists():
            return [folder]
    if any(letter in name for letter in "*?["):
        found = _matching(name, runs)
        if found:
            return found
        raise UsageError(f"no run matches {name!r}, in {runs} or as a path; {_known(runs)}")
    if Path(name).is_dir():
        found = _inside(Path(name))
        if found:
            return found
        raise UsageError(f"{name} is not a run, nor a folder of runs: no {MARK} in it")
    near = difflib.get_close_matches(name, [path.name for path in _inside(runs)], n=1)
    hint = f"did you mean {near[0]!r}?" if near else _known(runs)
    raise UsageError(f"no run {name!r}, neither in {runs} nor as a folder; {hint}")


def _matching(pattern: str, runs: Path) -> list[Path]:
    given = Path(pattern)
    root = Path(given.anchor or ".")
    inside = str(given.relative_to(given.anchor)) if given.anchor else pattern
    places = [(root, inside)] if given.anchor else [(runs, pattern), (root, pattern)]
    for place, words in places:
        found = [path for path in sorted(place.glob(words)) if (path / MARK).exists()]
        if found:
            return found
    return []


def _inside(runs: Path) -> list[Path]:
    return sorted(path.parent for path in runs.glob(f"*/{MARK}"))


def _known(runs: Path) -> str:
    names = [path.name for path in _inside(runs)]
    if not names:
        return f"{runs} has none"
    listed = ", ".join(names[:MOST_NAMES])
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return f"there are {listed}{more} (fl-server runs)"
