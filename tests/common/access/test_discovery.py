"""Finding the broker that is announced; scripts stand for the programs of avahi.

`tests/broker/test_announcing.py` has the real ones.
"""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from click.testing import CliRunner

from broker.authority import ca_text, ensure_certificate
from broker.cli import main as fl_broker
from common.access.credentials import reach, read_credentials
from common.access.discovery import (
    MOST_ANNOUNCED,
    Announced,
    announcing,
    find_broker,
    read_announced,
)
from common.errors import BrokerError, UsageError
from common.program.ports import free_port
from fl_client.cli import main as fl_client
from tests.conftest import Guarded
from tests.e2e.rig import eventually

PRINTED = r"""
+;eth0;IPv4;fedbed\032on\032hub;_secure-mqtt._tcp;local
=;eth0;IPv6;fedbed\032on\032hub;_secure-mqtt._tcp;local;hub.local;2001:db8::5;8883;
=;eth0;IPv6;fedbed\032on\032hub;_secure-mqtt._tcp;local;hub.local;fe80::5;8883;
=;eth0;IPv4;fedbed\032on\032hub;_secure-mqtt._tcp;local;hub.local;10.0.0.5;8883;"a=b;c"
=;wlan0;IPv4;fedbed\032on\032hub;_secure-mqtt._tcp;local;hub.local;10.0.0.5;8883;
=;eth0;IPv4;odd;_secure-mqtt._tcp;local;two words;10.0.0.6;8883;
=;eth0;IPv4;odd;_secure-mqtt._tcp;local;odd.local;10.0.0.300;8883;
=;eth0;IPv4;odd;_secure-mqtt._tcp;local;odd.local;10.0.0.6;99999;
=;eth0;IPv4;odd
"""


def line(port: int, host: str = "localhost") -> str:
    return f"=;lo;IPv4;x;_secure-mqtt._tcp;local;{host};127.0.0.1;{port};"


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that has all programs of this machine, as far as avahi is concerned."""
    folder = tmp_path / "programs"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


def put(folder: Path, name: str, script: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


def browse_prints(folder: Path, *lines: str) -> None:
    text = "\n".join(lines)
    put(folder, "avahi-browse", f"while read -r one; do echo \"$one\"; done <<'X'\n{text}\nX")


def test_announcements_are_read_and_what_is_no_address_is_left_out() -> None:
    assert read_announced(PRINTED) == [
        Announced("hub.local", "10.0.0.5", 8883),
        Announced("hub.local", "2001:db8::5", 8883),
    ]


def test_a_flood_of_announcements_is_cut() -> None:
    flood = "\n".join(line(port) for port in range(1, 1000))
    assert len(read_announced(flood)) == MOST_ANNOUNCED


def test_the_ca_decides_which_of_the_announced_brokers_is_ours(
    guarded: Guarded, programs: Path, tmp_path: Path
) -> None:
    port, silent = guarded.broker.port, free_port()
    browse_prints(programs, line(silent), line(port))
    bundle = guarded.bundle("pi", "0")
    found = reach("auto", bundle, None, "board").address
    assert (found.host, found.port, found.username) == ("localhost", port, "pi")
    ensure_certificate(tmp_path / "other", ["localhost"])
    with pytest.raises(BrokerError, match=r"not from the CA") as error:
        find_broker(ca_text(tmp_path / "other"))
    assert f"127.0.0.1:{silent}: connection refused" in str(error.value)


def test_where_names_are_not_resolved_the_address_is_taken(
    guarded: Guarded, programs: Path
) -> None:
    browse_prints(programs, line(guarded.broker.port, "nobody.invalid"))
    assert find_broker(ca_text(guarded.folder)).host == "127.0.0.1"


def test_a_bundle_may_say_that_the_broker_is_to_be_looked_for(
    guarded: Guarded, programs: Path, tmp_path: Path
) -> None:
    browse_prints(programs, line(guarded.broker.port))
    bundle = tmp_path / "pi.toml"
    enroll = ["enroll", "pi", "--clients", "0", "--broker", "auto", "-o", str(bundle)]
    done = CliRunner().invoke(fl_broker, [*enroll, "--folder", str(guarded.folder)])
    assert done.exit_code == 0, done.output
    assert read_credentials(bundle).broker == "auto:8883"
    assert reach(None, bundle, None).address.port == guarded.broker.port
    assert reach("10.0.0.5", bundle, None).address.port == 8883


def test_without_credentials_nobody_is_trusted() -> None:
    with pytest.raises(UsageError, match=r"--broker auto needs --credentials"):
        reach("auto", None, None)


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        (":", "no broker is announced in this network; start it with 'fl-broker up"),
        ("echo 'Daemon not running' >&2; exit 1", "avahi-browse: Daemon not running; start it"),
    ],
)
def test_the_doctor_says_why_no_broker_was_found(
    guarded: Guarded, programs: Path, script: str, expected: str
) -> None:
    bundle = str(guarded.bundle("pi", "0"))
    put(programs, "avahi-browse", script)
    options = ["doctor", "--quick", "--credentials", bundle, "--broker", "auto"]
    done = CliRunner().invoke(fl_client, options)
    assert done.exit_code == 1
    lines = [text.split(maxsplit=2) for text in done.output.splitlines()[-2:]]
    assert lines[0][:2] == ["FAIL", "broker"]
    assert f"{lines[0][2]}; {' '.join(lines[1][1:])}".startswith(expected), done.output


def test_without_avahi_both_sides_say_what_to_install(guarded: Guarded, programs: Path) -> None:
    assert not list(programs.iterdir())
    with pytest.raises(UsageError, match=r"avahi-browse; install it .*avahi-utils"):
        find_broker(ca_text(guarded.folder))
    with pytest.raises(UsageError, match=r"avahi-publish; install it"), announcing(8883):
        pass


def test_a_plain_broker_is_not_announced(tmp_path: Path) -> None:
    done = CliRunner().invoke(fl_broker, ["up", "--announce", "--folder", str(tmp_path)])
    assert done.exit_code == 2
    assert "--announce needs --listen" in done.output


def test_an_announcement_that_ends_is_reported(
    programs: Path, caplog: pytest.LogCaptureFixture
) -> None:
    put(programs, "avahi-publish", 'echo "$@"; exit 3')
    caplog.set_level(logging.INFO)
    with announcing(8883):
        eventually(lambda: "ended" in caplog.text, "the report")
    assert "--service --no-fail fedbed on" in caplog.text
    assert "_secure-mqtt._tcp 8883" in caplog.text
    assert "exit code 3" in caplog.text
