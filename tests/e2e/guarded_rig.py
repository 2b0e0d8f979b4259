"""The rig as a fleet has it: everybody comes with a bundle, through TLS and its rules."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from tests.conftest import Guarded
from tests.e2e.rig import Rig


@dataclass
class GuardedRig(Rig):
    """Processes on a guarded broker."""

    guarded: Guarded = field(kw_only=True)

    def bundle(self, name: str, clients: str = "") -> Path:
        """The bundle of a board or, without clients, of a coordinator."""
        return self.guarded.bundle(name, clients, role="board" if clients else "coordinator")

    def daemon(self, board: str, clients: str, *more: str) -> subprocess.Popen[bytes]:
        bundle = str(self.bundle(board, clients))
        state = ("--state", str(self.folder / board))
        words = ("fl_client", "run", "--credentials", bundle, *state, *more)
        return self.start(board, *words, files=self.shared_files())

    def coordinator(self, *more: str, name: str = "server") -> subprocess.Popen[bytes]:
        return self.start(
            *(name, "fl_server", "run", str(self.folder / "tiny.toml")),
            *("--credentials", str(self.bundle(name)), "--run", "r"),
            *("--runs", str(self.runs), "--plain", *more),
        )
