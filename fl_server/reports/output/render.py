"""PURE: tables as text: CSV with raw numbers, Markdown, LaTeX, HTML."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable

from common.texts import printable
from fl_server.reports.groups import Spread
from fl_server.reports.output.escape import for_csv, for_html, for_latex, for_markdown
from fl_server.reports.statistics import half_width
from fl_server.reports.tables import Cell, Column, Table, Unit
from fl_server.watch.words import BYTES, scaled

NOTHING = "-"


def show(cell: Cell, unit: Unit, *, interval: bool = False) -> str:
    """A cell for people: "84.12 ± 0.31 [± 0.77]", "1.3 ± 0.1 MB", "12 (1/2)"."""
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
        if interval and float(deviation):
            value += f" [± {_parts(half_width(cell.std, cell.known), unit, cell.mean)[0]}]"
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
    return [
        [
            show(cell, column.unit, interval=column.interval)
            for cell, column in zip(row, table.columns, strict=True)
        ]
        for row in table.rows
    ]


def to_csv(table: Table) -> str:
    """Raw numbers: fractions, bytes, seconds; a spread has columns more, std (and ci95)."""
    spreads = [
        any(isinstance(row[at], Spread) for row in table.rows)
        for at in range(len(table.columns))
    ]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
    heads: list[str] = []
    for column, split in zip(table.columns, spreads, strict=True):
        more = ["std", *(["ci95"] if column.interval else [])] if split else []
        heads += [column.name, *(f"{column.name} {name}" for name in more)]
    writer.writerow([for_csv(head.strip()) for head in heads])
    for row in table.rows:
        cells: list[object] = []
        for cell, column, split in zip(row, table.columns, spreads, strict=True):
            cells += _raw(cell, 2 + column.interval if split else 1)
        writer.writerow(cells)
    return out.getvalue()


def _raw(cell: Cell, width: int) -> list[object]:
    if isinstance(cell, Spread):
        if cell.std is None:
            return [cell.mean, *[""] * (width - 1)]
        numbers: list[object] = [cell.mean, cell.std, half_width(cell.std, cell.known)]
        return numbers[:width]
    value: object = "" if cell is None else for_csv(cell) if isinstance(cell, str) else cell
    return [value, *[""] * (width - 1)]


def to_markdown(table: Table) -> str:
    """A table as GitHub draws it."""
    names = [for_markdown(column.name.strip()) for column in table.columns]
    rules = ["---" if column.unit == "text" else "---:" for column in table.columns]
    rows = _marked(table, for_markdown, "**{}**")
    lines = [names, rules, *rows]
    body = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return f"**{for_markdown(table.title)}**\n\n{body}\n\n{for_markdown(table.note)}\n"


def to_latex(table: Table) -> str:
    """A table for a paper, with the rules of booktabs."""
    kinds = "".join("l" if column.unit == "text" else "r" for column in table.columns)
    lines = [
        printable(f"% {table.title}. {table.note}"),
        rf"\begin{{tabular}}{{{kinds}}}",
        r"\toprule",
        " & ".join(_latex(column.name.strip()) for column in table.columns) + r" \\",
        r"\midrule",
        *(" & ".join(row) + r" \\" for row in _marked(table, _latex, r"\textbf{{{}}}")),
        r"\bottomrule",
        r"\end{tabular}",
    ]
    return "\n".join(lines) + "\n"


def _marked(table: Table, escape: Callable[[str], str], bold: str) -> list[list[str]]:
    """All rows, escaped, the winners in bold."""
    return [
        [
            bold.format(escape(text)) if (row, at) in table.winners else escape(text)
            for at, text in enumerate(cells)
        ]
        for row, cells in enumerate(texts(table))
    ]


def _latex(text: str) -> str:
    if re.fullmatch(r"[+-][\d.]+( ± [\d.]+)?", text):  # a sign is a minus, not a hyphen
        return "$" + text.replace("±", r"\pm") + "$"
    return for_latex(text)


def to_html(table: Table) -> str:
    """A table for the page; winners stand out."""
    head = "".join(f"<th{_class(c)}>{for_html(c.name.strip())}</th>" for c in table.columns)
    lines = [
        "<tr>"
        + "".join(
            f"<td{_class(column)}>{cell}</td>"
            for column, cell in zip(table.columns, row, strict=True)
        )
        + "</tr>"
        for row in _marked(table, for_html, "<strong>{}</strong>")
    ]
    body = "\n".join(lines)
    return (
        f'<div class="wide"><table><thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>'
        f'</table></div>\n<p class="note">{for_html(table.note)}</p>'
    )


def _class(column: Column) -> str:
    return "" if column.unit == "text" else ' class="n"'


FORMATS: dict[str, Callable[[Table], str]] = {
    "csv": to_csv,
    "md": to_markdown,
    "tex": to_latex,
}
