"""A real broker for every test that wants one, and names that keep tests apart."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from broker.config import BrokerConfig
from broker.process import Broker, find_mosquitto, free_port
from common.errors import BrokerError

settings.register_profile("fedbed", deadline=None, max_examples=50)
settings.load_profile("fedbed")


def _broker(folder: Path) -> Broker:
    try:
        find_mosquitto()
    except BrokerError as error:
        pytest.fail(f"these tests need a real broker: {error}", pytrace=False)
    return Broker(BrokerConfig(port=free_port()), folder)


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """One broker for the whole session, at `.host` and `.port`; not to be killed."""
    with _broker(tmp_path_factory.mktemp("broker")) as running:
        yield running


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[Broker]:
    """A broker of the test's own, to kill and restart."""
    with _broker(tmp_path / "own-broker") as running:
        yield running


@pytest.fixture
def federation() -> str:
    """A federation that no other test uses."""
    return f"t{secrets.token_hex(4)}"
