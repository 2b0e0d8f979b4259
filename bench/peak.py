"""Runs `fl-server` with the words given, then prints the peak of its memory in bytes."""

from __future__ import annotations

import resource
import sys

from fl_server.cli import main


def run() -> None:
    """Run, then tell."""
    main(sys.argv[1:], standalone_mode=False)


if __name__ == "__main__":
    try:
        run()
    except SystemExit as end:
        if end.code:
            raise
    sys.stdout.write(f"\n{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}\n")
