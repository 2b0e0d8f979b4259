"""A Mosquitto of our own: find it, start it, stop it. Keeping it alive is supervisor.py's."""

from __future__ import annotations

import errno
import logging
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType

from broker.config import CA, BrokerConfig, bind_address, mosquitto_conf
from common.access.tls import client_context
from common.errors import BrokerError, StoreError
from common.program.child import dies_with_parent
from common.program.malloc import KEEP

log = logging.getLogger(__name__)

START_SECONDS = 10.0
STOP_SECONDS = 1.5
POLL_SECONDS = 0.005

_FOLDERS = ("/usr/sbin", "/usr/local/sbin", "/opt/homebrew/sbin", r"C:\Program Files\mosquitto")
_INSTALL = {
    "linux": "install it: sudo apt install mosquitto",
    "darwin": "install it: brew install mosquitto",
    "win32": "install it: winget install EclipseFoundation.Mosquitto",
}
_OLDEST = 2  # before, a listener let everybody in unless told otherwise
_LAST_LINES = 5
_NOISE = re.compile("should not be run as root|New connection from|Client <unknown>")
_PING = b"\xc0\x00"


def find_mosquitto() -> Path:
    """The mosquitto program: on the PATH, or where packages put it out of a user's PATH."""
    found = shutil.which("mosquitto") or shutil.which(
        "mosquitto", path=os.pathsep.join(_FOLDERS)
    )
    if found is None:
        how = _INSTALL.get(sys.platform, "install it: https://mosquitto.org/download")
        raise BrokerError(f"cannot find mosquitto; {how}")
    return Path(found)


def mosquitto_version(program: Path) -> str:
    """What `program` calls itself, such as `2.0.11`."""
    try:
        # Its help ends with a code that differs between versions; only the text counts.
        done = subprocess.run(
            [program, "-h"], capture_output=True, text=True, timeout=START_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BrokerError(f"cannot run {program}: {error}") from error
    match = re.search(r"mosquitto version (\d+(?:\.\d+)*)", done.stdout + done.stderr)
    if match is None:
        raise BrokerError(
            f"{program} does not say its version; expected Mosquitto 2.0 or later"
        )
    return match[1]


class Broker:
    """One mosquitto process; everything it keeps is in `folder`.

    On Linux it dies with the thread that started it, even if that is killed.
    """

    def __init__(self, config: BrokerConfig, folder: Path) -> None:
        self.config = config
        self.folder = folder.absolute()
        self.program = find_mosquitto()
        self._process: subprocess.Popen[bytes] | None = None
        self._log_start = 0

    def __enter__(self) -> Broker:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def host(self) -> str:
        """Where a client on this machine finds it."""
        return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(  # noqa: S104 - compared, not bound
            self.config.address, bind_address(self.config)
        )

    @property
    def port(self) -> int:
        """The port of its listener."""
        return self.config.port

    @property
    def log_path(self) -> Path:
        """What mosquitto says about itself."""
        return self.folder / "mosquitto.log"

    @property
    def pid(self) -> int:
        """The id of the running process."""
        if self._process is None:
            raise BrokerError("mosquitto has not been started")
        return self._process.pid

    def alive(self) -> bool:
        """The process is running."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start it and wait until it answers; nothing to do when it is running."""
        if self.alive():
            return
        version = mosquitto_version(self.program)
        if int(version.split(".")[0]) < _OLDEST:
            raise BrokerError(f"{self.program} is {version}; expected Mosquitto 2.0 or later")
        self._check_listener()
        try:
            self._launch_and_wait()
        except BrokerError:
            # A power cut can leave half a file. Nobody relies on what the broker keeps.
            if "Couldn't open database" not in self.last_lines():
                raise
            saved = self.folder / "mosquitto.db"
            log.warning("mosquitto cannot read %s; set aside, starting without it", saved)
            saved.replace(saved.with_suffix(".db.damaged"))
            self._launch_and_wait()

    def stop(self) -> None:
        """Ask it to save and end; kill it when it does not within a second and a half."""
        if self._process is None or not self.alive():
            return
        self._process.terminate()
        if not self._ended_within(STOP_SECONDS):
            self.kill()

    def kill(self) -> None:
        """End it at once; what it had not saved is lost."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def restart(self) -> None:
        """Stop it if it runs, and start it again on the same port and folder."""
        self.stop()
        self.start()

    def reload(self) -> None:
        """Make it read accounts, rules and certificate again; who lost theirs is hung up on."""
        if self._process is not None and sys.platform != "win32":
            self._process.send_signal(signal.SIGHUP)

    def last_lines(self) -> str:
        """The end of what it logged since its last start, as one line."""
        try:
            lines = self.log_path.read_bytes()[self._log_start :].decode(errors="replace")
        except FileNotFoundError:
            return ""
        # The timestamp says nothing that the reader of an error does not know.
        texts = [
            re.sub(r"^[\dT:-]+: ", "", line)
            for line in lines.splitlines()
            if not _NOISE.search(line)
        ]
        return " / ".join(texts[-_LAST_LINES:])

    def _check_listener(self) -> None:
        """Bind the address ourselves for a moment: a stranger on it could answer for us."""
        address, port = bind_address(self.config), self.port
        try:
            family, kind, protocol, _, public = socket.getaddrinfo(
                address, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )[0]
            with socket.socket(family, kind, protocol) as probe:
                if sys.platform != "win32":  # there it would take the port from its owner
                    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(public)
                probe.listen(1)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise BrokerError(
                    f"port {port} is already in use by another process; choose another port"
                ) from error
            raise BrokerError(
                f"cannot listen on {address} port {port}: {error.strerror}"
            ) from error

    def _launch_and_wait(self) -> None:
        try:
            self._launch()
            self._wait_until_it_answers()
        except OSError as error:
            self.kill()
            raise StoreError(f"cannot start mosquitto in {self.folder}: {error}") from error
        except BaseException:
            self.kill()
            raise

    def _launch(self) -> None:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = self.folder / "mosquitto.conf"
        path.write_text(mosquitto_conf(self.config, self.folder.as_posix(), user=_user()))
        with self.log_path.open("ab") as output:
            self._log_start = output.tell()
            self._process = subprocess.Popen(
                [self.program, "-c", path],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=self.folder,
                env={**os.environ, **KEEP},
                start_new_session=True,  # Ctrl-C is for us; we then stop it in good order
                preexec_fn=dies_with_parent(),
            )

    def _wait_until_it_answers(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if self._ended_within(POLL_SECONDS):
                raise BrokerError(f"mosquitto ended at its start: {self.last_lines()}")
            if self._answers():
                return
        raise BrokerError(f"mosquitto does not answer on {self.host}:{self.port}")

    def _ended_within(self, seconds: float) -> bool:
        assert self._process is not None
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def _answers(self) -> bool:
        """It hangs up on a ping without a login.

        Being able to connect is not enough: it listens before its loop runs, and a SIGTERM in
        between is lost.
        """
        try:
            with self._connected() as probe:
                probe.sendall(_PING)
                return probe.recv(1) == b""
        except (ConnectionResetError, ssl.SSLCertVerificationError):
            return True  # an expired certificate is the clients' matter
        except OSError:
            return False

    def _connected(self) -> socket.socket:
        plain = socket.create_connection((self.host, self.port), timeout=1.0)
        if not self.config.guarded:
            return plain
        context = client_context((self.folder / CA).read_text(encoding="ascii"))
        try:
            return context.wrap_socket(plain, server_hostname="localhost")
        except BaseException:
            plain.close()
            raise


def _user() -> str:
    """Who mosquitto must stay when started as root; any other user it keeps by itself."""
    return "root" if sys.platform != "win32" and os.geteuid() == 0 else ""
