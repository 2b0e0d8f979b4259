"""PURE: tables as text: CSV with raw numbers, Markdown, LaTeX, HTML."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable

from common.texts import printable
from fl_server.reports.escape import for_csv, for_html, for_latex, for_markdown
from fl_server.reports.groups import Spread
from fl_server.reports.tables import Cell, Column, Table, Unit
from fl_server.watch.words import BYTES, scaled

NOTHING = "-"


def show(cell: Cell, unit: Unit) -> str:
    """A cell for people: "84.12 ± 0.31", "1.3 ± 0.1 MB", "12 (1/2)"."""
    if cell is None:
        return NOTHING
    if isinstance(cell, str):
        return printable(cell)
    if not isinstance(cell, Spread):
        return _join(*_parts(cell, unit, cell))
    value, unit_name = _parts(cell.mean, unit, cell.mean)
    if cell.std is not None:
        deviation = _parts(cell.std, unit, cell.mean)[0].lstrip("+")
        value += f" ± {deviation}" if float(deviation) else ""
    text = _join(value, unit_name)
    return text if cell.known == cell.of else f"{text} ({cell.known}/{cell.of})"


def _join(value: str, unit_name: str) -> str:
    return f"{value} {unit_name}".rstrip()


def _parts(value: float, unit: Unit, like: float) -> tuple[str, str]:
    """A number and its unit, scaled as another number (`like`) is."""
    match unit:
        case "percent":
            return f"{100 * value:.2f}", ""
        case "bytes":
            return scaled(value, BYTES, like)
        case "joules":
            return scaled(value, ("J", "kJ", "MJ"), like)
        case "seconds":
            return (f"{value:.2f}" if abs(like) < 100 else f"{value:.0f}"), "s"
        case "count":
            return (f"{value:.0f}" if value == int(value) else f"{value:.1f}"), ""
        case "number":
            return f"{value:+.3f}", ""
        case "points":
            return f"{value:+.2f}", ""
        case "text" | "measure":
            return str(value) if unit == "text" else f"{value:.4g}", ""


def texts(table: Table) -> list[list[str]]:
    """All rows as people read them."""
    units = [column.unit for column in table.columns]
    return [
        [show(cell, unit) for cell, unit in zip(row, units, strict=True)] for row in table.rows
    ]


def to_csv(table: Table) -> str:
    """Raw numbers: fractions, bytes, seconds; a spread has its deviation in a second column."""
    spreads = [
        any(isinstance(row[at], Spread) for row in table.rows)
        for at in range(len(table.columns))
    ]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
    heads: list[str] = []
    for column, split in zip(table.columns, spreads, strict=True):
        heads += [column.name, f"{column.name} std"] if split else [column.name]
    writer.writerow([for_csv(head.strip()) for head in heads])
    for row in table.rows:
        cells: list[object] = []
        for cell, split in zip(row, spreads, strict=True):
            cells += _raw(cell, split=split)
        writer.writerow(cells)
    return out.getvalue()


def _raw(cell: Cell, *, split: bool) -> list[object]:
    if isinstance(cell, Spread):
        return [cell.mean, "" if cell.std is None else cell.std]
    value: object = "" if cell is None else for_csv(cell) if isinstance(cell, str) else cell
    return [value, ""] if split else [value]


def to_markdown(table: Table) -> str:
    """A table as GitHub draws it."""
    names = [for_markdown(column.name.strip()) for column in table.columns]
    rules = ["---" if column.unit == "text" else "---:" for column in table.columns]
    lines = [names, rules, *([for_markdown(cell) for cell in row] for row in texts(table))]
    body = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return f"**{for_markdown(table.title)}**\n\n{body}\n\n{for_markdown(table.note)}\n"


def to_latex(table: Table) -> str:
    """A table for a paper, with the rules of booktabs."""
    kinds = "".join("l" if column.unit == "text" else "r" for column in table.columns)
    lines = [
        printable(f"% {table.title}. {table.note}"),
        rf"\begin{{tabular}}{{{kinds}}}",
        r"\toprule",
        _latex_row([column.name.strip() for column in table.columns]),
        r"\midrule",
        *(_latex_row(row) for row in texts(table)),
        r"\bottomrule",
        r"\end{tabular}",
    ]
    return "\n".join(lines) + "\n"


def _latex_row(cells: list[str]) -> str:
    return " & ".join(_latex(cell) for cell in cells) + r" \\"


def _latex(text: str) -> str:
    if re.fullmatch(r"[+-][\d.]+( ± [\d.]+)?", text):  # a sign is a minus, not a hyphen
        return "$" + text.replace("±", r"\pm") + "$"
    return for_latex(text)


def to_html(table: Table) -> str:
    """A table for the page; the best of a column of metrics stands out."""
    best = {
        at: _best(table, at) for at, column in enumerate(table.columns) if _is_ranked(column)
    }
    head = "".join(f"<th{_class(c)}>{for_html(c.name.strip())}</th>" for c in table.columns)
    lines = []
    for row, shown in zip(table.rows, texts(table), strict=True):
        cells = ""
        for at, text in enumerate(shown):
            strong = best.get(at) is not None and _value(row[at]) == best[at]
            escaped = for_html(text)
            inner = f"<strong>{escaped}</strong>" if strong else escaped
            cells += f"<td{_class(table.columns[at])}>{inner}</td>"
        lines.append(f"<tr>{cells}</tr>")
    body = "\n".join(lines)
    return (
        f'<div class="wide"><table><thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>'
        f'</table></div>\n<p class="note">{for_html(table.note)}</p>'
    )


def _class(column: Column) -> str:
    return "" if column.unit == "text" else ' class="n"'


def _is_ranked(column: Column) -> bool:
    if column.unit == "measure":
        return True
    return column.unit == "percent" and column.name != "busy" and "reference" not in column.name


def _best(table: Table, at: int) -> float | None:
    found = [value for row in table.rows if (value := _value(row[at])) is not None]
    choose = min if table.columns[at].lower else max
    return choose(found) if len(found) > 1 and len(set(found)) > 1 else None


def _value(cell: Cell) -> float | None:
    if isinstance(cell, Spread):
        return cell.mean
    return cell if isinstance(cell, int | float) else None


FORMATS: dict[str, Callable[[Table], str]] = {
    "csv": to_csv,
    "md": to_markdown,
    "tex": to_latex,
}
