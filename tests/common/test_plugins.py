from __future__ import annotations

import sys
from pathlib import Path

import pytest

from common.errors import ConfigError
from common.plugins import explain, find_function, use_code, user_errors


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "mine.py").write_text("def double(x):\n    return 2 * x\n\nword = 'x'\n")
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack" / "__init__.py").write_text("")
    (tmp_path / "pack" / "inner.py").write_text("from mine import double\n")
    use_code(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", ["mine.py:double", "mine:double", "pack.inner:double"])
def test_a_function_is_found_beside_the_experiment(folder: Path, name: str) -> None:
    assert find_function("key", name)(3) == 6


def test_a_file_in_a_folder_below_is_found_by_its_path(folder: Path) -> None:
    assert find_function("key", "pack/inner.py:double")(3) == 6


def test_another_folder_has_other_functions(folder: Path, tmp_path: Path) -> None:
    assert find_function("key", "mine:double")(3) == 6
    other = tmp_path / "other"
    other.mkdir()
    (other / "mine.py").write_text("def double(x):\n    return x + x + 1\n")
    use_code(other)
    assert [find_function("key", name)(3) for name in ("mine:double", "mine.py:double")] == [
        7,
        7,
    ]
    assert str(folder) not in sys.path


def test_nothing_in_the_folder_hides_a_module_of_ours_or_of_python(folder: Path) -> None:
    for name in ("common", "json", "numpy"):
        (folder / f"{name}.py").write_text("def double(x):\n    return 'the wrong one'\n")
    before = {name: sys.modules[name] for name in ("common", "json", "numpy")}
    builtin = find_function("key", "fedavg", "common.algorithms.fedavg:fedavg")
    assert builtin.__module__ == "common.algorithms.fedavg"
    assert find_function("key", "common.py:double")(1) == "the wrong one"
    assert {name: sys.modules[name] for name in before} == before


@pytest.mark.parametrize("name", ["common", "json", "numpy"])
def test_a_module_that_has_the_name_of_another_is_named(folder: Path, name: str) -> None:
    (folder / f"{name}.py").write_text("def double(x):\n    return x\n")
    with pytest.raises(ConfigError) as caught:
        find_function("key", f"{name}:double")
    there = sys.modules[name].__file__
    assert str(caught.value) == (
        f"key is '{name}:double', but {folder / name}.py has the name of {there}; rename "
        f"yours, or write {name}.py:..."
    )


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("none.py:f", "key is 'none.py:f', but there is no none.py in {folder}"),
        ("none:f", "key is 'none:f', but no module none is in {folder} or installed"),
        ("pack.no:f", "key is 'pack.no:f', but no module pack.no is in {folder} or installed"),
        (
            "../mine.py:f",
            "key is '../mine.py:f', which is outside of {folder}; expected a file",
        ),
        ("mine.py:doubel", "but mine.py has no 'doubel'; did you mean 'double'?"),
        ("mine:nothing", "key is 'mine:nothing', but mine has no 'nothing'"),
        ("mine:word", "key is 'mine:word', which is not a function"),
        ("mine.py:", "key is 'mine.py:'; expected file.py:function or module:function"),
        ("torn.py:f", "key is 'torn.py:f': SyntaxError: '(' was never closed (torn.py:2)"),
        ("torn:f", "key is 'torn:f': SyntaxError: '(' was never closed (torn.py:2)"),
        ("early.py:f", "key is 'early.py:f': ZeroDivisionError: division by zero (early.py:3)"),
        ("early:f", "key is 'early:f': ZeroDivisionError: division by zero (early.py:3)"),
        ("needs:f", "No module named 'not_there' (needs.py:1)"),
        ("needs.py:f", "No module named 'not_there' (needs.py:1)"),
    ],
)
def test_what_is_wrong_is_one_sentence_with_the_users_line(
    folder: Path, name: str, problem: str
) -> None:
    (folder / "torn.py").write_text("\nprint(\n")
    (folder / "early.py").write_text("\n\nx = 1 / 0\n")
    (folder / "needs.py").write_text("import not_there\n")
    with pytest.raises(ConfigError) as caught:
        find_function("key", name)
    assert problem.format(folder=folder) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_code_that_was_corrected_is_imported_anew(folder: Path) -> None:
    (folder / "early.py").write_text("x = 1 / 0\n")
    for name in ("early.py:f", "early:f"):
        with pytest.raises(ConfigError):
            find_function("key", name)
    (folder / "early.py").write_text("def f():\n    return 'corrected'\n")
    assert find_function("key", "early.py:f")() == "corrected"


def test_a_board_that_was_not_told_where_its_code_is_says_how() -> None:
    with pytest.raises(ConfigError, match="'fl-client run --code FOLDER'"):
        find_function("key", "mine.py:double")


def test_an_error_is_placed_at_the_last_line_of_the_users_code(folder: Path) -> None:
    (folder / "deep.py").write_text("import json\n\ndef f():\n    return json.loads('{')\n")
    function = find_function("key", "deep.py:f")
    with (
        pytest.raises(ConfigError, match=r"^here: JSONDecodeError: .* \(deep.py:4\)$"),
        user_errors("here", function),
    ):
        function()


def test_an_error_by_what_a_function_returned_is_placed_at_the_function(folder: Path) -> None:
    function = find_function("key", "mine.py:double")
    assert explain(TypeError("returned NoneType"), function) == (
        "TypeError: returned NoneType (mine.py:1)"
    )
