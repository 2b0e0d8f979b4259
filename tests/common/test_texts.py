"""Texts from outside, as one line."""

from __future__ import annotations

import pytest

from common.texts import escaped, printable, shortened, text_fields
from common.wire.messages import Info, TrainDetail
from tests.hostile import HOSTILE, controls


@pytest.mark.parametrize("text", HOSTILE)
def test_what_is_shown_is_one_line_without_control_characters(text: str) -> None:
    for shown in (printable(text), escaped(text)):
        assert controls(shown) == set()
        assert len(shown.splitlines()) == 1


def test_nothing_is_lost_by_escaping() -> None:
    assert escaped("a\nb\x1b[0m\u202e") == r"a\nb\x1b[0m\u202e"
    assert escaped("a\nb\r", keep="\n") == "a\nb\\r"
    assert escaped("\udcff") == r"\udcff"


def test_long_texts_are_cut_visibly() -> None:
    assert shortened("abcdef", 4) == "abc…"
    assert shortened("abcd", 4) == "abcd"


def test_the_texts_of_a_message_are_found_by_its_types() -> None:
    assert text_fields(Info) == ("run", "board", "problem", "arithmetic")
    assert text_fields(TrainDetail) == ("version", "run")
