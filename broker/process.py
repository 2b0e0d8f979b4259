"""A Mosquitto of our own: start it, stop it, empty it. Keeping it alive is supervisor.py's."""

from __future__ import annotations

import errno
import logging
import os
import signal
import socket
import ssl
import subprocess
import time
from pathlib import Path
from types import TracebackType

from broker.config import CA, FORGET, PRIVATE, STATE, BrokerConfig, bind_address, mosquitto_conf
from broker.log_file import LogFile
from broker.program import check_version, find_mosquitto
from common.access.tls import client_context
from common.disk.atomic import write_atomic
from common.errors import BrokerError, StoreError
from common.program.child import dies_with_parent
from common.program.malloc import KEEP

log = logging.getLogger(__name__)

START_SECONDS = 10.0
STOP_SECONDS = 1.5
POLL_SECONDS = 0.005

_PING = b"\xc0\x00"


class Broker:
    """One mosquitto process; everything it keeps is in `folder`.

    On Linux it dies with the thread that started it, even if that is killed.
    """

    def __init__(self, config: BrokerConfig, folder: Path) -> None:
        self.config = config
        self.folder = folder.absolute()
        self.program = find_mosquitto()
        self.log = LogFile(self.folder / "mosquitto.log")
        self._process: subprocess.Popen[bytes] | None = None

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
        check_version(self.program)
        self._check_listener()
        try:
            self._launch_and_wait()
        except BrokerError:
            # A power cut can leave half a file. Nothing relies on what the broker keeps.
            if "Couldn't open database" not in self.log.last_lines():
                raise
            saved = self.folder / STATE
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
        """Make it read accounts, rules and certificate again; it drops revoked clients."""
        if self._process is not None:
            self._process.send_signal(signal.SIGHUP)

    @property
    def must_forget(self) -> bool:
        """An account was revoked, and what it left behind is still there."""
        return (self.folder / FORGET).exists()

    def forget(self) -> None:
        """Start it again without anything it keeps: sessions, queues, retained messages.

        Coordinator and boards publish all of theirs again when they reconnect.
        """
        (self.folder / FORGET).touch(PRIVATE)
        self.kill()
        self.start()

    def _check_listener(self) -> None:
        """Bind the address for a moment: another process on it could answer in its place."""
        address, port = bind_address(self.config), self.port
        try:
            family, kind, protocol, _, public = socket.getaddrinfo(
                address, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )[0]
            with socket.socket(family, kind, protocol) as probe:
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
        if self.must_forget:
            (self.folder / STATE).unlink(missing_ok=True)
            (self.folder / FORGET).unlink()
        path = self.folder / "mosquitto.conf"
        text = mosquitto_conf(self.config, self.folder.as_posix(), user=_user())
        write_atomic(path, text.encode(), mode=PRIVATE)
        with self.log.open() as output:
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
                raise BrokerError(f"mosquitto ended at its start: {self.log.last_lines()}")
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
        """It ends the connection after a ping without a login.

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
    """The user to stay when started as root; any other user mosquitto keeps by itself."""
    return "root" if os.geteuid() == 0 else ""
