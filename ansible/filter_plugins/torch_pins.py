"""Which torch a machine gets, for playbooks: by the table in common/install."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

INSTALL = Path(__file__).resolve().parents[2] / "common" / "install"


def _versions() -> ModuleType:
    """The module that reads the table; Ansible's Python need not have fedbed."""
    name = "fedbed_torch_versions"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, INSTALL / "torch_versions.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    return sys.modules[name]


def torch_pins(machine: str, features: str, glibc: str, python: str) -> dict[str, str] | None:
    """Versions for a machine that differ from constraints.txt; None if no torch runs there.

    `features` is that line of /proc/cpuinfo, `glibc` what getconf prints.
    """
    versions = _versions()
    kind = versions.Machine(
        machine, versions.cpu_kind(machine, features), glibc.split()[-1], python
    )
    pins: dict[str, str] | None = versions.choose(versions.TABLE.read_text(), kind)
    return pins


class FilterModule:
    """What Ansible looks for in this file."""

    def filters(self) -> dict[str, Callable[..., dict[str, str] | None]]:
        """Name of each filter and what it does."""
        return {"torch_pins": torch_pins}
