"""The program `fl-server`, also as `python -m fl_server`."""

from common.program.start import quiet_interrupt

with quiet_interrupt():
    from fl_server.cli import main

if __name__ == "__main__":
    main()
