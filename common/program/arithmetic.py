"""What decides how this machine rounds: its CPU, its torch, our version.

Two machines with the same text give the same bits; two with different texts need not.
"""

from __future__ import annotations

import importlib.metadata
import platform
import re
from pathlib import Path

from common import VERSION

CPUINFO = Path("/proc/cpuinfo")
# CPU part -> name, of ARM's own designs that boards have
ARM = {
    "0xd03": "Cortex-A53",
    "0xd05": "Cortex-A55",
    "0xd07": "Cortex-A57",
    "0xd08": "Cortex-A72",
    "0xd09": "Cortex-A73",
    "0xd0b": "Cortex-A76",
    "0xd0c": "Neoverse-N1",
    "0xd42": "Cortex-A78AE",
}
VECTORS = ("avx512f", "avx2", "avx", "sse4_2")  # which kernels torch takes on x86


def cpu_name(cpuinfo: str, machine: str) -> str:
    """The CPU by what /proc/cpuinfo says; on x86 with the widest vectors that it has."""
    lines = (line.partition(":") for line in cpuinfo.splitlines())
    fields = {key.strip(): value.strip() for key, _, value in reversed(list(lines))}
    part = fields.get("CPU part", "")
    if part:
        return ARM.get(part, f"ARM part {part}")
    name = re.sub(r"\s+", " ", fields.get("model name", machine))
    flags = fields.get("flags", "").split()
    widest = next((vectors for vectors in VECTORS if vectors in flags), "")
    return f"{name} ({widest})" if widest else name


def arithmetic() -> str:
    """Such as `Cortex-A72, torch 2.8.0, fedbed 0.1.0`."""
    cpuinfo = CPUINFO.read_text(errors="replace") if CPUINFO.exists() else ""
    try:
        torch = importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        torch = "unknown"
    return f"{cpu_name(cpuinfo, platform.machine())[:120]}, torch {torch}, fedbed {VERSION}"
