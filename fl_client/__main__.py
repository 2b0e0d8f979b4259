"""python -m fl_client."""

from __future__ import annotations

import os

from fl_client.hardware.threads import threads_problem


def main() -> None:
    """The program `fl-client`, also where no thread can be started, so that it can say so."""
    if threads_problem() is not None:
        os.environ["OPENBLAS_NUM_THREADS"] = "1"  # else the import of numpy ends the program
    from fl_client.cli import main as fl_client

    fl_client()


if __name__ == "__main__":
    main()
