"""Many light boards in one process and one loop.

As a program: `python -m bench.light PORT FIRST BOARDS CLIENTS` is BOARDS boards with CLIENTS
clients each, the first of them client FIRST. They connect when it gets a line, and end with its
input; then it prints how it went.
"""

from __future__ import annotations

import io
import json
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from bench.light_board import LightBoard, Shared, Totals
from bench.looped import Loop
from bench.testbed import process
from common.access.address import Address


def serve_boards(port: int, first: int, boards: int, clients: int) -> None:
    """All boards of this process, from the first line of the input to its end."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    source = io.FileIO(sys.stdin.fileno())  # without a buffer, in which input could hide
    _say("ready")
    source.readline()
    loop = Loop(until=source)
    with tempfile.TemporaryDirectory() as folder:
        shared = Shared(Path(folder) / "models")
        for start in range(first, first + boards * clients, clients):
            mine = tuple(range(start, start + clients))
            LightBoard(Address("127.0.0.1", port), loop, shared, f"light-{start}", mine)
        while not loop.ended:
            loop.turn()
    _say(json.dumps(asdict(shared.totals)))


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


class LightBoards:
    """A process of light boards; it is ready when this is made."""

    def __init__(self, running: subprocess.Popen[bytes]) -> None:
        assert running.stdin is not None
        assert running.stdout is not None
        self.process = running
        self._input, self._output = running.stdin, running.stdout
        self._output.readline()

    def go(self) -> None:
        """All connect."""
        self._input.write(b"go\n")
        self._input.flush()

    def end(self) -> Totals:
        """They end; how it went."""
        self._input.close()
        return Totals(**json.loads(self._output.readline()))


@contextmanager
def light_boards(port: int, first: int, boards: int, clients: int = 1) -> Iterator[LightBoards]:
    """So many boards in a process of their own, which ends with the block."""
    words = ("-m", "bench.light", *map(str, (port, first, boards, clients)))
    with process(*words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as running:
        yield LightBoards(running)


if __name__ == "__main__":
    serve_boards(*map(int, sys.argv[1:]))
