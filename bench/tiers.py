"""python -m bench.tiers [FOLDER [WAY ...]]: 3 sites with 4 boards of 3 clients on this machine.

The same experiment flat, over Mosquitto's own bridges, and over relays; bytes of the uplink are
counted by a TCP relay in its way. In a last run a relay and its site's broker are killed with
SIGKILL in every round and started again. All must end with the digest of the simulation.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from bench.testbed import environment, process, serve, write_experiment
from broker.program import find_mosquitto
from common.arrays import digest
from common.config import Experiment
from common.experiment.file import load_experiment
from fl_server.lab.lab import Lab, LabBoard, share_out
from fl_server.lab.relay import Relay
from fl_server.run.journal import read_records
from fl_server.run.model.file import read_model

SITES, BOARDS, CLIENTS = 3, 4, 3
ROUNDS = 3
SECONDS = 900.0
EVERYBODY = range(SITES * BOARDS * CLIENTS)
TABLE: dict[str, dict[str, Any]] = {
    "experiment": {"rounds": ROUNDS, "grace": "forever"},
    "model": {"name": "dnn", "hidden": 400},
    "data": {"clients": len(EVERYBODY)},
    "training": {"epochs": 1, "batch_size": 50},
    "aggregation": {"arithmetic": "exact"},
}
# what a bridge must pass on: a board's subscriptions come in, what boards publish goes out
BRIDGED = """
connection uplink
address 127.0.0.1:{uplink}
bridge_protocol_version mqttv50
cleansession false
bridge_attempt_unsubscribe false
remote_clientid site-{name}
topic fl/client/train_detail in 1
topic fl/server/send_weights/# in 1
topic fl/server/current_round in 1
topic fl/client/selected in 1
topic fl/train/end in 1
topic fl/client/connected/# both 1
topic fl/server/receive_info/# out 1
topic fl/server/receive_weights/# out 1
topic fl/client/test_metrics/# out 1
"""


class BridgedLab(Lab):
    """A lab whose broker is a Mosquitto with a bridge to the uplink."""

    def __init__(self, folder: Path, boards: dict[str, LabBoard], uplink: int) -> None:
        super().__init__(folder, boards)
        self._uplink = uplink

    def spawn_broker(self, name: str, port: int) -> subprocess.Popen[bytes]:
        """Mosquitto itself."""
        self.folder.mkdir(parents=True, exist_ok=True)
        config = self.folder / "bridge.conf"
        lines = f"listener {port} 127.0.0.1\nallow_anonymous true\n"
        lines += "max_queued_messages 100000\nmax_inflight_messages 100\n"
        config.write_text(lines + BRIDGED.format(uplink=self._uplink, name=self.folder.name))
        with (self.folder / f"{name}.log").open("ab") as output:
            started = subprocess.Popen(
                [find_mosquitto(), "-c", str(config)], stdout=output, stderr=output
            )
        self._processes[name] = started
        return started


def boards_of(site: int) -> dict[str, LabBoard]:
    """The boards of a site, under names that no other site has."""
    each = BOARDS * CLIENTS
    mine = share_out(EVERYBODY[site * each : (site + 1) * each], BOARDS)
    return {f"s{site}{name}": board for name, board in mine.items()}


def run(folder: Path, port: int, file: Path) -> Path:
    """Coordinate the experiment on a broker."""
    where = ("--broker", f"127.0.0.1:{port}", "--runs", str(folder), "--run", "run")
    serve("run", str(file), *where, seconds=SECONDS)
    return folder / "run"


def flat(folder: Path, file: Path) -> tuple[Path, list[Relay]]:
    """All boards on the coordinator's broker, over a counted link each."""
    boards = {name: board for site in range(SITES) for name, board in boards_of(site).items()}
    links: list[Relay] = []
    with Lab(folder, boards, on_relay=lambda _, link: links.append(link)) as lab:
        lab.make_shards(load_experiment(file))
        return run(folder, lab.address.port, file), links


@contextmanager
def sites(
    folder: Path, experiment: Experiment, make: Callable[[Path, int, int], Lab]
) -> Iterator[tuple[Lab, list[Lab], list[Relay]]]:
    """The coordinator's broker, a lab for each site, and the counted uplink of each."""
    with ExitStack() as stack:
        top = stack.enter_context(Lab(folder / "top", {}))
        links = [Relay(top.address.port) for _ in range(SITES)]
        for link in links:
            stack.callback(link.close)
        labs = [make(folder / f"site{at}", at, links[at].port) for at in range(SITES)]
        for lab in labs:
            stack.enter_context(lab)
            lab.make_shards(experiment)
        yield top, labs, links


def bridged(folder: Path, file: Path) -> tuple[Path, list[Relay]]:
    """Sites whose brokers are bridged to the coordinator's."""

    def make(where: Path, site: int, uplink: int) -> Lab:
        return BridgedLab(where, boards_of(site), uplink)

    with sites(folder, load_experiment(file), make) as (top, _, links):
        return run(folder, top.address.port, file), links


def relay_words(lab: Lab, site: int, link: Relay) -> tuple[str, ...]:
    """The relay of a site."""
    each = BOARDS * CLIENTS
    return (
        *("-m", "fl_server", "relay", "--site", f"site{site}"),
        *("--clients", f"{site * each}-{(site + 1) * each - 1}"),
        *("--broker", str(lab.address), "--uplink", f"127.0.0.1:{link.port}"),
        *("--state", str(lab.folder / "relay")),
    )


def relayed(folder: Path, file: Path) -> tuple[Path, list[Relay]]:
    """Sites with a relay each."""
    with sites(folder, load_experiment(file), _lab) as (top, labs, links), ExitStack() as stack:
        for at, (lab, link) in enumerate(zip(labs, links, strict=True)):
            stack.enter_context(process(*relay_words(lab, at, link)))
        return run(folder, top.address.port, file), links


def _lab(where: Path, site: int, _uplink: int) -> Lab:
    return Lab(where, boards_of(site))


def killed(folder: Path, file: Path) -> tuple[Path, list[Relay]]:
    """The same, while relay and broker of one site are killed in every round."""
    done = threading.Event()
    with sites(folder, load_experiment(file), _lab) as (top, labs, links), ExitStack() as stack:
        for at, (lab, link) in enumerate(zip(labs, links, strict=True)):
            if at:
                stack.enter_context(process(*relay_words(lab, at, link)))
        words = relay_words(labs[0], 0, links[0])
        chaos = threading.Thread(target=_kill, args=(folder, labs[0], words, done))
        chaos.start()
        try:
            return run(folder, top.address.port, file), links
        finally:
            done.set()
            chaos.join()


def _kill(folder: Path, lab: Lab, words: tuple[str, ...], done: threading.Event) -> None:
    """Kill relay and broker when a round has just opened."""
    times, seen, events = 0, 0, folder / "run" / "events.jsonl"
    relay = subprocess.Popen([sys.executable, *words], env=environment())
    while not done.wait(0.1):
        opened = [e for e in read_records(events) if e["event"] == "round_opened"]
        if len(opened) > seen and not done.wait(0.3):
            seen = len(opened)
            times += 1
            relay.kill()
            relay.wait()
            os.kill(lab.pid("broker"), signal.SIGKILL)
            lab.wait("broker")
            lab.start_broker_again()
            relay = subprocess.Popen([sys.executable, *words], env=environment())
    relay.terminate()
    relay.wait()
    sys.stdout.write(f"killed relay and broker of a site {times} times\n")


def main() -> None:
    """Print a line for each way."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(tempfile.mkdtemp())
    file = write_experiment(folder / "experiment.toml", TABLE)
    if not (folder / "simulated" / "model.safetensors").exists():
        serve(
            "simulate", str(file), "--runs", str(folder), "--run", "simulated", seconds=SECONDS
        )
    wanted = digest(read_model(folder / "simulated" / "model.safetensors"))
    sys.stdout.write("way, MB down per round, MB up per round\n")
    chosen = sys.argv[2:]
    for way in (flat, bridged, relayed, killed):
        if chosen and way.__name__ not in chosen:
            continue
        found, links = way(folder / way.__name__, file)
        same = digest(read_model(found / "model.safetensors")) == wanted
        down = sum(link.bytes_down for link in links) / (ROUNDS + 1) / 1e6
        up = sum(link.bytes_up for link in links) / ROUNDS / 1e6
        row = (way.__name__, f"{down:.2f}", f"{up:.2f}", "same bits" if same else "OTHER BITS")
        sys.stdout.write("  ".join(row) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
