"""Finding the run that a person names, or making a new one."""

from __future__ import annotations

import difflib
import re
import shlex
from pathlib import Path

from common.config import Experiment
from common.errors import UsageError
from common.experiment.file import read_experiment
from common.ids import check_name
from common.plugins import code_folder
from fl_server.run.model.first import check_start
from fl_server.run.run_record import read_record
from fl_server.run.store import RunStore, create_run, has_run


def find_or_create(
    runs: Path, experiment: Experiment, name: str | None, code: Path | None = None
) -> RunStore:
    """A new run, or the unfinished one of that name if it is of the same experiment.

    Users' code is in the folder `code`, or where this process has it from.
    """
    code = code or code_folder()
    wanted = name or free_name(runs, experiment.experiment.name)
    check_name(wanted, "--run")
    if not has_run(runs, wanted):
        check_start(experiment)
        return create_run(runs, wanted, experiment, code)
    check_free(runs, wanted, experiment)
    store = RunStore(runs / wanted)
    if code is not None and code != store.code:
        store.move_code(code)
    return store


def check_free(runs: Path, name: str, experiment: Experiment) -> None:
    """Refuse a name whose run is finished, or of another experiment."""
    if not has_run(runs, name):
        return
    folder = runs / name
    if read_record(folder).finished:
        raise UsageError(f"run {name!r} is finished, see {folder}; choose another --run")
    if read_experiment(folder / "experiment.toml") != experiment:
        raise UsageError(
            f"run {name!r} is unfinished and of another experiment ({folder}/"
            "experiment.toml); choose another --run, or go on with: "
            f"{resume_command(folder)}"
        )


def free_name(root: Path, base: str) -> str:
    """`base-1`, `base-2`, ...: the first that is not taken."""
    taken = {path.name for path in root.glob(f"{base}-*")} if root.is_dir() else set()
    numbers = [int(m[1]) for n in taken if (m := re.fullmatch(rf"{re.escape(base)}-(\d+)", n))]
    return f"{base}-{max(numbers, default=0) + 1}"


def find_folder(runs: Path, name: str) -> Path:
    """The folder of the run of that name; nothing in it is touched."""
    if not has_run(runs, name):
        known = sorted(path.parent.name for path in runs.glob("*/run.json"))
        near = difflib.get_close_matches(name, known, n=3)
        listed = f"did you mean {' or '.join(near)}?" if near else "'fl-server runs' lists them"
        raise UsageError(f"no run {name!r} in {runs}; {listed if known else 'there is none'}")
    return runs / name


def resume_command(folder: Path) -> str:
    """What a person types to go on with a run."""
    runs = folder.parent
    where = "" if runs == Path("runs") else f" --runs {shlex.quote(str(runs))}"
    return f"fl-server resume {folder.name}{where}"


def find_run(runs: Path, name: str) -> RunStore:
    """The run of that name, to go on with."""
    return RunStore(find_folder(runs, name))
