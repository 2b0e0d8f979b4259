"""A real broker for every test that wants one, and names that keep tests apart."""

from __future__ import annotations

import gc
import logging
import os
import secrets
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import settings

from broker.accounts import enroll, prepare_files
from broker.acl import Account
from broker.authority import ensure_certificate
from broker.config import BrokerConfig
from broker.process import Broker
from broker.program import find_mosquitto
from common.access.credentials import Credentials, Role, join_address, read_credentials
from common.errors import BrokerError
from common.ids import parse_ids
from common.plugins import use_code
from common.program.ports import free_port

settings.register_profile("fedbed", deadline=None, max_examples=50)
settings.register_profile("quick", deadline=None, max_examples=20)

# Else every process, ours and those that tests start, would compile every module again.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# A shell starts what runs in its background with Ctrl-C ignored, and every child inherits that.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config: pytest.Config) -> None:
    """Fewer examples where the slow tests are left out as well."""
    settings.load_profile("quick" if config.option.markexpr == "not slow" else "fedbed")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Every worker begins with its share of the tests that take long.

    They mostly wait, and have a timeout of their own. One that began last would be waited for
    while the other workers have nothing left to do.
    """
    workers = getattr(config, "workerinput", {}).get("workercount", 1)
    long = [item for item in items if item.get_closest_marker("timeout")]
    short = [item for item in items if item.get_closest_marker("timeout") is None]
    items[:] = [
        item
        for worker in range(workers)
        for each in (long, short)
        for item in each[worker * len(each) // workers : (worker + 1) * len(each) // workers]
    ]


def pytest_collection_finish() -> None:
    """What is imported by now stays; the collector need not look at it in every test.

    Threads of torch that wait for each other would take all cores from the other tests.
    """
    gc.collect()
    gc.freeze()
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)


@pytest.fixture(autouse=True, scope="session")
def files_are_not_forced_to_the_disk() -> Iterator[None]:
    """A power cut alone would show a difference; the processes that tests start do wait."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", os.fstat)
        yield


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    """What a command sets up for its logs is over with the test that called it."""
    root = logging.getLogger()
    level, handlers = root.level, list(root.handlers)
    yield
    root.setLevel(level)
    for handler in [one for one in root.handlers if one not in handlers]:
        root.removeHandler(handler)


@contextmanager
def _running(folder: Path, *, guarded: bool = False) -> Iterator[Broker]:
    """A broker that is killed in the end: to stop one that saves takes it a second."""
    try:
        find_mosquitto()
    except BrokerError as error:
        pytest.fail(f"these tests need a real broker: {error}", pytrace=False)
    with Broker(BrokerConfig(port=free_port(), guarded=guarded), folder) as running:
        yield running
        running.kill()


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """One broker for the whole session, at `.host` and `.port`; not to be killed."""
    with _running(tmp_path_factory.mktemp("broker")) as running:
        yield running


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[Broker]:
    """A broker of the test's own, to kill and restart."""
    with _running(tmp_path / "own-broker") as running:
        yield running


@dataclass(frozen=True)
class Guarded:
    """A broker as other machines would meet it: TLS, accounts, rules; here on loopback."""

    broker: Broker

    @property
    def folder(self) -> Path:
        return self.broker.folder

    def bundle(
        self, name: str, clients: str = "", *, role: Role = "board", federation: str = "fl"
    ) -> Path:
        """The file of a new account."""
        account = Account(name, role, federation, parse_ids(clients) if clients else ())
        place = join_address(self.broker.host, self.broker.port)
        path = enroll(self.folder, account, place).bundle
        self.broker.reload()
        return path

    def enroll(
        self, name: str, clients: str = "", *, role: Role = "board", federation: str = "fl"
    ) -> Credentials:
        """A new account, and what its bundle says."""
        path = self.bundle(name, clients, role=role, federation=federation)
        return read_credentials(path)


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Guarded]:
    """A guarded broker of the test's own."""
    folder = tmp_path / "guarded"
    ensure_certificate(folder, ["localhost", "127.0.0.1"])
    prepare_files(folder)
    with _running(folder, guarded=True) as running:
        yield Guarded(running)


@pytest.fixture
def federation() -> str:
    """A federation that no other test uses."""
    return f"t{secrets.token_hex(4)}"


@pytest.fixture(autouse=True)
def no_code_of_others() -> Iterator[None]:
    """The folder of users' code is a setting of the process; no test leaves one to the next."""
    yield
    use_code(None)
