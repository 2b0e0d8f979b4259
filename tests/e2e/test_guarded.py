"""An experiment through TLS, accounts and rules; and no password where it does not belong."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from broker.accounts import revoke
from common.access.credentials import read_credentials
from tests.e2e.guarded_rig import GuardedRig
from tests.e2e.rig import eventually, family


@pytest.mark.slow
def test_a_guarded_run_gives_the_same_bits_and_shows_no_secret(guarded_rig: GuardedRig) -> None:
    rig = guarded_rig
    rig.fork_server = None
    daemons = [rig.daemon("b1", "0-1"), rig.daemon("b2", "2-3")]
    server = rig.coordinator()
    eventually(lambda: (rig.runs / "r" / "events.jsonl").exists(), "the run")
    eventually(lambda: "round_opened" in rig.kinds(), "a round")
    shown = b"".join(
        (Path("/proc") / str(pid) / name).read_bytes()
        for process in (*daemons, server)
        for pid in family(process.pid)
        for name in ("cmdline", "environ")
    )
    rig.finish(server)
    assert rig.digest() == rig.simulate()
    assert "refused" not in rig.kinds(), "an honest fleet gives no reason"
    bundles = sorted((rig.guarded.folder / "accounts").iterdir())
    passwords = [read_credentials(path).password.encode() for path in bundles]
    assert len(passwords) == 3
    places = [path for path in rig.folder.rglob("*") if path.is_file()]
    places += [path for path in rig.guarded.folder.iterdir() if path.is_file()]
    assert len(places) > 10
    for password in passwords:
        assert password not in shown
        assert [path for path in places if password in path.read_bytes()] == []


@pytest.mark.slow
def test_a_revoked_board_is_out_and_says_why(guarded_rig: GuardedRig) -> None:
    daemon = guarded_rig.daemon("b1", "0-1")
    eventually(lambda: "board b1 is ready" in guarded_rig.log("b1"), "the board")
    revoke(guarded_rig.guarded.folder, "b1")
    guarded_rig.guarded.broker.reload()
    assert daemon.wait(90) == 1
    assert "not authorized" in guarded_rig.log("b1").splitlines()[-1]


@pytest.mark.slow
def test_an_interrupted_run_goes_on_with_its_credentials_which_stay_in_their_file(
    guarded_rig: GuardedRig,
) -> None:
    server = guarded_rig.coordinator()
    eventually(lambda: "waiting for boards" in guarded_rig.log("server"), "the coordinator")
    server.send_signal(signal.SIGINT)
    server.wait(60)
    again = f"fl-server resume r --runs {guarded_rig.runs}"
    assert guarded_rig.log("server").splitlines()[-1].endswith(f"Go on with: {again}")
    bundle = guarded_rig.bundle("server")
    kept = (guarded_rig.runs / "r" / "start.json").read_text()
    assert str(bundle) in kept
    assert read_credentials(bundle).password not in kept
    words = again.removeprefix("fl-server ").split()
    resumed = guarded_rig.start("again", "fl_server", *words, "--plain")
    eventually(lambda: "waiting for boards" in guarded_rig.log("again"), "it is logged in")
    resumed.send_signal(signal.SIGINT)
    assert resumed.wait(60) == 130
