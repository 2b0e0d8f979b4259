"""A rig for every test that wants one: a broker of its own and a clean end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.process import Broker
from tests.conftest import Guarded
from tests.e2e.guarded_rig import GuardedRig
from tests.e2e.rig import Rig


@pytest.fixture
def rig(own_broker: Broker, tmp_path: Path) -> Iterator[Rig]:
    folder = tmp_path / "rig"
    folder.mkdir()
    rig = Rig(own_broker.port, folder)
    rig.write_experiment()
    yield rig
    rig.close()


@pytest.fixture
def guarded_rig(guarded: Guarded, tmp_path: Path) -> Iterator[GuardedRig]:
    folder = tmp_path / "rig"
    folder.mkdir()
    rig = GuardedRig(guarded.broker.port, folder, guarded=guarded)
    rig.write_experiment()
    yield rig
    rig.close()
