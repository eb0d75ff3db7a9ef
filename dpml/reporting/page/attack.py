"""Claimed eps, proven eps and attacked eps of the papers' algorithms, from the rows of the audit."""

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

from dpml import paths
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
    """One line of the audit: an algorithm with its noise, and one of its views. A missing number is NaN.

    Args:
        claimed: eps, as published.
        proven: the smallest eps that is proven.
        attacked: a lower bound on eps, from an attack that distinguishes two neighbouring data sets.
        verdict: of the audit.
        setting: everything that identifies what was attacked: algo, variant, loss, noise, view, and its own options.
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
        """The claim's place in the paper, and its restrictions."""
        return self.source.partition(", ")[2]

    @property
    def what(self) -> str:
        """The algorithm, and the settings that distinguish its lines."""
        own = [f"{key}={value}" for key, value in self.setting.items() if "." in key and value]
        variant = [] if self.setting["variant"] == "paper" else [self.setting["variant"]]
        return " ".join([self.setting["algo"], *variant, *own])


@dataclass(frozen=True)
class Audit:
    """The audit's table, the setting that all its lines share, and the path of the table."""

    lines: Sequence[Attack] = ()
    same: str = ""
    figure: Figure | None = None

    def claims_of(self, paper: Paper) -> list[Attack]:
        """The lines about a paper's own claims: published noise, as the text defines it."""
        return [line for line in self.lines if line.claimed > 0 and line.proven > 0 and _cites(line.source, paper)]


def audit_of(figures: Iterable[Figure]) -> Audit:
    """The results of the audit; without lines if no figure is an audit's table.

    An audit's table is one whose rows have the metrics `proven` and `attacked`.
    """
    for figure in figures:
        if figure.wrong or figure.drawn:  # a figure with a picture, or a damaged one, is not an audit's table
            continue
        with suppress(UserError):
            rows = read_table(figure.file("csv"), (*_TEXTS, "metric", "mean"))
            if {"proven", "attacked"} <= set(rows["metric"]):
                return _audit(rows, figure)
    return Audit()


def _audit(rows: pd.DataFrame, figure: Figure) -> Audit:
    lines = overview(rows)
    lines = lines.assign(**{key: rows[key].iloc[0] for key in _TEXTS if key not in lines})  # the same in all lines
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
    """The source of each published guarantee of an algorithm, by view; empty if there is none in this version."""
    file = paths.folder("conf") / "algo" / f"{algo}.yaml"
    if not file.is_file():  # a user's own algorithm
        return {}
    kind = get_class(yaml.safe_load(file.read_text("utf-8"))["_target_"])
    few = {key: count for key, count in ROUNDS.items() if hasattr(kind, key)}
    problem = Problem(5, 10_000, 2, auxiliary=10, classes=2)
    for loss in ("logistic", "squared"):
        with suppress(UserError):  # the algorithm does not support this loss
            given = kind(LOSSES[loss], **few).guarantees(Budget(1.0, 1e-5), problem)
            return {one.view: one.source for one in given if one.basis == "published" and math.isfinite(one.eps)}
    return {}


def _cites(source: str, paper: Paper) -> bool:
    """Whether a source is the paper: same first author and same year."""
    first = [re.match(r"([^\W\d]+).*?\b(\d{4})\b", text) for text in (source, paper.title)]
    return all(first) and len({match.groups() for match in first if match}) == 1


def worst(lines: Sequence[Attack]) -> Attack | None:
    """The line with the proven eps furthest above its claim, among claims about a whole release if there are any."""
    whole = [line for line in lines if ": " not in line.source] or lines  # "Sec. 5.1: for one round"
    return max(whole, key=lambda line: (round(line.proven / line.claimed, 6), line.attacked), default=None)


def story(papers: Sequence[Paper], audit: Audit) -> Html:
    """A line per paper: its claim that is furthest from the proven eps, and the result of an attack on it."""
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
    """A logarithmic scale of eps that covers some values, except zeros."""

    def __init__(self, values: Iterable[float]) -> None:
        logs = [math.log10(value) for value in values if value > 0 and math.isfinite(value)]
        self._low, self._high = min(logs), max(logs)

    legend: ClassVar[str] = "| claimed  ● proven  ▲ reached"

    def _x(self, value: float) -> float:
        return _LEFT + _WIDE * (math.log10(value) - self._low) / ((self._high - self._low) or 1.0)

    def strip(self, line: Attack) -> Html:
        """The positions of a line's three values. The columns beside it show the same numbers."""
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
    """Every attacked claim of a paper, a line per algorithm and view."""
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
    """A verdict of the audit without the power of its test."""
    return verdict.partition(" (")[0]


def badge(verdict: str) -> Html:
    """A verdict of the audit, in its colour."""
    kind = kind_of(verdict)
    return tag("span", verdict, class_=f"verdict {_COLOURS.get(kind, 'open')}", data_kind=kind)


_COLOURS = {"consistent": "good", VIOLATED: "bad", "BUG": "bad", "no violation seen": "maybe"}
