"""What a board keeps of runs that are over: little, since its disk is small."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path

KEEP_RUNS = 5

log = logging.getLogger(__name__)


def forget_old_runs(folder: Path) -> None:
    """Make room: only this run and the last few before it stay on disk."""
    others = [path for path in folder.parent.glob("*") if path != folder]
    others.sort(key=lambda path: path.stat().st_mtime)
    for path in others[:-KEEP_RUNS]:
        log.info("forgetting the state of old run %s", path.name)
        shutil.rmtree(path, ignore_errors=True)
