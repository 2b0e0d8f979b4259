"""Every algorithm over the wire, in turn on the same boards: the bits of the simulation."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from broker.process import Broker
from common.algorithms import BUILDERS
from common.worker.forking import ForkServer
from tests.e2e.rig import Rig

pytestmark = pytest.mark.slow

# of many clients with little data six take part, and three of them train in each round
LITTLE = """
[experiment]
rounds = 2
grace = "forever"
[algorithm]
name = "{name}"
[model]
name = "dnn"
hidden = 8
[data]
clients = 200
[training]
epochs = 1
[selection]
participants = "0-5"
rate = 0.5
"""
MORE = {  # what a short run would not show otherwise
    "fedavg2rep": 'first_rounds = 1\nvariant = "heads"\n',
    "fedbabu": "tune_every = 1\n",
    "clt": "report_mean = true\n",
}


@pytest.fixture(scope="module")
def rig(
    broker: Broker, fork_server: ForkServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Rig]:
    """Two boards that stay for all algorithms."""
    folder = tmp_path_factory.mktemp("algorithms")
    rig = Rig(broker.port, folder, federation=folder.name, fork_server=fork_server)
    for board, clients in (("b1", "0-2"), ("b2", "3-5")):
        rig.daemon(board, clients, "--workers", "1")  # every one more starts in every run
    yield rig
    rig.close()


@pytest.mark.parametrize("name", BUILDERS)
def test_an_algorithm_gives_the_same_bits_over_the_wire_and_simulated(
    rig: Rig, name: str
) -> None:
    text = LITTLE.format(name=name).replace("[model]", MORE.get(name, "") + "[model]")
    rig.write_experiment(text)
    rig.finish(rig.coordinator("--run", name, name=name), name)
    simulated = f"{name}-simulated"
    assert rig.digest(name) == rig.simulate(name=simulated)
    assert not {"message_dropped", "problem", "failed", "rejected"} & set(rig.kinds(name))
    wire, here = rig.metrics(name), rig.metrics(simulated)
    assert [line["round"] for line in wire] == [line["round"] for line in here] == [0, 1, 2]
    for key in ("accuracy_global", "accuracy_l1", "accuracy_l2", "train_loss", "clients"):
        assert [line.get(key) for line in wire] == [line.get(key) for line in here], key
