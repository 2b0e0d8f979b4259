"""What the page shows of the runs of a folder."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from common.disk.lock import FolderLock
from common.errors import UsageError
from common.experiment.file import parse_experiment
from fl_server.coordinator.local_clients import make_local_clients
from fl_server.coordinator.simulate import Simulation
from fl_server.run.store import create_run
from fl_server.web.answers import ANSWERS, Shown
from fl_server.web.audience import Audience
from fl_server.web.runs import archive as archives
from fl_server.web.runs import compare
from fl_server.web.runs.archive import MOST_FOLLOWED, Archive
from fl_server.web.runs.compare import MOST_COMPARED

TINY: dict[str, Any] = {
    "experiment": {"name": "tiny", "rounds": 2},
    "model": {"name": "dnn", "hidden": 4},
    "data": {"clients": 3, "partition": "iid", "max_samples": 12},
    "training": {"epochs": 1},
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two finished runs, and one that has only begun."""
    root = tmp_path_factory.mktemp("runs")
    for name, seed in (("a", 1), ("b", 2)):
        table = {**TINY, "experiment": {**TINY["experiment"], "seed": seed}}
        store = create_run(root, name, parse_experiment(table))
        Simulation(
            store,
            clients=make_local_clients(1),
            shards=root / ".shards",
            observe=lambda _: None,
        ).run()
    create_run(root, "begun", parse_experiment(TINY))
    return root


def shown(runs: Path) -> Shown:
    return Shown(Audience(), Archive(runs), "runs")


def ask(site: Shown, path: str, **asked: list[str]) -> Any:
    return json.loads(ANSWERS[path](site, asked))


def test_the_list_has_what_the_command_lists(runs: Path) -> None:
    found = ask(shown(runs), "/runs")
    states = {line["name"]: line["state"] for line in found["lines"]}
    assert states == {"a": "finished", "b": "finished", "begun": "unfinished"}
    line = next(line for line in found["lines"] if line["name"] == "b")
    assert (line["seed"], line["done"], line["of"], line["dataset"]) == (2, 2, 2, "fmnist-mini")
    assert len(line["digest"]) == 32


def test_only_runs_that_changed_are_read_again(
    runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = Archive(runs)
    before = archive.lines()
    monkeypatch.setattr("fl_server.reports.listing.read_model", None)  # would fail
    assert archive.lines() == before
    with FolderLock(runs / "begun", "a coordinator"):
        states = {line.name: line.state for line in archive.lines()[0]}
    assert states["begun"] == "running"


def test_a_finished_run_is_seen_as_by_who_watched_it(runs: Path) -> None:
    sections = ask(shown(runs), "/snapshot", run=["a"])["set"]
    assert sections["run"]["title"] == "a"
    assert sections["run"]["experiment"]["algorithm"]["name"] == "fedavg"
    assert sections["now"]["finished"] is True
    assert {"main_global", "train_loss", "seconds"} <= sections["line:1"].keys()
    assert sections["board:simulation"]["clients"] == "0-2"
    assert [span[:3] for span in sections["lane:simulation"]] == [
        [client, round_number, "train"] for round_number in (1, 2) for client in range(3)
    ]


def test_a_run_is_followed_while_it_grows(runs: Path, tmp_path: Path) -> None:
    shutil.copytree(runs / "a", tmp_path / "a")
    path = tmp_path / "a" / "events.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    first = next(at for at, line in enumerate(lines) if b'"round_closed"' in line) + 1
    path.write_bytes(b"".join(lines[:first]) + lines[first][:5])
    followed = Archive(tmp_path).followed("a")
    assert followed.look().done == 1
    with path.open("ab") as file:
        file.write(lines[first][5:] + b"".join(lines[first + 1 :]))
    view = followed.look()
    assert (view.done, view.finished) == (2, True)
    assert [line.round for line in view.closed] == [1, 2]


def test_of_long_events_only_the_end_is_read_and_the_curves_are_whole(
    runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archives, "MOST_BYTES", 400)
    view = Archive(runs).followed("a").look()
    assert view.finished
    assert [line.round for line in view.lines] == [0, 1, 2]
    assert [line.round for line in view.closed] == [1, 2]


def test_few_runs_are_followed_at_a_time(runs: Path, tmp_path: Path) -> None:
    for number in range(MOST_FOLLOWED + 3):
        shutil.copytree(runs / "a", tmp_path / f"r{number}")
    archive = Archive(tmp_path)
    first = archive.followed("r0")
    assert archive.followed("r0") is first
    for number in range(1, MOST_FOLLOWED + 3):
        archive.followed(f"r{number}")
    assert archive.followed("r0") is not first


@pytest.mark.parametrize("name", ["", "nothing", "..", "../a", ".queue", "a/../b", "a\0"])
def test_what_is_no_run_of_the_folder_is_not_read(runs: Path, name: str) -> None:
    with pytest.raises(UsageError, match="there is no run"):
        Archive(runs).folder(name)


def test_a_board_has_its_clients_rounds_and_news(runs: Path) -> None:
    found = ask(shown(runs), "/board", run=["a"], board=["simulation"])
    assert [one["client"] for one in found["clients"]] == [0, 1, 2]
    assert all(0 <= one["main_global"] <= 1 and one["samples"] > 0 for one in found["clients"])
    assert [(one["round"], one["clients"]) for one in found["rounds"]] == [(1, 3), (2, 3)]
    assert all(one["seconds"] >= 0 for one in found["rounds"])  # to a hundredth
    with pytest.raises(UsageError, match="there is no board 'x'"):
        ask(shown(runs), "/board", run=["a"], board=["x"])


def test_a_client_has_its_curve_and_its_classes(runs: Path) -> None:
    found = ask(shown(runs), "/client", run=["a"], client=["1"])
    assert [line["round"] for line in found["lines"]] == [0, 1, 2]
    assert all(0 <= line["main_global"] <= 1 for line in found["lines"])
    assert len(found["classes"]) == 10
    assert sum(found["classes"]) == 12
    for client in ("-1", "x", "9" * 20):
        with pytest.raises(UsageError, match="there is no client"):
            ask(shown(runs), "/client", run=["a"], client=[client])


def test_runs_are_compared_over_rounds_time_and_bytes(runs: Path) -> None:
    found = ask(shown(runs), "/curves", run=["a", "b", "a"])["runs"]
    assert [run["name"] for run in found] == ["a", "b"]
    first = found[0]
    assert first["axes"]["rounds"] == [0, 1, 2]
    assert first["axes"].keys() == {"rounds", "time", "bytes"}  # nobody measured energy
    sent = [0, *(line["bytes_up"] + line["bytes_down"] for line in _metrics(runs)[1:])]
    assert first["axes"]["bytes"] == [sent[0], sent[1], sent[1] + sent[2]]
    expected = [line["accuracy_global"] for line in _metrics(runs)]
    assert first["metrics"]["accuracy_global"] == expected
    assert first["metrics"]["train_loss"][0] is None


def _metrics(runs: Path) -> list[dict[str, Any]]:
    return [
        json.loads(line) for line in (runs / "a" / "metrics.jsonl").read_text().splitlines()
    ]


def test_the_tables_are_those_of_the_report(runs: Path) -> None:
    found = {
        table["key"]: table for table in ask(shown(runs), "/tables", run=["a", "b"])["tables"]
    }
    results = found["results"]
    assert results["columns"][:3] == ["run", "seeds", "rounds"]
    assert [row[:3] for row in results["rows"]] == [["tiny", "2", "2"]]
    assert results["csv"].startswith('"run","seeds","rounds",')
    with pytest.raises(UsageError, match="choose at least one run"):
        ask(shown(runs), "/tables")
    with pytest.raises(UsageError, match="cannot be compared"):
        ask(shown(runs), "/curves", run=["a"] * (MOST_COMPARED + 1))


def test_runs_that_are_too_large_for_the_page_are_left_to_the_report(
    runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compare, "MOST_BYTES", 10)
    with pytest.raises(UsageError, match="or with: fl-server report a b"):
        ask(shown(runs), "/curves", run=["a", "b"])


def test_a_page_of_a_broker_has_no_runs() -> None:
    site = Shown(Audience())
    assert ask(site, "/site")["runs"] is False
    for path in ("/runs", "/curves", "/tables"):
        with pytest.raises(UsageError, match="no folder of runs"):
            ask(site, path, run=["a"])
