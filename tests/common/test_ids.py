from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.errors import UsageError
from common.ids import check_name, parse_ids, show_ids


@given(st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", fullmatch=True))
def test_a_plain_name_is_taken_as_it_is(name: str) -> None:
    assert check_name(name, "--board") == name


@pytest.mark.parametrize(
    "name", ["", " ", "a b", "a/b", "a+", "#", "@coordinator", ".hidden", "-x", "a\n", "ä"]
)
def test_a_name_that_would_break_a_topic_or_a_path_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match=r"--board is .*expected letters A-Z and a-z, digits"):
        check_name(name, "--board")


def test_a_name_of_more_than_64_letters_is_refused() -> None:
    assert check_name("a" * 64, "--board")
    with pytest.raises(UsageError, match="at most 64"):
        check_name("a" * 65, "--board")


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("0", (0,)),
        ("0,1,2", (0, 1, 2)),
        ("0-3", (0, 1, 2, 3)),
        ("7-7", (7,)),
        ("9, 0-2 ,1", (0, 1, 2, 9)),
        (" 1 - 3 ", (1, 2, 3)),
        ("007", (7,)),
        ("999999", (999_999,)),
    ],
)
def test_client_ids_are_read_as_people_write_them(text: str, ids: tuple[int, ...]) -> None:
    assert parse_ids(text) == ids


@pytest.mark.parametrize("text", ["", "x", "1,", ",", "-1", "0-", "1.5", "1 2", "1000000", "²"])
def test_what_is_not_a_list_of_ids_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(UsageError, match="expected such as 0,1,2 or 0-9"):
        parse_ids(text)


def test_a_range_that_runs_backwards_is_refused() -> None:
    with pytest.raises(UsageError, match="'9-0' runs backwards"):
        parse_ids("3, 9-0")


@pytest.mark.parametrize(
    ("ids", "text"),
    [((), "none"), ((3,), "3"), ((0, 1, 2, 3, 7), "0-3, 7"), ((4, 2), "2, 4")],
)
def test_ids_are_shown_briefly(ids: tuple[int, ...], text: str) -> None:
    assert show_ids(ids) == text


@given(st.sets(st.integers(0, 999_999), min_size=1, max_size=30))
def test_shown_ids_can_be_read_again(ids: set[int]) -> None:
    assert parse_ids(show_ids(sorted(ids))) == tuple(sorted(ids))
