"""Who may import whom, and what may not exist at all, checked on the source."""

from __future__ import annotations

import ast
import functools
import re
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field
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
        {"ids", "rng", "texts", "arrays", "plugins", "side_thread", "values"},
        {"disk", "program", "code_files"},
        {"access"},
        {"install", "privacy"},
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
        {"fleet"},
        {"run"},
        {"queue"},
        {"watch", "central", "data"},
        {"coordinator", "reports", "check", "site"},
        {"web"},
        {"lab"},
        {"launch"},
        {"sweeps"},
        {"studies"},
        {"cli"},
        {"__main__"},
    ),
    "fl_client": (
        {"__init__", "downloads", "old_runs", "outgoing", "secrets", "settings"},
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
    "fl_server/studies/steps.py",
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
    "fl_server/launch/__init__.py",
    "fl_server/launch/labs.py",
    "broker/cli.py",
    "fl_client/cli/__init__.py",
    "fl_client/cli/doctor.py",
    "fl_server/cli/__init__.py",
    "fl_server/cli/relay.py",
    "common/wire/paho_link.py",
}
UNTYPED = {  # parsers, and what they hand on: everything else has a class
    "fl_server/fleet/file.py",
    "fl_server/lab/fault_script.py",
    "fl_server/reports/reference.py",
    "fl_server/reports/runs.py",
    "fl_server/run/journal.py",
    "fl_server/run/run_record.py",
    "fl_server/run/store.py",
    "fl_server/studies/catalog.py",
    "fl_server/studies/plan.py",
    "fl_server/studies/study.py",
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


@dataclass
class Source:
    """What the rules ask about a file, found in one walk through its tree."""

    docstring: str = ""
    is_empty: bool = True
    lines: int = 0
    imports: list[Import] = field(default_factory=list)
    at_import: list[Import] = field(default_factory=list)  # not in functions, nor for types
    private: list[str] = field(default_factory=list)  # names that are imported
    calls: list[tuple[str, int]] = field(default_factory=list)
    calls_at_import: list[int] = field(default_factory=list)
    subscripts: list[tuple[str, int]] = field(default_factory=list)
    allows_pickle: bool = False

    def add(self, node: ast.AST, *, for_types_only: bool, in_function: bool) -> None:
        match node:
            case ast.Import() | ast.ImportFrom():
                for found in imports_in(node, for_types_only=for_types_only):
                    self.imports.append(found)
                    if not for_types_only and not in_function:
                        self.at_import.append(found)
                    name = found.module.rpartition(".")[2]
                    if isinstance(node, ast.ImportFrom) and re.match(r"_[^_]", name):
                        self.private.append(f"{node.lineno} imports {name}")
            case ast.Call():
                self.calls.append((dotted(node.func), node.lineno))
            case ast.Subscript(value=ast.Name(id="dict" | "Mapping")):
                self.subscripts.append((ast.unparse(node), node.lineno))
            case ast.keyword(arg="allow_pickle"):
                is_false = isinstance(node.value, ast.Constant) and node.value.value is False
                self.allows_pickle |= not is_false
            case _:
                pass


def imports_in(node: ast.Import | ast.ImportFrom, *, for_types_only: bool) -> list[Import]:
    before = ""
    if isinstance(node, ast.ImportFrom):
        assert node.level == 0, "relative imports are not used here"
        before = f"{node.module}."
    return [Import(f"{before}{one.name}", node.lineno, for_types_only) for one in node.names]


def dotted(node: ast.AST) -> str:
    """`torch.load` as it is written; nothing for what is no such name."""
    match node:
        case ast.Name():
            return node.id
        case ast.Attribute():
            return f"{dotted(node.value)}.{node.attr}"
        case _:
            return ""


def is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


@functools.cache
def source_of(path: Path) -> Source:
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text, filename=str(path))
    found = Source(ast.get_docstring(tree) or "", not tree.body, len(text.splitlines()))
    waiting: list[tuple[ast.AST, bool, bool]] = []
    for top in tree.body:
        if isinstance(top, ast.Expr) and isinstance(top.value, ast.Call):
            found.calls_at_import.append(top.lineno)
        waiting.append((top, False, isinstance(top, FUNCTIONS)))
    while waiting:
        node, for_types_only, in_function = waiting.pop()
        found.add(node, for_types_only=for_types_only, in_function=in_function)
        below = for_types_only or is_type_checking(node)
        waiting += ((child, below, in_function) for child in ast.iter_child_nodes(node))
    return found


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def files_in(*folders: str) -> list[Path]:
    return [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]


@functools.cache
def sources() -> list[Path]:
    return files_in(*PACKAGES)


@functools.cache
def everything() -> list[Path]:
    return files_in(*PACKAGES, "tests", "bench")


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


@functools.cache
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
        name_of(path)
        for path in sources()
        if module in {found.top for found in source_of(path).imports}
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
        for path in files_in(package)
        for found in source_of(path).imports
        if found.top in {*PACKAGES, "tests"} - allowed
    ]
    assert wrong == []


@functools.cache
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
    for path in files_in(package):
        _, mine = room(module_of(path))
        for found in source_of(path).imports:
            if found.top != package or found.for_types_only:
                continue
            _, other = room(found.module)
            if other != mine and level(package, other) >= level(package, mine):
                wrong.append(f"{name_of(path)}:{found.line} imports {found.module}")
    assert wrong == []


def test_what_people_see_knows_neither_the_coordinator_nor_the_lab() -> None:
    wrong = [
        f"{name_of(path)}:{found.line} imports {found.module}"
        for path in files_in("fl_server/watch")
        for found in source_of(path).imports
        if found.module.startswith(("fl_server.coordinator", "fl_server.lab"))
    ]
    assert wrong == []


def test_what_was_parsed_has_a_type() -> None:
    """`dict[str, Any]` does not leave the parsers."""
    wrong = {
        f"{name_of(path)}:{line}"
        for path in files_in("fl_server")
        for text, line in source_of(path).subscripts
        if text in {"dict[str, Any]", "Mapping[str, Any]"}
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
        for found in source_of(path).at_import
        if found.top in {"torch", "torchvision"} and not within(name_of(path), TORCH)
    }
    assert wrong == set()


def test_links_are_made_by_command_lines_and_passed_down() -> None:
    """Services take a Link, so that tests can give them one of their own."""
    makers = {
        name_of(path)
        for path in sources()
        for called, _ in source_of(path).calls
        if called == "PahoLink"
    }
    assert makers
    assert makers <= MAKE_LINKS


def test_a_folder_can_be_taken_in_at_a_glance() -> None:
    modules = Counter(path.parent for path in sources() if not path.name.startswith("__"))
    wrong = {
        name_of(folder): count for folder, count in modules.items() if count > MOST_MODULES
    }
    assert wrong.keys() <= {ONE_FILE_PER_PAPER}, wrong


def test_no_private_name_is_imported_from_another_module() -> None:
    wrong = [
        f"{name_of(path)}:{found}" for path in everything() for found in source_of(path).private
    ]
    assert wrong == []


def is_pure(path: Path) -> bool:
    """What says so in the first word of its docstring, and every module of the two machines."""
    machines = {ROOT / "fl_server/rounds", ROOT / "fl_client/agent"}
    return source_of(path).docstring.startswith("PURE") or path.parent in machines


def reached_from(path: Path) -> dict[Path, str]:
    """Every module of ours that importing this one imports, with the way to it."""
    found = {path: name_of(path)}
    queue = [path]
    while queue:
        here = queue.pop()
        for imported in source_of(here).at_import:
            for target in targets(imported.module):
                if target not in found:
                    found[target] = f"{found[here]} > {name_of(target)}"
                    queue.append(target)
    return found


def test_a_pure_module_reaches_nothing_of_the_world() -> None:
    pure = [path for path in sources() if is_pure(path)]
    assert len(pure) > 10
    wrong = [
        f"{way} imports {found.module}"
        for path in pure
        for reached, way in reached_from(path).items()
        for found in source_of(reached).at_import
        if found.top in WORLD
    ]
    assert wrong == []


def test_what_needs_no_torch_does_not_import_it() -> None:
    needless = (
        "fl_server.coordinator.service",
        "fl_server.coordinator.conductor",
        "fl_client.daemon",
    )
    code = "import sys\n" + "\n".join(
        f"import {module}\nassert 'torch' not in sys.modules, {module!r}" for module in needless
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def test_a_file_fits_in_a_head() -> None:
    lines = {name_of(path): source_of(path).lines for path in sources()}
    assert {name: count for name, count in lines.items() if count > MOST_LINES} == {}


def test_a_module_says_what_it_is_for() -> None:
    found = {name_of(path): source_of(path) for path in sources()}
    assert [
        n for n, source in found.items() if not source.docstring and not source.is_empty
    ] == []


def test_nothing_is_unpickled_or_evaluated_anywhere() -> None:
    for path in everything():
        source = source_of(path)
        assert not {found.top for found in source.imports} & FORBIDDEN, name_of(path)
        called = {name for name, _ in source.calls}
        assert not called & {"eval", "exec", "torch.load"}, name_of(path)
        assert not source.allows_pickle, name_of(path)


def test_nothing_but_definitions_runs_at_import() -> None:
    """No parsing of arguments, no settings of logs, no seeding: calls stand in functions."""
    wrong = [
        f"{name_of(path)}:{line}"
        for path in sources()
        if path.name != "__main__.py"
        for line in source_of(path).calls_at_import
    ]
    assert wrong == []
