"""The program `fl-client`, also as `python -m fl_client`."""

import os

from common.program.start import quiet_interrupt
from fl_client.hardware.threads import threads_problem

with quiet_interrupt():
    if threads_problem() is not None:  # then the import of numpy would end the program
        os.environ["OPENBLAS_NUM_THREADS"] = "1"
    from fl_client.cli import main

if __name__ == "__main__":
    main()
