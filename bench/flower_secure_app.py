"""Rounds of Flower's SecAgg+ in its simulation engine: clients return what they get.

Run by `flower_secure.py` in a process of its own, with Flower's packages:
`python flower_secure_app.py SETTINGS.json`. Seconds of the rounds go to the file it names.
"""

# mypy: ignore-errors
import json
import sys
import time
from pathlib import Path

import numpy as np
from flwr.client import ClientApp, NumPyClient
from flwr.client.mod import secaggplus_mod
from flwr.common import ndarrays_to_parameters
from flwr.server import Grid, LegacyContext, ServerApp, ServerConfig
from flwr.server.strategy import FedAvg
from flwr.server.workflow import DefaultWorkflow, SecAggPlusWorkflow
from flwr.simulation import run_simulation

SETTINGS = json.loads(Path(sys.argv[1]).read_text())


class Echo(NumPyClient):
    """Returns the weights at once."""

    def fit(self, parameters, _config):
        """One sample, so that all count the same."""
        return parameters, 1, {}


class Timed:
    """A workflow, and the seconds of each of its rounds."""

    def __init__(self, workflow):
        self.workflow = workflow
        self.seconds = []

    def __call__(self, grid, context):
        """One round."""
        started = time.perf_counter()
        self.workflow(grid, context)
        self.seconds.append(time.perf_counter() - started)


def make_server(settings):
    """Rounds of FedAvg under SecAgg+, every client a neighbour of every other."""
    server = ServerApp()

    @server.main()
    def main(grid: Grid, context) -> None:
        clients = settings["clients"]
        weights = [np.ones(settings["size"] // 4, np.float32)]
        strategy = FedAvg(
            fraction_fit=1.0,
            fraction_evaluate=0.0,
            min_fit_clients=clients,
            min_available_clients=clients,
            initial_parameters=ndarrays_to_parameters(weights),
        )
        config = ServerConfig(num_rounds=settings["rounds"])
        legacy = LegacyContext(context=context, config=config, strategy=strategy)
        timed = Timed(SecAggPlusWorkflow(num_shares=1.0, reconstruction_threshold=0.6))
        DefaultWorkflow(fit_workflow=timed)(grid, legacy)
        Path(settings["out"]).write_text(json.dumps(timed.seconds))

    return server


if __name__ == "__main__":
    run_simulation(
        make_server(SETTINGS),
        ClientApp(client_fn=lambda _context: Echo().to_client(), mods=[secaggplus_mod]),
        num_supernodes=SETTINGS["clients"],
        backend_config={
            "client_resources": {"num_cpus": 1},
            "init_args": {"num_cpus": SETTINGS["processes"], "include_dashboard": False},
        },
    )
