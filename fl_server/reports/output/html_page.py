"""PURE: the page of a report: one HTML file that needs nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fl_server.reports.output.escape import for_html

_STYLE = """
:root { --paper: #ffffff; --ink: #2b3038; --soft: #69717d; --grid: #d8dce2; --band: #f5f6f8;
        --mark: #2a63b8; color-scheme: light dark; }
@media (prefers-color-scheme: dark) {
  :root { --paper: #15181d; --ink: #d7dbe1; --soft: #949dab; --grid: #343a44; --band: #1c2027;
          --mark: #7fb0f5; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink);
       font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
main { max-width: 62rem; margin: 0 auto; padding: 3rem 1.5rem 5rem; }
h1 { font-size: 1.9rem; font-weight: 650; letter-spacing: -.015em; margin: 0 0 .3rem; }
h2 { font-size: 1.2rem; font-weight: 650; margin: 3.2rem 0 .9rem; }
.lead { color: var(--soft); margin: 0; }
nav { margin: 1.6rem 0 0; display: flex; flex-wrap: wrap; gap: .3rem 1.1rem; font-size: .9rem; }
a { color: var(--mark); text-decoration: none; }
a:hover { text-decoration: underline; }
.facts { display: grid; grid-template-columns: repeat(auto-fit, minmax(11rem, 1fr)); gap: .8rem;
         margin: 2rem 0 0; padding: 0; }
.facts div { background: var(--band); border-radius: .6rem; padding: .9rem 1.1rem; }
.facts dt { color: var(--soft); font-size: .82rem; }
.facts dd { margin: .1rem 0 0; font-size: 1.35rem; font-weight: 620; overflow-wrap: anywhere; }
.facts dd small { display: block; font-size: .8rem; font-weight: 400; color: var(--soft); }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .88rem;
        font-variant-numeric: tabular-nums; }
th { text-align: left; font-weight: 600; color: var(--soft); font-size: .8rem;
     vertical-align: bottom; border-bottom: 1.5px solid var(--grid); }
th, td { padding: .42rem .8rem .42rem 0; }
td { border-bottom: 1px solid var(--grid); white-space: nowrap; }
th.n, td.n { text-align: right; padding: .42rem 0 .42rem .8rem; }
.n + th:not(.n), .n + td:not(.n) { padding-left: 1.4rem; }
tbody tr:hover { background: var(--band); }
.note { color: var(--soft); font-size: .84rem; margin: .7rem 0 0; max-width: 52rem; }
figure { margin: 0 0 1.4rem; }
figure svg { width: 100%; height: auto; display: block; }
figcaption { color: var(--soft); font-size: .84rem; margin-top: .4rem; }
footer { margin-top: 4rem; color: var(--soft); font-size: .82rem; }
@media print {
  :root { --paper: #fff; --ink: #2b3038; --soft: #555c66; --grid: #d0d4da; --band: #f5f6f8; }
  body { font-size: 10.5pt; } main { max-width: none; padding: 0; } nav { display: none; }
  section, figure, tr { break-inside: avoid; } h2 { break-after: avoid; margin-top: 1.6rem; }
}
"""


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the page; `content` is HTML."""

    key: str
    title: str
    content: str


@dataclass(frozen=True, slots=True)
class Headline:
    """A number that is seen first."""

    name: str
    value: str
    detail: str = ""


def make_page(
    title: str, lead: str, facts: Sequence[Headline], sections: Sequence[Section], foot: str
) -> str:
    """The whole page."""
    links = "\n".join(f'<a href="#{s.key}">{for_html(s.title)}</a>' for s in sections)
    parts = "\n".join(
        f'<section id="{s.key}">\n<h2>{for_html(s.title)}</h2>\n{s.content}\n</section>'
        for s in sections
    )
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{for_html(title)}</title>
<style>{_STYLE}</style>
</head>
<body>
<main>
<header>
<h1>{for_html(title)}</h1>
<p class="lead">{for_html(lead)}</p>
<nav>
{links}
</nav>
</header>
<dl class="facts">
{"".join(_fact(fact) for fact in facts)}
</dl>
{parts}
<footer>{for_html(foot)}</footer>
</main>
</body>
</html>
"""


def _fact(fact: Headline) -> str:
    detail = f"<small>{for_html(fact.detail)}</small>" if fact.detail else ""
    return f"<div><dt>{for_html(fact.name)}</dt><dd>{for_html(fact.value)}{detail}</dd></div>\n"


def figure(svg: str, caption: str) -> str:
    """A plot with its caption."""
    return f"<figure>{svg}<figcaption>{for_html(caption)}</figcaption></figure>"
