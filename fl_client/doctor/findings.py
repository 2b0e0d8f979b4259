"""What `fl-client doctor` makes of what it saw: pure judgements, each with what to do.

Looking is in `examine.py`; nothing here touches the world.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

Level = Literal["ok", "warning", "failed"]

OLDEST_PYTHON = (3, 10)
OLDEST_TORCH = (2, 1)
MEMORY_PER_WORKER_MB = 400  # torch, a small network and one client's shard
LEAST_DISK_MB, GOOD_DISK_MB = 200, 1000
EXPIRES_SOON_DAYS = 30


class Finding(msgspec.Struct, frozen=True):
    """One line of the doctor's report; `advice` is what to do unless all is well."""

    check: str
    level: Level
    found: str
    advice: str = ""


def judge_python(version: tuple[int, int], implementation: str) -> Finding:
    """The interpreter that runs the daemon."""
    found = f"{implementation} {version[0]}.{version[1]}"
    if version < OLDEST_PYTHON:
        advice = "install Python 3.10 or later, and make the environment with it"
        return Finding("python", "failed", found, advice)
    return Finding("python", "ok", found)


NO_THREADS = (
    "in a container: Docker before 20.10.10 refuses the system call clone3; update it, or take "
    "a base image with Debian 11. Else: see the limit of processes (ulimit -u)"
)


class KnownTorch(msgspec.Struct, frozen=True):
    """What torch_versions.txt says about this machine."""

    chosen: str = "of constraints.txt"
    dies: str = ""  # when the installed one was seen to die on such a CPU


class TorchTrial(msgspec.Struct, frozen=True):
    """What the child process with torch came to: its last step, and how it ended."""

    code: int
    step: str = "import"
    version: str = ""
    seconds: float = 0.0
    last_words: str = ""


def judge_torch(trial: TorchTrial, known: KnownTorch) -> Finding:
    """Whether torch can train here."""
    name = f"torch {trial.version}" if trial.version else "torch"
    advice = f"run install.sh again, or install torch {known.chosen}"
    if trial.code == -4:
        found = f"{name} dies with an illegal instruction at the first {trial.step}"
        reason = "this torch build needs a newer CPU than this board has"
        return Finding("torch", "failed", found, f"{reason}; {advice}")
    if trial.code == -9:
        found = f"{name} was killed at its {trial.step}"
        return Finding("torch", "failed", found, "probably for want of memory: free some")
    if trial.code != 0:
        found = f"{name} fails at its {trial.step}: {trial.last_words or trial.code}"
        return Finding("torch", "failed", found, advice)
    parts = tuple(int(part) for part in trial.version.split(".")[:2] if part.isdecimal())
    if parts < OLDEST_TORCH:
        return Finding("torch", "failed", f"{name} is too old", advice)
    if known.dies:
        found = f"{name} works now, but was seen to die on such CPUs ({known.dies})"
        return Finding("torch", "warning", found, advice)
    done = f"{name}: matmul, convolution, one training step in {trial.seconds:.1f} s"
    return Finding("torch", "ok", done)


def judge_starting(problem: str | None) -> Finding:
    """Whether this process may start threads."""
    if problem is None:
        return Finding("system", "ok", "starts threads")
    return Finding("system", "failed", f"refuses to start a thread: {problem}", NO_THREADS)


def judge_enrolment(board: str) -> Finding:
    """A board that has no credentials yet: the next step."""
    advice = (
        f"on the broker's machine: fl-broker enroll {board} --clients 0-2 -o {board}.toml; "
        "it prints what to type here"
    )
    return Finding("enrolled", "warning", "not yet", advice)


def judge_search(problem: str) -> Finding:
    """No broker was found in the local network: "what; what to do"."""
    found, _, advice = problem.partition("; ")
    return Finding("broker", "failed", found, advice)


def judge_threads(processors: int, workers: int) -> Finding:
    """Training processes against processors: each trains on one thread."""
    found = f"{_count(workers, 'training process')} on {_count(processors, 'processor')}"
    if workers > processors:
        advice = f"give --workers at most {processors}: more only wait for each other"
        return Finding("threads", "warning", found, advice)
    return Finding("threads", "ok", found)


def judge_memory(total_mb: int, available_mb: int, workers: int) -> Finding:
    """Whether the training processes fit."""
    needed = MEMORY_PER_WORKER_MB * workers
    found = f"{available_mb} of {total_mb} MB available"
    if total_mb < needed:
        advice = (
            f"{_count(workers, 'training process')} need about {needed} MB: fewer --workers"
        )
        return Finding("memory", "failed", found, f"{advice}, or a board with more")
    if available_mb < needed:
        advice = f"about {needed} MB are needed; end what else runs on this board"
        return Finding("memory", "warning", found, advice)
    return Finding("memory", "ok", found)


def judge_disk(free_mb: int, folder: str, *, writable: bool) -> Finding:
    """Room for shards, downloads and the clients' steps."""
    found = f"{free_mb} MB free for {folder}"
    if not writable:
        advice = "run as the user of the service, or choose another --state folder"
        return Finding("disk", "failed", f"{folder} cannot be written", advice)
    if free_mb < LEAST_DISK_MB:
        return Finding("disk", "failed", found, "free some space: a full disk stops training")
    if free_mb < GOOD_DISK_MB:
        return Finding("disk", "warning", found, "that is little for several experiments")
    return Finding("disk", "ok", found)


def judge_clock(*, synchronized: bool | None, container: bool) -> Finding:
    """Logs and certificates need the right time; `None`: unknown."""
    if container:
        return Finding("clock", "ok", "the clock of the machine this container runs on")
    if synchronized is None:
        advice = "see to it that the clock is right: certificates are checked against it"
        return Finding("clock", "warning", "timedatectl does not answer", advice)
    if not synchronized:
        advice = "switch time synchronisation on: timedatectl set-ntp true"
        return Finding("clock", "warning", "not synchronised", advice)
    return Finding("clock", "ok", "synchronised")


def judge_certificate(days: int) -> Finding:
    """How long the broker's certificate (or its CA's, if that ends first) still holds."""
    if days < 0:
        advice = "renew it on the broker's machine: fl-broker renew (or this clock is wrong)"
        return Finding("certificate", "failed", f"expired {-days} days ago", advice)
    if days < EXPIRES_SOON_DAYS:
        advice = "renew it on the broker's machine: fl-broker renew"
        return Finding("certificate", "warning", f"expires in {days} days", advice)
    return Finding("certificate", "ok", f"valid for another {days} days")


def judge_shards(
    whole: Sequence[int], damaged: Sequence[int], missing: Sequence[int]
) -> Finding:
    """The data of this board's clients, for one partition."""
    if damaged:
        advice = "copy them again, or delete them: what is missing is made again"
        found = f"the shards of {_clients(damaged)} are damaged"
        return Finding("data", "failed", found, advice)
    if missing:
        advice = (
            "copy them here (fl-server data prepare), or the board makes them from the whole "
            "dataset, which it then needs"
        )
        return Finding("data", "warning", f"no shards of {_clients(missing)}", advice)
    return Finding("data", "ok", f"shards of {_clients(whole)} are whole")


def worst(findings: Sequence[Finding]) -> Level:
    """What the report comes to."""
    levels = {finding.level for finding in findings}
    return "failed" if "failed" in levels else "warning" if "warning" in levels else "ok"


def _count(count: int, noun: str) -> str:
    plural = f"{noun}es" if noun.endswith("s") else f"{noun}s"
    return f"{count} {noun if count == 1 else plural}"


def _clients(ids: Sequence[int]) -> str:
    return f"client{'s' if len(ids) != 1 else ''} {', '.join(map(str, ids))}"
