"""A part of a run in a process of its own."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from common.experiment.file import parse_experiment
from common.worker.children import Child, Source
from common.worker.forking import ForkServer
from fl_server.coordinator.local_clients import make_local_clients
from fl_server.coordinator.simulate import Simulation
from fl_server.run.store import RunStore, create_run
from fl_server.sweeps.slice_process import PROGRAM, REPORTS, STOP, Order, RoundDone, SliceDone

TABLE: dict[str, Any] = {
    "experiment": {"name": "part", "rounds": 4},
    "model": {"name": "small"},
    "data": {"clients": 4, "max_samples": 40},
    "training": {"epochs": 1},
}


@pytest.fixture(scope="module")
def source() -> Iterator[Source]:
    with contextlib.closing(ForkServer(keep=True)) as server:
        yield server


def new_run(folder: Path, **changes: int) -> RunStore:
    table = {**TABLE, "experiment": {**TABLE["experiment"], **changes}}
    return create_run(folder, "part", parse_experiment(table))


def begun(source: Source, store: RunStore, seconds: float = 600.0) -> Child:
    order = Order(
        folder=str(store.folder), shards=str(store.folder.parent / "shards"), seconds=seconds
    )
    child = source.start(PROGRAM)
    child.stdin.write(msgspec.json.encode(order) + b"\n")
    child.stdin.flush()
    return child


def reports_of(child: Child) -> list[RoundDone | SliceDone]:
    with child.stdout:
        found = [REPORTS.decode(line) for line in child.stdout]
    child.stdin.close()
    child.wait()
    return found


@pytest.mark.slow
def test_a_run_in_a_process_of_its_own_has_the_bits_of_one_here(
    source: Source, tmp_path: Path
) -> None:
    here, there = new_run(tmp_path / "here"), new_run(tmp_path / "there")
    clients, shards = make_local_clients(1), tmp_path / "here" / "shards"
    Simulation(here, clients=clients, shards=shards, observe=lambda _: None).run()
    *rounds, done = reports_of(begun(source, there))
    assert rounds == [RoundDone(round=number) for number in range(1, 5)]
    assert done == SliceDone(finished=True)
    model = "model.safetensors"
    assert (there.folder / model).read_bytes() == (here.folder / model).read_bytes()


@pytest.mark.slow
def test_a_process_that_is_stopped_or_out_of_time_ends_after_its_round(
    source: Source, tmp_path: Path
) -> None:
    child = begun(source, new_run(tmp_path / "stopped", rounds=10_000))
    child.stdin.write(STOP)
    child.stdin.flush()
    assert reports_of(child)[-1] == SliceDone(finished=False)
    late = begun(source, new_run(tmp_path / "late", rounds=10_000), seconds=0.0)
    assert reports_of(late)[-1] == SliceDone(finished=False)


@pytest.mark.slow
def test_what_goes_wrong_is_reported_and_an_owner_that_is_gone_ends_it(
    source: Source, tmp_path: Path
) -> None:
    broken = new_run(tmp_path / "broken")
    (broken.folder / "run.json").unlink()
    *_, done = reports_of(begun(source, broken))
    assert isinstance(done, SliceDone)
    assert done.problem
    child = begun(source, new_run(tmp_path / "lonely", rounds=10_000))
    assert isinstance(REPORTS.decode(child.stdout.readline()), RoundDone)
    child.stdin.close()
    assert child.wait() == 0
    child.stdout.close()
