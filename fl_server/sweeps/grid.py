"""Which runs a sweep has: files, the lists of their [sweep] sections, and seeds."""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common.config import Experiment
from common.errors import ConfigError, UsageError
from common.experiment.file import code_folder_of, load_experiment, read_table
from common.experiment.toml_text import as_toml

SEED = "experiment.seed"
LONGEST_NAME = 64
MOST_SEEDS = 10_000


@dataclass(frozen=True, slots=True)
class Planned:
    """One run of a sweep; its name follows from its settings alone."""

    name: str
    experiment: Experiment
    code: Path  # the folder of users' code


def plan(
    files: Sequence[Path], seeds: Sequence[int] = (), overrides: Iterable[str] = ()
) -> tuple[Planned, ...]:
    """All runs in the order they are run: by seed, then by file and setting.

    So a sweep that is stopped half-way has compared everything with its first seed.
    """
    overrides = tuple(overrides)
    found = [run for path in files for run in _plan_file(path, seeds, overrides)]
    found.sort(key=lambda run: run.experiment.experiment.seed)
    names: set[str] = set()
    for run in found:
        if run.name in names:
            raise UsageError(
                f"two runs of this sweep would be named {run.name!r}; "
                "give their files different experiment.name"
            )
        names.add(run.name)
    return tuple(found)


def _plan_file(
    path: Path, seeds: Sequence[int], overrides: tuple[str, ...]
) -> Iterable[Planned]:
    lists = read_lists(path)
    if seeds:
        lists[SEED] = list(seeds)
    for values in itertools.product(*lists.values()):
        point = dict(zip(lists, values, strict=True))
        swept = [f"{key}={as_toml(value)}" for key, value in point.items()]
        try:
            experiment = load_experiment(path, (*overrides, *swept), one_of_many=True)
        except ConfigError as error:
            text = str(error)
            for setting in swept:
                text = text.replace(f"--set {setting}", f"{path} [sweep] {setting}")
            raise ConfigError(text) from error
        yield Planned(name_of(experiment, point), experiment, code_folder_of(path))


def read_lists(path: Path) -> dict[str, list[Any]]:
    """The [sweep] section of a file: `"section.key" = [values]`."""
    section = read_table(path)[1].get("sweep", {})
    if not isinstance(section, dict):
        raise ConfigError(f"{path}: sweep is {section!r}; expected a section: [sweep]")
    for key, values in section.items():
        if not isinstance(values, list) or not values:
            raise ConfigError(
                f"{path}: [sweep] {key} is {as_toml(values)}; expected a list of values, with "
                'the key in quotes: "training.learning_rate" = [0.1, 0.01]'
            )
    return dict(section)


def name_of(experiment: Experiment, point: Mapping[str, object]) -> str:
    """`<experiment>-<settings>-s<seed>`; a name that gets too long ends in a digest."""
    settings = [_word(key, value) for key, value in point.items() if key != SEED]
    base = "-".join([experiment.experiment.name, *settings])
    return short_name(base, experiment.experiment.seed)


def short_name(base: str, seed: int) -> str:
    """`<base>-s<seed>`, or if that is too long as much of it as fits, and a digest."""
    end = f"-s{seed}"
    if len(base + end) > LONGEST_NAME:
        mark = "-" + hashlib.blake2b(base.encode(), digest_size=4).hexdigest()
        base = base[: LONGEST_NAME - len(end) - len(mark)] + mark
    return base + end


def _word(key: str, value: object) -> str:
    text = re.sub(r"[^A-Za-z0-9_.]+", "_", str(value)).strip("_.")
    return text if key == "algorithm.name" else f"{key.rpartition('.')[2]}_{text}"


def parse_seeds(text: str) -> tuple[int, ...]:
    """Seeds as people write them: "1,2,3" or "1-5"; in the order given, each once."""
    found: dict[int, None] = {}
    for piece in text.split(","):
        match = re.fullmatch(r"\s*(\d{1,9})(?:\s*-\s*(\d{1,9}))?\s*", piece)
        if match is None or int(match[2] or match[1]) < int(match[1]):
            raise UsageError(f"--seeds is {text!r}; expected such as 1,2,3 or 1-5")
        first, last = int(match[1]), int(match[2] or match[1])
        if len(found) + last - first >= MOST_SEEDS:
            raise UsageError(
                f"--seeds is {text!r}, more than {MOST_SEEDS:,} seeds; expected such as 1-5"
            )
        found |= dict.fromkeys(range(first, last + 1))
    return tuple(found)
