from __future__ import annotations

from pathlib import Path

import pytest

from common.access.credentials import (
    Credentials,
    board_of,
    clients_of,
    credentials_text,
    join_address,
    reach,
    read_credentials,
)
from common.errors import UsageError

BUNDLE = Credentials(
    role="board",
    name="attic",
    password="secret",
    broker="10.0.0.5:8884",
    federation="lab",
    clients="0-2",
    ca="-----BEGIN CERTIFICATE-----\nabc\n-----END CERTIFICATE-----\n",
)


def private(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(0o600)
    return path


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    return private(tmp_path / "attic.toml", credentials_text(BUNDLE))


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        (None, "127.0.0.1", 1883),
        ("10.0.0.5", "10.0.0.5", 1883),
        ("pi.local:1884", "pi.local", 1884),
        ("::1", "::1", 1883),
        ("[::1]", "::1", 1883),
        ("[fe80::1]:65535", "fe80::1", 65535),
    ],
)
def test_an_address_is_read_as_people_write_it(text: str | None, host: str, port: int) -> None:
    reached = reach(text, None, None)
    assert (reached.address.host, reached.address.port) == (host, port)
    assert (reached.address.username, reached.address.password) == (None, None)
    assert reached.federation == "fl"


@pytest.mark.parametrize("text", [":1", "h:", "h:x", "h:0", "h:65536", "h:²", "h:-1", "[]"])
def test_what_is_not_an_address_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"expected HOST or HOST:PORT"):
        reach(text, None, None)


def test_a_written_address_reads_the_same() -> None:
    for host in ("::1", "10.0.0.5", "pi.local"):
        reached = reach(join_address(host, 77), None, None)
        assert (reached.address.host, reached.address.port) == (host, 77)


def test_a_bundle_says_everything_and_its_secrets_are_never_shown(bundle: Path) -> None:
    assert read_credentials(bundle) == BUNDLE
    reached = reach(None, bundle, None, "board")
    assert str(reached.address) == "10.0.0.5:8884"
    assert (reached.address.username, reached.address.password) == ("attic", "secret")
    assert reached.address.ca == BUNDLE.ca
    assert reached.federation == "lab"
    assert board_of(reached, None, bundle) == "attic"
    assert clients_of(reached, None, bundle) == (0, 1, 2)
    for shown in (repr(reached), str(reached.address), repr(reached.credentials)):
        assert "secret" not in shown


def test_an_option_goes_before_the_bundle_where_that_makes_sense(bundle: Path) -> None:
    assert str(reach("pi.local", bundle, None).address) == "pi.local:8884"
    assert str(reach("pi.local:99", bundle, "lab").address) == "pi.local:99"
    reached = reach(None, bundle, None)
    assert clients_of(reached, "2,0,1", bundle) == (0, 1, 2)
    assert board_of(reached, "attic", bundle) == "attic"


def test_an_option_that_contradicts_the_bundle_is_refused(bundle: Path) -> None:
    reached = reach(None, bundle, None)
    with pytest.raises(UsageError, match=r"--board is 'cellar', but .*attic\.toml is for 'att"):
        board_of(reached, "cellar", bundle)
    with pytest.raises(UsageError, match=r"--clients is '0-3', but .* is for '0-2'"):
        clients_of(reached, "0-3", bundle)
    with pytest.raises(UsageError, match=r"--federation is 'fl', but .* is for 'lab'"):
        reach(None, bundle, "fl")


def test_a_bundle_of_another_role_is_refused_with_the_cure(bundle: Path) -> None:
    reach(None, bundle, None, "viewer", "board")
    with pytest.raises(UsageError, match=r"is for a board; .*fl-broker enroll NAME --coord"):
        reach(None, bundle, None, "coordinator")


def test_without_a_bundle_the_clients_must_be_said() -> None:
    with pytest.raises(UsageError, match="--clients is missing"):
        clients_of(reach(None, None, None), None, None)


def test_a_bundle_that_others_can_read_is_refused_with_the_cure(bundle: Path) -> None:
    for mode in (0o640, 0o604, 0o620):
        bundle.chmod(mode)
        with pytest.raises(UsageError, match=rf"is open to others; run: chmod 600 {bundle}"):
            read_credentials(bundle)


def test_a_missing_bundle_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"none\.toml cannot be read: No such file"):
        read_credentials(tmp_path / "none.toml")


@pytest.mark.parametrize(
    "text",
    [
        "nonsense",
        'name = "a"\npassword = "secret"',
        credentials_text(BUNDLE).replace('"board"', '"king"'),
        credentials_text(BUNDLE).replace('"attic"', "3"),
        "\x00",
        credentials_text(BUNDLE) + "odd = 1\n",
    ],
)
def test_a_file_that_is_no_bundle_is_named_without_its_content(
    tmp_path: Path, text: str
) -> None:
    path = private(tmp_path / "c.toml", text)
    with pytest.raises(UsageError, match=r"c\.toml is not a credentials file") as caught:
        read_credentials(path)
    assert "secret" not in str(caught.value)
