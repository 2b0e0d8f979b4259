"""Whole rounds in Flower's simulation engine: a plain torch loop, and a mean on the server.

Run by `flower_simulation.py` in a process of its own, with Flower's packages:
`python flower_simulation_app.py SETTINGS.json`. Seconds of the rounds go to the file it names.
"""

# mypy: ignore-errors
import json
import sys
import time
from pathlib import Path

import numpy as np
import torch
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.simulation import run_simulation
from torch import nn
from torch.nn import functional

SETTINGS = json.loads(Path(sys.argv[1]).read_text())


def make_network(name: str) -> nn.Module:
    """The two networks of the benchmark, as in fedbed."""
    if name == "dnn":
        return nn.Sequential(nn.Flatten(), nn.Linear(784, 100), nn.ReLU(), nn.Linear(100, 10))
    network = nn.Sequential(
        *(nn.Conv2d(1, 64, 5), nn.MaxPool2d(2), nn.ReLU()),
        *(nn.Conv2d(64, 64, 5), nn.MaxPool2d(2), nn.ReLU(), nn.Flatten()),
        *(nn.Linear(1024, 384), nn.ReLU(), nn.Linear(384, 192), nn.ReLU()),
        nn.Linear(192, 10),
    )
    return network.to(memory_format=torch.channels_last)


def make_client(settings: dict) -> ClientApp:
    """Train one client's shard by SGD with momentum, as fast as plain torch can."""
    client = ClientApp()

    @client.train()
    def train(message: Message, context: Context) -> Message:
        torch.set_num_threads(1)
        shard = np.load(f"{settings['shards']}/{context.node_config['partition-id']}.npz")
        images = torch.tensor(shard["images"], dtype=torch.float32).div_(127.5).sub_(1)
        if settings["model"] != "dnn":
            images = images.contiguous(memory_format=torch.channels_last)
        labels = torch.tensor(shard["labels"])
        network = make_network(settings["model"])
        network.load_state_dict(message.content["arrays"].to_torch_state_dict())
        optimizer = torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.9, fused=True)
        for epoch in range(settings["epochs"]):
            order = np.random.default_rng(epoch).permutation(len(labels))
            for batch in torch.from_numpy(order).split(settings["batch"]):
                optimizer.zero_grad()
                functional.cross_entropy(network(images[batch]), labels[batch]).backward()
                optimizer.step()
        content = RecordDict(
            {
                "arrays": ArrayRecord(network.state_dict()),
                "metrics": MetricRecord({"samples": len(labels)}),
            }
        )
        return Message(content=content, reply_to=message)

    return client


def make_server(settings: dict) -> ServerApp:
    """Rounds of FedAvg over clients that are drawn anew."""
    server = ServerApp()

    @server.main()
    def main(grid: Grid, _context: Context) -> None:
        while len(nodes := sorted(grid.get_node_ids())) < settings["clients"]:
            time.sleep(0.1)  # noqa: TID251 - Flower has nothing to wait on
        weights = {
            k: v.numpy() for k, v in make_network(settings["model"]).state_dict().items()
        }
        seconds = []
        for number in range(settings["rounds"]):
            started = time.perf_counter()
            draw = np.random.default_rng(number)
            chosen = draw.choice(len(nodes), settings["selected"], replace=False)
            arrays = ArrayRecord({k: torch.from_numpy(v) for k, v in weights.items()})
            replies = list(
                grid.send_and_receive(
                    [
                        Message(
                            content=RecordDict({"arrays": arrays, "config": ConfigRecord({})}),
                            message_type="train",
                            dst_node_id=nodes[at],
                        )
                        for at in chosen
                    ]
                )
            )
            assert len(replies) == settings["selected"], "a client did not answer"
            assert not any(reply.has_error() for reply in replies), replies[0].error
            total = sum(reply.content["metrics"]["samples"] for reply in replies)
            sums = {k: np.zeros(v.shape) for k, v in weights.items()}
            for reply in replies:
                share = reply.content["metrics"]["samples"] / total
                for name, array in reply.content["arrays"].to_torch_state_dict().items():
                    sums[name] += share * array.numpy()
            weights = {k: v.astype(np.float32) for k, v in sums.items()}
            seconds.append(time.perf_counter() - started)
        Path(settings["out"]).write_text(json.dumps(seconds))

    return server


if __name__ == "__main__":
    run_simulation(
        make_server(SETTINGS),
        make_client(SETTINGS),
        num_supernodes=SETTINGS["clients"],
        backend_config={
            "client_resources": {"num_cpus": 1},
            "init_args": {"num_cpus": SETTINGS["processes"], "include_dashboard": False},
        },
    )
