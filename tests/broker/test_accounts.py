from __future__ import annotations

import stat
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest

from broker.accounts import accounts, enroll, prepare_files, revoke
from broker.acl import Account
from broker.authority import ensure_certificate
from common.access.credentials import Credentials, read_credentials
from common.errors import StoreError, UsageError
from tests.broker.mqtt import connected, login_answer
from tests.conftest import Guarded


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A broker's folder with a CA, without a broker."""
    ensure_certificate(tmp_path / "state", ["localhost"])
    return tmp_path / "state"


def board(name: str, *clients: int, federation: str = "fl") -> Account:
    return Account(name, "board", federation, clients)


def names(folder: Path) -> list[str]:
    return [account.name for account in accounts(folder)]


def test_only_the_right_password_opens_a_guarded_broker(guarded: Guarded) -> None:
    right = guarded.enroll("board", "0")
    place = guarded.broker.host, guarded.broker.port
    assert login_answer(*place, right) == "Success"
    for wrong in ({"password": "wrong"}, {"name": "other"}, {"password": ""}):
        changed = msgspec.structs.replace(right, **wrong)
        assert login_answer(*place, changed) == "Not authorized"


def test_a_revoked_account_is_disconnected_and_stays_out(guarded: Guarded) -> None:
    path = guarded.bundle("board", "0")
    with connected(guarded.broker.host, guarded.broker.port, read_credentials(path)) as seen:
        assert seen.answer() == "Success"
        revoke(guarded.folder, "board")
        guarded.broker.reload()
        seen.end()
        assert seen.answer() == "Not authorized"
    assert guarded.broker.alive()
    assert not path.exists()
    assert "board" not in (guarded.folder / "acl").read_text().split()


def test_a_new_account_disturbs_nobody(guarded: Guarded) -> None:
    old = guarded.enroll("old", "0")
    with connected(guarded.broker.host, guarded.broker.port, old) as seen:
        assert seen.answer() == "Success"
        new = guarded.enroll("new", "1")
        with connected(guarded.broker.host, guarded.broker.port, new) as other:
            assert other.answer() == "Success"
        assert seen.ends.empty()


def test_secrets_are_for_their_owner_only(folder: Path) -> None:
    path = enroll(folder, board("pi", 0), "h:8883").bundle
    private = [path, folder / "passwords", folder / "acl", *(folder / "tls").iterdir()]
    assert {stat.S_IMODE(each.stat().st_mode) for each in private} == {0o600}
    folders = (folder, path.parent, folder / "tls")
    assert {stat.S_IMODE(each.stat().st_mode) for each in folders} == {0o700}
    password = read_credentials(path).password
    assert len(password) >= 43
    assert password not in (folder / "passwords").read_text()


def test_a_bundle_holds_all_that_a_board_needs(folder: Path) -> None:
    path = enroll(folder, board("pi-1", 0, 1, 2, 7, federation="lab"), "10.0.0.5:8883").bundle
    held = read_credentials(path)
    assert held == Credentials(
        role="board",
        name="pi-1",
        password=held.password,
        broker="10.0.0.5:8883",
        federation="lab",
        clients="0-2, 7",
        ca=(folder / "tls" / "ca.pem").read_text(),
    )
    assert held.password not in repr(held)


def test_passwords_differ(folder: Path) -> None:
    bundles = [enroll(folder, board(name), "h:1").bundle for name in ("a", "b", "c")]
    assert len({read_credentials(path).password for path in bundles}) == 3


def test_entries_look_like_those_of_mosquitto_passwd(folder: Path) -> None:
    enroll(folder, board("ours"), "h:1")
    theirs = folder / "theirs"
    theirs.write_text("theirs:secret\n")
    theirs.chmod(0o600)
    subprocess.run(["mosquitto_passwd", "-U", theirs], check=True, timeout=10)
    our_parts = (folder / "passwords").read_text().split("$")
    their_parts = theirs.read_text().split("$")
    assert our_parts[1:3] == their_parts[1:3]
    assert [len(part) for part in our_parts[3:]] == [len(part) for part in their_parts[3:]]


def test_accounts_are_listed_in_order_and_revoked_by_name(folder: Path) -> None:
    assert accounts(folder) == ()
    for name in ("server", "board", "pi-4.lab"):
        enroll(folder, board(name), "h:1")
    assert names(folder) == ["board", "pi-4.lab", "server"]
    revoke(folder, "pi-4.lab")
    assert names(folder) == ["board", "server"]
    with pytest.raises(UsageError, match=r"no account 'pi-4\.lab'; accounts: board, server"):
        revoke(folder, "pi-4.lab")


def test_enrolling_again_changes_nothing_or_what_is_new_and_keeps_the_password(
    folder: Path,
) -> None:
    first = enroll(folder, board("pi", 0, 1), "h:1")
    assert first.changed
    before = read_credentials(first.bundle)
    marks = [(folder / name).stat().st_ino for name in ("passwords", "acl")]
    assert not enroll(folder, board("pi", 0, 1), "h:1").changed
    assert marks == [(folder / name).stat().st_ino for name in ("passwords", "acl")]
    assert enroll(folder, board("pi", 0, 5), "h:1").changed
    assert read_credentials(first.bundle) == msgspec.structs.replace(before, clients="0, 5")
    assert "receive_info/5" in (folder / "acl").read_text()
    assert "receive_info/1" not in (folder / "acl").read_text()


def test_who_was_revoked_gets_another_password(folder: Path) -> None:
    before = read_credentials(enroll(folder, board("pi", 0), "h:1").bundle)
    revoke(folder, "pi")
    after = read_credentials(enroll(folder, board("pi", 0), "h:1").bundle)
    assert after.password != before.password


def test_two_boards_of_a_federation_cannot_have_a_client_in_common(folder: Path) -> None:
    enroll(folder, board("a", 0, 1), "h:1")
    with pytest.raises(UsageError, match=r"clients 1 are already those of board a; .*revoke a"):
        enroll(folder, board("b", 1, 2), "h:1")
    assert names(folder) == ["a"]
    enroll(folder, board("b", 1, 2, federation="other"), "h:1")


@pytest.mark.parametrize(
    "name", ["", "a:b", "../a", "a b", "a\n", ".hidden", "-x", "ä", "x" * 65, "@coordinator"]
)
def test_a_name_that_would_break_the_files_is_refused(folder: Path, name: str) -> None:
    with pytest.raises(UsageError, match="name is"):
        enroll(folder, board(name), "h:1")
    assert not (folder / "accounts").exists()


def test_accounts_made_at_the_same_time_are_all_kept(folder: Path) -> None:
    wanted = [f"board{number}" for number in range(12)]
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda name: enroll(folder, board(name), "h:1"), wanted))
    assert names(folder) == sorted(wanted)


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match=r"/file/state/lock: a file is in the way of a folder"):
        prepare_files(tmp_path / "file" / "state")
