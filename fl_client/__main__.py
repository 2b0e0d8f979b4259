"""The program `fl-client`, also as `python -m fl_client`."""

from common.program.start import quiet_interrupt

with quiet_interrupt():
    from fl_client.cli import main

if __name__ == "__main__":
    main()
