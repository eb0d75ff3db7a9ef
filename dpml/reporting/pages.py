"""The content of pages, from manifests: the start page, a paper's claims, a figure, and rankings of algorithms."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from dpml.config.compose import natural
from dpml.reporting import ranking
from dpml.reporting.audit_table import Audited, audited
from dpml.reporting.cards import Card, card_of
from dpml.reporting.claims import Verdict
from dpml.reporting.render import page
from dpml.reporting.words import AXES, VERDICTS, dataset, interpretation, metric, plain

NOT_TESTED = "cannot be tested here"
MIXED = "depends on an unstated choice"
_HOLDS = {True: "reproduced", False: "not reproduced", None: "undecided with these seeds"}
_KINDS = ("Privacy", "Theory", "Experiments")
_OTHER = "Other interpretations"
_LONGEST = 300
"""Characters of the numbers of an interpretation without comparisons."""


class Sentence:
    """One sentence of a paper: the verdicts on it, from one figure or from several.

    Args:
        name: its id.
        verdicts: each with the manifest of its experiment; those with another interpretation come last.
        card: of the paper.
    """

    def __init__(self, name: str, verdicts: Sequence[tuple[Mapping[str, Any], Verdict]], card: Card | None) -> None:
        self.id, self.verdicts = name, verdicts
        self.main = [pair for pair in verdicts if not pair[1].id.endswith("r")] or list(verdicts)
        first = self.main[0][1]
        text = (card.sentences if card else {}).get(name) or re.sub(r" \[.*?\]", "", first.text)
        stated = re.match(r"((?:Theorem|Remark|Table|Lemma|Corollary|Sec\.|Eq\.) ?[\w.]*): (.)", text)
        self.text = stated[2].upper() + text[stated.end() :] if stated else text
        self.where = stated[1] if stated else _figures([short(about) for about, _ in self.main])
        self.criterion = f"{plain(first.criterion).rstrip('.')}." if first.criterion else ""
        computed = all(not about.get("cells", 1) for about, _ in self.main)
        private = card is not None and name in card.privacy
        self.kind = "Privacy" if private else "Theory" if computed or stated else "Experiments"

    @property
    def decision(self) -> str:
        """One decision from those of all figures."""
        kinds = {one.kind for _, one in self.main}
        tested = kinds - {NOT_TESTED} or kinds
        if len(tested) == 1:
            return tested.pop()
        if "reproduced" in tested or MIXED in tested:
            return MIXED
        return "not reproduced" if "not reproduced" in tested else "undecided with these seeds"

    @property
    def symbol(self) -> str:
        return VERDICTS[self.decision][0]

    @property
    def word(self) -> str:
        return VERDICTS[self.decision][1]

    @property
    def extent(self) -> str:
        """In how many figures, or under how many interpretations, a mixed claim holds."""
        if self.decision != MIXED:
            return ""
        if len(self.main) > 1:
            holds = sum(one.kind == "reproduced" for _, one in self.main)
            return f"{holds} of {len(self.main)} figures"
        outcomes = {cell["reading"]: cell["outcome"] for cell in self.main[0][1].cells}
        known = sum(outcome is True for outcome in outcomes.values())
        return f"{known} of {len(outcomes)} interpretations" if outcomes else ""

    @property
    def number(self) -> str:
        """The deciding number, and what it had to be."""
        order = ["not reproduced", MIXED, "undecided with these seeds", "on a substitute", "reproduced"]
        several = sorted(self.main, key=lambda pair: order.index(pair[1].kind) if pair[1].kind in order else 9)
        about, one = several[0]
        return number_of(one, _figures([short(about)]) if len(self.main) > 1 else "", self.decision == MIXED)

    @property
    def seeds(self) -> int | None:
        return min((one.seeds for _, one in self.main if one.seeds), default=None)

    @property
    def grids(self) -> list[dict[str, Any]]:
        return _grids(self.verdicts)

    @property
    def uncounted(self) -> list[str]:
        """Why outcomes in brackets do not count."""
        why = {f"{dataset(cell['about'])}: {plain(cell['why'])}" for _, one in self.verdicts for cell in one.cells
               if cell["why"]}  # fmt: skip
        reasons = sorted({re.sub(r", [\d.]+$", "", reason) for reason in why})
        return [f"(✗) in brackets does not count. {'; '.join(reasons)}."] if reasons else []

    @property
    def notes(self) -> list[str]:
        """What has no comparisons: numbers in words, and what is missing."""
        lines = []
        for about, one in self.verdicts:
            if one.numbers and not any(cell["of"] for cell in one.cells):
                where = f"{short(about)}: " if len(self.verdicts) > 1 else ""
                parts = [part for part in by_reading(one.numbers) if not part.startswith("holds only for")]
                lines += [f"{where}{_shortened(plain(part), _LONGEST)}" for part in parts]
        return list(dict.fromkeys(lines))

    @property
    def links(self) -> str:
        """Links to the figures."""
        names = dict.fromkeys(short(about) for about, _ in self.verdicts if about.get("figures"))
        shown = [f"[{_figures([name])}]({name}.md)" for name in names]
        return f"Means and pictures: {', '.join(shown)}." if shown else ""


def short(about: Mapping[str, Any]) -> str:
    """Return an experiment's name without the paper's."""
    return str(about["experiment"]).rpartition("/")[2]


def number_of(verdict: Verdict, where: str = "", mixed: bool = False) -> str:
    """Return the deciding number of a verdict with its place and what it had to be; otherwise its numbers in words.

    A mixed verdict says that the number is of what fails.
    """
    number = verdict.number
    if number.get("effect"):
        fails = "fails: " if mixed or verdict.kind == MIXED else ""
        place = "; ".join(filter(None, [", ".join(filter(None, [where, _place(number["place"])])), number["needs"]]))
        return f"{fails}{number['effect']}<br>{place}"
    compared = [cell for cell in verdict.cells if cell["of"]]
    if compared:
        return f"{sum(cell['won'] for cell in compared)} of {sum(cell['of'] for cell in compared)} comparisons"
    parts = by_reading(verdict.numbers)
    parts = [re.sub(r"^\[.*?\] ", "", part) for part in parts if not part.startswith("holds only for")]
    return _shortened(plain(parts[0]), 60) if parts else ""


def _place(parts: Sequence[str]) -> str:
    """Return what a comparison is about in plain words: its subject, and the value of x."""
    subject, *x = parts
    found = re.search(r"_(eps|u|N|M|delta)(_rule)?\b", subject)
    symbol = f"{AXES.get(found[1], found[1]).split()[-1]} = " if found else ""
    return ", ".join([plain(subject), *(f"{symbol}{value}" for value in x)])


def _shortened(text: str, most: int) -> str:
    """Return the first clauses of a text, at most so many characters."""
    if len(text) <= most:
        return text
    cut = text[:most]
    end = max(cut.rfind(sign) for sign in (", ", "; ", ". "))
    return f"{cut[: end if end > most // 3 else cut.rfind(' ')]} …"


def by_reading(numbers: str) -> list[str]:
    """The numbers of a verdict, reading by reading."""
    return re.split(r"[;:] (?=\[)", numbers) if numbers else []


def _figures(names: Sequence[str]) -> str:
    """Return the names of figures as a paper would: ``Figs. 1, 3–11``."""
    numbers = [int(name[3:]) for name in names if re.fullmatch(r"fig\d+", name)]
    if not numbers:
        return ", ".join(dict.fromkeys(re.sub(r"^table(\d)", r"Table \1", name).replace("_", " ") for name in names))
    spans: list[list[int]] = []
    for number in sorted(set(numbers)):
        if spans and number == spans[-1][-1] + 1:
            spans[-1].append(number)
        else:
            spans.append([number])
    text = ", ".join(f"{span[0]}–{span[-1]}" if len(span) > 1 else str(span[0]) for span in spans)
    return f"Fig{'s' if len(numbers) > 1 else ''}. {text}"


def _bare(name: str) -> str:
    """Return an interpretation without its metric."""
    return "" if name == "as stated" else re.sub(r"^(accuracy|gap)(, |$)", "", interpretation(name))


def _grids(verdicts: Sequence[tuple[Mapping[str, Any], Verdict]]) -> list[dict[str, Any]]:
    """Return matrices of outcomes: a figure a row and a data set a column, a matrix for every interpretation.

    Claims that are not about data sets have what their comparisons are about as rows and interpretations as columns,
    and how many comparisons hold. Of other interpretations only the outcomes are shown.
    """
    found: dict[str, dict[str, dict[str, str]]] = {}
    several = len({about["experiment"] for about, _ in verdicts}) > 1
    for about, one in verdicts:
        other = one.id.endswith("r") and several
        blocks = {panel["block"] for panel in about["panels"]}
        for cell in one.cells:
            words = interpretation(cell["reading"])
            bare = _bare(cell["reading"]) or "verdict"
            if other:
                grid, row, column, outcome = _OTHER, bare, metric(cell["metric"]), _symbol(cell["outcome"])
            elif cell["why"] or cell["about"] in blocks or cell["about"].endswith("_chosen"):
                figure = f"{metric(cell['metric'])} ({_figures([short(about)])})"
                grid, row, column, outcome = _bare(cell["reading"]), figure, dataset(cell["about"]), _outcome(cell)
            elif cell["about"]:
                grid, row, column, outcome = "", plain(cell["about"]), bare, _outcome(cell)
                found.setdefault(grid, {}).setdefault("verdict", {})[column] = _symbol(cell["outcome"])
            else:
                grid, row, column, outcome = "", words, "verdict", _symbol(cell["outcome"])
            found.setdefault(grid, {}).setdefault(row, {})[column] = outcome
    return [_grid(title, rows) for title, rows in found.items() if len(rows) > 1 or len(next(iter(rows.values()))) > 1]


def _outcome(cell: Mapping[str, Any]) -> str:
    if cell["why"]:
        return f"({_symbol(cell['holds'])})"
    return f"{cell['won']}/{cell['of']}" if cell["holds"] is None and cell["of"] > 1 else _symbol(cell["holds"])


def _symbol(holds: bool | None) -> str:
    return VERDICTS[_HOLDS[holds]][0]


def _grid(title: str, rows: Mapping[str, Mapping[str, str]]) -> dict[str, Any]:
    columns = list(dict.fromkeys(column for cells in rows.values() for column in cells))
    if len(columns) > max(4, len(rows)):
        rows = {column: {row: own[column] for row, own in rows.items() if column in own} for column in columns}
        columns = list(dict.fromkeys(column for cells in rows.values() for column in cells))
    lines = [[name, *(cells.get(column, "·") for column in columns)] for name, cells in rows.items()]
    every = [value for cells in rows.values() for value in cells.values()]
    same = every[0] if len(set(every)) == 1 and "(" not in every[0] else ""
    return {
        "title": title, "columns": columns, "rows": lines, "same": same, "size": len(every),
        "folded": title == _OTHER,
    }  # fmt: skip


class PaperPage:
    """The claims of a paper.

    Args:
        key: the name of its folder.
        experiments: the manifests of its experiments.
        results: the folder of all results, which may have an audit.
    """

    def __init__(self, key: str, experiments: Sequence[Mapping[str, Any]], results: Path) -> None:
        card = card_of(key)
        self.key, self.experiments = key, experiments
        self.title = card.title if card else key.capitalize()
        self.proposes, self.headline = (card.proposes, card.headline) if card else ("", "")
        self.metrics = card.metrics if card else {}
        groups: dict[str, list[tuple[Mapping[str, Any], Verdict]]] = {}
        for about in experiments:
            for record in about["claims"]:
                one = Verdict.stored(record)
                name = re.sub(r"(\.fig\d+|(?<=\d)r)$", "", one.id)
                groups.setdefault(name, []).append((about, one))
        sentences = [Sentence(name, members, card) for name, members in groups.items()]
        self.claims = sorted(sentences, key=lambda one: _KINDS.index(one.kind))
        self.audited: list[Audited] = audited(results, self.title)

    @property
    def kinds(self) -> list[tuple[str, list[Sentence]]]:
        """The claims by kind."""
        return [
            (kind, [one for one in self.claims if one.kind == kind])
            for kind in _KINDS
            if any(one.kind == kind for one in self.claims)
        ]

    @property
    def counts(self) -> Mapping[str, Counter[str]]:
        """How many claims of every kind got which decision."""
        return {kind: Counter(one.decision for one in claims) for kind, claims in self.kinds}

    @property
    def tally(self) -> dict[str, str]:
        """The counts of theory and of experiments, in symbols."""
        return {
            kind.lower(): " ".join(f"{VERDICTS[name][0]} {number}" for name, number in _ordered(self.counts.get(kind)))
            for kind in _KINDS
        }

    @property
    def privacy_in_short(self) -> str:
        """The counts of privacy claims, and the worst line of the audit."""
        found = []
        if self.tally["privacy"]:
            found.append(f"{self.tally['privacy']} of its claims")
        if self.audited:
            order = ("no", "open", "yes")
            one = min(self.audited, key=lambda one: (one.once, order.index(one.status), -one.lines[0]["proven"]))
            attack = f", attack ≥ {one.attacked}" if one.attacked != "0" else ""
            numbers = f"{one.algorithm}: claimed {one.claimed}, proven {one.proven}{attack}"
            found.append(f"{one.symbol} **{one.word}**<br>{numbers}")
        return "<br>".join(found)

    @property
    def summary(self) -> str:
        """The counts in one line."""
        parts = [f"{number} {word}" for word, number in Counter(one.word for one in self.audited).items()]
        lines = [f"**Privacy**: {', '.join(parts)}"] if parts else []
        for kind, counts in self.counts.items():
            words = ", ".join(f"{number} {VERDICTS[name][1]}" for name, number in _ordered(counts))
            if kind == "Privacy" and lines:
                lines[0] += f", {words}"
            else:
                lines.append(f"**{kind}**: {words}")
        return " · ".join(lines)

    @property
    def audit_table(self) -> list[list[str]]:
        return [line for one in self.audited for line in one.table]

    @property
    def figures(self) -> list[str]:
        """A line for every figure: a link, or what to run."""
        lines = []
        for about in self.experiments:
            name, title = _figures([short(about)]), about.get("title", "")
            if about.get("figures"):
                lines.append(f"[{name}]({short(about)}.md): {title}")
            else:
                lines.append(f"{name}: not computed. `{about['command']}`")
        return lines


def _ordered(counts: Mapping[str, int] | None) -> list[tuple[str, int]]:
    return [(name, counts[name]) for name in VERDICTS if (counts or {}).get(name)] if counts else []


def papers_of(known: Iterable[Mapping[str, Any]], results: Path) -> list[PaperPage]:
    """Return the papers whose experiments have claims, from manifests."""
    papers: dict[str, list[Mapping[str, Any]]] = {}
    for about in sorted(known, key=lambda about: natural(about["experiment"])):
        papers.setdefault(about["experiment"].rpartition("/")[0], []).append(about)
    return [PaperPage(key, own, results) for key, own in papers.items() if any(about["claims"] for about in own)]


def start_page(papers: Sequence[PaperPage], known: Sequence[Mapping[str, Any]]) -> str:
    """Return the start page: all papers, and the experiments without claims."""
    ranked = (about["experiment"].rpartition("/")[0] for about in known if about.get("rankings"))
    which = next((f"{folder}/which.md" for folder in ranked), "")
    own = {paper.key for paper in papers}
    others = [about for about in known if about["experiment"].rpartition("/")[0] not in own]
    return page("start.md", papers=papers, which=which, others=others)


def paper_page(paper: PaperPage) -> str:
    """Return the page of a paper's claims."""
    return page("paper.md", p=paper)


def figure_page(about: Mapping[str, Any], figure: Mapping[str, Any]) -> str:
    """Return the page of one of an experiment's figures, whose picture is ``NAME.svg``, from the manifest's content."""
    claims = [] if figure["twin"] else [_claim(Verdict.stored(claim)) for claim in about["claims"]]
    modified = about["command"] != f"dpml-run experiment={about.get('experiment')}"  # its folder has no page of claims
    source = f"[{about['source']}](claims.md)" if claims and about["source"] and not modified else about["source"]
    noise = (figure["twin"] or "").capitalize()
    figure = {"caption": "", **figure}
    return page("figure.md", about=about, figure=figure, claims=claims, source=source, noise=noise)


def _claim(verdict: Verdict) -> dict[str, str]:
    symbol, word, _ = VERDICTS[verdict.kind]
    text = re.sub(r" \[.*?\]", "", verdict.text)
    return {"id": verdict.id, "text": text, "symbol": symbol, "word": word, "number": number_of(verdict)}


def which_page(known: Iterable[Mapping[str, Any]]) -> str:
    """Return the page about all ranking experiments of a paper's folder, from their manifests."""
    experiments = []
    for about in known:
        rankings = about["rankings"]
        tables = [ranking.matrix(rankings) | {"title": ""}, ranking.tally(rankings) | {"title": ""}]
        others = ranking.beside(rankings, about.get("reference", ""))
        tables += [others | {"title": f"{others['title']} than that of another program"}] if others["rows"] else []
        tables += [ranking.details(one) for one in rankings]
        facts = {"title": about["title"], "command": about["command"], "premises": ranking.premises(rankings)}
        experiments.append(facts | {"tables": tables})
    return page("which.md", experiments=experiments, reading=ranking.READING)
