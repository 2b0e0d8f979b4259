"""Settings of the C library's malloc for buffers that come and go with every message."""

from __future__ import annotations

import ctypes
import gc
import sys

KEEP = {  # environment variables of glibc's malloc, for processes that we start
    "MALLOC_MMAP_THRESHOLD_": str(4 * 1024**2),
    "MALLOC_TRIM_THRESHOLD_": str(32 * 1024**2),
}
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # mallopt's constants for them


def keep_buffers(most: int = int(KEEP["MALLOC_TRIM_THRESHOLD_"])) -> None:
    """Use blocks of up to 4 MB again instead of giving them back to the system and asking anew.

    `most` is how much memory of that kind may lie unused.

    The system hands out memory in pages that it clears one by one: for parts of models that
    took more time than sending them. And what is here from the start is not searched for
    garbage again and again.
    """
    gc.collect()
    gc.freeze()
    if sys.platform == "linux" and (mallopt := getattr(ctypes.CDLL(None), "mallopt", None)):
        mallopt(_MMAP_THRESHOLD, int(KEEP["MALLOC_MMAP_THRESHOLD_"]))
        mallopt(_TRIM_THRESHOLD, most)
