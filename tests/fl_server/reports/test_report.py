"""`fl-server report` on real runs: three algorithms, three seeds, one seed twice, a baseline.

With three seeds Student's distribution has two degrees of freedom and a closed form, so the
interval and the test are computed by hand here, from the numbers in metrics.jsonl.
"""

from __future__ import annotations

import csv
import json
import math
import shutil
from collections.abc import Mapping
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import pytest
from click.testing import CliRunner, Result

from common.experiment.file import parse_experiment
from fl_server.central.baseline import Central
from fl_server.cli import main
from fl_server.coordinator.local_clients import make_local_clients
from fl_server.coordinator.simulate import Simulation
from fl_server.reports.figures.every import plots_of
from fl_server.reports.figures.plot import save
from fl_server.reports.find import find_folders
from fl_server.reports.groups import group_runs
from fl_server.reports.runs import read_run
from fl_server.run.store import create_run

pytestmark = pytest.mark.slow

ALGORITHMS = ("fedavg", "fedavgm", "fedrod")
SEEDS = (1, 2, 3)
T_95 = 0.95 * math.sqrt(2 / (1 - 0.95**2))  # of Student's distribution, two degrees: 4.3027


def settings(algorithm: str, seed: int) -> dict[str, Any]:
    return {
        "experiment": {"name": "small", "rounds": 3, "seed": seed},
        "algorithm": {"name": algorithm},
        "model": {"name": "dnn", "hidden": 8},
        "data": {"dataset": "fmnist-mini", "clients": 4, "max_samples": 200},
        "task": {"metrics": ["accuracy", "class_accuracy"]},
        "training": {"epochs": 1},
        "central": {"epochs": 2},
    }


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("runs")
    made = [(f"{name}-s{seed}", name, seed) for name in ALGORITHMS for seed in SEEDS]
    for run, name, seed in (*made, ("again", "fedavg", 2)):
        store = create_run(root, run, parse_experiment(settings(name, seed)))
        clients = make_local_clients(1)
        shards = root / ".shards"
        Simulation(store, clients=clients, shards=shards, observe=lambda _: None).run()
    pooled = Central(root / "small-central", parse_experiment(settings("fedavg", 1)))
    pooled.run(root / ".shards", lambda _: None)
    return root


def call(*words: object) -> Result:
    return CliRunner().invoke(main, [str(word) for word in words])


@pytest.fixture(scope="module")
def report(runs: Path) -> Path:
    done = call("report", "--runs", runs, "-o", runs / "report")
    assert done.exit_code == 0, done.output
    return runs / "report"


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def best(runs: Path, algorithm: str) -> dict[int, float]:
    """The best global accuracy for each seed, from the files."""
    found = {}
    for seed in SEEDS:
        lines = (runs / f"{algorithm}-s{seed}" / "metrics.jsonl").read_text().splitlines()
        found[seed] = max(json.loads(line)["accuracy_global"] for line in lines)
    return found


def p_by_hand(ours: Mapping[int, float], others: Mapping[int, float]) -> float:
    differences = [ours[seed] - others[seed] for seed in SEEDS]
    t = mean(differences) / (stdev(differences) / math.sqrt(3))
    return 1 - abs(t) / math.sqrt(t * t + 2)


def test_a_seed_that_ran_twice_counts_once_and_intervals_are_those_by_hand(
    runs: Path, report: Path
) -> None:
    found = {row["run"]: row for row in rows(report / "results.csv")}
    assert set(found) == {*ALGORITHMS, "centralized"}
    for name in ALGORITHMS:
        values = list(best(runs, name).values())
        row = found[name]
        assert float(row["seeds"]) == 3
        assert float(row["global best"]) == pytest.approx(mean(values), rel=1e-12)
        assert float(row["global best std"]) == pytest.approx(stdev(values), rel=1e-9)
        half = T_95 * stdev(values) / math.sqrt(3)
        assert float(row["global best ci95"]) == pytest.approx(half, rel=1e-9)
    assert "Left out: fedavg-s2 (seed 2 again, as again" in (report / "index.html").read_text()


def test_the_test_is_that_by_hand(runs: Path, report: Path) -> None:
    found = [r for r in rows(report / "differences.csv") if r["number"] == "global best"]
    means = {name: mean(best(runs, name).values()) for name in ALGORITHMS}
    first = max(means, key=lambda name: means[name])
    others = [name for name in ALGORITHMS if name != first]
    plain = {name: p_by_hand(best(runs, first), best(runs, name)) for name in others}
    low, high = sorted(plain, key=lambda name: plain[name])
    smaller = min(1.0, 2 * plain[low])  # Holm: the smaller one twice, the larger not below it
    wanted = {low: smaller, high: max(smaller, plain[high])}
    assert {row["behind"]: row["ahead"] for row in found} == dict.fromkeys(others, first)
    for row in found:
        p = wanted[row["behind"]]
        assert row["p"] == ("< 0.001" if p < 0.001 else f"{p:.3f}")
        assert row["verdict"] == ("better" if p < 0.05 else "not told apart")


def test_figures_are_there_as_pdf_and_latex_takes_them_in(report: Path) -> None:
    wanted = {"accuracy", "loss", "over-time", "over-bytes", "clients", "class-accuracy"}
    assert wanted <= {path.stem for path in report.glob("*.pdf")}
    assert all(path.read_bytes().startswith(b"%PDF") for path in report.glob("*.pdf"))
    tex = (report / "figures.tex").read_text()
    assert all(rf"{{{name}.pdf}}" in tex for name in wanted)


def test_the_same_runs_give_the_same_figures(runs: Path, report: Path, tmp_path: Path) -> None:
    groups = group_runs([read_run(folder) for folder in find_folders((), runs)])
    save(plots_of(groups)[0], tmp_path)
    for name in ("accuracy.pdf", "accuracy.svg"):
        assert (tmp_path / name).read_bytes() == (report / name).read_bytes(), name


def test_the_baseline_is_a_dashed_line_and_takes_no_part_in_the_test(report: Path) -> None:
    assert "centralized" in (report / "accuracy.svg").read_text()
    assert "stroke-dasharray" in (report / "accuracy.svg").read_text()
    compared = rows(report / "differences.csv")
    assert all("centralized" not in (row["ahead"], row["behind"]) for row in compared)


def test_clients_and_classes_have_their_tables(report: Path) -> None:
    clients = {(row["run"], row["model"]): row for row in rows(report / "clients.csv")}
    assert float(clients["fedrod", "personal"]["clients"]) == 12  # four of each seed
    classes = rows(report / "class-accuracy.csv")
    assert {(row["run"], row["model"]) for row in classes} == {
        *((name, model) for name in ALGORITHMS for model in ("global", "personal")),
        ("centralized", "global"),
    }


@pytest.mark.parametrize("words", [("small-central",), ("fedavg-s*",), ("again", "fedrod-s1")])
def test_a_report_takes_what_runs_lists(runs: Path, words: tuple[str, ...]) -> None:
    done = call("report", *words, "--runs", runs)
    assert done.exit_code == 0, done.output
    assert "Results" in done.output


def test_a_report_takes_a_folder_of_runs_and_one_run_by_its_path(runs: Path) -> None:
    for words in ((runs,), (runs / "again", runs / "small-central"), (f"{runs}/fed*",)):
        assert call("report", *words, "--runs", "/nowhere").exit_code == 0


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("fedavg-s9", "did you mean 'fedavg-s"),
        ("zzz", "there are again, fedavg-s1"),
        ("zzz*", "no run matches 'zzz*'"),
        ("/", "/ is not a run, nor a folder of runs"),
    ],
)
def test_what_is_no_run_is_told_with_what_there_is(runs: Path, name: str, text: str) -> None:
    done = call("report", name, "--runs", runs)
    assert done.exit_code == 2
    assert text in done.output
    assert len(done.output.strip().splitlines()) == 1


def test_a_run_that_cannot_be_read_does_not_spoil_a_report_of_all(runs: Path) -> None:
    broken = runs / "broken"
    shutil.copytree(runs / "again", broken)
    (broken / "experiment.toml").write_text("[experiment")
    try:
        everything = call("report", "--runs", runs)
        by_name = call("report", "broken", "--runs", runs)
    finally:
        shutil.rmtree(broken)
    assert everything.exit_code == 0
    assert "left out, as it cannot be read: broken" in everything.output
    assert by_name.exit_code == 2


def test_a_run_that_has_only_begun_is_a_row_without_numbers(runs: Path) -> None:
    store = create_run(runs, "begun", parse_experiment(settings("fedper", 1)))
    try:
        done = call("report", "again", "begun", "--runs", runs)
        groups = group_runs([read_run(runs / "again"), read_run(store.folder)])
    finally:
        shutil.rmtree(store.folder)
    assert done.exit_code == 0, done.output
    assert "fedper (unfinished)" in done.output
    for plot in plots_of(groups):
        plot.draw()
