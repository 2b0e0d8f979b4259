"""Who may import whom, and what may not exist at all, checked on the source."""

from __future__ import annotations

import ast
import functools
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("broker", "common", "fl_client", "fl_server")
MOST_LINES = 300
MOST_MODULES = 15
ONE_FILE_PER_PAPER = "common/algorithms"  # the one folder that may have more

# From the bottom up: a layer imports those below it, never one beside or above it.
LAYERS: dict[str, tuple[set[str], ...]] = {
    "common": (
        {"errors", "__init__"},
        {"ids", "rng", "texts", "arrays", "plugins"},
        {"disk", "access", "program", "code_files"},
        {"wire"},
        {"config"},
        {"tasks"},
        {"data"},
        {"algorithms"},
        {"learning"},
        {"experiment"},
        {"worker"},
    ),
    "fl_server": (
        {"__init__"},
        {"watch.facts"},
        {"rounds"},
        {"run"},
        {"watch", "central", "data"},
        {"coordinator", "reports", "check"},
        {"lab"},
        {"launch"},
        {"sweeps"},
        {"cli"},
        {"__main__"},
    ),
    "fl_client": (
        {"__init__", "downloads", "identity", "old_runs", "outgoing", "settings"},
        {"agent"},
        {"hardware"},
        {"jobs"},
        {"daemon"},
        {"doctor"},
        {"cli"},
        {"__main__"},
    ),
}
TORCH = {
    "common/learning/",
    "common/worker/executor.py",
    "common/worker/bench.py",
    "common/worker/client.py",
    "fl_server/central/",
    "fl_client/doctor/torch_trial.py",
}
RICH = {
    "fl_server/data/terminal_bars.py",
    "fl_server/reports/output/terminal.py",
    "fl_server/sweeps/screen.py",
    "fl_server/watch/displays.py",
    "fl_server/watch/screen.py",
}
WORLD = {"os", "paho", "pathlib", "queue", "socket", "subprocess", "threading", "time", "torch"}
WORLD |= {"asyncio", "datetime", "multiprocessing", "random", "select", "shutil", "tempfile"}
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
MAKE_LINKS = {
    "fl_server/launch.py",
    "broker/cli.py",
    "fl_client/cli/__init__.py",
    "fl_client/cli/doctor.py",
    "fl_server/cli/__init__.py",
    "common/wire/paho_link.py",
}
UNTYPED = {  # parsers, and what they hand on: everything else has a class
    "fl_server/lab/fault_script.py",
    "fl_server/reports/reference.py",
    "fl_server/reports/runs.py",
    "fl_server/run/journal.py",
    "fl_server/run/store.py",
    "fl_server/watch/facts/",
    "fl_server/watch/listener.py",
}
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


def everything() -> list[Path]:
    folders = (*PACKAGES, "tests", "bench")
    return [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


def at_import(path: Path) -> list[Import]:
    """What importing a module imports: nothing inside of functions, nothing for types only."""
    tree = ast.Module(
        body=[node for node in tree_of(path).body if not isinstance(node, FUNCTIONS)],
        type_ignores=[],
    )
    return [found for found in imports_of(tree) if not found.for_types_only]


def targets(module: str) -> list[Path]:
    """The files of ours behind `package.module.name`: the module, and the packages above it."""
    found, parts = [], module.split(".")
    if parts[0] not in PACKAGES:
        return []
    for size in range(1, len(parts) + 1):
        place = ROOT.joinpath(*parts[:size])
        if place.with_suffix(".py").is_file():
            found.append(place.with_suffix(".py"))
        elif (place / "__init__.py").is_file():
            found.append(place / "__init__.py")
    return found


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


def room(module: str) -> tuple[str, str]:
    """Package and room of a module: ("common", "wire") for common.wire.link."""
    package, _, rest = module.partition(".")
    if rest.startswith("watch.facts"):  # what is reported: every room may import it
        return package, "watch.facts"
    inner = rest.split(".", 1)[0]
    there = ROOT / package / inner
    return package, inner if inner and (
        there.is_dir() or there.with_suffix(".py").is_file()
    ) else "__init__"


def level(package: str, name: str) -> int:
    found = [at for at, layer in enumerate(LAYERS[package]) if name in layer]
    assert found, f"{package}.{name} has no layer; give it one in LAYERS"
    return found[0]


@pytest.mark.parametrize("package", LAYERS)
def test_a_room_imports_only_rooms_below_it(package: str) -> None:
    wrong = []
    for path in sorted((ROOT / package).rglob("*.py")):
        _, mine = room(module_of(path))
        for found in imports(path):
            if found.top != package or found.for_types_only:
                continue
            _, other = room(found.module)
            if other != mine and level(package, other) >= level(package, mine):
                wrong.append(f"{name_of(path)}:{found.line} imports {found.module}")
    assert wrong == []


def test_what_people_see_knows_neither_the_coordinator_nor_the_lab() -> None:
    wrong = [
        f"{name_of(path)}:{found.line} imports {found.module}"
        for path in sorted((ROOT / "fl_server/watch").rglob("*.py"))
        for found in imports(path)
        if found.module.startswith(("fl_server.coordinator", "fl_server.lab"))
    ]
    assert wrong == []


def test_what_was_parsed_has_a_type() -> None:
    """`dict[str, Any]` does not leave the parsers."""
    wrong = {
        f"{name_of(path)}:{node.lineno}"
        for path in sorted((ROOT / "fl_server").rglob("*.py"))
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Subscript)
        and ast.unparse(node) in {"dict[str, Any]", "Mapping[str, Any]"}
        and not within(name_of(path), UNTYPED)
    }
    assert wrong == set()


def within(name: str, allowed: set[str]) -> bool:
    return any(
        name == place or (place.endswith("/") and name.startswith(place)) for place in allowed
    )


def test_only_the_link_imports_paho() -> None:
    assert importers("paho") == {"common/wire/mqtt/client.py", "common/wire/paho_link.py"}


def test_only_command_lines_import_click() -> None:
    allowed = {"broker/cli.py", "common/program/cli.py", "fl_client/cli/", "fl_server/cli/"}
    assert {name for name in importers("click") if not within(name, allowed)} == set()


def test_only_what_draws_on_a_terminal_imports_rich() -> None:
    assert importers("rich") <= RICH


def test_torch_is_imported_only_where_it_computes() -> None:
    """At import time; a function may import it when it is called."""
    wrong = {
        name_of(path)
        for path in sources()
        for found in at_import(path)
        if found.top in {"torch", "torchvision"} and not within(name_of(path), TORCH)
    }
    assert wrong == set()


def test_links_are_made_by_command_lines_and_passed_down() -> None:
    """Services take a Link, so that tests can give them one of their own."""
    makers = {
        name_of(path)
        for path in sources()
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "PahoLink"
    }
    assert makers <= MAKE_LINKS


@pytest.mark.parametrize("folder", sorted({path.parent for path in sources()}), ids=name_of)
def test_a_folder_can_be_taken_in_at_a_glance(folder: Path) -> None:
    modules = [path for path in folder.glob("*.py") if not path.name.startswith("__")]
    assert len(modules) <= MOST_MODULES or name_of(folder) == ONE_FILE_PER_PAPER


def test_no_private_name_is_imported_from_another_module() -> None:
    wrong = [
        f"{name_of(path)}:{node.lineno} imports {alias.name}"
        for path in everything()
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.name.startswith("_") and not alias.name.startswith("__")
    ]
    assert wrong == []


def is_pure(path: Path) -> bool:
    """What says so in the first word of its docstring, and every module of the two machines."""
    machines = {ROOT / "fl_server/rounds", ROOT / "fl_client/agent"}
    return (ast.get_docstring(tree_of(path)) or "").startswith(
        "PURE"
    ) or path.parent in machines


def reached_from(path: Path) -> dict[Path, str]:
    """Every module of ours that importing this one imports, with the way to it."""
    found = {path: name_of(path)}
    queue = [path]
    while queue:
        here = queue.pop()
        for imported in at_import(here):
            for target in targets(imported.module):
                if target not in found:
                    found[target] = f"{found[here]} > {name_of(target)}"
                    queue.append(target)
    return found


@pytest.mark.parametrize("path", [path for path in sources() if is_pure(path)], ids=name_of)
def test_a_pure_module_reaches_nothing_of_the_world(path: Path) -> None:
    wrong = [
        f"{way} imports {found.module}"
        for reached, way in reached_from(path).items()
        for found in at_import(reached)
        if found.top in WORLD
    ]
    assert wrong == []


@pytest.mark.parametrize(
    "module",
    [
        "fl_server.coordinator.service",
        "fl_server.coordinator.conductor",
        "fl_client.daemon",
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
    everywhere = everything()
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
