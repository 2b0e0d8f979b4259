"""Secured runs on a real broker: masks cancel to the bit, whoever drops out or dies."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.rig import Rig, boards, eventually

pytestmark = pytest.mark.slow

EXACT = """
[experiment]
rounds = 2
grace = {grace}
[algorithm]
name = "{name}"
[model]
name = "dnn"
hidden = 8
[data]
clients = 6
[training]
epochs = {epochs}
[aggregation]
arithmetic = "exact"
[communication]
encoding = "{encoding}"
"""
SECURE = ("--set", "privacy.secure=true")


def secret_of(rig: Rig, board: str) -> list[Path]:
    return sorted((rig.folder / board).glob("runs/*/client-*/secret"))


@pytest.mark.parametrize(
    ("name", "encoding"), [("fedavg", "float32"), ("scaffold", "float32"), ("fedadam", "int8")]
)
def test_a_secured_run_ends_with_the_bits_of_an_unsecured_one_and_reveals_no_client(
    rig: Rig, name: str, encoding: str
) -> None:
    rig.write_experiment(
        EXACT.format(name=name, encoding=encoding, epochs=1, grace='"forever"')
    )
    ear = rig.listen()
    boards(rig, ["0-2", "3-5"])
    rig.finish(rig.coordinator(*SECURE))
    assert rig.digest() == rig.simulate()
    assert not {"message_dropped", "problem", "failed", "rejected"} & set(rig.kinds())
    wire, here = rig.metrics(), rig.metrics("sim")
    assert [line.get("samples") for line in wire] == [line.get("samples") for line in here]
    loss = [line["train_loss"] for line in here[1:]]
    assert [line["train_loss"] for line in wire[1:]] == pytest.approx(loss)
    told = [m for m in ear.messages("receive_info") if m["state"] in ("training", "trained")]
    assert told
    assert all(m["loss"] is None and m["samples"] == 0 for m in told)
    eventually(lambda: not secret_of(rig, "b1"), "what nobody needs any more is deleted")


def test_everybody_killed_in_a_secured_round_says_the_same_again(rig: Rig) -> None:
    rig.write_experiment(
        EXACT.format(name="fedavg", encoding="float32", epochs=8, grace='"forever"')
    )
    b1, _ = boards(rig, ["0-2", "3-5"])
    server = rig.coordinator(*SECURE)
    eventually(lambda: secret_of(rig, "b1"), "its keys")
    b1.kill()
    server.kill()
    b1.wait()
    server.wait()
    rig.daemon("b1", "0-2")
    where = ("--runs", str(rig.runs), "--plain")
    rig.finish(rig.start("again", "fl_server", "resume", "r", *where), "again")
    assert rig.digest() == rig.simulate()


def test_a_board_that_is_gone_for_good_is_not_in_the_sum_and_the_round_goes_on(
    rig: Rig,
) -> None:
    rig.write_experiment(EXACT.format(name="fedavg", encoding="float32", epochs=30, grace=1))
    ear = rig.listen()
    _, b2 = boards(rig, ["0-3", "4-5"])
    server = rig.coordinator(*SECURE)

    def training() -> bool:
        told = [m for m in ear.messages("receive_info") if m["state"] == "training"]
        return any(m["client"] == 4 for m in told)

    eventually(training, "client 4 trains under masks that all others count on")
    b2.kill()
    rig.finish(server)
    first = rig.metrics()[1]
    assert first["clients"] == [0, 1, 2, 3]
    assert first["dropped"] == [4, 5]
    assert "unopened" not in rig.kinds()
