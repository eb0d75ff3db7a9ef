"""The verdicts on the papers' claims: counts, and a list with filters."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from dpml.reporting.claims import Decision
from dpml.reporting.page.inputs import Claim, Experiment, Paper
from dpml.reporting.page.markup import Html, anchor, html, inline, table, tag

_SHORT: Mapping[str, str] = {
    "undecided with these seeds": "undecided",
    "cannot be tested here": "cannot be tested",
    "depends on an unstated choice": "depends on a choice",
}
_COLOURS: Mapping[str, str] = {
    "reproduced": "good",
    "not reproduced": "bad",
    "depends on an unstated choice": "depends",
    "undecided with these seeds": "maybe",
}
ORDER: tuple[Decision, ...] = (
    "reproduced",
    "depends on an unstated choice",
    "undecided with these seeds",
    "not reproduced",
    "cannot be tested here",
)


def brief(decision: str) -> str:
    """A decision in the fewest words that distinguish it from the others."""
    return _SHORT.get(decision, decision)


def badge(decision: str) -> Html:
    """A decision in its colour, in words."""
    return tag("span", decision, class_=f"verdict {_COLOURS.get(decision, 'open')}", data_kind=brief(decision))


def counts(papers: Sequence[Paper]) -> Html:
    """The number of verdicts of every kind for each paper, as numbers and as a bar."""
    told = [paper for paper in papers if paper.claims]
    rows = [_line(tag("a", paper.title, href=f"{paper.page}#verdicts"), paper.claims, paper.page) for paper in told]
    total = _line("all", [claim for paper in told for claim in paper.claims], "")
    heads = ["paper", *map(brief, ORDER), "claims", "shares"]
    return table(heads, rows, "Verdicts by paper", names=True, total=total) if told else Html("")


def _line(name: str, claims: Sequence[Claim], page: str) -> list[str]:
    found = Counter(claim.decision for claim in claims)
    cells = [
        tag("a", str(found[kind]), href=f"{page}?verdicts={anchor(brief(kind))}#verdicts") if page and found[kind] else
        str(found[kind] or "")
        for kind in ORDER
    ]  # fmt: skip
    bar = tag("span", _bar(found), class_="bar", aria_hidden="true")
    return [name, *cells, str(len(claims)), bar]


def _bar(found: Mapping[str, int]) -> Html:
    return html(
        tag("i", class_=_COLOURS.get(kind, "open"), style=f"flex-grow:{found[kind]}")
        for kind in ORDER
        if found.get(kind)
    )


def listed(experiments: Iterable[Experiment]) -> Html:
    """Every verdict with its claim, the test and the numbers; a script adds filters."""
    entries = [_entry(claim, experiment) for experiment in experiments for claim in experiment.claims]
    if not entries:
        return Html("")
    return tag("div", tag("ol", entries, class_="verdicts"), class_="filtered", data_what="verdicts")


def _entry(claim: Claim, experiment: Experiment) -> Html:
    words: list[str] = [tag("a", experiment.short, href=f"#{anchor(experiment.short)}")]
    words += [f"{claim.seeds} seed{'' if claim.seeds == '1' else 's'}"] if claim.seeds else []
    words += [f"{claim.needed} seeds would decide"] if claim.needed else []
    head = tag("p", tag("b", claim.id), " ", badge(claim.decision), " ", tag("small", _dotted(words)))
    facts = [("Test", claim.criterion), ("Numbers", claim.numbers)]
    details = html(html(tag("dt", name), tag("dd", inline(text))) for name, text in facts if text)
    said = tag("p", inline(claim.text))
    why = tag("details", tag("summary", "Test and numbers"), tag("dl", details)) if details else Html("")
    return tag("li", head, said, why, id=anchor(f"claim-{claim.id}"))


def _dotted(words: Sequence[str]) -> Html:
    return html(html(" · " if number else "", word) for number, word in enumerate(words))
