"""A fleet from bare machines to a trained model and back: python -m tests.fleet (needs root).

One broker and three boards are made (see `lab.py`), provisioned by the playbooks over SSH and
disturbed while they train; the model must have the bits of an undisturbed simulation.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import threading
import time
from pathlib import Path

from tests.fleet.lab import FOLDER, Lab
from tests.fleet.playbooks import BOARDS, BROKER, Control

OWN_CODE = Path(__file__).resolve().parents[2] / "examples" / "own" / "algorithm"


def main() -> None:
    """Every step, each with the seconds it took; the first that fails ends it."""
    parser = argparse.ArgumentParser(prog="python -m tests.fleet", description=__doc__)
    parser.add_argument("--shell", action="store_true", help="after site.yml: wait for Enter")
    arguments = parser.parse_args()
    started = time.monotonic()
    with Lab() as lab:
        lab.boot(BROKER, *BOARDS)
        control = Control(lab, FOLDER / "control")
        say(started, "1 broker and 3 boards are up, bare")
        bare = {name: traces(lab, name) for name in lab.machines}
        control.play("site.yml")
        say(started, "site.yml: from bare to running")
        if arguments.shell:
            input("machines are up; Enter goes on ")
        assert control.changes("site.yml") == 0
        say(started, "site.yml again: changed=0")
        assert control.changes("site.yml", "--check", "--limit", f"{BROKER},b1") == 0
        say(started, "site.yml in check mode: changed=0")
        _look_around(lab)
        _train(started, lab, control)
        control.play("status.yml")
        control.play("collect.yml")
        for name in BOARDS:
            assert "trained in" in control.collected(name, "fl-client.log").read_text()
            assert control.collected(name, "state.tar.gz").stat().st_size > 0
        say(started, "collect.yml: logs and states are here")
        control.play("reset.yml")
        for name, before in bare.items():
            left = sorted(traces(lab, name) ^ before)
            assert left == [], f"{name} differs from before by {left[:20]}"
        say(started, "reset.yml: nothing is left")


def say(started: float, text: str) -> None:
    """One step, with the seconds since the start."""
    sys.stdout.write(f"{time.monotonic() - started:5.0f} s  {text}\n")
    sys.stdout.flush()


def _look_around(lab: Lab) -> None:
    """What was promised of a provisioned machine."""
    listening = lab.ssh(BROKER, "ss", "-ltnH")
    assert ":8883 " in listening
    assert ":1883 " not in listening
    shards = lab.ssh("b2", "sudo", "find", "/var/lib/fedbed/shards", "-name", "*.safetensors")
    names = sorted(Path(line).name for line in shards.split())
    assert names == ["client-2.safetensors", "client-3.safetensors"], names
    assert "root" not in lab.ssh("b1", "stat", "-c", "%U:%a", "/etc/fedbed/credentials.toml")
    for name, unit in (("b1", "fl-client"), (BROKER, "fl-broker")):
        score = lab.ssh(name, "systemd-analyze", "security", unit, "--no-pager").splitlines()
        sys.stdout.write(f"         {unit}: {score[-1].strip()}\n")


def _train(started: float, lab: Lab, control: Control) -> None:
    """One run with everything that happens to a fleet, compared with a simulation."""
    expected = control.simulate()
    say(started, f"simulate: model {expected}")
    run = control.start_run()
    control.wait_for_round(2, run)
    with lab.cut("b1"):
        threading.Event().wait(30)  # the cut itself is what is tested
    say(started, f"b1 was cut off for 30 s (round {control.round()})")
    control.wait_for_round(control.round() + 2, run)
    lab.reboot("b2")
    say(started, f"b2 was rebooted (round {control.round()})")
    control.wait_for_round(control.round() + 2, run)
    before = _restarts(lab, "b3")
    lab.ssh("b3", "sudo", "systemctl", "kill", "--kill-who=main", "-s", "STOP", "fl-client")
    control.eventually(lambda: _restarts(lab, "b3") > before, "the watchdog bites", 120)
    say(started, f"b3's daemon hung and was started again (round {control.round()})")
    control.wait_for_round(control.round() + 2, run)
    control.change_code()
    first = control.round()
    control.play("deploy.yml", "-e", f"code={OWN_CODE}")
    assert control.round() > first, "nothing was trained while the code changed"
    say(started, f"deploy.yml while it ran (rounds {first} to {control.round()})")
    for name in BOARDS:
        assert "changed" in lab.ssh(name, "sudo", "cat", control.installed_file)
        assert "def cautious" in lab.ssh(name, "cat", "/opt/fedbed/code/cautious.py")
    assert run.wait(300) == 0, control.log("run")
    assert control.digest() == expected
    say(started, f"the run ended with model {control.digest()}: the same bits")


def _restarts(lab: Lab, name: str) -> int:
    shown = lab.ssh(name, "systemctl", "show", "fl-client", "--property=NRestarts", "--value")
    return int(shown)


_PLACES = "/bin /boot /etc /home /lib /opt /root /sbin /srv /usr /var"
_LEAVE = ["/var/log", "/var/cache", "/var/lib/apt", "/var/lib/dpkg", "/var/tmp", "/var/backups"]
_LEAVE += ["/home/pi/.ansible", "/root/.ansible", "/var/lib/systemd"]


def traces(lab: Lab, name: str) -> set[str]:
    """Every file, user, group and package of a machine; not logs and apt's own books."""
    prune = " -o ".join(f"-path {path}" for path in _LEAVE)
    find = rf"sudo find {_PLACES} \( {prune} \) -prune -o -print"
    files = lab.ssh(name, find)
    people = lab.ssh(name, "getent passwd; getent group | cut -d: -f1")
    packages = lab.ssh(
        name, "dpkg-query", "-W", "-f", r"'package ${Package} ${db:Status-Abbrev}\n'"
    )
    kept = (line for line in files.splitlines() if "__pycache__" not in line)
    return {*kept, *people.splitlines(), *packages.splitlines()}


if __name__ == "__main__":
    try:
        main()
    except (AssertionError, RuntimeError, subprocess.TimeoutExpired) as error:
        sys.exit(f"fleet-test: {error}")
