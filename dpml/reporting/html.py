"""One self-contained page about everything under a results folder: it opens offline, on a phone, without a server."""

import json
import math
import re
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields
from html import escape
from importlib.resources import files
from itertools import groupby
from pathlib import Path
from typing import Any, get_args

import pandas as pd

from dpml import where
from dpml.atomic import write_atomically
from dpml.errors import UserError
from dpml.reporting.charts import read_published, with_published
from dpml.reporting.judging import Decision
from dpml.reporting.labels import assignment, settings
from dpml.reporting.manifest import changed, manifests
from dpml.reporting.tables import read_table
from dpml.running.spec import Panel

_COLUMNS = ["block", "metric", "algo", "variant", "eps", "delta", "N", "mean", "std", "count", "seeds", "interval"]
_COLUMNS += ["published", "difference", "difference_interval", "claimed_eps", "proven_eps", "proven_view"]
_COLUMNS += ["not_proven", "tuned", "n_min", "n_max"]
_HEADS = {"count": "n", "eps": "ε", "delta": "δ", "std": "s.d.", "interval": "± 95 %", "difference": "vs. reference"}
_HEADS |= {"difference_interval": "± 95 %", "claimed_eps": "ε claimed", "proven_eps": "ε proven", "proven_view": "view"}
_HEADS |= {"not_proven": "why not proven", "n_min": "rows, smallest party", "n_max": "rows, largest party"}
_RESULTS = ("mean", "interval", "difference", "proven_eps")  # shown even where all lines agree

# what a manifest says about an experiment; one of another version may lack some of it
_MANIFEST: dict[str, Any] = {
    "experiment": "", "title": "", "source": "", "note": "", "command": "",
    "panels": [], "claims": [], "files": {}, "guarantees": {}, "skipped": {}, "environment": {},
}  # fmt: skip
_CLAIM = ("id", "text", "criterion", "decision", "numbers", "needed")


def write_report(results: Path, own: Sequence[Path] = ()) -> Path:
    """Write ``results/index.html`` from the experiments whose outputs lie under `results`.

    Args:
        results: where the outputs lie, and the page goes.
        own: folders of experiments of one's own, whose published points are shown beside the results.

    Raises:
        UserError: there are none.
    """
    experiments = list(map(_whole, manifests(results)))
    if not experiments:
        raise UserError(
            f"there are no results of experiments in {results}: run one, dpml-run experiment=imtiaz2019/fig3"
        )
    folders = [*own, where.folder("experiments")]
    for about in experiments:
        about["published"] = read_published(folders, _paper(about["experiment"]))
    # papers that claims are about stand before what is only computed beside them
    papers = {
        name: list(members) for name, members in groupby(experiments, key=lambda about: _paper(about["experiment"]))
    }
    papers = dict(sorted(papers.items(), key=lambda pair: not any(about["claims"] for about in pair[1])))
    styles: dict[str, str] = {}
    sections = "".join(
        f'<section class="paper"><h2 id="{_anchor(name)}">{escape(name)}</h2>\n'
        f"{''.join(_section(about, results, styles) for about in members)}</section>\n"
        for name, members in papers.items()
    )
    style, script = (
        files("dpml.reporting").joinpath("page", name).read_text("utf-8") for name in ("style.css", "script.js")
    )
    style += "".join(f".{name}{{{rule}}}\n" for rule, name in styles.items())
    main = f"{_overview(papers)}\n{_claims(experiments)}\n{sections}"
    write_atomically(results / "index.html", _page(style, main, script))
    return results / "index.html"


def _page(style: str, main: str, script: str) -> str:
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
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
</header>
<main>
{main}</main>
<script>
{script}</script>
</body>
</html>
"""


def _whole(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """A manifest with all that a page needs; what is missing or of another kind is empty."""
    about = {
        key: value if isinstance(value := manifest.get(key), type(empty)) else empty for key, empty in _MANIFEST.items()
    }
    about["experiment"] = str(manifest["experiment"])
    about["title"] = about["title"] or about["experiment"]
    about["claims"] = [
        {key: "" if claim.get(key) is None else str(claim[key]) for key in _CLAIM}
        for claim in about["claims"]
        if isinstance(claim, dict)
    ]
    return about


def _paper(name: str) -> str:
    return name.rpartition("/")[0] or name


def _overview(papers: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """What is on the page, by paper: links to its figures and tables, and how many of its claims got which verdict."""
    rows = []
    for paper, experiments in papers.items():
        links = " ".join(
            f'<a href="#{_anchor(about["experiment"])}" title="{escape(about["title"])}">'
            f"{escape(about['experiment'].rpartition('/')[2])}</a>"
            for about in experiments
        )
        verdicts = _verdicts(experiments)
        rows.append([f'<a href="#{_anchor(paper)}">{escape(paper)}</a>', links, str(sum(verdicts.values()) or "")])
        rows[-1] += [str(verdicts[kind] or "") for kind in get_args(Decision)]
    table = _table(["paper", "figures and tables", "claims", *get_args(Decision)], rows, "What is here")
    return f'<section><h2>What is here</h2><nav aria-label="Experiments">{table}</nav></section>'


def _verdicts(experiments: Iterable[Mapping[str, Any]]) -> Counter[str]:
    return Counter(claim["decision"] for about in experiments for claim in about["claims"])


def _claims(experiments: Sequence[Mapping[str, Any]]) -> str:
    """All claims, to be filtered by words and by verdict."""
    claims = [
        [f'<a href="#{_anchor(about["experiment"])}">{escape(claim["id"])}</a>', _inline(claim["text"]), _badge(claim)]
        for about in experiments
        for claim in about["claims"]
    ]
    buttons = "".join(
        f'<button type="button" aria-pressed="false" class="verdict {kind.split()[0]}" data-verdict="{escape(kind)}">'
        f"{escape(kind)}: {number}</button> "
        for kind in get_args(Decision)
        if (number := _verdicts(experiments)[kind])
    )
    return f"""<section class="claims"><h2>Claims</h2>
<p role="group" aria-label="Show only these verdicts">{buttons}</p>
<label>Filter by words <input type="search" placeholder="capefm" aria-describedby="claims-count"></label>
<span id="claims-count" class="count" role="status">{len(claims)} claims</span>
{_table(["claim", "what it says", "verdict"], claims, "All claims")}</section>"""


def _badge(claim: Mapping[str, str]) -> str:
    kind = next(iter(claim["decision"].split()), "")
    return f'<span class="verdict {escape(kind)}">{escape(claim["decision"])}</span>'


def _needed(claim: Mapping[str, str]) -> str:
    return f' <span class="needed">{escape(claim["needed"])} seeds would decide</span>' if claim["needed"] else ""


def _section(about: Mapping[str, Any], results: Path, styles: dict[str, str]) -> str:
    name = about["experiment"]
    lines = [f'<section id="{_anchor(name)}" class="experiment"><h3>{escape(about["title"])}</h3>']
    lines.append(f"<p>{escape(about['source'])}</p><pre><code>{escape(about['command'])}</code></pre>")
    lines.append(f"<p>{_inline(about['note'])}</p>" if about["note"] else "")
    lines += _calibrations(about, results / name, styles)
    if about["claims"]:
        claims = [
            [*(_inline(claim[key]) for key in _CLAIM[:3]), _badge(claim) + _needed(claim), _inline(claim["numbers"])]
            for claim in about["claims"]
        ]
        lines.append("<h4>Claims</h4>")
        lines.append(_table(["claim", "what it says", "test", "verdict", "numbers"], claims, f"Claims, {name}"))
    if about["skipped"]:
        items = "".join(f"<li>{number} cells: {_inline(str(why))}</li>" for why, number in about["skipped"].items())
        lines.append(f"<h4>Not computed</h4><ul>{items}</ul>")
    if about["environment"]:
        environment = escape(json.dumps(about["environment"], indent=1))
        lines.append(f"<details><summary>Environment</summary><pre>{environment}</pre></details>")
    return "\n".join([*lines, "</section>\n"])


def _calibrations(about: Mapping[str, Any], base: Path, styles: dict[str, str]) -> list[str]:
    """A figure with its guarantees and numbers for every calibration that has one of its own."""
    tables = about["guarantees"]
    targets = {c: base if c == "published" else base.with_name(f"{base.name}_{c}") for c in tables}
    figures = [c for c, target in targets.items() if f"{target.name}.csv" in about["files"]]
    lines = []
    for calibration in figures:
        twin, target = calibration != "published", targets[calibration]
        # one is open, so that an experiment begins with what the paper shows
        together = [calibration] if len(figures) > 1 else list(tables)  # one figure may show all calibrations
        lines.append(f"<details{'' if twin else ' open'}><summary>{escape(', '.join(together))} calibration</summary>")
        damaged = _damaged(about, target)
        picture = damaged or _picture(target, f"{about['title']} ({calibration} calibration)", styles)
        lines.append(f"<figure>{picture}</figure>" if picture else "")
        for each in together:
            if isinstance(tables[each], dict) and tables[each].get("data"):
                lines.append(f"<h4>Guarantees, {escape(each)}: the proven ε in every view, for the ε asked for</h4>")
                body = [[escape(str(cell)) for cell in row] for row in tables[each]["data"]]
                lines.append(_table(tables[each].get("columns", ()), body, f"Guarantees, {each}"))
        numbers = "" if damaged else _numbers(about, target, f"{_anchor(about['experiment'])}-{calibration}", twin)
        lines.append(f"{numbers}</details>")
    return lines


def _damaged(about: Mapping[str, Any], target: Path) -> str:
    """What is said in the place of a figure and its numbers that are not as they were written, here and on stderr."""
    paths = [target.with_name(f"{target.name}.{kind}") for kind in ("csv", "svg")]
    wrong = " and ".join(path.name for path in paths if changed(path, about["files"]))
    if not wrong:
        return ""
    print(f"note: {target.parent}: not as written: {wrong}; make it again: {about['command']}", file=sys.stderr)
    return f"<p>Not as written: {escape(wrong)}. The command above makes it again.</p>"


def _picture(target: Path, label: str, styles: dict[str, str]) -> str:
    """The figure's SVG, in the page itself.

    The names in it are made unique, for there are several in one page; its styles, of which most figures have the same,
    become classes in `styles`.
    """
    path = target.with_name(f"{target.name}.svg")
    svg = path.read_text("utf-8") if path.is_file() else ""
    if "<svg" not in svg:
        return ""
    svg = svg[svg.index("<svg") :]
    used = set(re.findall(r'(?:href="|url\()#([^")]+)', svg))
    prefix = f"{_anchor(str(target.parent.name))}-{_anchor(target.name)}-"
    svg = re.sub(r' id="([^"]*)"', lambda match: f' id="{prefix}{match[1]}"' if match[1] in used else "", svg)
    svg = re.sub(r'href="#', f'href="#{prefix}', svg)
    svg = re.sub(r"url\(#", f"url(#{prefix}", svg)
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r' style="([^"]*)"', lambda match: f' class="{styles.setdefault(match[1], f"s{len(styles)}")}"', svg)
    return svg.replace("<svg ", f'<svg role="img" aria-label="{escape(label)}" ', 1)


def _numbers(about: Mapping[str, Any], target: Path, name: str, twin: bool) -> str:
    """The figure's table, filled by the page's script when it is opened; what all lines agree in is said once."""
    try:
        rows = read_table(target.with_name(f"{target.name}.csv"), ("block", "algo", "metric", "mean"))
    except UserError as error:
        return f"<p>{escape(str(error))}</p>"
    with suppress(UserError):  # panels of another version
        rows = with_published(rows, [] if twin else _panels(about), about["published"])
    rows = rows.dropna(axis=1, how="all")
    own = [column for column in settings(rows) if column not in _COLUMNS]
    rows = rows[[column for column in (*_COLUMNS[:3], *own, *_COLUMNS[3:]) if column in rows]]
    same = [c for c in map(str, rows) if c not in _RESULTS and len(rows) > 1 and rows[c].nunique(dropna=False) == 1]
    said = ", ".join(assignment(_HEADS.get(column, column), rows[column].iloc[0]) for column in same)
    rows = rows.drop(columns=same)
    columns = [str(column) for column in rows]
    heads = "".join(
        f'<th scope="col" aria-sort="none"><button type="button">{escape(_HEADS.get(c, c))}</button></th>'
        for c in columns
    )
    # a script element ends at the first </script, wherever it stands
    content = json.dumps(_packed(rows), separators=(",", ":"), ensure_ascii=False).replace("</", "<\\/")
    return f"""<details class="rows"><summary>Numbers ({len(rows)} lines)</summary>
{f"<p>Everywhere: {escape(said)}.</p>" if said else ""}
<label>Filter by words <input type="search" placeholder="capefm loss" aria-describedby="{name}-count"></label>
<span id="{name}-count" class="count" role="status"></span>
<div class="scroll" tabindex="0" role="region" aria-label="Numbers"><table><thead><tr>{heads}</tr></thead>
<tbody></tbody></table></div>
<button type="button" class="more">Show more</button>
<script type="application/json">{content}</script>
</details>"""


def _panels(about: Mapping[str, Any]) -> list[Panel]:
    """The panels of a manifest, without keys that this version does not know."""
    known = {field.name for field in fields(Panel)}
    return [
        Panel(**{key: value for key, value in panel.items() if key in known})
        for panel in about["panels"]
        if isinstance(panel, dict) and {"block", "x", "y"} <= panel.keys()
    ]


def _packed(rows: pd.DataFrame) -> dict[str, Any]:
    """A table column by column; a column of few values as these values and, for every line, which of them it has."""
    columns = []
    for name in rows:
        values = [_plain(value) for value in rows[name].tolist()]
        levels = list(dict.fromkeys(values))
        few = len(levels) < len(values) / 4
        columns.append({"levels": levels, "codes": list(map(levels.index, values))} if few else values)
    return {"columns": [str(name) for name in rows], "data": columns}


def _plain(value: Any) -> Any:
    """A value for JSON, which knows no infinity."""
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else "∞"
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 1e6 else value


def _table(heads: Iterable[str], rows: Iterable[Sequence[str]], label: str) -> str:
    """A static table; its entries are HTML already."""
    head = "".join(f'<th scope="col">{escape(str(text))}</th>' for text in heads)
    body = "\n".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(label)}">{table}</div>'


def _inline(text: str) -> str:
    """The little Markdown that sentences have, as HTML: `code` and *emphasis*."""
    pieces = re.split(r"(`[^`]+`)", text)
    return "".join(
        f"<code>{escape(piece[1:-1])}</code>"
        if piece.startswith("`") and len(piece) > 2
        # a star that follows a letter is part of its name: w*
        else re.sub(r"(?<![\w*])\*(?=[^\s*])([^*]+?)(?<=[^\s*])\*(?![\w*])", r"<em>\1</em>", escape(piece))
        for piece in pieces
    )


def _anchor(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "-", name)
