"""`python -m fl_server`: the same as the command."""

from fl_server.cli import main

if __name__ == "__main__":
    main()
