"""PURE: the tables of a report, as typed cells; how they look is in `render.py`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from fl_server.reports.groups import Group, Spread, spread
from fl_server.reports.run_data import RunData
from fl_server.reports.significance import MEASURES, metric_of, winner, winning_note
from fl_server.reports.timing import FAULTS, faults, mean, times_of
from fl_server.run.metrics.summary import values

Unit: TypeAlias = Literal[
    "text", "percent", "measure", "count", "number", "points", "bytes", "seconds", "joules"
]
Cell: TypeAlias = str | int | float | Spread | None


@dataclass(frozen=True, slots=True)
class Column:
    """The head of a column, what its numbers are, and whether they have intervals."""

    name: str
    unit: Unit = "text"
    interval: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells; `key` names its files, `winners` are (row, column) of cells in bold."""

    key: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""
    winners: frozenset[tuple[int, int]] = frozenset()


def main_column(name: str, groups: Sequence[Group], *, interval: bool = False) -> Column:
    """A column of the main metric of all groups."""
    unit: Unit = "percent" if groups[0].runs[0].summary.share else "measure"
    return Column(name, unit, interval)


def results(groups: Sequence[Group]) -> Table:
    """The table that goes into a paper: best of run, and the sober mean of ten tests."""
    stages = sorted({run.summary.personal_stage for group in groups for run in group.runs})
    epochs = " Rounds of a centralized training are epochs, and it takes no part in the test."
    columns = (
        Column("run"),
        Column("seeds", "count"),
        Column("rounds", "count"),
        *(main_column(name, groups, interval=True) for name, _, _ in MEASURES),
        Column("log10(g/p)", "number"),
    )
    rows = tuple(
        (
            group.label,
            len(group.runs),
            max(run.summary.rounds for run in group.runs),
            *(group.figure(metric_of(group, kind), which) for _, kind, which in MEASURES),
            group.spread(_overall),
        )
        for group in groups
    )
    in_percent = " in percent" if main_column("", groups).unit == "percent" else ""
    note = (
        f"{groups[0].title}{in_percent}, mean ± standard deviation over the "
        "seeds, in brackets half of "
        "the mean's 95 % confidence interval. Best is the best test of each run, for each "
        "metric by itself, and optimistic, as it was chosen on test "
        f"samples; last 10 tests is their mean{_since(groups)}. Personal is the clients' "
        f"own models at stage {' and '.join(stages)} (L1: before, L2: after their training); "
        "log10(g/p) compares the two best ones."
        f"{winning_note(groups)}{epochs if any(group.central for group in groups) else ''}"
        f"{_left_out(groups)}"
    )
    winners = frozenset(
        (row, 3 + at)
        for at, (_, kind, which) in enumerate(MEASURES)
        if (row := winner(groups, kind, which)) is not None
    )
    return Table("results", "Results", columns, rows, note, winners)


def _left_out(groups: Sequence[Group]) -> str:
    found = [text for group in groups for text in group.left_out]
    return f" Left out: {', '.join(found)}." if found else ""


def _since(groups: Sequence[Group]) -> str:
    """From which round on the last ten tests were, where there were any."""
    figures = [run.summary.figures.get(group.shared) for group in groups for run in group.runs]
    rounds = sorted({figure.mean_last_from for figure in figures if figure is not None})
    return f" (rounds {' / '.join(map(str, rounds))} and later)" if rounds else ""


def _overall(run: RunData) -> float | None:
    return run.summary.overall.value if run.summary.overall else None


def costs(groups: Sequence[Group]) -> Table:
    """Bytes and seconds of whole runs and of a round; energy where boards can measure it."""
    columns = [
        Column("run"),
        Column("up / round", "bytes"),
        Column("down / round", "bytes"),
        Column("up", "bytes"),
        Column("down", "bytes"),
        Column("s / round", "seconds"),
        Column("all rounds", "seconds"),
        Column("training", "seconds"),
        Column("aggregation", "seconds"),
    ]
    energy = any(run.summary.cost.energy_joules is not None for g in groups for run in g.runs)
    if energy:
        columns.append(Column("energy", "joules"))
    rows = tuple((group.label, *_cost_cells(group, energy=energy)) for group in groups)
    note = (
        "Up is the payload that reached the server; down is the model times the boards it went "
        "to. Training adds up the clients' own training times, on all boards together."
    )
    return Table("costs", "Communication and time", tuple(columns), rows, note)


def _cost_cells(group: Group, *, energy: bool) -> list[Cell]:
    def over(name: str, *, per_round: bool = False) -> Spread | None:
        return spread([_cost(run, name, per_round=per_round) for run in group.runs])

    rates = [over(name, per_round=True) for name in ("bytes_up", "bytes_down", "seconds")]
    sums = [over(name) for name in ("bytes_up", "bytes_down", "seconds")]
    work = [over(name) for name in ("train_seconds", "aggregate_seconds")]
    more = [over("energy_joules")] if energy else []
    return [*rates[:2], *sums[:2], rates[2], sums[2], *work, *more]


def _cost(run: RunData, name: str, *, per_round: bool) -> float | None:
    value: float | None = getattr(run.summary.cost, name)
    rounds = len(values(run.lines, "seconds")) if per_round else 1
    return value / rounds if value is not None and rounds else None


def boards(groups: Sequence[Group]) -> Table | None:
    """Where the time of each board went."""
    rows: list[tuple[Cell, ...]] = []
    for group in groups:
        total = sum(run.summary.cost.seconds for run in group.runs)
        for name, times in times_of(group).items():
            busy = sum(times.trainings) / total if total else None
            around = (mean(times.waits), mean(times.trainings), mean(times.sendings))
            rows.append((group.label, name, len(times.trainings), *around, busy, times.last))
    if not rows:
        return None
    columns = (
        Column("run"),
        Column("board"),
        Column("trainings", "count"),
        Column("before", "seconds"),
        Column("training", "seconds"),
        Column("after", "seconds"),
        Column("busy", "percent"),
        Column("waited for", "count"),
    )
    note = (
        "Mean per training. Before: from the opening of the round until the training starts "
        "(the model's way, other clients of the board). After: until the update is safe on the "
        "server. Busy: training time over the time of all rounds. Waited for: rounds whose "
        "last update came from this board."
    )
    return Table("boards", "Time per phase and board", columns, tuple(rows), note)


def survived(groups: Sequence[Group]) -> Table | None:
    """What went wrong in the runs; only what happened at all has a column."""
    found = [[faults(run.events, run.lines) for run in group.runs] for group in groups]
    happened = [kind for kind in FAULTS if any(one[kind] for runs in found for one in runs)]
    if not happened:
        return None
    columns = (
        Column("run"),
        Column("finished"),
        *(Column(FAULTS[kind], "count") for kind in happened),
    )
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (
            group.label,
            f"{sum(run.finished for run in group.runs)} of {len(group.runs)}",
            *(sum(one[kind] for one in runs) for kind in happened),
        )
        for group, runs in zip(groups, found, strict=True)
    )
    return Table("faults", "Faults survived", columns, rows, "Sums over the runs of a row.")


def runs_table(groups: Sequence[Group]) -> Table:
    """Every single run, so that nothing hides behind a mean."""
    columns = (
        Column("run"),
        Column("of"),
        Column("seed", "count"),
        Column("rounds", "count"),
        main_column("global best", groups),
        Column("at round", "count"),
        main_column("personal best", groups),
        Column("at round ", "count"),
        Column("model"),
    )
    rows = []
    for group in groups:
        for run in group.runs:
            cells: list[Cell] = [run.name, group.label, run.seed, run.summary.rounds]
            for metric in (group.shared, group.personal):
                figure = run.summary.figures.get(metric)
                cells += [figure.best, figure.best_round] if figure else [None, None]
            rows.append((*cells, run.digest[:8] or "not finished"))
    note = "The last column begins the digest of the final model: same digest, same bits."
    return Table("runs", "Every run", columns, tuple(rows), note)
