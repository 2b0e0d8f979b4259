"""The program `fl-server`, also as `python -m fl_server`."""

import signal


def main() -> None:
    """Import everything, and run the command; Ctrl-C meanwhile ends without a traceback."""
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    from fl_server.cli import main as command

    signal.signal(signal.SIGINT, before)
    command()


if __name__ == "__main__":
    main()
