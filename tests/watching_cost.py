"""What watching costs: the rounds of one lab with and without three viewers of the web page.

    python -m tests.watching_cost

One run, in which a page with three open viewers is there for some rounds and not for the next
ones, again and again, so that whatever else the machine does concerns both alike.
"""

from __future__ import annotations

import http.client
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from common.access.address import Address
from fl_server.run.journal import read_records
from fl_server.web.address import PageAddress
from fl_server.web.site import serving
from tests.e2e.rig import eventually

VIEWERS = 3
BLOCK = 8  # rounds
BLOCKS = 8
SETTLE = 1  # rounds after a change that do not count


def main() -> None:
    """Run the lab and print the comparison."""
    with tempfile.TemporaryDirectory() as folder:
        runs = Path(folder)
        rounds = BLOCK * BLOCKS + 2
        lab = subprocess.Popen(
            [
                *(sys.executable, "-m", "fl_server", "lab", "examples/demo.toml", "--plain"),
                *("--run", "cost", "--runs", str(runs), "--set", f"experiment.rounds={rounds}"),
            ],
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert lab.stdout is not None
            words = (re.search(r"broker at 127\.0\.0\.1:(\d+)", line) for line in lab.stdout)
            port = int(next(found for found in words if found)[1])
            threading.Thread(target=lab.stdout.read, daemon=True).start()
            heard, busy = measure(runs / "cost", Address("127.0.0.1", port))
        finally:
            lab.terminate()
            lab.wait()
        report(runs / "cost", heard)
        share = 100 * (busy[True] - busy[False]) / (os.cpu_count() or 1)
        sys.stdout.write(f"page and viewers keep {share:.2f} % of this machine's cores busy\n")


def measure(run: Path, address: Address) -> tuple[int, dict[bool, float]]:
    """Let viewers come and go; the bytes they got, and this process's cores with and without.

    The page, its bridge and its viewers are all in this process.
    """
    heard, used, took = [0], {False: 0.0, True: 0.0}, {False: 0.0, True: 0.0}
    for block in range(BLOCKS):
        watched, cpu, clock = block % 2 == 1, time.process_time(), time.monotonic()
        with ExitStack() as stack:
            if watched:
                web = stack.enter_context(
                    serving(PageAddress("127.0.0.1", 0, ""), address, "fl")
                )
                for _ in range(VIEWERS):
                    stack.enter_context(viewer(web.url, heard))
            end = 1 + BLOCK * (block + 1)
            eventually(partial(has_closed, run, end), f"round {end}", 600.0)
        used[watched] += time.process_time() - cpu
        took[watched] += time.monotonic() - clock
    return heard[0], {watched: used[watched] / took[watched] for watched in used}


@contextmanager
def viewer(url: str, heard: list[int]) -> Iterator[None]:
    """Somebody who reads the page's stream."""
    host = url.removeprefix("http://").rstrip("/")
    connection = http.client.HTTPConnection(host, timeout=60)
    connection.request("GET", "/events")
    answer = connection.getresponse()

    def read() -> None:
        while line := answer.readline():
            heard[0] += len(line)

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        yield
    finally:
        if connection.sock is not None:
            connection.sock.close()


def closed(run: Path) -> list[float]:
    """The seconds of every finished round."""
    path = run / "events.jsonl"
    events = read_records(path) if path.exists() else []
    return [event["seconds"] for event in events if event["event"] == "round_closed"]


def has_closed(run: Path, rounds: int) -> bool:
    """Whether so many rounds are finished."""
    return len(closed(run)) >= rounds


def report(run: Path, heard: int) -> None:
    """Print both medians, and how much they differ."""
    kinds: dict[bool, list[float]] = {False: [], True: []}
    for at, seconds in enumerate(closed(run)[1 : 1 + BLOCK * BLOCKS]):
        if at % BLOCK >= SETTLE:
            kinds[at // BLOCK % 2 == 1].append(seconds)
    alone, watched = (statistics.median(kinds[kind]) for kind in (False, True))
    sys.stdout.write(
        f"{len(kinds[False])} rounds alone: {alone:.3f} s\n"
        f"{len(kinds[True])} rounds with {VIEWERS} viewers: {watched:.3f} s, {heard} bytes\n"
        f"difference: {100 * (watched / alone - 1):+.1f} %\n"
    )


if __name__ == "__main__":
    main()
