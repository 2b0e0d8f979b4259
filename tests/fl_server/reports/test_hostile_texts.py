"""Reports of runs with hostile names: every format is read back as its programs read it."""

from __future__ import annotations

import csv
import io
import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from common.texts import printable
from fl_server.data.picture import write_picture
from fl_server.reports.build import write_report
from fl_server.reports.groups import Group, Spread
from fl_server.reports.output.escape import for_csv
from fl_server.reports.output.render import to_csv, to_html, to_latex, to_markdown
from fl_server.reports.output.terminal import print_table
from fl_server.reports.reference import Reference
from fl_server.reports.run_data import RunData
from fl_server.reports.tables import Column, Table
from fl_server.watch import facts
from tests.fl_server.reports.test_tables import run
from tests.hostile import HOSTILE, controls, with_every_text

COLUMNS = 3


def table(text: str) -> Table:
    rows = ((text, Spread(0.5, 0.25, 2, 2), text), ("[after", Spread(-0.5, None, 1, 2), "*"))
    columns = (Column(text), Column(f"x {text}", "number"), Column("note"))
    return Table("t", text, columns, rows, text)


@with_every_text
def test_csv_has_the_text_and_no_formula(text: str) -> None:
    found = to_csv(table(text))
    head, first, second = csv.reader(io.StringIO(found))
    assert len(head) == len(first) == len(second) == COLUMNS + 1
    for cell in (head[0], first[0], first[3]):
        assert cell.replace("'", "").strip() == printable(text).replace("'", "").strip()
        assert not re.match(r"\s*[=+@\t\r-]", cell)
    assert first[1:3] == ["0.5", "0.25"]
    assert second[1] == "-0.5"  # a number stays one
    assert controls(found.replace("\n", "")) == set()
    other = list(csv.reader(io.StringIO(found), delimiter=";"))  # as some spreadsheets read it
    assert not any(re.match(r"[=+@-]", cell) for row in other for cell in row)


def test_plain_texts_stay_as_they_are_in_csv() -> None:
    assert [for_csv(text) for text in ("fedavg", "-1.5", "+3", "lr=0.1", "-x")] == [
        *("fedavg", "-1.5", "+3", "lr=0.1", "'-x")
    ]


@with_every_text
def test_markdown_keeps_its_columns_and_has_no_markup_of_the_text(text: str) -> None:
    found = to_markdown(table(text))
    title, _, *rows, _, note = found.removesuffix("\n").split("\n")
    assert len(rows) == 4
    for line in rows:
        assert len(re.findall(r"(?<!\\)(?:\\\\)*\|", line)) == COLUMNS + 1
    assert title.startswith("**")
    assert title.endswith("**")
    cells = [cell for line in rows[2:] for cell in re.findall(r"(?:\\.|[^|\\])+", line)]
    for part in (title[2:-2], note, *cells):
        plain = re.sub(r"\\[^a-zA-Z0-9\s]", "", part)
        assert not re.search(r"[\\`*_{}\[\]<>#|~!&$]", plain)


class Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.data: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        assert not any(name.startswith("on") for name, _ in attrs)

    def handle_data(self, data: str) -> None:
        self.data.append(data)


@with_every_text
def test_html_has_the_text_and_only_tags_of_ours(text: str) -> None:
    reader = Reader()
    reader.feed(to_html(table(text)))
    reader.close()
    assert set(reader.tags) <= {
        "div",
        "table",
        "thead",
        "tr",
        "th",
        "tbody",
        "td",
        "p",
        "strong",
    }
    assert reader.tags.count("td") == 2 * COLUMNS
    assert reader.data.count(printable(text)) >= 2


LATEX = re.compile(
    r"\\text(backslash|asciitilde|asciicircum|less|greater|bar)\{\}|\\symbol\{\d+\}"
    r"|\\[&%_#${}]|-\{\}(?=-)|\{[\[*]\}|\$\\pm\$|\$[+-][\d.]+( \\pm [\d.]+)?\$"
)


@with_every_text
def test_latex_has_rows_of_plain_text(text: str) -> None:
    lines = to_latex(table(text)).removesuffix("\n").split("\n")
    assert len(lines) == 9
    assert lines[0].startswith("% ")
    assert lines[1:3] == [r"\begin{tabular}{lrl}", r"\toprule"]
    for row in (lines[3], *lines[5:7]):
        assert row.endswith(r" \\")
        cells = LATEX.sub("x", row.removesuffix(r" \\")).split("&")
        assert len(cells) == COLUMNS
        assert not any(re.search(r"[\\%_#${}~^<>|\[*\"`]|--", cell) for cell in cells)
        assert all(cell.isprintable() for cell in cells)
    assert lines[6].startswith("{[}after")


@with_every_text
def test_tables_in_the_terminal(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    print_table(table(text))
    assert controls("".join(capsys.readouterr().out.split("\n"))) == set()


def hostile_run(text: str) -> RunData:
    trained = facts.Trained(board=text, client=3, round=1, seconds=2.0, samples=9, time=13.0)
    events = (
        facts.RoundOpened(1, (3,), (), time=10.0),
        trained,
        facts.Lost(text, text),
        facts.Finished(text, text),
    )
    found = run(0.1, 0.5)
    lines = tuple(replace(line, train_loss=1e30) for line in found.lines)
    return RunData(text, found.experiment, True, lines, events, found.summary)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Glyph")
def test_a_whole_report_of_hostile_runs(tmp_path: Path) -> None:
    texts = ["$x^2$ and $\\frac$", "_leading", HOSTILE[4], "</svg><script>x</script>"]
    groups = [*(Group(text, (hostile_run(text),)) for text in texts),
              Group("b", (hostile_run("x"),))]  # fmt: skip
    every = " ".join(texts)
    reference = Reference(title=every, source=every,
                          columns=dict.fromkeys(texts, "accuracy_global"),
                          rows={text: {text: 1.0} for text in (*texts, "fedavg")})  # fmt: skip
    page = write_report(tmp_path, groups, reference, "today")
    reader = Reader()
    reader.feed(page.read_text(encoding="utf-8"))
    assert {"script", "img", "iframe"}.isdisjoint(reader.tags)
    for text in texts:
        assert any(printable(text) in data for data in reader.data)
    pictures = list(tmp_path.rglob("*.svg"))
    assert pictures
    for picture in pictures:
        ET.parse(picture)


@pytest.mark.filterwarnings("ignore:Glyph")
@pytest.mark.parametrize("some", range(6))
def test_a_picture_of_a_dataset_of_any_name(some: int, tmp_path: Path) -> None:
    """Every line of a title is laid out, and looked through for formulas, by itself."""
    title = "\n".join(text[:60] for text in HOSTILE[some::6])
    write_picture(tmp_path / "x.svg", title, np.array([[1, 2]]), ("#112233", "#445566"))
    ET.parse(tmp_path / "x.svg")
