"""`python -m fl_client`: the same as the command."""

from fl_client.cli import main

if __name__ == "__main__":
    main()
