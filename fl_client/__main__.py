"""The program `fl-client`, also as `python -m fl_client`."""

import os
import signal


def main() -> None:
    """Import everything, and run the command; Ctrl-C meanwhile ends without a traceback."""
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    from fl_client.hardware.threads import threads_problem

    if threads_problem() is not None:  # then the import of numpy would end the program
        os.environ["OPENBLAS_NUM_THREADS"] = "1"
    from fl_client.cli import main as command

    signal.signal(signal.SIGINT, before)
    command()


if __name__ == "__main__":
    main()
