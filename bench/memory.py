"""Peak memory of the coordinator while 100 updates of 25 MB come in one round."""

from __future__ import annotations

from pathlib import Path

from bench.figures import Effort, Figure, figure
from bench.light import light_boards
from bench.testbed import PROTOCOL_ONLY, own_broker, serve, write_experiment

MODEL, BOARDS = 25_000_000, 4
ALLOWED = 4 * MODEL + 100_000_000


def measure(folder: Path, effort: Effort) -> list[Figure]:
    """The peak, as a share of what is allowed."""
    clients = effort.pick(100, 8)
    experiment = write_experiment(
        folder / "experiment.toml",
        {
            **PROTOCOL_ONLY,
            "experiment": {"rounds": 1, "grace": "forever"},
            "model": {"name": "dnn", "hidden": MODEL // (4 * 795)},
            "data": {"clients": clients, "partition": "iid"},
        },
    )
    with (
        own_broker(folder / "broker") as address,
        light_boards(address.port, 0, BOARDS, clients // BOARDS) as boards,
    ):
        boards.go()
        peak = _coordinator_peak(folder, experiment, address.port)
    return [
        figure(
            "memory",
            f"coordinator's peak memory, {clients} updates of 25 MB in one round",
            against="4 models + 100 MB",
            value=peak / ALLOWED,
            limit=("at most", 1.0),
            details={"peak MB": round(peak / 1e6), "allowed MB": round(ALLOWED / 1e6)},
        )
    ]


def _coordinator_peak(folder: Path, experiment: Path, port: int) -> int:
    """Bytes; asked of the process itself, at its end."""
    where = ("--broker", f"127.0.0.1:{port}", "--runs", str(folder / "runs"), "--run", "r")
    said = serve("run", str(experiment), *where, seconds=600, program="bench.peak")
    return int(said.split()[-1])
