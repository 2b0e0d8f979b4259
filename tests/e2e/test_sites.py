"""Sites with brokers and relays of their own, as processes, some of them killed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from broker.config import BrokerConfig
from broker.process import Broker
from common.program.ports import free_port
from tests.conftest import Guarded
from tests.e2e.rig import TINY, Rig, eventually

SITES = {"north": ("0,1", "2,3"), "south": ("4,5", "6,7"), "west": ("8,9", "10,11")}
EXPERIMENT = TINY.replace("clients = 4", "clients = 12").replace("rounds = 2", "rounds = 3")
EXPERIMENT += '[aggregation]\narithmetic = "exact"\n'


class Site:
    """A broker, boards and a relay; the relay's end of the uplink is the coordinator's rig."""

    def __init__(self, name: str, boards: tuple[str, ...], up: Rig, stack: ExitStack) -> None:
        folder = up.folder / name
        folder.mkdir()
        self.name = name
        self.clients = ",".join(boards)
        self.broker = Broker(BrokerConfig(port=free_port()), folder / "broker")
        self.broker.start()
        stack.callback(self.broker.kill)
        self.rig = Rig(self.broker.port, folder, fork_server=up.fork_server)
        stack.enter_context(closing(self.rig))
        self._uplink = up.port
        self.start_relay()
        for at, clients in enumerate(boards):
            self.rig.daemon(f"{name}-{at}", clients)

    def start_relay(self) -> None:
        self.relay = self.rig.start(
            "relay",
            *("fl_server", "relay", "--site", self.name, "--clients", self.clients),
            *("--broker", f"127.0.0.1:{self.broker.port}"),
            *(
                "--uplink",
                f"127.0.0.1:{self._uplink}",
                "--state",
                str(self.rig.folder / "relay"),
            ),
        )


@pytest.fixture
def sites(rig: Rig) -> Iterator[list[Site]]:
    rig.write_experiment(EXPERIMENT)
    with ExitStack() as stack:
        yield [Site(name, boards, rig, stack) for name, boards in SITES.items()]


@pytest.mark.slow
def test_a_run_over_sites_has_the_bits_of_a_simulation_though_relay_and_broker_are_killed(
    rig: Rig, sites: list[Site]
) -> None:
    ear = rig.listen()
    server = rig.coordinator()
    eventually(lambda: (1, 8) in rig.updates(), "a first sum")
    hit = sites[0]
    hit.relay.kill()
    hit.relay.wait()
    hit.broker.kill()
    hit.broker.start()
    hit.start_relay()
    eventually(lambda: "round_opened" in rig.kinds()[4:], "another round")
    hit.relay.kill()
    hit.relay.wait()
    hit.start_relay()
    rig.finish(server)
    assert rig.digest() == rig.simulate()
    assert [line["clients"] for line in rig.metrics()[1:]] == [list(range(12))] * 3
    flat, tiers = rig.metrics("sim"), rig.metrics()
    for name in ("train_loss", "samples", "accuracy_global"):
        assert [line.get(name) for line in flat] == [line.get(name) for line in tiers]
    senders = {topic.split("/")[-1] for topic in ear.topics() if "receive_weights" in topic}
    assert senders & {str(client) for client in range(4, 12)} == {"4", "8"}, (
        "one sum of a site where nothing happened"
    )
    maps = Path(f"/proc/{sites[1].relay.pid}/maps").read_text()
    assert "libtorch" not in maps, "a relay needs no torch"


@pytest.mark.slow
def test_a_site_that_cannot_add_up_says_so_and_a_guarded_relay_works(
    rig: Rig, guarded: Guarded
) -> None:
    """The uplink is guarded, the site is not."""
    bundle = guarded.bundle("north", "0-3")
    server = guarded.bundle("laptop", role="coordinator")
    rig.daemon("b1", "0,1")
    rig.daemon("b2", "2,3")
    words = ("fl_server", "relay", "--broker", f"127.0.0.1:{rig.port}")
    state = ("--state", str(rig.folder / "relay"))
    rig.start("relay", *words, "--uplink-credentials", str(bundle), *state)
    runs = ("--runs", str(rig.runs), "--plain", "--credentials", str(server))
    file = str(rig.folder / "tiny.toml")
    refused = rig.start("refused", "fl_server", "run", file, *runs, "--run", "float")
    eventually(lambda: "which needs 'exact'" in rig.log("refused"), "the reason")
    refused.terminate()
    refused.wait()
    exact = ("--set", "aggregation.arithmetic=exact")
    done = rig.start("server", "fl_server", "run", file, *runs, "--run", "r", *exact)
    rig.finish(done)
    assert rig.digest() == rig.simulate("aggregation.arithmetic=exact")


@pytest.mark.slow
def test_a_lab_with_sites_has_the_bits_of_a_simulation(rig: Rig) -> None:
    exact = ("--set", "aggregation.arithmetic=exact")
    words = ("--boards", "4", "--sites", "2", "--runs", str(rig.runs), "--run", "r", "--plain")
    lab = rig.start("lab", "fl_server", "lab", str(rig.folder / "tiny.toml"), *words, *exact)
    rig.finish(lab, "lab")
    assert "board site2: clients 2-3" in rig.log("lab")
    assert rig.digest() == rig.simulate("aggregation.arithmetic=exact")
