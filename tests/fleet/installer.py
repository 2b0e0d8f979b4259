"""install.sh on machines of their own: python -m tests.fleet.installer (needs root).

A bare machine becomes a board by the lines that `fl-broker enroll` prints, and a bare machine
again; one whose Python is too old is refused with a sentence, by the script and by Ansible.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from pathlib import Path

from common.access.credentials import join_address
from common.install.kit import ARCHIVE, NAME
from tests.e2e.rig import Rig
from tests.fleet.__main__ import say, traces
from tests.fleet.lab import FOLDER, NETWORK, Lab, call
from tests.fleet.playbooks import EXPERIMENT, Control, wheels

BOARD, OLD = "b1", "b2"
PORT = 8883
OLD_PYTHON = "sudo apt-get -qq update && sudo apt-get -qq install micropython >/dev/null && "
OLD_PYTHON += "sudo rm -f /usr/bin/python3* && sudo ln -s micropython /usr/bin/python3"


def main() -> None:
    """Every step, each with the seconds it took; the first that fails ends it."""
    started = time.monotonic()
    folder = FOLDER / "installer"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    rig = Rig(PORT, folder)
    with Lab() as lab:
        lab.boot(BOARD, OLD)
        say(started, "2 machines are up, bare")
        before = traces(lab, BOARD)
        try:
            _install(started, lab, rig)
            _train(started, rig)
        finally:
            rig.close()
        printed = lab.ssh(BOARD, "sudo", "sh", "/opt/fedbed/install.sh", "--uninstall")
        _show(printed)
        left = sorted(traces(lab, BOARD) ^ before)
        own = [path for path in left if not path.startswith(("/home/pi/", "/var/lib/apt"))]
        assert own == [], f"differs from before by {own[:20]}"
        say(started, "install.sh --uninstall: nothing is left")
        assert "nothing was there" in lab.ssh(
            BOARD, "sudo", "sh", f"{NAME}/install.sh", "--uninstall"
        )
        _old_python(started, lab)


def _install(started: float, lab: Lab, rig: Rig) -> None:
    """As `fl-broker enroll` says."""
    broker = ("--folder", str(rig.folder / "broker"))
    up = ("broker", "up", "--listen", f"{NETWORK}.1", "--port", str(PORT), *broker)
    rig.start("broker", *up)
    address = join_address(f"{NETWORK}.1", PORT)
    for name, *options in (("pi-1", "--clients", "0-5"), ("server", "--coordinator")):
        bundle = str(rig.folder / f"{name}.toml")
        enroll = ("broker", "enroll", name, *options, "--broker", address, "-o", bundle)
        assert rig.start(f"enroll-{name}", *enroll, *broker).wait(60) == 0
    printed = rig.log("enroll-pi-1")
    _show(printed)
    unpack, install = (line.strip() for line in printed.splitlines()[-2:])
    _copy(lab, BOARD, rig.folder / "pi-1.toml", rig.folder / ARCHIVE)
    lab.ssh(BOARD, unpack)
    _copy(lab, BOARD, wheels(), to=f"{NAME}/wheels")
    _show(lab.ssh(BOARD, install))
    say(started, "install.sh: from bare to a running service")
    assert lab.ssh(BOARD, "systemctl", "is-active", "fl-client").strip() == "active"
    printed = lab.ssh(BOARD, install)
    assert "install: 0 changes" in printed, printed
    say(started, "install.sh again: 0 changes")


def _train(started: float, rig: Rig) -> None:
    (rig.folder / "tiny.toml").write_text(EXPERIMENT.replace("rounds = 200", "rounds = 3"))
    expected = rig.simulate()
    bundle = str(rig.folder / "server.toml")
    run = ("fl_server", "run", str(rig.folder / "tiny.toml"), "--credentials", bundle)
    server = rig.start("server", *run, "--run", "r", "--runs", str(rig.runs), "--plain")
    assert server.wait(300) == 0, rig.log("server")
    assert rig.digest() == expected
    say(started, f"a run on it ended with model {expected}, as a simulation")


def _old_python(started: float, lab: Lab) -> None:
    """A machine whose only Python is too old."""
    lab.ssh(OLD, f"sh -c '{OLD_PYTHON}'")
    _copy(lab, OLD, FOLDER / "installer" / ARCHIVE)
    lab.ssh(OLD, f"tar xzf {ARCHIVE}")
    refused = lab.ssh(OLD, f"sudo sh {NAME}/install.sh 2>&1 || :")
    assert "no Python 3.10 or later here" in refused, refused
    _show(refused)
    say(started, "install.sh with an old Python: refused")
    control = Control(lab, FOLDER / "control", {"hub": OLD, "b1": OLD, "b2": OLD, "b3": OLD})
    try:
        control.play("site.yml", "--limit", "b1")
    except RuntimeError as error:
        told = " ".join(str(error).split())
    else:
        raise AssertionError("site.yml accepted a machine with an old Python")
    assert "the Python of this machine is 3.4; Ansible needs 3.9" in told, told
    say(started, "site.yml with an old Python: refused, with what to do")


def _copy(lab: Lab, name: str, *paths: Path, to: str = "") -> None:
    where = f"pi@{lab.machines[name].address}:{to}"
    call("scp", "-q", "-r", "-i", lab.key, *lab.ssh_options(), *paths, where)


def _show(text: str) -> None:
    sys.stdout.write("".join(f"         | {line}\n" for line in text.splitlines()))


if __name__ == "__main__":
    try:
        main()
    except (AssertionError, RuntimeError, subprocess.SubprocessError) as error:
        sys.exit(f"install-test: {error}")
