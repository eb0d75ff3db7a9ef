"""Make the pages of results from manifests: a start page, pages of papers and figures, and rankings of algorithms."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from functools import cache
from itertools import groupby
from textwrap import shorten
from typing import Any

import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined

from dpml import packs
from dpml.config.experiments import natural
from dpml.reporting import ranking
from dpml.reporting.cards import AUDIT, Card, card_of, claims_of
from dpml.reporting.claims import IN_WORDS, MIXED, UNTESTED, Verdict
from dpml.reporting.tables import cell, markdown
from dpml.reporting.words import SYMBOLS, WORDS, algorithm, curve, dataset, metric, plain, symbols

_KINDS = ("Privacy", "Theory", "Experiments")
_OTHER = "Other interpretations"
_WORST = ["not reproduced", MIXED, "undecided with these seeds", "reproduced", UNTESTED]
_PARTS = r"Theorem|Proposition|Footnote|Remark|Table|Lemma|Corollary|Sec\.|Eq\."
_OF_MIXED = {"not reproduced": "fails: ", MIXED: "fails: ", "undecided with these seeds": "open: "}
_OUTCOMES = {IN_WORDS[False]: "✗", IN_WORDS[None]: "?", IN_WORDS[True]: "✓"}

Judged = tuple[Mapping[str, Any], Verdict]
"""The manifest of an experiment, and a verdict in this manifest."""


@cache
def environment() -> Environment:
    """Return the Jinja environment in which the templates of pages are rendered."""
    environment = Environment(
        loader=PackageLoader("dpml.reporting"), undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {"cell": cell, "anchor": anchor, "named": named, "markdown": markdown}
    environment.globals["legend"] = " · ".join(f"{symbol} {word}" for symbol, word in WORDS["verdicts"].values())
    return environment


def page(template: str, **content: Any) -> str:
    """Render a template as a page in Markdown, without superfluous blank lines."""
    text = environment().get_template(template).render(**content)
    text = re.sub(r"\n{3,}", "\n\n", re.sub(r"[ \t]+\n", "\n", text)).strip()
    return f"{text}\n"


def named(table: Mapping[str, Any]) -> dict[str, Any]:
    """Replace the keys of algorithms in a table by display names."""
    lines = [[", ".join(map(curve, text.split(", "))) for text in line] for line in (table["columns"], *table["rows"])]
    return {"columns": lines[0], "rows": lines[1:]}


def anchor(name: str) -> str:
    """Return the address of a claim on the page of its paper."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower())


def paper(key: str, experiments: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return everything that pages show about a paper, from its card and the manifests of its experiments."""
    card = card_of(key) or Card(key.capitalize(), {}, "")
    groups: dict[str, list[Judged]] = {}
    for about in experiments:
        for one in (Verdict(**claim) for claim in about["claims"]):
            groups.setdefault(re.sub(r"(\.fig\d+|(?<=\d)r)$", "", one.id), []).append((about, one))
    claims = [_sentence(name, members, card) for name, members in groups.items()]
    claims.sort(key=lambda one: _KINDS.index(one["kind"]))
    audited = [one for one in claims if one["audited"]]
    own = [about for about in experiments if about["experiment"] != AUDIT]
    return {
        "key": key,
        "card": card,
        "claims": claims,
        "counts": {kind: counts for kind in _KINDS if (counts := _counts(claims, kind))},
        "privacy": min(audited, key=lambda one: _WORST.index(one["decision"]), default=None),
        "figures": [{**about, "name": _short(about), "label": _figures([about])} for about in own],
    }


def _sentence(name: str, verdicts: Sequence[Judged], card: Card) -> dict[str, Any]:
    main = [pair for pair in verdicts if not pair[1].id.endswith("r")] or list(verdicts)
    figures, first = [about for about, _ in main], main[0][1]
    text = card.sentences.get(name) or _bare_text(first)
    stated = re.match(rf"((?:{_PARTS}) ?[\w.]*): (.)", text)
    text = text[stated.end() - 1 :] if stated else text
    criterion = re.sub(r"docs/privacy/\w+\.md", r"[\g<0>](../../\g<0>)", plain(first.criterion, "*").rstrip("."))
    audited = figures[0]["experiment"] == AUDIT
    theory = stated or not any(about.get("cells", 1) for about in figures)
    decisions = {one.decision for _, one in main}
    tested = decisions - {UNTESTED} or decisions
    mixed = len(tested) > 1 and {"reproduced", MIXED} & tested
    decision = MIXED if mixed else min(tested, key=_WORST.index)
    worst, judged = min(main, key=lambda pair: _WORST.index(pair[1].decision))
    points = {one.published for _, one in main if one.published}
    return {
        "id": name,
        # a name such as capeFM has no capital at the beginning of a sentence
        "text": symbols(text if re.match(r"\w+[A-Z]", text) else text[:1].upper() + text[1:]),
        "where": stated[1] if stated else _figures(figures),
        "criterion": f"{criterion}." if criterion else "",
        "kind": "Privacy" if audited or name in card.privacy else "Theory" if theory else "Experiments",
        "audited": audited,
        "decision": decision,
        **_shown(decision, audited),
        "extent": _extent(main) if decision == MIXED else "",
        "number": number_of(judged, _figures([worst]) if len(main) > 1 else "", decision == MIXED),
        "seeds": min((one.seeds for _, one in main if one.seeds), default=None),
        "grids": _grids(verdicts),
        "notes": _notes([one for _, one in verdicts]),
        "points": points.pop() if len(points) == 1 else "",  # the outcome on the paper's own points
        "figures": {_figures([about]): _short(about) for about, _ in verdicts if about.get("figures")},
    }


def _shown(decision: str, audited: bool) -> dict[str, str]:
    symbol, word = (WORDS["privacy"] if audited else {}).get(decision, WORDS["verdicts"][decision])
    return {"symbol": symbol, "word": word}


def _counts(claims: Sequence[Mapping[str, Any]], kind: str) -> list[tuple[str, str, int]]:
    order = [*WORDS["verdicts"]]
    own = sorted((one for one in claims if one["kind"] == kind), key=lambda one: order.index(one["decision"]))
    return [(*pair, number) for pair, number in Counter((one["symbol"], one["word"]) for one in own).items()]


def _extent(main: Sequence[Judged]) -> str:
    """Say in how many figures a claim holds ("2 of 3 figures"), or in how many interpretations if it has one figure."""
    several = [one.decision == "reproduced" for _, one in main]
    held = several if len(main) > 1 else [reading["outcome"] == IN_WORDS[True] for reading in main[0][1].readings]
    return f"{sum(held)} of {len(held)} {'figures' if len(main) > 1 else 'interpretations'}"


def _notes(verdicts: Sequence[Verdict]) -> list[str]:
    readings = [reading for one in verdicts for reading in one.readings]
    whys = {(dataset(block), why) for reading in readings for block, *_, why in reading["groups"] if why}
    ignored = [f"The verdict ignores some comparisons on {name}, because {why}." for name, why in sorted(whys)]
    lacks = (plain(lack) for reading in readings for lack in reading["lacks"])
    return [*ignored, *dict.fromkeys(f"We could not test this claim. Reason: {lack}." for lack in lacks)]


def number_of(verdict: Verdict, where: str = "", mixed: bool = False) -> str:
    """Return a text about the number that decides a verdict: the number, what was compared, and the required number."""
    one = verdict.deciding
    if not one:
        lacks = [plain(lack) for reading in verdict.readings for lack in reading["lacks"]]
        return shorten(lacks[0].partition(" (")[0], 90, placeholder=" …") if lacks else ""
    fails = _OF_MIXED.get(verdict.decision, "") if mixed or verdict.decision == MIXED else ""
    subject = _subject(one["block"], one["algorithm"], one["against"], one["x"])
    place = ", ".join(filter(None, [where, subject]))
    needs = f"needs {one['needs']}" if one["needs"] else ""
    return re.sub(r"(?<!\w)-(?=[\d.])", "−", f"{fails}{one['effect']}<br>{'; '.join(filter(None, [place, needs]))}")


def _subject(block: str, ours: str, against: str, x: str = "") -> str:
    x = re.sub(r"^[\w.]+(?= = )", lambda key: SYMBOLS.get(key[0], key[0].rpartition(".")[2]), x)
    name = " minus ".join(map(algorithm, ours.split(" minus ")))
    theirs = (WORDS["views"].get(against) or plain(against)) if against != ours else ""
    where = WORDS["datasets"].get(block) or plain(block)
    return ", ".join(filter(None, [where, " against ".join(filter(None, [name, theirs])), plain(x)]))


def _short(about: Mapping[str, Any]) -> str:
    return str(about["experiment"]).rpartition("/")[2]


def _folder(about: Mapping[str, Any]) -> str:
    return str(about["experiment"]).rpartition("/")[0]


def _figures(experiments: Iterable[Mapping[str, Any]]) -> str:
    """Return the names of experiments as papers write them, such as ``Figs. 1, 3, 4``."""
    own = sorted(set(map(_short, experiments)), key=natural)
    if all(re.fullmatch(r"fig\d+", name) for name in own):
        return f"Fig{'s' if len(own) > 1 else ''}. {', '.join(name[3:] for name in own)}"
    spelt = (re.sub(r"^table(\d)", r"Table \1", re.sub(r"^fig(\d)", r"Fig. \1", name)) for name in own)
    return ", ".join(spelt).replace("_", " ")


def _grids(verdicts: Sequence[Judged]) -> list[dict[str, Any]]:
    """Return one table of outcomes per interpretation of a claim, with a row per figure and a column per data set.

    A claim about one figure has a row per comparison and a column per interpretation.
    """
    figures = {about["experiment"] for about, one in verdicts if not one.id.endswith("r")}
    marks: list[tuple[str, str, str, str]] = []  # the title of a table, its row and its column, and the outcome
    for about, one, reading in [(*judged, reading) for judged in verdicts for reading in judged[1].readings]:
        outcome, shown = _OUTCOMES.get(reading["outcome"], "○"), metric(reading["metric"])
        name = re.sub(r"^(accuracy|gap|as stated)(, |$)", "", plain(reading["name"]))
        groups = [(group, _OUTCOMES[sign]) for *group, sign, why in reading["groups"] if not why]
        if one.id.endswith("r") and figures:
            marks.append((_OTHER, name, shown, outcome))
        elif len(figures) > 1:
            row = f"{shown} ({_figures([about])})"
            marks += [(name, row, dataset(group[0]), mark) for group, mark in groups]
        else:
            rows = [*((_subject(*group), mark) for group, mark in groups), ("verdict", outcome)]
            marks += [("", row, name or "verdict", mark) for row, mark in rows if row]
    table = pd.DataFrame(marks, columns=["title", "row", "column", "mark"])
    grids = [_grid(str(title), own) for title, own in table.groupby("title", sort=False)]
    return [grid for grid in grids if grid["size"] > 1]


def _grid(title: str, marks: pd.DataFrame) -> dict[str, Any]:
    cells = marks.groupby(["row", "column"])["mark"].agg(lambda own: min(own, key="✗?✓○".index))
    same = cells.iloc[0] if cells.nunique() == 1 else ""
    table = cells.unstack(fill_value="·").loc[marks["row"].unique(), marks["column"].unique()]
    if table.shape[1] > max(4, len(table)):
        table = table.T
    facts = {"title": title, "columns": ["", *table], "rows": [[*line] for line in table.itertuples()], "same": same}
    return facts | {"size": len(cells), "folded": title == _OTHER}


def not_computed(known: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return manifests with untested claims for experiments without results, if their paper has other results."""
    computed = {manifest["experiment"] for manifest in known}
    missing: dict[str, dict[str, Any]] = {}
    for claim in (claim for paper in sorted(set(map(_folder, known))) for claim in claims_of(paper).values()):
        paper, _, figure = claim.figure.partition("/")
        file = packs.home(paper) / f"{figure}.yaml"
        if claim.figure in computed or not file.is_file():
            continue
        first = file.read_text(encoding="utf-8").partition("\n")[0]
        command, _, needs = first.removeprefix("# To run: ").partition("(")
        lacks = "the figure was not computed" + (f"; its command needs data_dir=DIR ({needs}" if needs else "")
        reading = {"name": "all", "metric": "", "outcome": UNTESTED, "lacks": [lacks], "groups": []}
        verdict = Verdict(claim.id, claim.text, claim.criterion, UNTESTED, [reading])
        about = {"experiment": claim.figure, "title": "not computed here", "command": command.strip(), "claims": []}
        missing.setdefault(claim.figure, about)["claims"].append(asdict(verdict))
    return list(missing.values())


def _papers(known: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    papers = _by_folder(known)
    for about in papers.pop(AUDIT.partition("/")[0], ()):
        for key, own in papers.items():
            claims = [one for one in about["claims"] if one["id"] in claims_of(key)]
            own[:0] = [{**about, "claims": claims}] if claims else []
    return {key: paper(key, own) for key, own in papers.items() if any(about["claims"] for about in own)}


def _by_folder(known: Iterable[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    order = sorted(known, key=lambda about: natural(about["experiment"]))
    return {folder: [*own] for folder, own in groupby(order, _folder)}


def overviews(known: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Make the start page and papers' pages from experiments' manifests, `known`; return the pages by relative path."""
    papers = _papers([*known, *not_computed(known)])
    ranked = _by_folder(about for about in known if about.get("rankings"))
    which = next((f"{folder}/which.md" for folder in ranked), "")
    others = [about for about in known if _folder(about) not in papers]
    pages = {"claims.md": page("start.md", papers=papers.values(), which=which, others=others)}
    pages |= {f"{key}/claims.md": page("paper.md", p=paper) for key, paper in papers.items()}
    return pages | {f"{folder}/which.md": _which(own) for folder, own in ranked.items()}


def _which(known: Iterable[Mapping[str, Any]]) -> str:
    experiments, answers = [], []
    for about in known:
        rankings = about["rankings"]
        others = ranking.beside(rankings, about["reference"])
        tables = [ranking.matrix(rankings), ranking.tally(rankings), *([others] if others["rows"] else [])]
        tables += map(ranking.details, rankings)
        experiments.append({**about, "premises": ranking.premises(rankings), "tables": tables})
        if found := ranking.best_at(rankings, 1.0):
            answers.append(f"{about['title'].partition(':')[0]}: {found}")
    return page("which.md", experiments=experiments, answers=answers)


def figure_page(about: Mapping[str, Any], figure: Mapping[str, Any]) -> str:
    """Return the page of a figure from the manifest of its experiment."""
    audited = about.get("experiment") == AUDIT
    verdicts = [] if figure["twin"] else [Verdict(**claim) for claim in about["claims"]]
    claims = [
        {"id": one.id, "text": _bare_text(one), "number": number_of(one), **_shown(one.decision, audited)}
        for one in verdicts
    ]
    source = about["source"]
    if claims and source and not audited and about["command"] == f"dpml-run experiment={about['experiment']}":
        source = f"[{source}](claims.md)"  # only an unmodified experiment has this page next to it
    return page("figure.md", about=about, figure=figure, claims=claims, source=source)


def _bare_text(verdict: Verdict) -> str:
    return symbols(re.sub(r" \[.*?\]", "", verdict.text))
