"""The metrics of a study's finished runs, copied to where they stay: small files only.

<folder>/<study>/<run>/experiment.toml metrics.jsonl summary.json run.json machine.json
                       events.jsonl      only its end, with the digest of the model
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import msgspec

from common.disk.atomic import disk_errors, write_atomic
from fl_server.run.journal import read_records
from fl_server.run.provenance import FILE as MACHINE
from fl_server.studies.found import find_alike
from fl_server.studies.runs import StudyRun
from fl_server.studies.study import Study

FILES = ("experiment.toml", "metrics.jsonl", "summary.json", MACHINE)


def keep(study: Study, plan: Sequence[StudyRun], runs: Path, folder: Path) -> list[Path]:
    """Copy what is finished, whatever its folder is called; returns all that is kept."""
    kept = []
    for run in plan:
        target = folder / study.name / run.name
        found = find_alike(run, runs)
        if found is not None and found.resolve() != target.resolve():
            _copy(found, target)
        if (target / "metrics.jsonl").exists():
            kept.append(target)
    return kept


def _copy(run: Path, target: Path) -> None:
    with disk_errors(target):
        target.mkdir(parents=True, exist_ok=True)
        for name in FILES:
            if (run / name).exists():
                shutil.copyfile(run / name, target / name)
        record = msgspec.json.decode((run / "run.json").read_bytes())  # of any format
    record.pop("code", None)  # a path of this machine
    write_atomic(target / "run.json", msgspec.json.encode(record))
    ends = [fact for fact in read_records(run / "events.jsonl") if fact["event"] == "finished"]
    if ends:
        write_atomic(target / "events.jsonl", msgspec.json.encode(ends[-1]) + b"\n")
