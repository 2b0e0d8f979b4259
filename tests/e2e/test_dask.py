from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from common.experiment.file import load_experiment, parse_experiment, write_text
from common.program.ports import free_port
from fl_server.cli import main
from fl_server.coordinator.local_clients import make_local_clients
from fl_server.coordinator.simulate import Simulation
from fl_server.run.store import create_run

WAIT_SECONDS = 120.0
TABLE: dict[str, Any] = {
    "experiment": {"name": "far", "rounds": 12},
    "algorithm": {"name": "scaffold"},  # its clients keep something between rounds
    "model": {"name": "small"},
    "data": {"clients": 8, "max_samples": 60},
    "selection": {"rate": 0.5},
    "training": {"epochs": 1},
}


@pytest.fixture
def experiment(tmp_path: Path) -> Path:
    path = tmp_path / "far.toml"
    path.write_text(write_text(parse_experiment(TABLE)))
    return path


@contextmanager
def process(*words: str, **more: object) -> Iterator[subprocess.Popen[bytes]]:
    started = subprocess.Popen(words, **more)  # type: ignore[call-overload]
    try:
        yield started
    finally:
        started.terminate()
        started.wait(30)


def until(condition: Callable[[], bool], running: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert running.poll() is None, "it has ended"
        assert time.monotonic() < end
        time.sleep(0.02)  # noqa: TID251 - a file is looked at


def digest(run: Path) -> str:
    last = json.loads((run / "events.jsonl").read_text().splitlines()[-1])
    assert last["event"] == "finished"
    return str(last["digest"])


def in_round(run: Path, round_number: int) -> bool:
    """Whether a client has trained in that round."""
    events = run / "events.jsonl"
    lines = events.read_text().splitlines() if events.exists() else []
    return any(f'"round":{round_number},' in line and '"trained"' in line for line in lines)


@pytest.mark.slow
def test_a_cluster_gives_the_bits_of_one_machine_though_a_worker_is_killed_and_the_run_stopped(
    tmp_path: Path, experiment: Path
) -> None:
    store = create_run(tmp_path, "here", load_experiment(experiment))
    clients = make_local_clients(1)
    Simulation(store, clients=clients, shards=tmp_path / ".shards", observe=print).run()
    place = f"tcp://127.0.0.1:{free_port()}"
    fl_server = (sys.executable, "-m", "fl_server", "simulate", str(experiment), "--plain")
    far = (*fl_server, "--run", "far", "--runs", str(tmp_path), "--dask", place)
    with ExitStack() as stack:
        dask = (sys.executable, "-m", "dask")
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        scheduler = (*dask, "scheduler", "--no-dashboard", "--host", place)
        stack.enter_context(process(*scheduler, **quiet))
        worker = (*dask, "worker", place, "--nthreads", "1", "--no-nanny", "--no-dashboard")
        workers = [
            stack.enter_context(
                process(*worker, "--local-directory", str(tmp_path / name), **quiet)
            )
            for name in ("w1", "w2")
        ]
        with process(*far, stderr=subprocess.PIPE) as run:
            until(lambda: in_round(tmp_path / "far", 2), run)
            workers[0].send_signal(signal.SIGKILL)
            until(lambda: in_round(tmp_path / "far", 4), run)
            run.send_signal(signal.SIGINT)
            _, printed = run.communicate(timeout=WAIT_SECONDS)
            assert run.returncode == 130
            assert b"Traceback" not in printed
        again = subprocess.run(far, timeout=WAIT_SECONDS, check=False)
        assert again.returncode == 0
    assert digest(tmp_path / "far") == digest(store.folder)


@pytest.mark.slow
def test_a_sweep_on_a_cluster_of_its_own_gives_the_bits_of_one_machine_though_stopped(
    tmp_path: Path, experiment: Path
) -> None:
    with experiment.open("a") as file:  # the longer run is far from its end
        file.write('[sweep]\n"experiment.rounds" = [1, 30]\n')
    fl_server = (sys.executable, "-m", "fl_server", "sweep", str(experiment), "--plain")
    far = (*fl_server, "--runs", str(tmp_path / "far"), "--dask", "local:2")
    output = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with process(*far, start_new_session=True, **output) as sweep:
        assert sweep.stdout is not None
        lines = iter(sweep.stdout.readline, b"")
        assert any(b"finished; 1/2 runs done" in line for line in lines)
        os.killpg(sweep.pid, signal.SIGINT)  # as a terminal does: to all processes
        printed = b"".join(sweep.communicate(timeout=WAIT_SECONDS))
        assert sweep.returncode == 130
        assert b"nothing is lost" in printed
        assert b"Traceback" not in printed
    again = subprocess.run(far, capture_output=True, check=False)
    assert again.returncode == 0
    assert b"1 of 2 runs are finished already" in again.stdout
    assert not list((tmp_path / "far").glob("*.tmp*"))
    for rounds in (1, 30):
        one = parse_experiment({**TABLE, "experiment": {"name": "far", "rounds": rounds}})
        store = create_run(tmp_path / "here", f"r{rounds}", one)
        clients = make_local_clients(1)
        Simulation(store, clients=clients, shards=tmp_path / ".shards", observe=print).run()
        assert digest(tmp_path / "far" / f"far-rounds_{rounds}-s1") == digest(store.folder)


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--dask", "elsewhere"], "--dask is 'elsewhere'; expected such as tcp://HOST:8786"),
        (["--dask", "local:0"], "--dask is 'local:0'; expected such as"),
        (["--dask", "local:2", "--processes", "2"], "choose one"),
    ],
)
def test_a_wrong_cluster_is_refused_in_one_line(
    tmp_path: Path, experiment: Path, words: list[str], problem: str
) -> None:
    given = ["simulate", str(experiment), "--runs", str(tmp_path / "runs"), *words]
    done = CliRunner().invoke(main, given)
    assert done.exit_code == 2
    assert problem in done.output
    assert len(done.output.splitlines()) == 1
    assert not (tmp_path / "runs").exists()
