"""What a board keeps secret: the same keys after a restart, one answer, the same members."""

from __future__ import annotations

import secrets
from pathlib import Path

import msgspec
import pytest

from common.errors import ProtocolError, RevealError, WithdrawnError
from common.privacy.rules import RevealedShares, RoundKeys, SealedShares
from common.privacy.secure import Me, sealed_shares
from common.wire.json_codec import encode
from common.wire.messages import SecureRound
from fl_client.secrets import Secrets

OTHERS = [Me("r 3", client, secrets.token_bytes(32)) for client in (1, 2, 3)]
OPEN = {"survivors": (0, 1, 2)}


def make(folder: Path) -> Secrets:
    return Secrets(folder, "r", 0.6)


def begun(folder: Path) -> tuple[Secrets, SecureRound]:
    """Client 0 with three others, up to the shares."""
    board = make(folder)
    mine = board.message(0, 3, "keys")
    assert isinstance(mine, RoundKeys)
    members = {0: mine.keys, **{me.client: me.keys() for me in OTHERS}}
    return board, SecureRound(run="r", round=3, client=0, threshold=3, members=members)


def sealed(message: SecureRound) -> SecureRound:
    given = {me.client: sealed_shares(me, message.members, 3)[0] for me in OTHERS}
    return msgspec.structs.replace(message, sealed=given)


def take(board: Secrets, message: SecureRound, **changes: object) -> str:
    changed = msgspec.structs.replace(message, **changes)
    return board.receive(encode(changed), 0, 3)


def test_a_board_that_was_killed_has_the_same_keys_and_sends_the_same_shares(
    tmp_path: Path,
) -> None:
    board, message = begun(tmp_path)
    assert make(tmp_path).message(0, 3, "keys") == board.message(0, 3, "keys")
    assert take(board, message) == "shares"
    assert make(tmp_path).message(0, 3, "shares") == board.message(0, 3, "shares")
    assert isinstance(board.message(0, 3, "shares"), SealedShares)
    assert board.path(0).stat().st_mode & 0o777 == 0o600


def test_keys_are_new_in_every_round_and_old_ones_are_gone(tmp_path: Path) -> None:
    board, message = begun(tmp_path)
    later = board.message(0, 4, "keys")
    assert isinstance(later, RoundKeys)
    assert later.keys != message.members[0]
    with pytest.raises(WithdrawnError, match="its keys of this round are lost"):
        take(board, message)


def test_the_first_answer_is_final_also_after_a_restart(tmp_path: Path) -> None:
    board, message = begun(tmp_path)
    whole = sealed(message)
    take(board, message)
    assert take(board, whole) == "updates"
    assert take(board, whole, **OPEN) == "opening"
    answer = board.message(0, 3, "opening")
    assert isinstance(answer, RevealedShares)
    assert sorted(answer.shares) == [0, 1, 2, 3]
    again = make(tmp_path)
    take(again, whole, **OPEN)
    assert again.message(0, 3, "opening") == answer
    for other in ((0, 1, 3), (0, 1, 2, 3)):
        take(again, whole, survivors=other)
        with pytest.raises(RevealError, match="would open single updates"):
            again.message(0, 3, "opening")


def test_a_sum_of_too_few_or_without_this_client_is_not_opened(tmp_path: Path) -> None:
    board, message = begun(tmp_path)
    whole = sealed(message)
    take(board, whole)
    for survivors, why in (((0, 1), "fewer than 3"), ((1, 2, 3), "dropped out")):
        take(board, whole, survivors=survivors)
        with pytest.raises(RevealError, match=why):
            board.message(0, 3, "opening")


def test_the_first_members_and_shares_are_final(tmp_path: Path) -> None:
    board, message = begun(tmp_path)
    whole = sealed(message)
    take(board, whole)
    fewer = {client: keys for client, keys in message.members.items() if client != 3}
    with pytest.raises(WithdrawnError, match="other members than before"):
        take(board, whole, members=fewer)
    less = {client: data for client, data in whole.sealed.items() if client != 3}
    with pytest.raises(WithdrawnError, match="shares of other clients than before"):
        take(board, whole, sealed=less)
    assert take(make(tmp_path), whole) == "updates"


def test_what_would_weaken_a_round_is_not_accepted(tmp_path: Path) -> None:
    board, message = begun(tmp_path)
    whole = sealed(message)
    two = {client: whole.members[client] for client in (0, 1)}
    with pytest.raises(WithdrawnError, match="a sum of 2 clients, of which one would know"):
        take(board, message, members=two, threshold=2)
    with pytest.raises(WithdrawnError, match="2 of 4 clients to open the sum, which is less"):
        take(board, whole, threshold=2)
    one = {1: whole.sealed[1]}
    with pytest.raises(WithdrawnError, match="shares of too few"):
        take(board, whole, sealed=one)
    wrong = {**whole.sealed, 1: whole.sealed[2]}
    with pytest.raises(WithdrawnError, match="cannot be opened"):
        take(board, whole, sealed=wrong)
    with pytest.raises(ProtocolError, match="another round or client"):
        take(board, whole, client=1)
    with pytest.raises(ProtocolError, match="not a step"):
        board.receive(b"{}", 0, 3)


def test_when_a_run_is_over_its_secrets_are_deleted(tmp_path: Path) -> None:
    board, _ = begun(tmp_path)
    board.forget()
    assert not board.path(0).exists()
    assert not board.has_keys(0, 3)


def test_a_damaged_file_means_that_the_keys_are_lost(tmp_path: Path) -> None:
    board, message = begun(tmp_path)
    board.path(0).write_bytes(b"{")
    with pytest.raises(WithdrawnError, match="its keys of this round are lost"):
        take(board, message)
    with pytest.raises(WithdrawnError, match="its keys of this round are lost"):
        board.message(0, 3, "shares")
