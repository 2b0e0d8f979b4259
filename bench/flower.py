"""The round of `protocol.py`, against Flower: a SuperLink and two SuperNodes on loopback.

Flower's packages clash with ours (it wants an older rich), so they have a folder of their own:
`make bench` fills it, FEDBED_FLOWER names another one.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from pathlib import Path

from bench.figures import Effort, Figure, figure, median, rounded
from bench.protocol import experiment_of
from bench.testbed import ROOT, coordinate, round_times
from fl_server.lab.lab import Lab, share_out

CLIENTS, NODES, SIZE = 6, 2, 1_208_000
SECONDS = 300.0
WHAT = f"the same round in fedbed: 1.2 MB, {CLIENTS} clients on {NODES} boards, times faster"
AGAINST = "Flower (SuperLink, 2 SuperNodes)"
APP = """
[project]
name = "echo"
version = "1.0.0"
dependencies = []
[tool.hatch.build.targets.wheel]
packages = ["."]
[tool.flwr.app]
publisher = "bench"
[tool.flwr.app.components]
serverapp = "flower_app:server"
clientapp = "flower_app:client"
[tool.flwr.app.config]
nodes = {nodes}
clients = {clients}
size = {size}
rounds = {rounds}
out = "{out}"
"""


def flower_packages() -> Path:
    """Where Flower is, if it is installed."""
    return Path(os.environ.get("FEDBED_FLOWER", ROOT / ".venv" / "flower"))


def measure(folder: Path, effort: Effort) -> list[Figure]:
    """How many times faster we are, or why it was not measured."""
    packages = flower_packages()
    if not (packages / "flwr").is_dir():
        return [_unmeasured(f"flwr is not installed in {packages}")]
    try:
        flower = _flower(folder, packages, effort.pick(4, 2))
    except (RuntimeError, OSError, subprocess.SubprocessError) as error:
        return [_unmeasured(f"Flower did not run here: {error}")]
    with Lab(folder / "lab", share_out(range(CLIENTS), NODES)) as lab:
        experiment = experiment_of(CLIENTS, effort.pick(30, 8))
        ours = round_times(coordinate(folder / "runs", "r", experiment, lab.address))
    return [
        figure(
            "flower",
            WHAT,
            against=AGAINST,
            value=median(flower) / median(ours),
            limit=("at least", 50.0),
            details={"seconds": rounded(ours), "Flower's seconds": rounded(flower)},
        )
    ]


def _unmeasured(why: str) -> Figure:
    return Figure("flower", WHAT, AGAINST, "at least 50", None, None, f"not measured: {why}")


def _flower(folder: Path, packages: Path, rounds: int) -> list[float]:
    """Seconds of Flower's rounds, without the first."""
    app, home, out = folder / "app", folder / "home", folder / "flower.json"
    app.mkdir(parents=True)
    home.mkdir()
    shutil.copy(ROOT / "bench" / "flower_app.py", app)
    text = APP.format(nodes=NODES, clients=CLIENTS, size=SIZE, rounds=rounds, out=out)
    (app / "pyproject.toml").write_text(text)
    port, *others = _free_ports(1 + NODES)
    (home / "config.toml").write_text(
        f'[superlink]\ndefault = "bench"\n\n[superlink.bench]\naddress = "127.0.0.1:{port}"\n'
        "insecure = true\n"
    )
    path = os.pathsep.join([str(packages / "bin"), os.environ["PATH"]])
    env = {**os.environ, "PATH": path, "PYTHONPATH": str(packages), "FLWR_HOME": str(home)}
    env["FLWR_TELEMETRY_ENABLED"] = "0"
    with ExitStack() as stack, (folder / "flower.log").open("wb") as log:

        def start(program: str, *words: str) -> None:
            command = [sys.executable, str(packages / "bin" / program), "--insecure", *words]
            running = subprocess.Popen(
                command, env=env, stdout=log, stderr=log, start_new_session=True
            )
            stack.callback(running.wait, 20)
            stack.callback(running.terminate)

        start(
            "flower-superlink", "--port", str(port), "--disable-runtime-dependency-installation"
        )
        _wait_for_port(port)
        for node in others:
            start("flower-supernode", "--superlink", f"127.0.0.1:{port}", "--port", str(node))
        done = subprocess.run(
            [sys.executable, str(packages / "bin" / "flwr"), "run", str(app), "bench"],
            env=env,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        if done.returncode:
            raise RuntimeError((done.stdout + done.stderr).strip()[-300:])
        _wait_for_file(out, folder / "flower.log")
    found: list[float] = json.loads(out.read_text())
    return found[1:]


def _free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        servers = [
            stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)
        ]
        return [server.getsockname()[1] for server in servers]


def _wait_for_port(port: int) -> None:
    end = time.monotonic() + 60
    while time.monotonic() < end:
        with socket.socket() as trial:
            trial.settimeout(0.5)
            if trial.connect_ex(("127.0.0.1", port)) == 0:
                return
    raise RuntimeError("its SuperLink did not start")


def _wait_for_file(path: Path, log: Path) -> None:
    end = time.monotonic() + SECONDS
    while not path.exists() or not path.read_text():
        if time.monotonic() > end:
            raise RuntimeError(f"no result; {log.read_text(errors='replace')[-300:]}")
        threading.Event().wait(0.5)
