"""A rig for every test that wants one: a broker of its own and a clean end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from broker.process import Broker
from common.worker.forking import ForkServer
from tests.conftest import Guarded
from tests.e2e.guarded_rig import GuardedRig
from tests.e2e.rig import Rig


@pytest.fixture(scope="session")
def fork_server() -> Iterator[ForkServer]:
    """Torch is imported once for the boards of all tests."""
    with closing(ForkServer(keep=True)) as server:
        yield server


@pytest.fixture
def rig(own_broker: Broker, fork_server: ForkServer, tmp_path: Path) -> Iterator[Rig]:
    folder = tmp_path / "rig"
    folder.mkdir()
    rig = Rig(own_broker.port, folder, fork_server=fork_server)
    rig.write_experiment()
    yield rig
    rig.close()


@pytest.fixture
def guarded_rig(
    guarded: Guarded, fork_server: ForkServer, tmp_path: Path
) -> Iterator[GuardedRig]:
    folder = tmp_path / "rig"
    folder.mkdir()
    rig = GuardedRig(guarded.broker.port, folder, guarded=guarded, fork_server=fork_server)
    rig.write_experiment()
    yield rig
    rig.close()
