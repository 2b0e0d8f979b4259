"""Several runs beside each other: their curves and the tables of a report, as JSON."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

from common.errors import UsageError
from fl_server.reports.axes import AXES, spent_by
from fl_server.reports.build import tables_of
from fl_server.reports.groups import group_runs
from fl_server.reports.output.render import texts, to_csv
from fl_server.reports.run_data import RunData
from fl_server.reports.runs import check_comparable, read_run
from fl_server.watch.facts.lines import MetricsLine, fields_of, number_in
from fl_server.web.runs.archive import Archive

MOST_COMPARED = 24
MOST_BYTES = 256_000_000  # of their files
MOST_POINTS = 2_000  # of a curve; of more, some are left out
PLAIN = ("round", "clients", "dropped", "time", "tested_clients", "tested_samples")

Json: TypeAlias = dict[str, object]
_one_at_a_time = threading.Lock()  # reading many runs takes memory


def curves(archive: Archive, names: Sequence[str]) -> Json:
    """The numbers of every round of these runs, and what each round has cost so far."""
    with _one_at_a_time:
        return {"runs": [_curves_of(run) for run in _read(archive, names)]}


def tables(archive: Archive, names: Sequence[str]) -> Json:
    """The tables of a report about these runs."""
    with _one_at_a_time:
        found = _read(archive, names)
        check_comparable(found)
        return {
            "tables": [
                {
                    "key": table.key,
                    "title": table.title,
                    "columns": [column.name for column in table.columns],
                    "rows": texts(table),
                    "winners": sorted(table.winners),
                    "note": table.note,
                    "csv": to_csv(table),
                }
                for table in tables_of(group_runs(found), None)
            ]
        }


def _read(archive: Archive, names: Sequence[str]) -> list[RunData]:
    if not names:
        raise UsageError("choose at least one run")
    if len(names) > MOST_COMPARED:
        raise UsageError(f"more than {MOST_COMPARED} runs cannot be compared here")
    folders = [archive.folder(name) for name in dict.fromkeys(names)]
    if sum(_size(folder) for folder in folders) > MOST_BYTES:
        raise UsageError(
            f"the files of these runs have more than {MOST_BYTES / 1e6:.0f} MB; compare fewer, "
            f"or with: fl-server report {' '.join(names)}"
        )
    return [read_run(folder) for folder in folders]


def _size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.glob("*.jsonl"))


def _curves_of(run: RunData) -> Json:
    lines = _thinned(run.lines)
    keys = dict.fromkeys(key for line in lines for key in fields_of(line) if key not in PLAIN)
    found = {key: [number_in(line, key) for line in lines] for key in keys}
    axes: dict[str, object] = {"rounds": [line.round for line in lines]}
    for axis in AXES:
        spent = spent_by(run.lines, axis)
        if spent is not None:
            axes[axis.key] = [spent[line.round] for line in lines]
    experiment = run.experiment
    return {
        "name": run.name,
        "algorithm": "centralized" if run.central else experiment.algorithm.name,
        "dataset": experiment.data.dataset,
        "partition": experiment.data.partition,
        "seed": run.seed,
        "finished": run.finished,
        "central": run.central,
        "main": run.summary.main,
        "share": run.summary.share,
        "axes": axes,
        "metrics": {key: row for key, row in found.items() if any(v is not None for v in row)},
    }


def _thinned(lines: Sequence[MetricsLine]) -> Sequence[MetricsLine]:
    step = -(-len(lines) // MOST_POINTS)
    return lines if step <= 1 else [*lines[:-1:step], lines[-1]]
