"""Datasets from the network, through torchvision."""

from __future__ import annotations

import contextlib
import socket
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from common.data.datasets.files import find_file
from common.data.datasets.registry import Entry

DOWNLOAD_SECONDS = 30.0  # without receiving any byte


def download(entry: Entry, root: Path) -> Path:
    """Fetch a dataset into its first folder below `root`, and return that folder."""
    from common.data.datasets.torchvision_import import (
        import_datasets,  # slow, and not on every board
    )

    assert entry.fetch is not None
    folder, datasets = entry.folders[0], import_datasets()
    (root / folder).mkdir(parents=True, exist_ok=True)
    # downloaded elsewhere and moved when complete: an interruption leaves no half file
    with tempfile.TemporaryDirectory(dir=root) as beside, _socket_timeout(DOWNLOAD_SECONDS):
        with contextlib.redirect_stdout(sys.stderr):
            entry.fetch(datasets, Path(beside))
        for name in (name for layout in entry.layouts for name in layout.files):
            if path := find_file(Path(beside, folder), name):
                path.replace(root / folder / path.name)
    return root / folder


@contextlib.contextmanager
def _socket_timeout(seconds: float) -> Iterator[None]:
    """A timeout for code that sets none, such as torchvision's download."""
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(seconds)
    try:
        yield
    finally:
        socket.setdefaulttimeout(before)
