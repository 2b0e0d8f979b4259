from __future__ import annotations

from pathlib import Path

import pytest

from common.code_files import changed, difference, digests_of
from common.errors import ConfigError
from common.plugins import use_code


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    files = {
        "mine.py": "import json, helper\nfrom pack.inner import x\n",
        "helper.py": "def f():\n    import late\n",
        "late.py": "",
        "unused.py": "",
        "json.py": "",
        "common.py": "",
        "pack/__init__.py": "",
        "pack/inner.py": "from . import near\nfrom .deeper import y\n",
        "pack/near.py": "",
        "pack/deeper/__init__.py": "from ..far import z\n",
        "pack/far.py": "",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    use_code(tmp_path)
    return tmp_path


INNER = {"pack/__init__.py", "pack/inner.py", "pack/near.py", "pack/deeper/__init__.py"}
INNER |= {"pack/far.py"}


@pytest.mark.parametrize(
    ("place", "files"),
    [
        ("mine.py:f", {"mine.py", "helper.py", "late.py", *INNER}),
        ("mine:f", {"mine.py", "helper.py", "late.py", *INNER}),
        ("pack.inner:x", INNER),
        ("late.py:f", {"late.py"}),
    ],
)
def test_the_files_are_those_that_are_imported_from_the_folder(
    folder: Path, place: str, files: set[str]
) -> None:
    assert set(digests_of([place])) == files


def test_of_an_installed_package_the_files_are_its_own() -> None:
    found = digests_of(["click.testing:CliRunner"])
    assert "click/testing.py" in found
    assert all(name.startswith("click/") for name in found)


def test_the_same_text_has_the_same_digest_whatever_its_line_ends(folder: Path) -> None:
    before = digests_of(["helper.py:f"])
    (folder / "helper.py").write_bytes(b"def f():\r\n    import late\r\n")
    assert digests_of(["helper.py:f"]) == before
    (folder / "late.py").write_text("x = 1\n")
    assert changed(before, digests_of(["helper.py:f"])) == "late.py"


def test_what_differs_on_a_board_is_a_sentence(folder: Path) -> None:
    wanted = digests_of(["helper.py:f"])
    assert difference(wanted, wanted) == ""
    (folder / "late.py").write_text("x = 1\n")
    assert difference(wanted, digests_of(["helper.py:f"])) == (
        f"late.py in {folder} is another version than the coordinator's"
    )
    (folder / "late.py").unlink()
    assert difference(wanted, digests_of(["helper.py:f"])) == (
        f"the experiment needs late.py, which is not in {folder}"
    )


def test_a_file_that_a_board_does_not_have_is_named(folder: Path) -> None:
    with pytest.raises(ConfigError, match=r"there is no other.py in "):
        digests_of(["other.py:f"])
    with pytest.raises(ConfigError, match=r"'nowhere.at:f' is neither in .* nor installed"):
        digests_of(["nowhere.at:f"])
