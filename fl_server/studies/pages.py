"""Pages about studies: one that grows while a study runs, and those in docs/.

`python -m fl_server.studies.pages docs` (`make docs`) writes docs/studies/<study>/README.md
with its figures for every study with kept runs, and the tables in docs/results.md, which stand
between `<!-- study: NAME -->` and `<!-- /study -->`.
"""

from __future__ import annotations

import hashlib
import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from common.disk.atomic import write_atomic
from fl_server.reports.build import write_report
from fl_server.reports.figures.every import plots_of
from fl_server.reports.figures.plot import Plot, save
from fl_server.reports.groups import group_runs
from fl_server.reports.output.render import to_markdown
from fl_server.reports.tables import Cell, Column, Table
from fl_server.run.provenance import Machine, read_machine
from fl_server.studies.catalog import find_study, study_names
from fl_server.studies.found import find_runs
from fl_server.studies.plan import plan_study
from fl_server.studies.runs import FoundRun
from fl_server.studies.study import Study
from fl_server.studies.table import study_table

PAGE = "README.md"
FIGURES = ("accuracy", "overall", "heat-map", "below")
_BLOCK = re.compile(r"(<!-- study: (\S+) -->\n).*?(<!-- /study -->)", re.S)
_ALL = re.compile(r"(<!-- studies -->\n).*?(<!-- /studies -->)", re.S)


def write_growing_page(
    folder: Path | None, study: Study, found: Sequence[FoundRun]
) -> Path | None:
    """The report of a study as far as it is; None if none is wanted or nothing is there."""
    data = [one.data for one in found if one.data is not None and one.data.lines]
    if folder is None or not data:
        return None
    tables = [study_table(study, found)]
    return write_report(folder, group_runs(data), None, time.strftime("%Y-%m-%d"), tables)


def kept_runs(study: Study, folder: Path) -> list[FoundRun]:
    """All runs of a study, with what is kept of them in a folder of studies."""
    runs = folder / study.name
    return find_runs(plan_study(study, runs), runs)


def study_page(study: Study, folder: Path) -> str:
    """The page of a study with kept runs."""
    found = kept_runs(study, folder)
    figures = [f"![{plot.title}]({plot.key}.svg)" for plot in _plots(found)]
    parts = (
        f"# {study.title}",
        f"Made by `make docs` from the metrics beside this page; `fl-server reproduce "
        f"{study.name}` runs what is missing.",
        to_markdown(study_table(study, found)).strip(),
        *figures,
        to_markdown(_runs_table(found, folder / study.name)).strip(),
    )
    return "\n\n".join(parts) + "\n"


def _runs_table(found: Sequence[FoundRun], folder: Path) -> Table:
    names = ("run", "rounds", "final model", "commit", "torch", "Python", "processor")
    rows: list[tuple[Cell, ...]] = []
    for one in found:
        if one.data is None:
            continue
        machine = read_machine(folder / one.run.name)
        unknown = Machine(fedbed="", commit="", torch="", python="", processor="")
        made = machine or unknown
        rounds = str(one.data.summary.rounds)
        about = (made.commit or made.fedbed, made.torch, made.python, made.processor)
        rows.append((one.run.name, rounds, one.data.digest[:8], *about))
    return Table("runs", "Kept runs", tuple(map(Column, names)), tuple(rows))


def _plots(found: Sequence[FoundRun]) -> list[Plot]:
    data = [one.data for one in found if one.data is not None]
    groups = group_runs(data)
    return [plot for plot in plots_of(groups) if plot.key in FIGURES]


def mark_of(study: Study, folder: Path) -> str:
    """A digest of all kept metrics of a study: a figure that has it was made from them."""
    state = hashlib.blake2b(digest_size=8)
    for path in sorted((folder / study.name).glob("*/metrics.jsonl")):
        state.update(path.parent.name.encode() + b"\n" + path.read_bytes())
    return f"<!-- made from {state.hexdigest()} -->"


def refreshed(page: str, folder: Path) -> str:
    """A page with the tables of studies as they follow from what is kept."""

    def one(found: re.Match[str]) -> str:
        study = find_study(found[2])
        table = to_markdown(study_table(study, kept_runs(study, folder)))
        return f"{found[1]}{table}{found[3]}"

    page = _BLOCK.sub(one, page)
    return _ALL.sub(lambda found: f"{found[1]}{_overview(folder)}{found[2]}", page)


def _overview(folder: Path) -> str:
    lines = ["| study | what | runs at full length | kept here |", "|---|---|---:|---:|"]
    for name in study_names():
        study = find_study(name)
        there = kept_runs(study, folder) if (folder / name).is_dir() else []
        kept = sum(one.finished for one in there)
        link = f"[{kept}](studies/{name}/{PAGE})" if kept else "none"
        lines.append(f"| `{name}` | {study.title} | {study.runs} | {link} |")
    return "\n".join(lines) + "\n"


def studies_in(folder: Path) -> list[Study]:
    """The studies of which something is kept."""
    return [find_study(name) for name in study_names() if (folder / name).is_dir()]


def main(docs: Path) -> None:
    """Write everything anew."""
    folder = docs / "studies"
    for study in studies_in(folder):
        place, mark = folder / study.name, mark_of(study, folder)
        for plot in _plots(kept_runs(study, folder)):
            save(plot, place, ["svg"])
            svg = place / f"{plot.key}.svg"
            svg.write_text(f"{svg.read_text(encoding='utf-8').strip()}\n{mark}\n", "utf-8")
        write_atomic(place / PAGE, study_page(study, folder).encode())
    page = docs / "results.md"
    page.write_text(refreshed(page.read_text(encoding="utf-8"), folder), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
