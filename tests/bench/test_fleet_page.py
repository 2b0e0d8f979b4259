from __future__ import annotations

from dataclasses import replace

import pytest

from bench.fleet_page import BEGIN, END, PAGE, Row, knee, read, table

ROW = Row(
    boards=100,
    connect_seconds=0.1,
    start_seconds=0.2,
    round_seconds=0.2,
    coordinator_cpu=0.1,
    broker_cpu=0.03,
    coordinator_mb=100,
    broker_mb=20,
    again=0,
)


def sizes(**seconds: float) -> list[Row]:
    return [
        replace(ROW, boards=int(size[1:]), round_seconds=each) for size, each in seconds.items()
    ]


@pytest.mark.parametrize(
    ("rows", "found"),
    [
        (sizes(b100=0.2, b200=0.4, b400=0.8), None),
        (sizes(b100=0.2, b200=0.6, b400=1.2), None),  # 1.5 times as long is not more
        (sizes(b100=0.2, b200=0.4, b400=1.3, b800=4.0), 400),
        (sizes(b20=0.2, b100=0.2, b200=0.4), None),  # slower, but smaller than the best
    ],
)
def test_the_knee_is_where_a_round_takes_half_as_long_again_per_board(
    rows: list[Row], found: int | None
) -> None:
    assert knee(rows) == found
    named = "not reached with" if found is None else f"at {found} boards"
    assert f"The knee is {named}" in table(rows)


def test_the_docs_have_the_table_of_what_was_measured_last() -> None:
    shown = PAGE.read_text().partition(BEGIN)[2].partition(END)[0]
    assert shown == table(read())
