"""What papers claim of their algorithms, what is proven, and what an attack reached: from the rows of the audit."""

import math
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from typing import ClassVar

import pandas as pd
import yaml
from hydra.utils import get_class
from pandas.api.types import is_numeric_dtype

from dpml import where
from dpml.audit import ROUNDS
from dpml.errors import UserError
from dpml.optim.losses import LOSSES
from dpml.privacy import Budget, Problem
from dpml.reporting.page.inputs import Figure, Paper
from dpml.reporting.page.markup import Html, html, table, tag
from dpml.reporting.tables import overview, read_table, short

VIOLATED = "claim violated"


@dataclass(frozen=True)
class Attack:
    """One line of the audit: an algorithm with its noise, and a view of it. What has no number is NaN.

    Args:
        claimed: eps, as published.
        proven: the least eps that is proven.
        attacked: a lower bound on eps, by telling two neighbours apart.
        verdict: of the audit.
        setting: all that says what was attacked: algo, variant, loss, noise, view, and its own options.
        source: where the claim is made.
    """

    claimed: float
    proven: float
    attacked: float
    verdict: str
    setting: dict[str, str] = field(hash=False)
    source: str

    @property
    def place(self) -> str:
        """Where in the paper the claim stands, and what it is restricted to."""
        return self.source.partition(", ")[2]

    @property
    def what(self) -> str:
        """The algorithm, and what tells its lines apart."""
        own = [f"{key}={value}" for key, value in self.setting.items() if "." in key and value]
        variant = [] if self.setting["variant"] == "paper" else [self.setting["variant"]]
        return " ".join([self.setting["algo"], *variant, *own])


@dataclass(frozen=True)
class Audit:
    """The audit's table, the setting that all its lines have, and where the table lies."""

    lines: Sequence[Attack] = ()
    same: str = ""
    figure: Figure | None = None

    def claims_of(self, paper: Paper) -> list[Attack]:
        """The lines about what a paper itself claims, of published noise as the text defines it."""
        return [line for line in self.lines if line.claimed > 0 and line.proven > 0 and _cites(line.source, paper)]


def audit_of(figures: Iterable[Figure]) -> Audit:
    """What is known of attacks; without lines where no figure is an audit's table.

    An audit's table is one whose rows have the metrics `proven` and `attacked`.
    """
    for figure in figures:
        if figure.wrong or figure.drawn:  # it has no picture
            continue
        with suppress(UserError):
            rows = read_table(figure.file("csv"), (*_TEXTS, "metric", "mean"))
            if {"proven", "attacked"} <= set(rows["metric"]):
                return _audit(rows, figure)
    return Audit()


def _audit(rows: pd.DataFrame, figure: Figure) -> Audit:
    lines = overview(rows)
    lines = lines.assign(**{key: rows[key].iloc[0] for key in _TEXTS if key not in lines})  # the same in all
    texts = [key for key in lines if not is_numeric_dtype(lines[key]) or key in _TEXTS]
    attacks = []
    for line in lines.to_dict("records"):
        setting = {str(key): "" if pd.isna(line[key]) else str(line[key]) for key in texts}
        claimed, proven, attacked = (float(line.get(key, math.nan)) for key in ("claimed", "proven", "attacked"))
        stated = setting["noise"] == "published" and setting["variant"] == "paper"
        source = _claims(setting["algo"]).get(setting["view"], "") if stated else ""
        attacks.append(Attack(claimed, proven, attacked, setting.pop("verdict"), setting, source))
    same = [f"{symbol} = {rows[key].iloc[0]:g}" for key, symbol in _SAME.items() if rows[key].nunique() == 1]
    return Audit(attacks, ", ".join(same), figure)


_TEXTS = ("algo", "variant", "loss", "noise", "view", "verdict")
_SAME = {"eps": "ε", "delta": "δ", "M": "M", "d": "d"}


@cache
def _claims(algo: str) -> dict[str, str]:
    """Where what is claimed of an algorithm stands, by view; empty where nothing is, or this version has none such."""
    file = where.folder("conf") / "algo" / f"{algo}.yaml"
    if not file.is_file():  # an algorithm of one's own
        return {}
    kind = get_class(yaml.safe_load(file.read_text("utf-8"))["_target_"])
    few = {key: count for key, count in ROUNDS.items() if hasattr(kind, key)}
    problem = Problem(5, 10_000, 2, auxiliary=10, classes=2)
    for loss in ("logistic", "squared"):
        with suppress(UserError):  # not a loss that it has
            given = kind(LOSSES[loss], **few).guarantees(Budget(1.0, 1e-5), problem)
            return {one.view: one.source for one in given if one.basis == "published" and math.isfinite(one.eps)}
    return {}


def _cites(source: str, paper: Paper) -> bool:
    """Whether a source is the paper: the first author and the year are the same."""
    first = [re.match(r"([^\W\d]+).*?\b(\d{4})\b", text) for text in (source, paper.title)]
    return all(first) and len({match.groups() for match in first if match}) == 1


def worst(lines: Sequence[Attack]) -> Attack | None:
    """The line whose proven eps is furthest above its claim, of claims about a whole release if there are such."""
    whole = [line for line in lines if ": " not in line.source] or lines  # "Sec. 5.1: for one round"
    return max(whole, key=lambda line: (round(line.proven / line.claimed, 6), line.attacked), default=None)


def story(papers: Sequence[Paper], audit: Audit) -> Html:
    """A line per paper: its claim that is furthest from what is proven, and what an attack on it reached."""
    told = [(paper, lines, line) for paper in papers if (line := worst(lines := audit.claims_of(paper)))]
    if not told:
        return Html("")
    scale = _Scale([value for _, _, line in told for value in (line.claimed, line.proven, line.attacked)])
    rows = [
        [
            tag("a", paper.title, href=paper.page),
            html(tag("b", short(line.claimed)), _aside(line.place)),
            html(tag("b", short(line.proven)), _aside(f"{line.what}, {line.setting['view']}")),
            html(tag("b", _number(line.attacked)), _aside(line.verdict)),
            scale.strip(line),
            html(tag("b", str(sum(other.verdict == VIOLATED for other in lines))), f" of {len(lines)}"),
        ]
        for paper, lines, line in told
    ]
    heads = ["paper", "ε claimed", "ε proven, worst view", "ε reached by an attack", scale.legend, "claims violated"]
    return table(heads, rows, "What each paper claims, what is proven, what an attack reached", names=True)


def _number(value: float) -> str:
    return "" if math.isnan(value) else short(value)


def _aside(text: str) -> Html:
    return tag("small", text) if text else Html("")


_LEFT, _WIDE, _MIDDLE = 8.0, 144.0, 12.0


class _Scale:
    """A logarithmic scale of eps that holds some values; those of zero are not on it."""

    def __init__(self, values: Iterable[float]) -> None:
        logs = [math.log10(value) for value in values if value > 0 and math.isfinite(value)]
        self._low, self._high = min(logs), max(logs)

    legend: ClassVar[str] = "| claimed  ● proven  ▲ reached"

    def _x(self, value: float) -> float:
        return _LEFT + _WIDE * (math.log10(value) - self._low) / ((self._high - self._low) or 1.0)

    def strip(self, line: Attack) -> Html:
        """Where the three values of a line stand. The columns beside it say the same."""
        claimed, proven, attacked = (
            self._x(value) if value > 0 and math.isfinite(value) else None
            for value in (line.claimed, line.proven, line.attacked)
        )
        parts = [tag("path", d=f"M{_LEFT} {_MIDDLE}h{_WIDE}", class_="axis")]
        if claimed is not None:
            parts.append(tag("path", d=f"M{claimed:.1f} 3v18", class_="claimed"))
        if proven is not None:
            parts.append(tag("circle", cx=f"{proven:.1f}", cy=f"{_MIDDLE}", r="5", class_="proven"))
        if attacked is not None:
            parts.append(tag("path", d=f"M{attacked:.1f} 15l4 7h-8z", class_="attacked"))
        return tag("svg", parts, viewBox="0 0 160 24", width="160", height="24", class_="strip", aria_hidden="true")


def claimed_table(lines: Sequence[Attack]) -> Html:
    """Every claim of a paper that was attacked, a line per algorithm and view."""
    rows = [
        [
            line.what,
            line.setting["loss"],
            line.setting["view"],
            line.place,
            *map(_number, (line.claimed, line.proven, line.attacked)),
            badge(line.verdict),
        ]
        for line in lines
    ]
    heads = ["algorithm", "loss", "view", "where it is claimed", "ε claimed", "ε proven", "ε attacked, at least"]
    return table([*heads, "audit"], rows, "Claims under attack")


def audit_table(audit: Audit) -> Html:
    """All lines of the audit."""
    rows = [
        [
            line.what,
            line.setting["loss"],
            line.setting["noise"],
            line.setting["view"],
            *map(_number, (line.claimed, line.proven, line.attacked)),
            badge(line.verdict),
        ]
        for line in audit.lines
    ]
    heads = ["algorithm", "loss", "noise", "view", "ε claimed", "ε proven", "ε attacked, at least", "audit"]
    return table(heads, rows, "All attacks")


def kind_of(verdict: str) -> str:
    """A verdict of the audit without its power."""
    return verdict.partition(" (")[0]


def badge(verdict: str) -> Html:
    """A verdict of the audit, in its colour."""
    kind = kind_of(verdict)
    return tag("span", verdict, class_=f"verdict {_COLOURS.get(kind, 'open')}", data_kind=kind)


_COLOURS = {"consistent": "good", VIOLATED: "bad", "BUG": "bad", "no violation seen": "maybe"}
