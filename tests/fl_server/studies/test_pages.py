"""What is kept of studies, and the pages that are made from it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from common.experiment.file import write_text
from fl_server.cli import main
from fl_server.run.provenance import this_machine
from fl_server.studies.catalog import find_study
from fl_server.studies.pages import (
    FIGURES,
    PAGE,
    kept_runs,
    mark_of,
    refreshed,
    studies_in,
    study_page,
)
from fl_server.studies.pages import main as write_pages
from fl_server.studies.plan import plan_study
from fl_server.studies.study import Study

DOCS = Path(__file__).resolve().parents[3] / "docs"
KEPT = DOCS / "studies"


def test_the_tables_of_studies_in_the_docs_follow_from_what_is_kept() -> None:
    page = (DOCS / "results.md").read_text()
    assert page == refreshed(page, KEPT), "docs/results.md is stale; run: make docs"


@pytest.mark.parametrize("study", studies_in(KEPT), ids=lambda study: study.name)
def test_the_page_and_the_figures_of_a_study_are_made_from_what_is_kept(study: Study) -> None:
    place = KEPT / study.name
    stale = f"docs/studies/{study.name} is stale; run: make docs"
    assert (place / PAGE).read_text() == study_page(study, KEPT), stale
    figures = list(place.glob("*.svg"))
    assert figures
    for figure in figures:
        assert figure.stem in FIGURES
        assert mark_of(study, KEPT) in figure.read_text(), stale


@pytest.mark.parametrize("study", studies_in(KEPT), ids=lambda study: study.name)
def test_what_is_kept_is_finished_and_says_what_it_was_made_with(study: Study) -> None:
    there = [one for one in kept_runs(study, KEPT) if one.data is not None]
    folders = {path.name for path in (KEPT / study.name).iterdir() if path.is_dir()}
    assert {one.run.name for one in there} == folders
    for one in there:
        assert one.finished, one.run.name
        machine = json.loads((KEPT / study.name / one.run.name / "machine.json").read_text())
        assert machine["commit"], one.run.name
        assert machine["torch"], one.run.name
        assert machine["processor"], one.run.name


def finished_run(folder: Path, experiment: str, digest: str) -> None:
    folder.mkdir(parents=True)
    (folder / "experiment.toml").write_text(experiment)
    record = {"format": 2, "id": "x", "name": "x", "incarnation": 1, "finished": True}
    record["code"] = "/home/somebody"
    (folder / "run.json").write_text(json.dumps(record))
    line = {"round": 8, "accuracy_global": 0.5, "accuracy_l2": 0.75, "tested_clients": 1}
    (folder / "metrics.jsonl").write_text(json.dumps(line) + "\n")
    end = {"event": "finished", "time": 1.0, "reason": "finished", "digest": digest}
    (folder / "events.jsonl").write_text(json.dumps({"event": "x"}) + f"\n{json.dumps(end)}\n")
    (folder / "summary.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(b"large")


def test_finished_runs_are_kept_whatever_they_are_called_and_make_a_page(
    tmp_path: Path,
) -> None:
    study = find_study("mini")
    (first, *_) = plan_study(study, tmp_path)
    text = write_text(first.experiment).replace("mini-fedavg", "an-old-name")
    finished_run(tmp_path / "runs" / "something", text, "ab" * 16)
    kept = tmp_path / "docs" / "studies"
    command = ["reproduce", "mini", "--runs", str(tmp_path / "runs"), "--keep", str(kept)]
    done = CliRunner().invoke(main, command)
    assert done.exit_code == 0, done.output
    assert "1 of 3 runs are in" in done.output
    folder = kept / "mini" / "mini-fedavg-s1"
    names = {path.name for path in folder.iterdir()}
    assert {"experiment.toml", "metrics.jsonl", "summary.json"} <= names
    assert "model.safetensors" not in names
    assert not any("/home/somebody" in path.read_text() for path in folder.iterdir())
    page = tmp_path / "docs" / "results.md"
    page.write_text("A\n<!-- study: mini -->\nold\n<!-- /study -->\nB\n")
    write_pages(tmp_path / "docs")
    assert "old" not in page.read_text()
    assert "| FedAvg | 50.00 | 75.00 | 1 of 1 |" in page.read_text()
    assert "abababab" in (kept / "mini" / PAGE).read_text()
    assert mark_of(study, kept) in (kept / "mini" / "accuracy.svg").read_text()
    shutil.rmtree(folder)
    assert mark_of(study, kept) not in (kept / "mini" / "accuracy.svg").read_text()


def test_a_run_is_made_with_something() -> None:
    machine = this_machine()
    assert machine.torch
    assert machine.processor
