"""Who may import whom, and what may not exist at all, checked on the source."""

from __future__ import annotations

import ast
import functools
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("broker", "common", "fl_client", "fl_server")
MOST_LINES = 400

PURE = (
    "common/aggregation.py",
    "common/allotment.py",
    "common/arrays.py",
    "common/augment.py",
    "common/autoaugment.py",
    "common/codec.py",
    "common/encodings.py",
    "common/ids.py",
    "common/image_ops.py",
    "common/messages.py",
    "common/models.py",
    "common/partition.py",
    "common/presence.py",
    "common/rebalance.py",
    "common/sinkhorn.py",
    "common/skews.py",
    "common/step_choice.py",
    "common/topics.py",
    "common/windows.py",
    "fl_client/agent.py",
    "fl_client/agent_state.py",
    "fl_client/duties.py",
    "fl_client/energy.py",
    "fl_server/history.py",
    "fl_server/listener.py",
    "fl_server/page.py",
    "fl_server/round_state.py",
    "fl_server/rounds.py",
    "fl_server/selection.py",
    "fl_server/summary.py",
    "fl_server/tally.py",
    "fl_server/timeline.py",
    "fl_server/view.py",
)
WORLD = {"os", "paho", "pathlib", "queue", "socket", "subprocess", "threading", "time", "torch"}
WORLD |= {"asyncio", "datetime", "multiprocessing", "random", "select", "shutil", "tempfile"}
FORBIDDEN = {"cloudpickle", "dill", "joblib", "marshal", "pickle", "shelve"}


@dataclass(frozen=True)
class Import:
    module: str
    line: int
    for_types_only: bool

    @property
    def top(self) -> str:
        return self.module.split(".", 1)[0]


def sources() -> list[Path]:
    return [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]


@functools.cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def imports_of(node: ast.AST, *, for_types_only: bool = False) -> Iterator[Import]:
    """All imports below a node, wherever they stand: also inside of functions."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            for alias in child.names:
                yield Import(alias.name, child.lineno, for_types_only)
        elif isinstance(child, ast.ImportFrom):
            assert child.level == 0, "relative imports are not used here"
            for alias in child.names:
                yield Import(f"{child.module}.{alias.name}", child.lineno, for_types_only)
        yield from imports_of(child, for_types_only=for_types_only or is_type_checking(child))


def imports(path: Path) -> list[Import]:
    return list(imports_of(tree_of(path)))


def importers(module: str) -> set[str]:
    return {
        name_of(path) for path in sources() if module in {found.top for found in imports(path)}
    }


def test_the_packages_are_there() -> None:
    assert {name_of(path).split("/")[0] for path in sources()} == set(PACKAGES)


@pytest.mark.parametrize(
    ("package", "allowed"),
    [
        ("common", {"common"}),
        ("broker", {"broker", "common"}),
        ("fl_client", {"fl_client", "common"}),
        ("fl_server", {"fl_server", "common"}),
    ],
)
def test_a_package_imports_only_those_below_it(package: str, allowed: set[str]) -> None:
    wrong = [
        f"{name_of(path)}:{found.line} imports {found.module}"
        for path in sorted((ROOT / package).rglob("*.py"))
        for found in imports(path)
        if found.top in {*PACKAGES, "tests"} - allowed
    ]
    assert wrong == []


def test_only_the_link_imports_paho() -> None:
    assert importers("paho") == {"common/link.py"}


def test_only_command_lines_import_click() -> None:
    names = {Path(name).name for name in importers("click")}
    assert {name for name in names if not re.fullmatch(r"cli(_\w+)?\.py", name)} == set()


def test_only_the_dashboard_and_the_report_import_rich() -> None:
    screens = {"dashboard", "report", "bars", "table"}
    assert {Path(name).stem for name in importers("rich")} <= screens


@pytest.mark.parametrize("name", PURE)
def test_a_pure_file_knows_nothing_of_the_world(name: str) -> None:
    wrong = [
        f"{name}:{found.line} imports {found.module}"
        for found in imports(ROOT / name)
        if found.top in WORLD and not found.for_types_only
    ]
    assert wrong == []


@pytest.mark.parametrize(
    "module",
    [
        "fl_server.service",
        "fl_server.conductor",
        "fl_client.service",
    ],
)
def test_what_needs_no_torch_does_not_import_it(module: str) -> None:
    code = f"import sys, {module}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


@pytest.mark.parametrize("path", sources(), ids=name_of)
def test_a_file_fits_in_a_head(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= MOST_LINES


@pytest.mark.parametrize("path", sources(), ids=name_of)
def test_a_module_says_what_it_is_for(path: Path) -> None:
    tree = tree_of(path)
    assert ast.get_docstring(tree) or not tree.body


def test_nothing_is_unpickled_or_evaluated_anywhere() -> None:
    everywhere = [*sources(), *sorted((ROOT / "tests").rglob("*.py"))]
    imported = {(name_of(p), i.top) for p in everywhere for i in imports(p)}
    assert not {(name, top) for name, top in imported if top in FORBIDDEN}
    for path in everywhere:
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.Call):
                called = ast.unparse(node.func)
                assert called not in {"eval", "exec", "torch.load"}, name_of(path)
            if isinstance(node, ast.keyword):
                allowed = isinstance(node.value, ast.Constant) and node.value.value is False
                assert node.arg != "allow_pickle" or allowed, name_of(path)


def test_nothing_but_definitions_runs_at_import() -> None:
    """No parsing of arguments, no settings of logs, no seeding: calls stand in functions."""
    wrong = [
        f"{name_of(path)}:{node.lineno}"
        for path in sources()
        if path.name != "__main__.py"
        for node in tree_of(path).body
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
    ]
    assert wrong == []
