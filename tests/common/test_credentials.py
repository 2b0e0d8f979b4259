from __future__ import annotations

from pathlib import Path

import pytest

from broker.accounts import add_account
from common.credentials import read_address
from common.errors import UsageError


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("10.0.0.5", "10.0.0.5", 1883),
        ("pi.local:1884", "pi.local", 1884),
        ("::1", "::1", 1883),
        ("[::1]", "::1", 1883),
        ("[fe80::1]:65535", "fe80::1", 65535),
    ],
)
def test_an_address_is_read_as_people_write_it(text: str, host: str, port: int) -> None:
    address = read_address(text, None)
    assert (address.host, address.port) == (host, port)
    assert (address.username, address.password) == (None, None)


@pytest.mark.parametrize("text", ["", ":1", "h:", "h:x", "h:0", "h:65536", "h:²", "h:-1", "[]"])
def test_what_is_not_an_address_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"expected HOST or HOST:PORT"):
        read_address(text, None)


def test_the_login_comes_from_the_file_the_broker_made_and_is_never_shown(
    tmp_path: Path,
) -> None:
    address = read_address("h", add_account(tmp_path, "attic"))
    assert address.username == "attic"
    assert address.password is not None
    assert len(address.password) > 20
    assert address.password not in repr(address) + str(address)


def private(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(0o600)
    return path


def test_a_credentials_file_that_others_can_read_is_refused_with_the_cure(
    tmp_path: Path,
) -> None:
    path = private(tmp_path / "c.toml", 'username = "a"\npassword = "b"\n')
    assert read_address("h", path).password == "b"
    for mode in (0o640, 0o604, 0o620):
        path.chmod(mode)
        with pytest.raises(UsageError, match=rf"is open to others; run: chmod 600 {path}"):
            read_address("h", path)


def test_a_missing_credentials_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"none\.toml cannot be read: No such file"):
        read_address("h", tmp_path / "none.toml")


@pytest.mark.parametrize(
    "text",
    [
        "nonsense",
        'username = "a"',
        'username = "a"\npassword = 3',
        "\x00",
        'username = "a"\npassword = "secret"\nodd = 1',
    ],
)
def test_a_file_that_holds_no_credentials_is_named_without_its_content(
    tmp_path: Path, text: str
) -> None:
    path = private(tmp_path / "c.toml", text)
    with pytest.raises(UsageError, match=r"c\.toml is not a credentials file") as caught:
        read_address("h", path)
    assert "secret" not in str(caught.value)
