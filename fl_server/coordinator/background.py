"""Work that is done beside the coordinator's loop."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeAlias

Background: TypeAlias = Callable[[Callable[[], None]], None]


def in_thread(work: Callable[[], None]) -> None:
    """Do something beside the loop."""
    threading.Thread(target=work, daemon=True).start()
