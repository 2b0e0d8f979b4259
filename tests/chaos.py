"""`make chaos`: many faults of all kinds over several runs; all must end with the same bits.

    python -m tests.chaos --faults 200 --minutes 10 --seed 1
    python -m tests.chaos --faults 100 --secured

Prints its seed first: the same seed draws the same faults (not the same instants: that is the
machine's doing). Exit code 0 only if every run ended with the digest of the undisturbed one; a
secured run (with `--secured` all are) with that of one that is not secured. A buffered run
(FedBuff) has an order of its own, which must lead to its digest (`fl-server recompute`).
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from fl_server.lab.fault_script import TARGETS
from fl_server.run.journal import read_records
from fl_server.watch.displays import Lines
from fl_server.watch.recovery import recoveries
from fl_server.watch.screen import recovery_table

EXPERIMENT = """
[experiment]
rounds = {rounds}
grace = "forever"
seed = {seed}
[algorithm]
name = "{algorithm}"
[model]
name = "dnn"
[data]
clients = 8
[training]
epochs = {epochs}
[selection]
rate = 0.75
"""
EXACT = '[aggregation]\narithmetic = "exact"\n'
BUFFER = "[aggregation]\nbuffer = 3\n"
BUFFERED = "fedbuff"  # fedavg with a buffer
SECURED = "--set=privacy.secure=true"
SCRIPT = """
seed = {seed}
[random]
count = 1000
every = [0.2, 1.6]
seconds = [0.0, 1.5]
kinds = {kinds}
"""
# each class of client state: none, personal, coupled, derivable; and downloads for one client
ALGORITHMS = ("fedavg", "fedper", "feddyn", BUFFERED, "fedreg", "fedfomo")
SECURED_ALGORITHMS = ("fedavg", "feddyn")
ROOT = Path(__file__).parent.parent
RUN_MINUTES = 5.0


@dataclass(frozen=True)
class Settings:
    """What was asked for."""

    faults: int
    minutes: float
    seed: int
    rounds: int
    epochs: int
    secured: bool = False

    @property
    def cases(self) -> list[tuple[str, bool]]:
        """Algorithms, and whether their updates are masked."""
        plain = [] if self.secured else [(name, False) for name in ALGORITHMS]
        return plain + [(name, True) for name in SECURED_ALGORITHMS]


def main() -> int:
    """Run until enough faults were survived, or time is up."""
    settings = _arguments()
    print(f"chaos with seed {settings.seed}", flush=True)  # noqa: T201
    end = time.monotonic() + 60 * settings.minutes
    found: list[dict[str, Any]] = []
    good = True
    with TemporaryDirectory() as folder:
        for number in _numbers(settings, found, end):
            case = settings.cases[number % len(settings.cases)]
            seed = settings.seed * 1000 + number
            good &= _one_run(Path(folder) / str(number), settings, case, seed, found)
    times = [(fact["kind"], fact["target"], fact["recovery"]) for fact in found]
    Lines("chaos").show(recovery_table(recoveries(times)))
    kinds = {fact["kind"] for fact in found}
    wanted = set(TARGETS) - ({"corrupt"} if settings.secured else set())
    enough = len(found) >= settings.faults and kinds >= wanted
    missing = ", ".join(sorted(wanted - kinds)) or "none"
    print(f"{len(found)} faults survived; kinds that never came: {missing}")  # noqa: T201
    return 0 if good and enough else 1


def _numbers(settings: Settings, found: list[dict[str, Any]], end: float) -> Iterator[int]:
    number = 0
    most = len(settings.cases)
    while time.monotonic() < end and (len(found) < settings.faults or number < most):
        yield number
        number += 1


def _one_run(
    folder: Path,
    settings: Settings,
    case: tuple[str, bool],
    seed: int,
    found: list[dict[str, Any]],
) -> bool:
    folder.mkdir()
    algorithm, secured = case
    buffered = algorithm == BUFFERED
    text = EXPERIMENT.format(
        rounds=settings.rounds * (2 if buffered else 1),  # which are shorter
        epochs=settings.epochs,
        seed=seed,
        algorithm="fedavg" if buffered else algorithm,
    )
    text += EXACT if secured else BUFFER if buffered else ""
    (folder / "x.toml").write_text(text)
    # The only copy of a client's state, once damaged, cannot be had again: that is noticed and
    # said, but not undone. So files are only damaged where clients keep nothing; in a secured
    # run they keep keys, by which a round can be done once only.
    keeps = algorithm != "fedavg" or secured
    kinds = [kind for kind in TARGETS if kind != "corrupt" or not keeps]
    (folder / "faults.toml").write_text(SCRIPT.format(seed=seed, kinds=kinds))
    calm = None
    if not buffered:
        calm = _call(folder, "simulate", "x.toml", "--run", "calm", "--processes", "2")
    began = time.monotonic()
    wild = _call(
        *(folder, "lab", "x.toml", "--run", "wild", "--boards", "4"),
        *("--faults", "faults.toml", *([SECURED] if secured else [])),
    )
    if buffered and wild is not None:
        calm = _recomputed(folder, "wild")
    faults = [e for e in _events(folder, "wild") if e["event"] == "fault"]
    found += faults
    same = calm is not None and calm == wild
    verdict = "same bits" if same else f"DIFFERENT: {calm} and {wild}"
    seconds = time.monotonic() - began
    name = f"{algorithm}, secured" if secured else algorithm
    print(  # noqa: T201
        f"{name}, seed {seed}: {len(faults)} faults in {seconds:.0f} s: {verdict}", flush=True
    )
    if not same:
        print((folder / "lab.log").read_text()[-4000:])  # noqa: T201
    return same


def _call(folder: Path, *arguments: str) -> str | None:
    """Run a command; the digest of the model it ended with, if it did."""
    command = [sys.executable, "-m", "fl_server", *arguments, "--plain"]
    timeout = 60 * RUN_MINUTES
    with (
        (folder / f"{arguments[0]}.log").open("wb") as log,
        contextlib.suppress(subprocess.TimeoutExpired),
    ):
        subprocess.run(
            command,
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT)},  # boards import our algorithms
            stdout=log,
            stderr=log,
            timeout=timeout,
            check=False,
        )
    run = arguments[arguments.index("--run") + 1]
    ends = [e for e in _events(folder, run) if e["event"] == "finished"]
    return str(ends[-1]["digest"]) if ends else None


def _recomputed(folder: Path, run: str) -> str | None:
    """The digest that the order of a run leads to, if that is the one it ended with."""
    command = [sys.executable, "-m", "fl_server", "recompute", run, "--processes", "2"]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command, cwd=folder, env=env, capture_output=True, text=True, check=False
    )
    print(f"recompute: {done.stdout.strip()}{done.stderr.strip()}", flush=True)  # noqa: T201
    return done.stdout.split()[-1] if done.returncode == 0 else None


def _events(folder: Path, run: str) -> list[dict[str, Any]]:
    return read_records(folder / "runs" / run / "events.jsonl")


def _arguments() -> Settings:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--faults", type=int, default=200)
    parser.add_argument("--minutes", type=float, default=9.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--secured", action="store_true", help="only runs with masked updates")
    return Settings(**vars(parser.parse_args()))


if __name__ == "__main__":
    sys.exit(main())
