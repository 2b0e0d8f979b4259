"""Models on their way to a board, in any order, mixed, repeated, damaged."""

from __future__ import annotations

from pathlib import Path

import pytest

from common.wire.chunks import CHUNK, cut
from common.wire.messages import Chunk
from fl_client.downloads import Downloads


def parts(run: str, number: int, fill: bytes = b"x") -> list[Chunk]:
    blob = fill * (2 * CHUNK + 17)
    return list(cut(blob, run=run, round_number=number, client=None))


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


@pytest.mark.parametrize(("small", "files"), [(1, 4), (10**9, 2)])
def test_only_the_newest_models_stay(
    downloads: Downloads,
    tmp_path: Path,
    small: int,
    files: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("fl_client.downloads.SMALL", small)
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
    assert len(names) == files
    assert len(downloads._open) == 2


# downloads for one client


def own_parts(client: int, number: int, fill: bytes = b"x", run: str = "r") -> list[Chunk]:
    blob = fill * (CHUNK + 17)
    return list(cut(blob, run=run, round_number=number, client=client, down=True))


def test_a_client_has_a_download_of_its_own_beside_that_of_all(downloads: Downloads) -> None:
    mine, others = own_parts(3, 1, b"m"), own_parts(4, 1, b"o")
    mixed = [part for pair in zip(mine, others, strict=True) for part in pair]
    assert [downloads.add(part) for part in mixed] == [False, False, True, True]
    assert [downloads.add(part) for part in parts("r", 1, b"a")] == [False, False, True]
    assert downloads.private_path("r", 1, 3).read_bytes() == b"m" * (CHUNK + 17)
    assert downloads.private_path("r", 1, 4).read_bytes() == b"o" * (CHUNK + 17)
    assert downloads.path("r", 1).read_bytes()[:1] == b"a"


def test_parts_of_an_older_round_for_one_client_are_ignored(downloads: Downloads) -> None:
    old, new = own_parts(3, 1, b"o"), own_parts(3, 2, b"n")
    assert [downloads.add(part) for part in (old[0], *new)] == [False, False, True]
    assert [downloads.add(part) for part in (*old, *new)] == [False] * 4
    assert downloads.private_path("r", 2, 3).read_bytes()[:1] == b"n"
    assert not downloads.private_path("r", 1, 3).exists()


def test_only_the_newest_download_of_each_client_stays_on_disk(
    downloads: Downloads, tmp_path: Path
) -> None:
    for number in (1, 2, 3):
        for client in (3, 4):
            for part in own_parts(client, number, bytes([number])):
                downloads.add(part)
    downloads.add(own_parts(3, 4)[0])
    downloads.add(own_parts(3, 5)[0])
    names = sorted(path.name for path in (tmp_path / "downloads").iterdir())
    whole = [name for name in names if name.startswith("r-")]
    assert whole == ["r-000003-3.safetensors", "r-000003-4.safetensors"]
    assert len(names) == 3, "one on its way: the newer takes the place of the older"


def test_another_run_begins_again_with_its_first_round(downloads: Downloads) -> None:
    for part in own_parts(3, 7):
        downloads.add(part)
    assert [downloads.add(part) for part in own_parts(3, 1, run="next")] == [False, True]
    assert downloads.private_path("next", 1, 3).exists()
    assert not downloads.private_path("r", 7, 3).exists()


def test_a_damaged_download_of_one_client_is_thrown_away_and_can_come_again(
    downloads: Downloads,
) -> None:
    a, b = own_parts(3, 1)
    wrong = Chunk(b.header, b"?" * len(b.body))
    assert [downloads.add(part) for part in (a, wrong)] == [False, False]
    assert not downloads.private_path("r", 1, 3).exists()
    assert [downloads.add(part) for part in (b, a)] == [False, True]
