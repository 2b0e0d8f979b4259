"""Documentation is true: its commands, keys, tables and examples exist as it says."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import get_args, get_type_hints

import click
import numpy as np
import pytest

from broker.cli import main as fl_broker
from common.algorithms import BUILDERS, build, find_builder
from common.algorithms.base import Server, Update
from common.config import DataSection, Experiment, ModelSection
from common.data.datasets.registry import ENTRIES
from common.experiment.file import load_experiment
from common.experiment.option_tables import refreshed
from common.experiment.resolve import checked, shapes_of
from common.plugins import use_code
from common.rng import generator
from common.tasks.task import METRICS
from common.wire.messages import PROTOCOL
from common.wire.topics import TOPICS
from fl_client.cli import main as fl_client
from fl_server.cli import main as fl_server
from fl_server.lab.faulty_lab import read_script
from fl_server.reports.runs import read_reference
from fl_server.run.metrics.tally import Tally
from fl_server.studies.catalog import find_study
from fl_server.sweeps.grid import plan
from fl_server.watch.facts import KEPT_KINDS, KINDS
from fl_server.watch.facts.lines import MetricsLine
from tests.some_sums import classification

SERVER = Server(
    clients=1, participants=1, classes=2, round=1, rng=lambda purpose: generator(1, purpose)
)
ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
FOLDERS = "ansible|bench|broker|common|docs|examples|fl_client|fl_server|scripts|tests"
MADE_LATER = {"ansible/collected/", "ansible/credentials/"}
WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
GROUPS = {"fl-broker": fl_broker, "fl-server": fl_server, "fl-client": fl_client}


def commands_of(group: click.Group) -> Iterator[click.Command]:
    for command in group.commands.values():
        yield command
        if isinstance(command, click.Group):
            yield from commands_of(command)


def calls() -> list[tuple[str, str]]:
    text = "\n".join(page.read_text() for page in PAGES)
    return sorted(set(re.findall(r"(fl-(?:server|client|broker)) ([a-z]+)\b(?!\.)", text)))


@pytest.mark.parametrize(("command", "sub"), calls())
def test_every_command_in_the_docs_exists(command: str, sub: str) -> None:
    group = GROUPS[command]
    assert isinstance(group, click.Group)
    assert sub in group.commands


def test_every_option_in_the_docs_exists() -> None:
    text = "\n".join(page.read_text() for page in PAGES)
    used = set(re.findall(r"(?<![\w-])--([a-z][a-z-]+)", text)) - {
        "seed",
        "logdir",
        "build",
        "scale",
        *("hostfile", "local-directory", "nthreads"),
        *("cpus-per-task", "nodes", "ntasks-per-node"),
    }  # of tests.chaos, tensorboard, docker; Dask; Slurm
    known = {
        option.lstrip("-")
        for group in GROUPS.values()
        for command in commands_of(group)
        for parameter in command.params
        for option in parameter.opts
    }
    for script in ("common/install/install.sh", "scripts/wheelhouse.sh"):
        shown = (ROOT / script).read_text().partition("set -eu")[0]  # what --help prints
        known |= set(re.findall(r"--([a-z][a-z-]+)", shown))
    assert used <= known | {"version", "help"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_path_in_the_docs_exists(page: Path) -> None:
    """Except those with a foo in them, which the reader is to make."""
    named = re.findall(rf"(?<![\w./~-])((?:{FOLDERS})/[\w./*-]*[\w/])", page.read_text())
    real = {name for name in named if "foo" not in name} - MADE_LATER
    assert {name for name in real if not any(ROOT.glob(name.rstrip("/")))} == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_in_the_docs_leads_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        name, _, heading = target.partition("#")
        if "://" in target:
            continue
        path = page.parent / name if name else page
        assert path.exists(), target
        headings = re.findall(r"^#+ (.*)$", path.read_text(), re.M) if heading else []
        slugs = {re.sub(r"[^\w -]", "", text).lower().replace(" ", "-") for text in headings}
        assert not heading or heading in slugs, target


def test_every_room_is_on_the_page_about_the_architecture() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    rooms = [
        f"{path.parent.relative_to(ROOT).as_posix()}/"
        for package in ("common", "fl_client", "fl_server")
        for path in sorted((ROOT / package).rglob("__init__.py"))
    ]
    assert [room for room in rooms if f"`{room}`" not in page] == []


def test_the_numbers_in_the_readme_are_right() -> None:
    found = re.search(
        r"(\d+) algorithms, .*?\s(\w+) datasets and (\w+) ways", PAGES[0].read_text(), re.S
    )
    assert found is not None
    partitions = get_args(get_type_hints(DataSection)["partition"])
    counts = (len(BUILDERS), len(ENTRIES), len(partitions))
    assert (int(found[1]), WORDS.index(found[2]), WORDS.index(found[3])) == counts


def test_every_dataset_is_in_the_docs_as_it_is() -> None:
    page = (ROOT / "docs" / "data.md").read_text()
    rows = re.findall(r"^\| `([\w-]+)` \| ([\d,]+) \((.*?)\) \| .*? \| (\d+) \|", page, re.M)
    assert {name for name, *_ in rows} == ENTRIES.keys()
    for name, size, official, classes in rows:
        info = ENTRIES[name].info
        trained = info.size if official == "all" else int(official.replace(",", ""))
        assert (int(size.replace(",", "")), int(classes)) == (info.size, info.classes), name
        assert trained == info.official, name


def test_every_column_of_the_metrics_is_in_the_docs() -> None:
    page = (ROOT / "docs" / "results.md").read_text()
    part = page.partition("\n## metrics.jsonl\n")[2].partition("\n## ")[0]
    heads = "".join(re.findall(r"^\| (`.*?) \|", part, re.M))
    assert "`<metric>_global`" in heads
    tests = {name for name in Tally().tests(classification()) if "accuracy" not in name}
    fields = set(MetricsLine.__struct_fields__) - {"tests"}
    assert set(re.findall(r"`(\w+)`", heads)) == fields | tests


def test_every_metric_is_in_the_docs_of_its_kind() -> None:
    page = (ROOT / "docs" / "own.md").read_text()
    for kind, metrics in METRICS.items():
        row = next(line for line in page.splitlines() if line.startswith(f'| `"{kind}"` |'))
        cell = row.rstrip(" |").rpartition("|")[2].replace("*", "")
        assert {name.strip() for name in cell.split(",")} == {one.name for one in metrics}


@pytest.mark.parametrize(
    "path",
    sorted((ROOT / "examples").glob("*.toml"))
    + sorted((ROOT / "examples" / "policies").glob("*.toml")),
    ids=str,
)
def test_every_example_loads(path: Path) -> None:
    assert plan([path])


def test_the_example_of_a_reference_has_the_numbers_of_its_study() -> None:
    reference = read_reference(ROOT / "examples" / "references" / "fedreg-table6.toml")
    rows = find_study("table6").rows
    assert rows.keys() - {"fedreg-thesis"} == reference.rows.keys()
    for name, numbers in reference.rows.items():
        assert tuple(numbers.values()) == rows[name].published


@pytest.mark.parametrize("path", sorted((ROOT / "examples" / "faults").glob("*.toml")), ids=str)
def test_every_fault_script_loads(path: Path) -> None:
    read_script(path, ("b1", "b2", "b3", "b4"))


def test_the_readmes_experiment_loads(tmp_path: Path) -> None:
    block = re.search(r"```toml\n(.*?)```", PAGES[0].read_text(), re.S)
    assert block is not None
    (tmp_path / "readme.toml").write_text(block[1])
    assert load_experiment(tmp_path / "readme.toml").data.clients == 30


def test_the_tutorials_experiment_is_the_sweep_that_it_speaks_of(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "tutorial.md").read_text()
    code = re.search(r"```toml\n(.*?)```", page, re.S)
    assert code is not None
    (tmp_path / "first.toml").write_text(code[1])
    names = [run.name for run in plan([tmp_path / "first.toml"], (1, 2, 3))]
    assert len(names) == 9
    assert {names[0], names[-1]} == set(re.findall(r"`(first-\w+-s\d)`", page))


@pytest.mark.parametrize("page", ["experiment.md", "algorithms.md"])
def test_the_tables_of_options_are_those_of_the_code(page: str) -> None:
    text = (ROOT / "docs" / page).read_text()
    assert text == refreshed(text), f"docs/{page} is stale; run: make docs"


def test_every_section_has_a_table_of_its_settings() -> None:
    text = (ROOT / "docs" / "experiment.md").read_text()
    for name in get_type_hints(Experiment):
        part = text.partition(f"\n## [{name}]\n")[2].partition("\n## ")[0]
        assert f"<!-- options: {name} -->\n| key | default | values | meaning |" in part, name


@pytest.mark.parametrize("name", BUILDERS)
def test_every_algorithm_has_a_table_of_its_options(name: str) -> None:
    page = (ROOT / "docs" / "algorithms.md").read_text()
    part = page.partition(f"\n### {name}\n")[2].partition("\n### ")[0]
    assert f"<!-- options: {name} -->\n| option | default | values | meaning |" in part
    summary = (find_builder(name).__doc__ or "").splitlines()[0]
    assert part.lstrip().startswith(summary)
    assert f"| {summary} |\n" in page, "the table of all algorithms"


def test_the_kinds_of_events_in_the_docs_are_those_of_the_code() -> None:
    page = (ROOT / "docs" / "results.md").read_text()
    part = page.partition("\n## events.jsonl\n")[2].partition("\n## ")[0]
    heads = re.findall(r"^\| (`.*?) \|", part, re.M)
    kept = [kind for head in heads for kind in re.findall(r"`(\w+)`", head) if kind != "event"]
    assert sorted(kept) == sorted(KEPT_KINDS)
    shown = part.partition("are only shown, never written here:")[2]
    assert set(re.findall(r"`(\w+)`", shown)) == KINDS - KEPT_KINDS


@pytest.mark.parametrize("page", ["README.md", "docs/protocol.md"])
def test_the_topic_tables_agree_with_the_code(page: str) -> None:
    rows = re.findall(
        r"^\| (\d+) \| `(?:fl|<fed>)/([^`]*)` \| (.*)$", (ROOT / page).read_text(), re.M
    )
    assert len(rows) == len(TOPICS)
    for (number, topic, rest), row in zip(rows, TOPICS, strict=True):
        assert int(number) == row.number
        assert re.sub(r"<\w+>$", "+", topic) == row.pattern
        assert (rest.split("|")[1].strip() == "yes") == row.retained


def test_the_version_of_the_protocol_is_the_documented_one() -> None:
    page = (ROOT / "docs" / "protocol.md").read_text()
    assert f"Protocol version **{PROTOCOL}**." in page


def test_the_example_algorithm_works_as_printed(tmp_path: Path) -> None:
    code = re.search(
        r"```python\n(.*?)```", (ROOT / "docs" / "algorithms.md").read_text(), re.S
    )
    assert code is not None
    (tmp_path / "my_algorithms.py").write_text(code[1])
    use_code(tmp_path)
    algorithm = build("my_algorithms.py:cautious", {"step": 0.5})
    old = {"base.w": np.zeros(2, np.float32), "base.batches": np.array(0)}
    trained = {"base.w": np.full(2, 4, np.float32), "base.batches": np.array(3)}
    server = replace(SERVER, buffers=frozenset({"base.batches"}))
    new = algorithm.server_update(server, old, [Update(0, trained, {"base": 1.0})])
    assert new["base.w"].tolist() == [2.0, 2.0]
    assert new["base.w"].dtype == np.float32
    assert new["base.batches"].tolist() == 3
    assert new["base.batches"].dtype == np.int64


@pytest.mark.parametrize(
    ("page", "section", "name", "arrays"),
    [
        ("algorithms.md", "### Your own model", "my_models.py:tiny", 4),
        ("own.md", "## Models of your own", "my_models.py:network", 9),
    ],
)
def test_the_example_model_works_as_printed(
    tmp_path: Path, page: str, section: str, name: str, arrays: int
) -> None:
    text = (ROOT / "docs" / page).read_text().partition(section + "\n")[2]
    code = re.search(r"```python\n(.*?)```", text, re.S)
    assert code is not None
    (tmp_path / "my_models.py").write_text(code[1])
    use_code(tmp_path)
    experiment = checked(Experiment(model=ModelSection(name=name)))
    assert len(shapes_of(experiment)) == arrays


def test_the_project_speaks_of_itself_only() -> None:
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listed.returncode != 0:
        pytest.skip("not a git checkout")
    for name in listed.stdout.split():
        path = ROOT / name
        if path.suffix not in {".py", ".md", ".toml", ".sh", ".yml", ""} or not path.is_file():
            continue
        text = path.read_text(errors="ignore")
        assert not re.search(r"^\s*(import|from) pickle\b", text, re.M), name
        assert "/" + "work/" not in text, name


@pytest.mark.slow
def test_python_runs_the_packages_as_modules() -> None:
    for module in ("broker", "fl_server", "fl_client"):
        done = subprocess.run([sys.executable, "-m", module, "--version"], capture_output=True)
        assert done.returncode == 0, module
