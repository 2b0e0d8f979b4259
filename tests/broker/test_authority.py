from __future__ import annotations

import ssl
import stat
import sys
from pathlib import Path

import pytest

from broker import authority, certificates
from broker.authority import ca_text, ensure_certificate, read_certificate, renew_certificate
from broker.hosts import is_host, own_names
from broker.process import Broker
from common.access.address import Address, probe
from common.access.tls import ca_expiry, days_left, shake_hands
from common.errors import BrokerError, UsageError
from tests.broker.mqtt import connected
from tests.conftest import Guarded
from tests.e2e.rig import eventually


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (folder / "tls").iterdir()}


def test_the_first_use_makes_a_ca_and_a_certificate_and_the_next_nothing(
    tmp_path: Path,
) -> None:
    assert read_certificate(tmp_path) is None
    assert ensure_certificate(tmp_path, ["broker.lan", "10.0.0.5", "::1"])
    made = read_certificate(tmp_path)
    assert made is not None
    assert set(made.names) == {"broker.lan", "10.0.0.5", "::1"}
    assert (days_left(made.end), days_left(made.ca_end)) == (729, 3649)
    assert days_left(ca_expiry(ca_text(tmp_path))) == 3649
    before = files(tmp_path)
    assert not ensure_certificate(tmp_path, ["10.0.0.5", "BROKER.lan"])
    assert files(tmp_path) == before
    assert {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "tls").iterdir()} == {
        0o600
    }


def test_a_new_name_or_a_near_end_makes_a_new_certificate_under_the_same_ca(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ensure_certificate(tmp_path, ["a"])
    ca = ca_text(tmp_path)
    assert ensure_certificate(tmp_path, ["a", "b"])
    renew_certificate(tmp_path, ["a", "b"])
    monkeypatch.setattr(authority, "RENEW_DAYS", 731)
    assert ensure_certificate(tmp_path, ["a", "b"])
    assert ca_text(tmp_path) == ca


@pytest.mark.parametrize("name", ["", "a b", "-a", "a..b", "http://a", "a:1", "*.lan", "a\n"])
def test_a_name_that_is_no_host_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="expected a host name or an IP address"):
        ensure_certificate(tmp_path, [name])


def test_this_machine_knows_names_of_itself() -> None:
    names = own_names()
    assert {"localhost", "127.0.0.1", "::1"} <= set(names)
    assert all(map(is_host, names))


def test_without_the_library_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "broker.certificates")
    monkeypatch.setitem(sys.modules, "cryptography", None)
    with pytest.raises(UsageError, match=r"pip install 'fedbed\[broker\]'"):
        ensure_certificate(tmp_path, ["a"])


def place(guarded: Guarded, host: str = "127.0.0.1", ca: str = "") -> Address:
    return Address(host, guarded.broker.port, ca=ca or ca_text(guarded.folder))


def test_a_renewed_certificate_is_taken_at_once_and_nobody_is_disturbed(
    guarded: Guarded,
) -> None:
    credentials = guarded.enroll("pi", "0")
    with connected("127.0.0.1", guarded.broker.port, credentials) as seen:
        assert seen.answer() == "Success"
        before = served(guarded)
        renew_certificate(guarded.folder, ["localhost", "127.0.0.1"])
        guarded.broker.reload()
        eventually(lambda: served(guarded) != before, "the new certificate is served")
        assert seen.ends.empty()
    probe(place(guarded))


def served(guarded: Guarded) -> str:
    return ssl.get_server_certificate(("127.0.0.1", guarded.broker.port), timeout=10)


def test_the_right_broker_is_believed_and_tells_when_its_certificate_ends(
    guarded: Guarded,
) -> None:
    probe(place(guarded))
    probe(place(guarded, "localhost"))
    end = shake_hands("127.0.0.1", guarded.broker.port, ca_text(guarded.folder), 10)
    assert days_left(end) == 729


def test_a_broker_of_another_ca_is_not_believed(guarded: Guarded, tmp_path: Path) -> None:
    ensure_certificate(tmp_path / "other", ["127.0.0.1"])
    with pytest.raises(BrokerError, match="not from the CA in the credentials file") as caught:
        probe(place(guarded, ca=ca_text(tmp_path / "other")))
    assert "\n" not in str(caught.value)


def test_a_broker_under_another_name_is_not_believed(guarded: Guarded) -> None:
    renew_certificate(guarded.folder, ["localhost"])
    guarded.broker.restart()
    probe(place(guarded, "localhost"))
    with pytest.raises(BrokerError, match=r"not for 127\.0\.0\.1; .* --name 127\.0\.0\.1"):
        probe(place(guarded))


@pytest.mark.parametrize(
    ("begin", "days", "reason"),
    [(-9, -1, r"has expired; .*fl-broker renew"), (1, 9, "not valid yet; is the clock")],
)
def test_a_certificate_out_of_its_time_is_reported(
    guarded: Guarded, monkeypatch: pytest.MonkeyPatch, begin: int, days: int, reason: str
) -> None:
    monkeypatch.setattr(certificates, "BACKDATE_DAYS", -begin)
    monkeypatch.setattr(certificates, "SERVER_DAYS", days)
    renew_certificate(guarded.folder, ["127.0.0.1", "localhost"])
    guarded.broker.restart()
    with pytest.raises(BrokerError, match=reason) as caught:
        probe(place(guarded))
    assert "\n" not in str(caught.value)


def test_a_port_without_tls_is_said_so(guarded: Guarded, broker: Broker) -> None:
    with pytest.raises(BrokerError, match=r"cannot (trust|reach) the broker"):
        probe(Address(broker.host, broker.port, ca=ca_text(guarded.folder)))
