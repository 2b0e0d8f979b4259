from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from common.errors import ProtocolError
from fl_server.sweeps.folders import packed, unpack


def files(folder: Path) -> dict[str, bytes]:
    found = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}


def test_a_folder_that_travels_replaces_the_old_one_whole(tmp_path: Path) -> None:
    there, here = tmp_path / "there", tmp_path / "here"
    for folder in (there / "clients", here):
        folder.mkdir(parents=True)
    (there / "model").write_bytes(b"\n\0new")
    (there / "clients" / "empty").write_bytes(b"")
    (there / "lock").write_bytes(b"held there")
    (there / "half.tmp7").write_bytes(b"interrupted")
    (here / "model").write_bytes(b"old")
    (here / "gone").write_bytes(b"old")
    unpack(packed(there), here)
    assert files(here) == {"clients/empty": b"", "model": b"\n\0new"}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["here", "there"]


@pytest.mark.parametrize("name", ["../elsewhere", "/etc/elsewhere", "a/../../elsewhere"])
def test_a_file_outside_of_the_folder_is_refused_and_the_old_one_stays(
    tmp_path: Path, name: str
) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "model").write_bytes(b"old")
    with pytest.raises(ProtocolError, match="has no file"):
        unpack(msgspec.json.encode([(name, 1)]) + b"\nx", tmp_path / "run")
    assert files(tmp_path / "run") == {"model": b"old"}
    assert not (tmp_path / "elsewhere").exists()
