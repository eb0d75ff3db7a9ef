"""The content of pages, from manifests: the start page, a paper's claims, a figure, and rankings of algorithms."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dpml.config.experiments import natural
from dpml.reporting import ranking
from dpml.reporting.cards import AUDIT, Card, card_of, claims_of
from dpml.reporting.claims import IN_WORDS, UNTESTED, Verdict
from dpml.reporting.render import page
from dpml.reporting.words import AXES, VERDICTS, WORDS, algorithm, dataset, interpretation, metric, plain, symbols

MIXED = "depends on an unstated choice"
_KINDS = ("Privacy", "Theory", "Experiments")
_OTHER = "Other interpretations"
_PARTS = r"Theorem|Proposition|Footnote|Remark|Table|Lemma|Corollary|Sec\.|Eq\."
_OF_MIXED = {"not reproduced": "fails: ", MIXED: "fails: ", "undecided with these seeds": "open: "}
_OUTCOMES = {IN_WORDS[True]: "✓", IN_WORDS[None]: "?", IN_WORDS[False]: "✗"}


class Sentence:
    """One sentence of a paper: the verdicts on it, from one figure or from several.

    Args:
        name: its id.
        verdicts: each with the manifest of its experiment.
        card: of the paper.
    """

    def __init__(self, name: str, verdicts: Sequence[tuple[Mapping[str, Any], Verdict]], card: Card | None) -> None:
        self.id, self.verdicts = name, verdicts
        self.main = [pair for pair in verdicts if not pair[1].id.endswith("r")] or list(verdicts)
        first = self.main[0][1]
        text = (card.sentences if card else {}).get(name) or re.sub(r" \[.*?\]", "", first.text)
        stated = re.match(rf"((?:{_PARTS}) ?[\w.]*): (.)", text)
        self.text = symbols(_capital(text[stated.end() - 1 :]) if stated else text)
        self.where = stated[1] if stated else _figures([short(about) for about, _ in self.main])
        criterion = re.sub(r"docs/privacy/\w+\.md", r"[\g<0>](../../\g<0>)", plain(first.criterion).rstrip("."))
        self.criterion = f"{criterion}." if criterion else ""
        computed = all(not about.get("cells", 1) for about, _ in self.main)
        self.audited = self.main[0][0]["experiment"] == AUDIT
        private = self.audited or (card is not None and name in card.privacy)
        self.kind = "Privacy" if private else "Theory" if computed or stated else "Experiments"

    @property
    def decision(self) -> str:
        """One decision from those of all figures."""
        kinds = {one.decision for _, one in self.main}
        tested = kinds - {UNTESTED} or kinds
        if len(tested) == 1:
            return tested.pop()
        if "reproduced" in tested or MIXED in tested:
            return MIXED
        return "not reproduced" if "not reproduced" in tested else "undecided with these seeds"

    @property
    def symbol(self) -> str:
        return symbol(self.decision, self.audited)

    @property
    def word(self) -> str:
        return word(self.decision, self.audited)

    @property
    def extent(self) -> str:
        """In how many figures, or under how many interpretations, a mixed claim holds."""
        if self.decision != MIXED:
            return ""
        if len(self.main) > 1:
            holds = sum(one.decision == "reproduced" for _, one in self.main)
            return f"{holds} of {len(self.main)} figures"
        outcomes = [reading["outcome"] for reading in self.main[0][1].readings]
        return f"{outcomes.count(IN_WORDS[True])} of {len(outcomes)} interpretations"

    @property
    def number(self) -> str:
        """The deciding number, and what it had to be."""
        order = ["not reproduced", MIXED, "undecided with these seeds", "reproduced", UNTESTED]
        about, one = min(self.main, key=lambda pair: order.index(pair[1].decision))
        return number_of(one, _figures([short(about)]) if len(self.main) > 1 else "", self.decision == MIXED)

    @property
    def seeds(self) -> int | None:
        return min((one.seeds for _, one in self.main if one.seeds), default=None)

    @property
    def grids(self) -> list[dict[str, Any]]:
        return _grids(self.verdicts)

    @property
    def notes(self) -> list[str]:
        """Why outcomes in brackets do not count, and what is missing."""
        why, lacks = set(), []
        for _, one in self.verdicts:
            for reading in one.readings:
                groups = [group for group in one.groups(reading) if not group["block"].endswith("_rule")]  # not shown
                why |= {f"{dataset(group['block'])}: {plain(group['why'])}" for group in groups if group["why"]}
                lacks += [plain(lack) for lack in reading["lacks"]]
        reasons = sorted({re.sub(r", [\d.]+$", "", reason) for reason in why})
        found = [f"(✗) in brackets does not count. {'; '.join(reasons)}."] if reasons else []
        return found + [f"Not tested: {lack}." for lack in dict.fromkeys(lacks)]

    @property
    def points(self) -> str:
        """What the same test says of the paper's own published points; empty if there are none, or it differs."""
        said = {one.published for _, one in self.main if one.published}
        return said.pop() if len(said) == 1 else ""

    @property
    def links(self) -> str:
        """Links to the figures."""
        names = {short(about): about["experiment"] for about, _ in self.verdicts if about.get("figures")}
        shown = [
            f"[{_figures([name])}]({'../audit/' if full == AUDIT else ''}{name}.md)" for name, full in names.items()
        ]
        return f"Means and pictures: {', '.join(shown)}." if shown else ""


def _capital(text: str) -> str:
    """Return a text with a capital letter first, unless its first word is a name such as capeFM."""
    return text if re.match(r"\w+[A-Z]", text) else text[:1].upper() + text[1:]


def short(about: Mapping[str, Any]) -> str:
    """Return an experiment's name without the paper's."""
    return str(about["experiment"]).rpartition("/")[2]


def symbol(decision: str, audited: bool = False) -> str:
    """Return the symbol of a decision, of one about privacy if it is `audited`."""
    return str(WORDS["privacy"].get(decision, VERDICTS[decision])[0] if audited else VERDICTS[decision][0])


def word(decision: str, audited: bool = False) -> str:
    """Return the word for a decision, for one about privacy if it is `audited`."""
    return str(WORDS["privacy"].get(decision, VERDICTS[decision])[1] if audited else VERDICTS[decision][1])


def number_of(verdict: Verdict, where: str = "", mixed: bool = False) -> str:
    """Return the deciding number of a verdict, its place, and what it had to be.

    A mixed verdict says that the number is of what fails.
    """
    one = verdict.deciding
    if not one:
        lacks = [plain(lack) for reading in verdict.readings for lack in reading["lacks"]]
        return _shortened(lacks[0], 90) if lacks else ""
    found = re.match(r"proven eps (\S+), attacked eps at least (\S+)$", one["effect"])
    if found:
        attack = f", attack ≥ {found[2]}" if found[2] != "0" else ""
        claimed = one["needs"].removeprefix("at most ")
        view = WORDS["views"].get(one["against"], one["against"])
        return f"claimed ε {claimed}, proven {found[1]}{attack}<br>{algorithm(one['algorithm'])}, {view}"
    fails = _OF_MIXED.get(verdict.decision, "") if mixed or verdict.decision == MIXED else ""
    place = ", ".join(filter(None, [where, subject(one)]))
    needs = f"needs {factors(one['needs'])}" if one["needs"] else ""
    return f"{fails}{effect(one['effect'])}<br>{'; '.join(filter(None, [place, needs]))}"


def effect(text: str) -> str:
    """Return an effect in words: a factor between two sizes says whether the first is lower or higher."""
    found = re.fullmatch(r"x(\S+) \[x(\S+), x(\S+)\]", text)
    if not found:
        return factors(text)
    middle, low, high = map(float, found.groups())
    if not middle > 0 or abs(middle - 1) < 0.05:
        return f"ratio {factors(text)}"
    turned = middle < 1
    ends = [1 / end if end else float("inf") for end in (middle, high, low)] if turned else [middle, low, high]
    first, *rest = (f"{end:.0f}" if 100 <= end < 1e5 else f"{end:.2g}" for end in ends)
    return f"{first}× {'higher' if turned else 'lower'} [{', '.join(rest)}]"


def factors(text: str) -> str:
    """Return a text in which factors are written 2×, and not x2."""
    return re.sub(r"(?<!\w)-(?=[\d.])", "−", re.sub(r"\bx(\d[\d.e+-]*)", r"\1×", text))


def subject(one: Mapping[str, str]) -> str:
    """Return what a comparison is about: the data set, the algorithm and what it is compared with, and x."""
    found = re.search(r"_(eps|u|N|M|delta)(_rule)?\b", one["block"])
    sign = f"{AXES.get(found[1], found[1]).split()[-1]} = " if found and re.match(r"[\d.-]", one["x"]) else ""
    against = plain(one["against"]) if one["against"] != one["algorithm"] else ""
    who = " against ".join(filter(None, [algorithm(one["algorithm"]), against]))
    x = f"{sign}{plain(one['x'])}" if one["x"] not in ("", "nan") else ""
    return ", ".join(filter(None, [plain(one["block"]), who, x]))


def _shortened(text: str, most: int) -> str:
    """Return the first clauses of a text, at most so many characters."""
    if len(text) <= most:
        return text
    cut = text[:most]
    end = max(cut.rfind(sign) for sign in (", ", "; ", ". "))
    return f"{cut[: end if end > most // 3 else cut.rfind(' ')]} …"


def _figures(names: Sequence[str]) -> str:
    """Return the names of figures as a paper would: ``Figs. 1, 3–11``."""
    numbers = [int(name[3:]) for name in names if re.fullmatch(r"fig\d+", name)]
    if not numbers:
        spelt = [re.sub(r"^table(\d)", r"Table \1", re.sub(r"^fig(\d)", r"Fig. \1", name)) for name in names]
        return ", ".join(dict.fromkeys(name.replace("_", " ") for name in spelt))
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


Matrices = dict[str, dict[str, dict[str, str]]]
"""Outcomes by the title of a matrix, its row and its column."""


def _grids(verdicts: Sequence[tuple[Mapping[str, Any], Verdict]]) -> list[dict[str, Any]]:
    """Return matrices of outcomes: a figure a row and a data set a column, a matrix for every interpretation.

    Claims of one figure have what their comparisons are about as rows and interpretations as columns. Of other
    interpretations only the outcomes are shown.
    """
    found: Matrices = {}
    figures = {about["experiment"] for about, one in verdicts if not one.id.endswith("r")}
    for about, one in verdicts:
        for reading in one.readings:
            outcome = _OUTCOMES.get(reading["outcome"], "○")
            bare = _bare(reading["name"])
            if one.id.endswith("r") and figures:
                found.setdefault(_OTHER, {}).setdefault(bare, {})[metric(reading["metric"])] = outcome
            elif len(figures) > 1:
                row = f"{metric(reading['metric'])} ({_figures([short(about)])})"
                found.setdefault(bare, {}).setdefault(row, {}).update(_by_block(one.groups(reading)))
            else:
                rows = found.setdefault("", {})
                for name, cell in _by_subject(one.groups(reading)).items():
                    rows.setdefault(name, {})[bare or "verdict"] = cell
                rows.setdefault("verdict", {})[bare or "verdict"] = outcome
    return [_grid(title, rows) for title, rows in found.items() if len(rows) > 1 or len(next(iter(rows.values()))) > 1]


def _by_block(groups: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return the outcome of every data set; in brackets if it does not count."""
    blocks: dict[str, list[Mapping[str, Any]]] = {}
    for group in groups:
        if not group["block"].endswith("_rule"):
            blocks.setdefault(group["block"], []).append(group)
    return {dataset(block): _cell(own) for block, own in blocks.items()}


def _by_subject(groups: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return the outcome of every group by what it is about."""
    subjects: dict[str, list[Mapping[str, Any]]] = {}
    for group in groups:
        subjects.setdefault(subject({**group, "x": ""}), []).append(group)
    return {name: _cell(own) for name, own in subjects.items() if name}


def _cell(groups: Sequence[Mapping[str, Any]]) -> str:
    outcomes = {group["outcome"] for group in groups}
    worst = next(kind for kind in (IN_WORDS[False], IN_WORDS[None], IN_WORDS[True]) if kind in outcomes)
    return f"({_OUTCOMES[worst]})" if any(group["why"] for group in groups) else _OUTCOMES[worst]


def _grid(title: str, rows: Mapping[str, Mapping[str, str]]) -> dict[str, Any]:
    columns = list(dict.fromkeys(column for cells in rows.values() for column in cells))
    if len(columns) > max(4, len(rows)):
        rows = {column: {row: own[column] for row, own in rows.items() if column in own} for column in columns}
        columns = list(dict.fromkeys(column for cells in rows.values() for column in cells))
    lines = [[name, *(cells.get(column, "·") for column in columns)] for name, cells in rows.items()]
    every = [value for cells in rows.values() for value in cells.values()]
    same = every[0] if len(set(every)) == 1 and "(" not in every[0] else ""
    facts = {"title": title, "columns": columns, "rows": lines, "same": same, "size": len(every)}
    return facts | {"folded": title == _OTHER}


class PaperPage:
    """The claims of a paper.

    Args:
        key: the name of its folder.
        experiments: the manifests of its experiments, and of the audit with the claims about privacy.
    """

    def __init__(self, key: str, experiments: Sequence[Mapping[str, Any]]) -> None:
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

    @property
    def kinds(self) -> list[tuple[str, list[Sentence]]]:
        """The claims by kind."""
        found = [(kind, [one for one in self.claims if one.kind == kind]) for kind in _KINDS]
        return [(kind, claims) for kind, claims in found if claims]

    @property
    def tally(self) -> dict[str, str]:
        """How many claims of every kind got which verdict, in symbols."""
        return {kind.lower(): " ".join(f"{sign}\u00a0{n}" for (sign, _), n in counts) for kind, counts in self._counts}

    @property
    def summary(self) -> str:
        """How many claims of every kind got which verdict, in words."""
        lines = [f"**{kind}**: {', '.join(f'{n} {text}' for (_, text), n in counts)}" for kind, counts in self._counts]
        return " · ".join(lines)

    @property
    def _counts(self) -> list[tuple[str, list[tuple[tuple[str, str], int]]]]:
        order = list(VERDICTS)
        found = []
        for kind, claims in self.kinds:
            ordered = sorted(claims, key=lambda one: order.index(one.decision))
            found.append((kind, list(Counter((one.symbol, one.word) for one in ordered).items())))
        return found

    @property
    def privacy_in_short(self) -> str:
        """The verdicts on claims about privacy, with the numbers of the worst."""
        order = ["not reproduced", "undecided with these seeds"]
        own = [one for one in self.claims if one.audited]
        if not own:
            return self.tally.get("privacy", "")
        worst = min(own, key=lambda one: order.index(one.decision) if one.decision in order else len(order))
        return f"{worst.symbol} **{worst.word}**<br>{worst.number.partition('<br>')[0]}"

    @property
    def figures(self) -> list[str]:
        """A line for every figure: a link, or what to run."""
        lines = []
        for about in self.experiments:
            name, title = _figures([short(about)]), about.get("title", "")
            if about["experiment"] == AUDIT:
                continue
            if about.get("figures"):
                lines.append(f"[{name}]({short(about)}.md): {title}")
            else:
                lines.append(f"{name}: not computed. `{about['command']}`")
        return lines


def papers_of(known: Iterable[Mapping[str, Any]]) -> list[PaperPage]:
    """Return the papers whose experiments have claims, from manifests; claims about the audit are their papers'."""
    papers: dict[str, list[Mapping[str, Any]]] = {}
    audits = []
    for about in sorted(known, key=lambda about: natural(about["experiment"])):
        if about["experiment"] == AUDIT:
            audits.append(about)
        else:
            papers.setdefault(about["experiment"].rpartition("/")[0], []).append(about)
    for paper, own in papers.items():
        for about in audits:
            claims = [one for one in about["claims"] if one["id"] in claims_of(paper)]
            own[:0] = [{**about, "claims": claims}] if claims else []
    return [PaperPage(key, own) for key, own in papers.items() if any(about["claims"] for about in own)]


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
    audited = about.get("experiment") == AUDIT
    claims = [] if figure["twin"] else [_claim(Verdict.stored(one), audited) for one in about["claims"]]
    source = about["source"]
    if claims and source and not audited and about["command"] == f"dpml-run experiment={about['experiment']}":
        source = f"[{source}](claims.md)"  # a modified figure has no page of claims in its folder
    noise = (figure["twin"] or "").capitalize()
    figure = {"caption": "", **figure}
    return page("figure.md", about=about, figure=figure, claims=claims, source=source, noise=noise)


def _claim(verdict: Verdict, audited: bool) -> dict[str, str]:
    text = symbols(re.sub(r" \[.*?\]", "", verdict.text))
    words = {"symbol": symbol(verdict.decision, audited), "word": word(verdict.decision, audited)}
    return {"id": verdict.id, "text": text, "number": number_of(verdict)} | words


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
