"""The archive that boards are installed from."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from common.install.kit import ARCHIVE, FILES, NAME, write_kit

ROOT = Path(__file__).resolve().parents[3]


def unpacked(folder: Path) -> Path:
    with tarfile.open(write_kit(folder)) as kit:
        kit.extractall(folder, filter="data")
    return folder / NAME


def test_it_has_all_that_the_installer_reads_and_a_wheel_of_ours(tmp_path: Path) -> None:
    kit = unpacked(tmp_path)
    names = {path.name for path in kit.iterdir()}
    assert set(FILES) < names
    (wheel,) = names - set(FILES)
    with zipfile.ZipFile(kit / wheel) as file:
        assert file.testzip() is None
        assert "common/install/torch_versions.txt" in file.namelist()
        assert "fl_server/web/page/index.html" in file.namelist()
        assert not [name for name in file.namelist() if "__pycache__" in name]


def test_the_same_code_makes_the_same_bytes(tmp_path: Path) -> None:
    first = write_kit(tmp_path).read_bytes()
    assert write_kit(tmp_path).read_bytes() == first


@pytest.mark.slow
def test_pip_installs_its_wheel_and_the_programs_start(tmp_path: Path) -> None:
    (wheel,) = unpacked(tmp_path).glob("*.whl")
    target = tmp_path / "there"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*pip, "--target", str(target), str(wheel)], check=True)
    script = target / "bin" / "fl-client"
    done = subprocess.run(
        [sys.executable, str(script), "--version"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={"PYTHONPATH": str(target)},
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_a_board_that_is_no_root_and_wrong_options_are_told_in_one_line(tmp_path: Path) -> None:
    kit = unpacked(tmp_path)
    for options, expected in (
        (["--nonsense"], "there is no option --nonsense"),
        (["--torch"], "--torch needs a value"),
        (["a.toml", "b.toml"], "one credentials file at most"),
    ):
        done = subprocess.run(
            ["sh", str(kit / "install.sh"), *options],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 1
        assert done.stderr.startswith("install: ")
        assert expected in done.stderr
        assert done.stderr.count("\n") == 1


def test_the_archive_is_named_in_the_docs() -> None:
    assert ARCHIVE in (ROOT / "README.md").read_text()
