"""Where a run comes from: what it was made with (version, commit, torch, processor) is in
machine.json, the command that started it in start.json."""

from __future__ import annotations

import importlib.metadata
import platform
import subprocess
from pathlib import Path

import msgspec

from common import VERSION
from common.disk.atomic import write_atomic
from common.errors import StoreError

FILE = "machine.json"
START = "start.json"
ROOT = Path(__file__).parent.parent.parent


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """The machine and the software that a run was begun with; of a fleet, the coordinator's."""

    fedbed: str
    commit: str
    torch: str
    python: str
    processor: str


class Start(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The command that started a run, and its options; of credentials only where they are."""

    command: str
    arguments: tuple[str, ...] = ()


def note_start(folder: Path, start: Start | None) -> None:
    """Write start.json; without one, what is known stays."""
    if start is not None:
        write_atomic(folder / START, msgspec.json.encode(start) + b"\n")


def read_start(folder: Path) -> Start | None:
    """How a run was started; None if nobody has written it."""
    try:
        return msgspec.json.decode((folder / START).read_bytes(), type=Start)
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError, msgspec.DecodeError) as error:
        raise StoreError(
            f"{folder / START} is damaged: {error}; delete it, and say how to go "
            "on (--broker), or start the command again that began the run"
        ) from error


def record_machine(folder: Path) -> None:
    """Write machine.json, unless the run has one."""
    if not (folder / FILE).exists():
        text = msgspec.json.format(msgspec.json.encode(this_machine()))
        write_atomic(folder / FILE, text + b"\n")


def read_machine(folder: Path) -> Machine | None:
    """What a run was made with; None if nobody has written it."""
    try:
        return msgspec.json.decode((folder / FILE).read_bytes(), type=Machine)
    except (OSError, msgspec.DecodeError):
        return None


def this_machine() -> Machine:
    """What is running here."""
    return Machine(
        fedbed=VERSION,
        commit=_commit(),
        torch=_version("torch"),
        python=platform.python_version(),
        processor=_processor(),
    )


def _commit() -> str:
    """The commit of a checkout, with a + if it was changed; nothing of an installed package."""
    if not (ROOT / ".git").exists():
        return ""
    command = ["git", "-C", str(ROOT), "describe", "--always", "--abbrev=12", "--dirty=+"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip()


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _processor() -> str:
    """The name of the processor, as the system has it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    for line in lines:
        key, _, value = line.partition(":")
        if key.strip() in ("model name", "Model"):
            return value.strip()
    return platform.machine()
