"""A broker that announces itself and a board that finds it, with real avahi: two network
namespaces joined by a cable, each with a bus and a daemon of its own. Needs root and avahi.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.e2e.rig import eventually

PROGRAMS = ("avahi-daemon", "avahi-browse", "avahi-publish", "dbus-daemon", "ip", "unshare")
BUS = """\
<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig><type>system</type><listen>unix:path={socket}</listen><auth>EXTERNAL</auth>
<policy context="default"><allow user="*"/><allow own="*"/>
<allow send_destination="*"/><allow receive_sender="*"/></policy></busconfig>
"""
AVAHI = "[server]\nhost-name={name}\nenable-dbus=yes\nuse-ipv6=no\n"
# A /run of its own: the avahi-daemon of this machine, if any, has its files there.
START = "mount -t tmpfs tmpfs /run && mkdir /run/avahi-daemon && exec avahi-daemon "
OPTIONS = "--no-drop-root --no-chroot --no-rlimits --file="
CONNECTED = "connected to the broker at 10.97.5.1:8883"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        os.geteuid() != 0 or not all(map(shutil.which, PROGRAMS)),
        reason=f"needs root and the programs {', '.join(PROGRAMS)}",
    ),
]


@dataclass
class Node:
    """One machine of the small network."""

    name: str
    address: str
    folder: Path
    space: str
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self, log: str, *command: object) -> subprocess.Popen[bytes]:
        with (self.folder / log).open("wb") as output:
            process = subprocess.Popen(
                ["ip", "netns", "exec", self.space, *map(str, command)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={
                    **os.environ,
                    "DBUS_SYSTEM_BUS_ADDRESS": f"unix:path={self.folder / 'bus'}",
                },
            )
        self.processes.append(process)
        return process

    def log(self, name: str) -> str:
        return (self.folder / name).read_text()

    def start_avahi(self) -> None:
        (self.folder / "bus.conf").write_text(BUS.format(socket=self.folder / "bus"))
        (self.folder / "avahi.conf").write_text(AVAHI.format(name=self.name))
        bus = f"--config-file={self.folder / 'bus.conf'}"
        self.start("bus.log", "dbus-daemon", bus, "--nofork", "--nopidfile")
        eventually((self.folder / "bus").exists, "the bus")
        start = f"{START}{OPTIONS}{self.folder / 'avahi.conf'}"
        self.start("avahi.log", "unshare", "--mount", "sh", "-c", start)
        eventually(lambda: "startup complete" in self.log("avahi.log"), "avahi-daemon")

    def close(self) -> None:
        for process in reversed(self.processes):
            process.terminate()
        for process in self.processes:
            process.wait(20)


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[tuple[Node, Node]]:
    """A broker's machine and a board's."""
    mark = f"fb{secrets.token_hex(3)}"
    made = [Node(f"{mark}hub", "10.97.5.1", tmp_path / "hub", f"{mark}-hub")]
    made.append(Node(f"{mark}pi", "10.97.5.2", tmp_path / "pi", f"{mark}-pi"))

    def ip(*words: str) -> None:
        subprocess.run(["ip", *words], check=True)

    with ExitStack() as stack:
        for node in made:
            node.folder.mkdir()
            ip("netns", "add", node.space)
            stack.callback(ip, "netns", "del", node.space)
        hub, pi = made
        cable = ("type", "veth", "peer", "name", "eth0", "netns", pi.space)
        ip("-n", hub.space, "link", "add", "eth0", *cable)
        for node in made:
            ip("-n", node.space, "link", "set", "lo", "up")
            ip("-n", node.space, "addr", "add", f"{node.address}/24", "dev", "eth0")
            ip("-n", node.space, "link", "set", "eth0", "up")
            stack.callback(node.close)
            node.start_avahi()
        yield hub, pi


def announced_broker(hub: Node, name: str, port: int) -> Path:
    """A broker with a CA of its own; its folder."""
    folder = hub.folder / name
    listen = ("--listen", "0.0.0.0", "--port", port, "--folder", folder)
    up = hub.start(f"{name}.log", sys.executable, "-m", "broker", "up", *listen, "--announce")
    eventually(lambda: "Established under name" in hub.log(f"{name}.log"), "announcement", 60)
    assert up.poll() is None
    return folder


def test_a_board_finds_the_announced_broker_that_its_ca_vouches_for(
    nodes: tuple[Node, Node], tmp_path: Path
) -> None:
    hub, pi = nodes
    announced_broker(hub, "stranger", 8882)
    ours = announced_broker(hub, "ours", 8883)
    bundle = tmp_path / "pi.toml"
    enroll = ("enroll", "pi", "--clients", "0", "--folder", ours, "-o", bundle)
    done = hub.start("enroll.log", sys.executable, "-m", "broker", *enroll, "--broker", "auto")
    assert done.wait(60) == 0, hub.log("enroll.log")
    board = ("--credentials", bundle, "--state", tmp_path / "state")
    look = (sys.executable, "-m", "fl_client", "doctor", *board, "--quick", "--json")
    code = pi.start("doctor.log", *look).wait(120)
    found = {one["check"]: one for one in json.loads(pi.log("doctor.log"))["findings"]}
    assert code == 0, found
    assert found["broker"]["found"] == "10.97.5.1:8883 answers"
    assert found["login"]["found"] == "as pi"
    pi.start("run.log", sys.executable, "-m", "fl_client", "run", *board, "--cold")
    eventually(lambda: CONNECTED in pi.log("run.log"), "the daemon", 60)


def test_a_board_waits_until_its_broker_is_announced(
    nodes: tuple[Node, Node], tmp_path: Path
) -> None:
    hub, pi = nodes
    bundle = tmp_path / "pi.toml"
    listen = ("--folder", hub.folder / "ours")
    enroll = ("enroll", "pi", "--clients", "0", *listen, "-o", bundle)
    done = hub.start("enroll.log", sys.executable, "-m", "broker", *enroll)
    assert done.wait(60) == 0, hub.log("enroll.log")
    board = ("--credentials", bundle, "--state", tmp_path / "state", "--broker", "auto")
    pi.start("run.log", sys.executable, "-m", "fl_client", "run", *board, "--cold")
    eventually(lambda: "no broker is announced" in pi.log("run.log"), "the warning", 60)
    announced_broker(hub, "ours", 8883)
    eventually(lambda: CONNECTED in pi.log("run.log"), "the daemon", 60)
