"""PURE: a text for the place where it is shown, so that nothing in it has a meaning there.

Names of boards, runs and settings come from run folders, and those may come from anybody.
"""

from __future__ import annotations

import html
import re

from common.texts import printable

_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>#|~!&$])")
_FORMULA = re.compile(r"(^\s*|[;,|]\s*)(?=[=+@-])")  # some spreadsheets split at others than ,
_NUMBER = re.compile(r"[+-]?[0-9.]+")
_LATEX = {
    **{letter: f"\\{letter}" for letter in "&%_#${}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\symbol{34}",
    "`": r"\symbol{96}",
    "[": "{[}",  # after the end of a row these two are an option
    "*": "{*}",
    "±": r"$\pm$",
}
_LAST_LATIN = "\u017f"  # what every LaTeX has a letter for


def for_csv(text: str) -> str:
    """A spreadsheet takes what begins like a formula for one: an apostrophe says it is text."""
    text = printable(text)
    return text if _NUMBER.fullmatch(text) else _FORMULA.sub(r"\1'", text)


def for_markdown(text: str) -> str:
    """Plain text in Markdown, also in a cell of a table."""
    return _MARKDOWN.sub(r"\\\1", printable(text))


def for_latex(text: str) -> str:
    """Plain text in LaTeX; letters that not every LaTeX has become question marks."""
    found = "".join(
        _LATEX.get(letter, letter if letter <= _LAST_LATIN else "?")
        for letter in printable(text)
    )
    return found.replace("--", "-{}-").replace("--", "-{}-")  # two would become a dash


def for_html(text: str) -> str:
    """Plain text in HTML, also in the value of an attribute."""
    return html.escape(printable(text))


def for_plot(text: str) -> str:
    """Plain text in a plot: matplotlib takes what stands between two $ for a formula.

    A label that begins with an underscore would not be in the legend.
    """
    plain = printable(text).replace("$", r"\$")
    return f"\N{ZERO WIDTH SPACE}{plain}" if plain.startswith("_") else plain
