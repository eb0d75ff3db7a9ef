"""One self-contained page about everything under a results folder: it opens offline, on a phone, without a server."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

import pandas as pd

from dpml import where
from dpml.atomic import write_atomically
from dpml.errors import UserError
from dpml.reporting.charts import read_published, with_published
from dpml.reporting.manifest import manifests
from dpml.reporting.statistics import STATISTICS
from dpml.running.rows import own_columns
from dpml.running.spec import Panel

_COLUMNS = ["block", "metric", "algo", "variant", "eps", "delta", "N", "mean", "std", "count", "interval"]
_COLUMNS += ["published", "difference", "difference_interval", "claimed_eps", "proven_eps", "proven_view", "tuned"]
_HEADS = {"count": "n", "eps": "ε", "delta": "δ", "std": "s.d.", "interval": "± 95 %", "difference": "vs. reference"}
_HEADS |= {"difference_interval": "± 95 %", "claimed_eps": "ε claimed", "proven_eps": "ε proven", "proven_view": "view"}


def write_report(results: Path) -> Path:
    """Write ``results/index.html`` from the experiments whose outputs lie under `results`.

    Raises:
        UserError: there are none.
    """
    found = manifests(results)
    if not found:
        raise UserError(
            f"there are no results of experiments in {results}: run one, dpml-run experiment=imtiaz2019/fig3"
        )
    style, script = (
        files("dpml.reporting").joinpath("page", name).read_text("utf-8") for name in ("style.css", "script.js")
    )
    names = [about["experiment"] for about in found]
    links = "".join(f'<li><a href="#{_anchor(name)}">{escape(name)}</a></li>' for name in names)
    page = f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<title>dpml results</title>
<style>
{style}</style>
</head>
<body>
<header>
<h1>dpml results</h1>
<p>Published figures computed anew, with what was claimed and what is proven about their privacy. Every verdict is
computed from the rows; every number comes from the command above it.</p>
<nav aria-label="Experiments"><ul>{links}</ul></nav>
</header>
<main>
{_overview(found)}
{"".join(_section(about, results) for about in found)}
</main>
<script>
{script}</script>
</body>
</html>
"""
    write_atomically(results / "index.html", page)
    return results / "index.html"


def _overview(found: Sequence[Mapping[str, Any]]) -> str:
    claims = [
        [f'<a href="#{_anchor(about["experiment"])}">{escape(claim["id"])}</a>', escape(claim["text"]), _badge(claim)]
        for about in found
        for claim in about["claims"]
    ]
    return f"<section><h2>Claims</h2>{_table(['claim', 'what it says', 'verdict'], claims, 'All claims')}</section>"


def _badge(claim: Mapping[str, str]) -> str:
    kind = claim["decision"].split()[0]
    return f'<span class="verdict {kind}">{escape(claim["decision"])}</span>'


def _section(about: Mapping[str, Any], results: Path) -> str:
    name = about["experiment"]
    base = results / name
    panels = [Panel(**panel) for panel in about["panels"]]
    points = read_published([where.folder("experiments")], name.rpartition("/")[0])
    parts = [f'<section id="{_anchor(name)}" class="experiment"><h2>{escape(about["title"])}</h2>']
    parts.append(f"<p>{escape(about['source'])}</p><pre><code>{escape(about['command'])}</code></pre>")
    parts.append(f"<p>{escape(about['note'])}</p>" if about["note"] else "")
    tables = about["guarantees"]
    targets = {c: base if c == "published" else base.with_name(f"{base.name}_{c}") for c in tables}
    figures = [c for c, target in targets.items() if f"{target.name}.csv" in about["files"]]
    for calibration in figures:
        twin, target = calibration != "published", targets[calibration]
        picture = _picture(target, f"{about['title']} ({calibration} calibration)")
        rows = with_published(pd.read_csv(target.with_name(f"{target.name}.csv")), [] if twin else panels, points)
        # one is open, so that the page begins with what the paper shows
        together = [calibration] if len(figures) > 1 else list(tables)  # one figure may show all calibrations
        parts.append(f"<details{'' if twin else ' open'}><summary>{escape(', '.join(together))} calibration</summary>")
        parts.append(f"<figure>{picture}</figure>")
        for name_of, table in ((c, tables[c]) for c in together if tables[c]["data"]):
            parts.append(f"<h3>Guarantees, {escape(name_of)}: the proven ε in every view, for the ε asked for</h3>")
            body = [[escape(str(cell)) for cell in row] for row in table["data"]]
            parts.append(_table(table["columns"], body, f"Guarantees, {name_of}"))
        parts.append("<h3>Numbers</h3>" + _rows(rows, f"{_anchor(name)}-{calibration}") + "</details>")
    claims = [
        [
            escape(claim["id"]),
            escape(claim["text"]),
            escape(claim["criterion"]),
            _badge(claim),
            escape(claim["numbers"]),
        ]
        for claim in about["claims"]
    ]
    if claims:
        parts.append("<h3>Claims</h3>")
        parts.append(_table(["claim", "what it says", "test", "verdict", "numbers"], claims, f"Claims, {name}"))
    if about["skipped"]:
        items = "".join(f"<li>{number} cells: {escape(reason)}</li>" for reason, number in about["skipped"].items())
        parts.append(f"<h3>Not computed</h3><ul>{items}</ul>")
    environment = escape(json.dumps(about["environment"], indent=1))
    parts.append(f"<details><summary>Environment</summary><pre>{environment}</pre></details></section>")
    return "\n".join(parts)


def _picture(target: Path, label: str) -> str:
    """The figure's SVG, in the page itself; the names in it are made unique, for there are several in one page."""
    path = target.with_name(f"{target.name}.svg")
    if not path.is_file():
        return ""
    svg = path.read_text("utf-8")
    svg = svg[svg.index("<svg") :]
    prefix = f"{_anchor(str(target.parent.name))}-{_anchor(target.name)}-"
    svg = re.sub(r'\bid="', f'id="{prefix}', svg)
    svg = re.sub(r'href="#', f'href="#{prefix}', svg)
    svg = re.sub(r"url\(#", f"url(#{prefix}", svg)
    return svg.replace("<svg ", f'<svg role="img" aria-label="{escape(label)}" ', 1)


def _rows(rows: pd.DataFrame, name: str) -> str:
    """A table that the page's script fills from JSON: sorted by clicking a head, filtered by words."""
    own = [column for column in own_columns(rows) if column not in (*_COLUMNS, *STATISTICS)]
    rows = rows[[column for column in (*_COLUMNS[:3], *own, *_COLUMNS[3:]) if column in rows]]
    # a script element ends at the first </script, wherever it stands
    content = rows.to_json(orient="split", index=False).replace("</", "<\\/")
    heads = "".join(
        f'<th scope="col" aria-sort="none"><button type="button">{escape(_HEADS.get(column, column))}</button></th>'
        for column in rows.columns
    )
    return f"""<div class="rows">
<label>Filter by words <input type="search" placeholder="capefm loss authors" aria-describedby="{name}-count"></label>
<span id="{name}-count" class="count" role="status"></span>
<div class="scroll" tabindex="0" role="region" aria-label="Numbers"><table><thead><tr>{heads}</tr></thead>
<tbody></tbody></table></div>
<button type="button" class="more">Show more</button>
<script type="application/json">{content}</script>
</div>"""


def _table(heads: Iterable[str], rows: Iterable[Sequence[str]], label: str) -> str:
    """A static table; its entries are HTML already."""
    head = "".join(f'<th scope="col">{escape(text)}</th>' for text in heads)
    body = "\n".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(label)}">{table}</div>'


def _anchor(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "-", name)
