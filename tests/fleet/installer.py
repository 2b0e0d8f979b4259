"""install.sh on machines of their own: python -m tests.fleet.installer (needs root).

A bare machine becomes a board by the lines that `fl-broker enroll` prints, and a bare machine
again; one whose Python is too old is refused with a sentence, by the script and by Ansible.
"""

from __future__ import annotations

import contextlib
import hashlib
import http.server
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from common.access.credentials import join_address
from common.access.discovery import AUTO, SERVICE
from common.install.kit import ARCHIVE, NAME
from tests.e2e.rig import Rig
from tests.fleet.__main__ import say, traces
from tests.fleet.lab import AVAHI, FOLDER, NETWORK, Lab, call
from tests.fleet.playbooks import EXPERIMENT, Control, wheels

BOARD, OLD = "b1", "b2"
PORT = 8883
ARCHIVE_NAME = "cpython-3.11-x86_64-unknown-linux-gnu-install_only.tar.gz"
# The only interpreter of the machine says that it is Python 3.6, and runs nothing but -c.
OLD_PYTHON = """\
#!/bin/sh
case $1 in
    -c) exec /usr/lib/python-of-the-test -c \\
        'import sys; sys.version_info = (3, 6, 9); exec(sys.argv[1])' "$2" ;;
    --version) echo Python 3.6.9 ;;
    *) echo "this is Python 3.6: no modules of Ansible" >&2; exit 1 ;;
esac
"""


def main() -> None:
    """Every step, each with the seconds it took; the first that fails ends it."""
    started = time.monotonic()
    folder = FOLDER / "installer"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    rig = Rig(PORT, folder)
    with Lab() as lab:
        lab.boot(BOARD, OLD)
        _install_avahi(lab)
        say(started, "2 machines are up, bare but for avahi")
        before = traces(lab, BOARD)
        try:
            _install(started, lab, rig)
            _train(started, rig, "r")
            _find(started, lab, rig)
            _train(started, rig, "found")
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
    up = ("broker", "up", "--listen", f"{NETWORK}.1", "--port", str(PORT))
    rig.start("broker", *up, "--folder", _hub(rig))
    address = join_address(f"{NETWORK}.1", PORT)
    _enroll(rig, "server", "--coordinator", "--broker", address)
    printed = _enroll(rig, "pi-1", "--clients", "0-5", "--broker", address)
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


def _hub(rig: Rig) -> str:
    """The broker's folder: not called as a package is."""
    return str(rig.folder / "hub")


def _enroll(rig: Rig, name: str, *options: str) -> str:
    bundle = str(rig.folder / f"{name}.toml")
    words = ("broker", "enroll", name, *options, "-o", bundle, "--folder", _hub(rig))
    done = rig.start(f"enroll-{name}", *words).wait(60)
    printed = rig.log(f"enroll-{name}")
    assert done == 0, printed
    return printed


def _train(started: float, rig: Rig, run: str) -> None:
    (rig.folder / "tiny.toml").write_text(EXPERIMENT.replace("rounds = 200", "rounds = 3"))
    expected = rig.simulate(name=f"sim-{run}")
    bundle = str(rig.folder / "server.toml")
    words = ("fl_server", "run", str(rig.folder / "tiny.toml"), "--credentials", bundle)
    server = rig.start(run, *words, "--run", run, "--runs", str(rig.runs), "--plain")
    assert server.wait(300) == 0, rig.log(run)
    assert rig.digest(run) == expected
    say(started, f"a run on it ended with model {expected}, as a simulation")


def _install_avahi(lab: Lab) -> None:
    get = f"sudo apt-get -qq install --no-install-recommends -y {' '.join(AVAHI)} >/dev/null"
    for name in (BOARD, OLD):
        lab.ssh(name, f"sudo apt-get -qq update && {get}")


def _find(started: float, lab: Lab, rig: Rig) -> None:
    """The same board with a bundle that says: look for the broker, which the other announces.

    The service sees little of its machine: this shows that it sees avahi.
    """
    service = f"-s -H hub.local fedbed {SERVICE} {PORT}"
    for what in (f"-a hub.local {NETWORK}.1", service):
        lab.ssh(OLD, f"sudo systemd-run --quiet avahi-publish {what}")
    install = _enroll(rig, "pi-1", "--clients", "0-5", "--broker", AUTO).splitlines()[-1]
    _copy(lab, BOARD, rig.folder / "pi-1.toml")
    printed = lab.ssh(BOARD, install.strip())
    assert f"{NETWORK}.1:{PORT} answers" in printed, printed
    assert lab.ssh(BOARD, "systemctl", "is-active", "fl-client").strip() == "active"
    assert f'"{AUTO}:' in lab.ssh(BOARD, "sudo", "cat", "/etc/fedbed/credentials.toml")
    say(started, "install.sh with a bundle by --broker auto: the service found the broker")


def _old_python(started: float, lab: Lab) -> None:
    """A machine whose only Python is too old."""
    root = lab.machines[OLD].root
    (root / "usr/bin/python3.11").rename(root / "usr/lib/python-of-the-test")
    (root / "usr/bin/python3").unlink()
    (root / "usr/bin/python3").write_text(OLD_PYTHON)
    (root / "usr/bin/python3").chmod(0o755)
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
    assert "the Python of this machine is 3.6; Ansible needs 3.9" in told, told
    say(started, "site.yml with an old Python: refused, with what to do")
    with _served(_python_archive(lab)) as url:
        lab.ssh(OLD, "sudo apt-get -qq update && sudo apt-get -qq install wget >/dev/null")
        archive = (FOLDER / "installer" / ARCHIVE_NAME).read_bytes()
        digest = hashlib.sha256(archive).hexdigest()
        options = ("-e", f"fedbed_python_url={url}", "-e", f"fedbed_python_sha256={digest}")
        assert "changed=1" in control.play("python.yml", "--limit", "b1", *options)
        assert control.changes("python.yml", "--limit", "b1") == 0
    say(started, "python.yml with an archive: brings a Python; again: changed=0")
    shown = lab.ssh(OLD, "/opt/fedbed/python/bin/python3", "--version")
    assert shown.startswith("Python 3.11"), shown


def _python_archive(lab: Lab) -> Path:
    """Debian's own interpreter in the form of python-build-standalone."""
    folder, root = FOLDER / "installer", lab.machines[BOARD].root
    tree = folder / "tree" / "python"
    (tree / "bin").mkdir(parents=True)
    (tree / "lib").mkdir()
    shutil.copy(root / "usr/bin/python3.11", tree / "bin" / "python3")
    ignored = shutil.ignore_patterns("__pycache__", "sitecustomize.py")
    shutil.copytree(root / "usr/lib/python3.11", tree / "lib" / "python3.11", ignore=ignored)
    call("tar", "czf", folder / ARCHIVE_NAME, "-C", folder / "tree", "python")
    return folder / ARCHIVE_NAME


@contextlib.contextmanager
def _served(file: Path) -> Iterator[str]:
    """The file on an address that only the machines reach."""
    handler = partial(http.server.SimpleHTTPRequestHandler, directory=str(file.parent))
    with http.server.ThreadingHTTPServer((f"{NETWORK}.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://{NETWORK}.1:{server.server_port}/{file.name}"
        server.shutdown()


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
