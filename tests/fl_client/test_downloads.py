"""Models on their way to a board, in any order, mixed, repeated, damaged."""

from __future__ import annotations

from pathlib import Path

import pytest

from common.codec import CHUNK, cut
from common.messages import Chunk
from fl_client.downloads import Downloads


def parts(run: str, number: int, fill: bytes = b"x") -> list[Chunk]:
    blob = fill * (2 * CHUNK + 17)
    return list(cut(blob, run=run, number=number, client=None))


@pytest.fixture
def downloads(tmp_path: Path) -> Downloads:
    return Downloads(tmp_path / "downloads")


def test_the_last_missing_part_completes_a_model_whatever_the_order(
    downloads: Downloads,
) -> None:
    a, b, c = parts("r", 1)
    assert [downloads.add(part) for part in (c, a, a, c, b)] == [False] * 4 + [True]
    assert downloads.path("r", 1).read_bytes() == b"x" * (2 * CHUNK + 17)
    assert not downloads.add(a), "a repetition completes nothing"


def test_two_rounds_may_arrive_mixed(downloads: Downloads) -> None:
    first, second = parts("r", 1), parts("r", 2, b"y")
    done = [downloads.add(part) for pair in zip(first, second, strict=True) for part in pair]
    assert done == [False] * 4 + [True, True]
    assert downloads.path("r", 2).read_bytes()[:1] == b"y"


def test_parts_that_do_not_make_the_announced_model_are_thrown_away(
    downloads: Downloads,
) -> None:
    a, b, c = parts("r", 1)
    wrong = Chunk(c.header, b"?" * len(c.body))
    assert [downloads.add(part) for part in (a, b, wrong)] == [False] * 3
    assert not downloads.path("r", 1).exists()
    assert [downloads.add(part) for part in (a, b, c)] == [False, False, True]


def test_only_the_newest_models_stay_on_disk(downloads: Downloads, tmp_path: Path) -> None:
    for number in range(1, 6):
        for part in parts("r", number, bytes([number])):
            downloads.add(part)
    for number in range(6, 12):
        downloads.add(parts("r", number, bytes([number]))[0])
    names = sorted(path.name for path in (tmp_path / "downloads").iterdir())
    assert [name for name in names if name.startswith("r-")] == [
        "r-000004.safetensors",
        "r-000005.safetensors",
    ]
    assert len(names) == 4
