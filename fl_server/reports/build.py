"""Puts a report together: tables and plots as files, and the page that holds them all."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from common import VERSION
from common.config import Experiment, TaskSection
from common.disk.atomic import disk_errors, write_atomic
from common.errors import FedbedError
from common.experiment.tasks import task_of
from common.tasks.task import resolved
from fl_server.data.distribution import distribution_of
from fl_server.reports import tables
from fl_server.reports.axes import AXES
from fl_server.reports.figures.every import figures_tex, plots_of
from fl_server.reports.figures.parts import Counts
from fl_server.reports.figures.plot import check_matplotlib, save
from fl_server.reports.groups import Group, differences, settings_of
from fl_server.reports.output.escape import for_html
from fl_server.reports.output.html_page import Headline, Section, figure, make_page
from fl_server.reports.output.render import FORMATS, show, to_html
from fl_server.reports.reference import Reference
from fl_server.reports.tables import (
    Cell,
    Column,
    Table,
    compare,
    curves,
    main_column,
    personal,
    reach,
)
from fl_server.reports.tables.clients import classes_table, clients_table
from fl_server.reports.tables.computed import computed_table
from fl_server.reports.tables.differences import differences_table
from fl_server.reports.tables.privacy import privacy_table
from fl_server.watch.words import duration


def tables_of(groups: Sequence[Group], reference: Reference | None) -> list[Table]:
    """All tables that these runs have something for, the most wanted first."""
    federated = [group for group in groups if not group.central]
    if not federated:
        return [tables.results(groups), tables.runs_table(groups)]
    found = [
        tables.results(groups),
        differences_table(federated),
        compare.comparison(federated, reference) if reference else None,
        personal.personal(federated),
        clients_table(federated),
        classes_table(groups),
        reach.rounds_to(federated, "global"),
        reach.rounds_to(federated, "personal"),
        personal.rounds_to_own(federated),
        curves.curve_table(federated),
        tables.costs(federated),
        privacy_table(federated),
        reach.bytes_to(federated),
        reach.time_to(federated),
        reach.energy_to(federated),
        tables.boards(federated),
        tables.survived(federated),
        computed_table(federated),
        tables.runs_table(groups),
    ]
    return [table for table in found if table is not None]


def write_report(
    folder: Path,
    groups: Sequence[Group],
    reference: Reference | None,
    when: str,
    first: Sequence[Table] = (),
) -> Path:
    """Write everything into a folder, these tables first; returns the page."""
    check_matplotlib()
    with disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    found = {table.key: table for table in (*first, *tables_of(groups, reference))}
    counts, why_not = class_counts(groups[0].runs[0].experiment)
    if counts is not None:
        found["classes"] = _counts_table(counts)
    for table in found.values():
        for ending, write in FORMATS.items():
            write_atomic(folder / f"{table.key}.{ending}", write(table).encode())
    with disk_errors(folder):
        plots = plots_of(groups, counts)
        drawn = {plot.key: figure(save(plot, folder), plot.caption) for plot in plots}
    write_atomic(folder / "figures.tex", figures_tex(plots).encode())
    page = make_page(
        _title(groups),
        f"{len(groups)} settings, {sum(len(g.runs) for g in groups)} runs",
        _facts(groups),
        _sections(found, drawn, groups, why_not),
        f"made by fedbed {VERSION} on {when}",
    )
    write_atomic(folder / "index.html", page.encode())
    return folder / "index.html"


def class_counts(experiment: Experiment) -> tuple[Counts | None, str]:
    """How many samples of each class every client has; None, and why, without the dataset."""
    try:
        distribution = distribution_of(experiment)
    except FedbedError as error:
        return None, str(error)
    return distribution.train + distribution.test, ""


def _counts_table(counts: Counts) -> Table:
    names = tuple(Column(f"class {label}", "count") for label in range(counts.shape[1]))
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (str(client), *map(int, row)) for client, row in enumerate(counts)
    )
    return Table("classes", "Samples of each class", (Column("client"), *names), rows)


def _title(groups: Sequence[Group]) -> str:
    names = dict.fromkeys(group.runs[0].experiment.experiment.name for group in groups)
    return ", ".join(names) if len(names) < 4 else f"{len(names)} experiments"


def _facts(groups: Sequence[Group]) -> list[Headline]:
    facts = []
    column, lower = main_column("", groups), groups[0].runs[0].summary.lower
    percent, choose = " %" if column.unit == "percent" else "", min if lower else max
    for name in ("global", "personal"):
        best = [
            (g.figure(g.shared if name == "global" else g.personal, "best"), g.label)
            for g in groups
            if not g.central
        ]
        known = [(found, label) for found, label in best if found is not None]
        if known:
            found, label = choose(known, key=lambda pair: pair[0].mean)
            shown = f"{show(found, column.unit)}{percent}"
            facts.append(Headline(f"best {name} {groups[0].main}", shown, label))
    costs = [run.summary.cost for group in groups for run in group.runs]
    sent = sum(cost.bytes_up + cost.bytes_down for cost in costs)
    facts.append(
        Headline("sent and received", show(float(sent), "bytes"), "all runs, both ways")
    )
    seconds = sum(cost.seconds for cost in costs)
    facts.append(Headline("time in rounds", duration(seconds), "all runs"))
    return facts


def _sections(
    found: dict[str, Table], drawn: dict[str, str], groups: Sequence[Group], why_not: str
) -> list[Section]:
    places = {
        groups[0].main: "results",
        "loss": "results",
        "overall": "results",
        "clients": "clients",
        "class-accuracy": "class-accuracy",
        "heat-map": "curves",
        "below": "personal",
        **{f"over-{axis.key}": "costs" for axis in AXES},
        "boards": "boards",
        "chances": "runs",
    }
    before = dict.fromkeys(found, "")
    for plot, table in places.items():
        if table in found:
            before[table] += drawn.get(plot, "")
    sections = [
        Section(key, table.title, before[key] + to_html(table))
        for key, table in found.items()
        if key != "classes"
    ]
    if "classes" in drawn:
        sections.append(Section("classes", "Class distribution", drawn["classes"]))
    else:
        text = f"The class distribution is left out: {why_not}"
        sections.append(
            Section("classes", "Class distribution", f'<p class="note">{for_html(text)}</p>')
        )
    if "faults" not in found:
        text = "No board was lost, nothing was dropped, late or refused in these runs."
        sections.append(
            Section("faults", "Faults survived", f'<p class="note">{for_html(text)}</p>')
        )
    return [*sections, Section("settings", "Settings", to_html(_settings(groups)))]


def _remark(text: str) -> str:
    return f'<p class="note">{for_html(text)}</p>'


def _settings(groups: Sequence[Group]) -> Table:
    """What all groups have in common and is not a default, and what each has for itself."""
    flat = [settings_of(group.runs[0].experiment) for group in groups]
    usual, varying = {**settings_of(Experiment()), **_usual_task(groups)}, differences(flat)
    rows = [
        ("all", key, _plain(value))
        for key, value in flat[0].items()
        if key not in varying and usual.get(key) != value
    ]
    for group, settings in zip(groups, flat, strict=True):
        rows += [
            (group.label, key, _plain(settings[key]))
            for key in varying
            if key in settings and not (group.central and key.startswith("algorithm."))
        ]
    columns = (Column("run"), Column("setting"), Column("value"))
    return Table(
        "settings", "Settings", columns, tuple(rows), "All others have their defaults."
    )


def _usual_task(groups: Sequence[Group]) -> dict[str, object]:
    """What `auto` in [task] stands for with the data of these runs."""
    kind = task_of(groups[0].runs[0].experiment).kind
    found = settings_of(Experiment(task=resolved(TaskSection(), kind)))
    return {key: value for key, value in found.items() if key.startswith("task.")}


def _plain(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
