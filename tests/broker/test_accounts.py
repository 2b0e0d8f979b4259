from __future__ import annotations

import stat
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from broker.accounts import account_names, add_account, remove_account
from broker.config import BrokerConfig
from broker.process import Broker, free_port
from common.errors import StoreError, UsageError
from tests.broker.mqtt import connected, login_answer, login_of


@pytest.fixture
def closed_broker(tmp_path: Path) -> Iterator[Broker]:
    """A broker that other machines could reach, with the account `board`."""
    add_account(tmp_path, "board")
    config = BrokerConfig(address="0.0.0.0", port=free_port(), accounts=True)
    with Broker(config, tmp_path) as running:
        yield running


def test_only_the_right_password_opens_a_broker_with_accounts(closed_broker: Broker) -> None:
    name, password = login_of(closed_broker.folder / "accounts" / "board.toml")
    place = closed_broker.host, closed_broker.port
    assert login_answer(*place) == "Not authorized"
    assert login_answer(*place, (name, "wrong")) == "Not authorized"
    assert login_answer(*place, ("other", password)) == "Not authorized"
    assert login_answer(*place, (name, password)) == "Success"


def test_a_revoked_account_is_disconnected_and_stays_out(closed_broker: Broker) -> None:
    folder, place = closed_broker.folder, (closed_broker.host, closed_broker.port)
    login = login_of(folder / "accounts" / "board.toml")
    with connected(*place, login) as seen:
        assert seen.answer() == "Success"
        remove_account(folder, "board")
        closed_broker.reload()
        seen.end()
        assert seen.answer() == "Not authorized"
    assert closed_broker.alive()
    assert not (folder / "accounts" / "board.toml").exists()


def test_secrets_are_for_their_owner_only(tmp_path: Path) -> None:
    credentials = add_account(tmp_path / "state", "board")
    for path in (credentials, tmp_path / "state" / "passwords"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(credentials.parent.stat().st_mode) == 0o700
    _, password = login_of(credentials)
    assert len(password) >= 43
    assert password not in (tmp_path / "state" / "passwords").read_text()


def test_passwords_differ(tmp_path: Path) -> None:
    logins = {login_of(add_account(tmp_path, name))[1] for name in ("a", "b", "c")}
    assert len(logins) == 3


def test_entries_look_like_those_of_mosquitto_passwd(tmp_path: Path) -> None:
    add_account(tmp_path, "ours")
    theirs = tmp_path / "theirs"
    theirs.write_text("theirs:secret\n")
    theirs.chmod(0o600)
    subprocess.run(["mosquitto_passwd", "-U", theirs], check=True, timeout=10)
    our_parts = (tmp_path / "passwords").read_text().split("$")
    their_parts = theirs.read_text().split("$")
    assert our_parts[1:3] == their_parts[1:3]
    assert [len(part) for part in our_parts[3:]] == [len(part) for part in their_parts[3:]]


def test_accounts_are_listed_in_order_and_removed_by_name(tmp_path: Path) -> None:
    assert account_names(tmp_path) == ()
    for name in ("server", "board", "pi-4.lab"):
        add_account(tmp_path, name)
    assert account_names(tmp_path) == ("board", "pi-4.lab", "server")
    remove_account(tmp_path, "pi-4.lab")
    assert account_names(tmp_path) == ("board", "server")
    with pytest.raises(UsageError, match=r"no account 'pi-4\.lab'; accounts: board, server"):
        remove_account(tmp_path, "pi-4.lab")


def test_an_account_is_not_replaced_by_accident(tmp_path: Path) -> None:
    before = add_account(tmp_path, "board").read_text()
    with pytest.raises(UsageError, match="account board exists"):
        add_account(tmp_path, "board")
    assert (tmp_path / "accounts" / "board.toml").read_text() == before


@pytest.mark.parametrize(
    "name", ["", "a:b", "../a", "a b", "a\n", ".hidden", "-x", "ä", "x" * 65]
)
def test_a_name_that_would_break_the_files_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="account name is"):
        add_account(tmp_path, name)
    assert list(tmp_path.iterdir()) == []


def test_accounts_made_at_the_same_time_are_all_kept(tmp_path: Path) -> None:
    names = [f"board{number}" for number in range(12)]
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda name: add_account(tmp_path, name), names))
    assert set(account_names(tmp_path)) == set(names)


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match=r"cannot write the accounts in .*/file/state"):
        add_account(tmp_path / "file" / "state", "board")
