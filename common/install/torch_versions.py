"""Which torch runs on which machine, by `torch_versions.txt`.

Imports nothing but the standard library: the playbooks load this file by its path.
"""

from __future__ import annotations

import platform
import re
from dataclasses import dataclass
from pathlib import Path

TABLE = Path(__file__).with_name("torch_versions.txt")
CPUINFO = Path("/proc/cpuinfo")
PINNED = ("torch", "numpy", "torchvision")


@dataclass(frozen=True)
class Machine:
    """What the choice depends on."""

    machine: str  # as `uname -m` prints it
    cpu: str
    glibc: str
    python: str


@dataclass(frozen=True)
class Row:
    """A row `use`: the pins for such machines; "-" is the version of constraints.txt."""

    machine: Machine
    pins: dict[str, str]

    def fits(self, machine: Machine) -> bool:
        """Whether that machine is of this kind."""
        mine = self.machine
        return (
            mine.machine == machine.machine
            and mine.cpu in {"any", machine.cpu}
            and parts(machine.glibc) >= parts(mine.glibc)
            and parts(machine.python) <= parts(mine.python)
        )


@dataclass(frozen=True)
class Death:
    """A row `dies`: a torch that was seen to end with an illegal instruction."""

    machine: str
    cpu: str
    torch: str
    when: str


def parts(version: str) -> tuple[int, ...]:
    """`2.28` as (2, 28)."""
    return tuple(int(part) for part in re.findall(r"\d+", version.partition("+")[0]))


def read_rows(table: str) -> list[Row]:
    """The rows `use`, in their order."""
    words = [line.split() for line in table.splitlines() if line.startswith("use ")]
    return [Row(Machine(*row[1:5]), dict(zip(PINNED, row[5:8], strict=True))) for row in words]


def read_deaths(table: str) -> list[Death]:
    """The rows `dies`."""
    return [
        Death(*line.split()[1:5]) for line in table.splitlines() if line.startswith("dies ")
    ]


def choose(table: str, machine: Machine) -> dict[str, str] | None:
    """The versions for a machine that differ from constraints.txt; None if none runs there."""
    row = next((row for row in read_rows(table) if row.fits(machine)), None)
    if row is None:
        return None
    return {name: version for name, version in row.pins.items() if version != "-"}


def dies_when(table: str, machine: Machine, torch: str) -> str | None:
    """When this torch dies on such a CPU; None if that was not seen."""
    wanted = (machine.machine, machine.cpu, torch.partition("+")[0])
    rows = read_deaths(table)
    return next((row.when for row in rows if (row.machine, row.cpu, row.torch) == wanted), None)


def cpu_kind(machine: str, cpuinfo: str) -> str:
    """The kind of CPU by what /proc/cpuinfo says."""
    if machine != "aarch64":
        return "any"
    features = re.search(r"^Features\s*:(.*)$", cpuinfo, re.M)
    return "armv8.1" if features and "atomics" in features[1].split() else "armv8.0"


def this_machine() -> Machine:
    """The machine we are on."""
    machine = platform.machine()
    cpuinfo = CPUINFO.read_text(errors="replace") if CPUINFO.exists() else ""
    python = ".".join(platform.python_version_tuple()[:2])
    return Machine(machine, cpu_kind(machine, cpuinfo), platform.libc_ver()[1] or "0", python)
