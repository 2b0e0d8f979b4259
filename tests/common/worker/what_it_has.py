"""An 'algorithm' that cannot be built: the error shows what the process that tries it has."""

from __future__ import annotations

import contextlib
import json
import os
import random  # noqa: TID251 - to show that it is not shared
import signal
from pathlib import Path

from common.algorithms.base import Algorithm
from common.errors import ConfigError

IMPORTED_BY = os.getpid()


def what_it_has() -> Algorithm:
    """Raise it."""
    import numpy as np
    import torch

    signals = (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD)
    files = {}
    for file in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # the one that lists them
            files[file.name] = str(file.readlink())
    raise ConfigError(
        json.dumps(
            {
                "pid": os.getpid(),
                "parent": os.getppid(),
                "imported_by": IMPORTED_BY,
                "random": random.random(),
                "numpy": float(np.random.random()),
                "torch": torch.initial_seed(),
                "torch_threads": torch.get_num_threads(),
                "files": files,
                "signals": [signal.getsignal(each) == signal.SIG_DFL for each in signals],
                "malloc": os.environ["MALLOC_TRIM_THRESHOLD_"],
            }
        )
    )
