"""Wrong data of users' own: one sentence that says what is wrong, where, and what to do."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from common.data.shards import ShardSet
from common.errors import DataError
from fl_server.cli import main
from tests.common.data.own.test_own import experiment

Make = Callable[[Path], None]
GOOD = ["a,b,y", *(f"{at},{at % 5},{at / 7}" for at in range(40))]


def csv(*lines: str) -> Make:
    return lambda folder: _write(folder / "t.csv", "".join(f"{line}\n" for line in lines))


def py(body: str) -> Make:
    return lambda folder: _write(folder / "wrong_loader.py", f"import numpy as np\n{body}\n")


def npz(**arrays: object) -> Make:
    def make(folder: Path) -> None:
        made = {name: np.array(array) for name, array in arrays.items()}
        np.savez(folder / "d.npz", **made)  # type: ignore[arg-type]  # they take options too

    return make


def _write(path: Path, text: str, encoding: str = "utf-8") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding=encoding)


TABLE = ("csv:t.csv", 'target = "y"')
FUNCTION = ("wrong_loader:load",)
CASES: dict[str, tuple[Make, tuple[str, ...], str]] = {
    "no file": (lambda _: None, TABLE, "'csv:t.csv', which is not there: "),
    "no target": (csv(*GOOD), ("csv:t.csv",), "data.target is not set, and "),
    "no such target": (csv(*GOOD), ("csv:t.csv", 'target = "yy"'), "did you mean 'y'?"),
    "no such feature": (
        csv(*GOOD),
        (*TABLE, 'features = ["a", "bb"]'),
        "data.features is 'bb', which ",
    ),
    "target as feature": (csv(*GOOD), (*TABLE, 'features = ["y"]'), "which is data.target"),
    "missing value": (
        csv(*GOOD, "1,,2"),
        TABLE,
        "t.csv, line 42, column 'b': a value is missing",
    ),
    "not a number": (csv(*GOOD, "1,x,2"), TABLE, "line 42, column 'b': 'x' is not a number"),
    "short line": (csv(*GOOD, "1,2"), TABLE, "line 42 has 2 values; expected 3"),
    "two headers": (csv("a,a,y", "1,2,3"), TABLE, "has two columns 'a' in its first line"),
    "empty file": (csv(), TABLE, "t.csv is empty; expected a header"),
    "only a header": (csv("a,b,y"), TABLE, "has a header, but no samples"),
    "not text": (
        lambda folder: _write(folder / "t.csv", "a\xffb", "latin-1"),
        TABLE,
        "is not text in UTF-8 (byte 0xff); save it in that encoding",
    ),
    "too few": (csv(*GOOD[:5]), TABLE, "csv:t.csv has only 4 samples; every client needs"),
    "too many texts": (
        csv("a,y", *(f"name-{at},{at / 3}" for at in range(1001))),
        TABLE,
        "1001 different texts; expected at most 1000",
    ),
    "wrong model": (csv(*GOOD), (*TABLE, "model=small"), "as the dataset is numbers"),
    "several numbers": (
        csv(*GOOD),
        ("csv:t.csv", 'target = ["b", "y"]', 'partition = "ls"'),
        "are several numbers; expected 'iid'",
    ),
    "different lengths": (
        npz(x=[[1.0]] * 9, target=[0] * 8),
        ("npz:d.npz",),
        "arrays have different lengths (x 9, target 8)",
    ),
    "NaN": (
        npz(x=[[1.0]] * 8 + [[np.nan]], target=[0, 1, 2] * 3),
        ("npz:d.npz",),
        "d.npz: x[8]: a value is missing (NaN or infinite)",
    ),
    "pickled": (npz(x=[{}, {}], target=[0, 1]), ("npz:d.npz",), "without objects"),
    "negative class": (
        npz(x=[[1.0]] * 9, target=[0, 1, -1] * 3),
        ("npz:d.npz",),
        "target[2]: -1 is not a class; expected 0 to 1",
    ),
    "unseen class": (
        npz(x=[[1.0]] * 9, target=[0, 2, 2] * 3, test_x=[[1.0]], test_target=[1]),
        ("npz:d.npz",),
        "target[0]: class 1 is in no training sample",
    ),
    "raises": (
        py("def load(folder):\n    return 1 / 0"),
        FUNCTION,
        "ZeroDivisionError: division by zero (wrong_loader.py:3)",
    ),
    "returns a list": (py("def load(folder):\n    return [1]"), FUNCTION, "returned list"),
    "no test targets": (
        npz(x=[[1.0]] * 9, target=[0] * 9, test_x=[[1.0]]),
        ("npz:d.npz",),
        "has 'target' in one part only",
    ),
    "an empty class": (
        lambda f: (f / "p" / "cats").mkdir(parents=True),
        ("folder:p",),
        "expected a sub-folder for each class",
    ),
    "not an image": (
        lambda f: _write(f / "p" / "cats" / "1.png", "cat"),
        ("folder:p",),
        "1.png is not a whole image",
    ),
    "infinite": (csv(*GOOD, "1,inf,2"), TABLE, "column 'b': 'inf' is not a finite number"),
    "fractions as classes": (
        csv("a,y", *(f"1,{at}.5" for at in range(40))),
        (*TABLE, 'partition = "iid"\n[task]\nkind = "classification"'),
        "line 2, column 'y': 0.5 is not a class; expected texts or whole numbers, or task.kind",
    ),
    "one class only": (
        csv("a,y", *["1,yes"] * 40),
        TABLE,
        "all samples have the class 'yes' in 'y'; expected at least two classes",
    ),
    "one class only, in arrays": (
        npz(x=[[1.0]] * 9, target=[3] * 9),
        ("npz:d.npz",),
        "all samples have the class '3' in 'target'",
    ),
    "samples of different shapes": (
        py("def load(folder):\n    return {'x': [[1, 2], [3]], 'target': [0, 1]}"),
        FUNCTION,
        "whose 'x' is no array: its samples have different shapes",
    ),
    "not a zip file": (
        lambda f: _write(f / "d.npz", "hello"),
        ("npz:d.npz",),
        "d.npz is not an .npz file; expected what numpy.savez writes",
    ),
    "skewed labels": (
        npz(x=[[1.0]] * 40, target=[[0, 1]] * 40),
        ("npz:d.npz", 'partition = "dirichlet"'),
        "my.toml:4: data.partition is 'dirichlet', but targets of 'npz:d.npz' are several",
    ),
    "a table as rotated images": (
        csv("a,y", *(f"{at},{'xy'[at % 2]}" for at in range(40))),
        (*TABLE, 'partition = "iid"\n[algorithm]\nname = "fedreg"'),
        "algorithm.augmentation is 'five_step', which is for images with 1 or 3 channels",
    ),
    "no groups": (
        csv(*GOOD),
        (*TABLE, 'partition = "natural"'),
        "expected another partition, or data.group = the column",
    ),
    "of ours": (
        lambda _: None,
        ("mnist", 'target = "y"'),
        "data.target is for your own dataset",
    ),
    "a misspelt source": (csv(*GOOD), ("cvs:t.csv",), "data.dataset is 'cvs:t.csv'"),
}


@pytest.mark.parametrize("case", CASES)
def test_wrong_data_is_refused_in_one_sentence(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, (dataset, *settings), sentence = CASES[case]
    make(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "wrong_loader", raising=False)
    model = next((one[6:] for one in settings if one.startswith("model=")), "dnn")
    lines = [one for one in settings if not one.startswith("model=")]
    if not any(one.startswith("partition") for one in lines):
        lines.append('partition = "iid"')
    text = ["[data]", f'dataset = "{dataset}"', "clients = 3", *lines]
    file = tmp_path / "my.toml"
    _write(file, "\n".join([*text, "[model]", f'name = "{model}"']))
    result = CliRunner().invoke(main, ["check", str(file)], catch_exceptions=False)
    assert result.exit_code != 0
    assert sentence in result.output
    assert result.output.count("\n") == 1
    assert "Traceback" not in result.output


def test_a_loader_that_returns_something_else_each_time_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = "{'x': np.random.rand(30, 2), 'target': np.arange(30) % 2}"
    body = f"def load(folder):\n    return {made}"
    _write(tmp_path / "changing_loader.py", f"import numpy as np\n{body}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    found = experiment(tmp_path, "changing_loader:load")
    with pytest.raises(DataError, match="a loader must return the same each time"):
        ShardSet(tmp_path / "shards", found).ensure([0])
