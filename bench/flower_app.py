"""The same round in Flower: two nodes that return what they get, three messages to each.

Flower runs this file in its own processes, with its own packages (see `flower.py`).
"""

# mypy: ignore-errors
import json
import time
from pathlib import Path

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp

client = ClientApp()
server = ServerApp()


@client.train()
def train(message: Message, _context: Context) -> Message:
    """Return the weights at once."""
    return Message(content=message.content, reply_to=message)


@server.main()
def main(grid: Grid, context: Context) -> None:
    """Rounds of messages; their seconds go to a file."""
    config = context.run_config
    while len(list(grid.get_node_ids())) < config["nodes"]:
        time.sleep(0.2)  # noqa: TID251 - Flower has nothing to wait on
    arrays = ArrayRecord([np.ones(config["size"] // 4, np.float32)])
    seconds = []
    for number in range(config["rounds"]):
        started = time.perf_counter()
        messages = [
            Message(
                content=RecordDict(
                    {"arrays": arrays, "config": ConfigRecord({"round": number})}
                ),
                message_type="train",
                dst_node_id=node,
            )
            for node in grid.get_node_ids()
            for _ in range(config["clients"] // config["nodes"])
        ]
        replies = list(grid.send_and_receive(messages))
        total = sum(np.asarray(r.content["arrays"].to_numpy_ndarrays()[0]) for r in replies)
        assert len(replies) == config["clients"] and float(np.mean(total)) == config["clients"]
        seconds.append(time.perf_counter() - started)
    Path(config["out"]).write_text(json.dumps(seconds))
