"""Claimed eps, proven eps and attacked eps of the papers' algorithms, from the rows of the audit."""

import math
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache

import pandas as pd
import yaml
from hydra.utils import get_class
from pandas.api.types import is_numeric_dtype

from dpml import paths
from dpml.audit import ROUNDS
from dpml.errors import UserError
from dpml.mechanism.declared import guaranteed
from dpml.optim.losses import LOSSES
from dpml.privacy import Budget, Problem
from dpml.reporting.outputs import FigureFiles, Paper
from dpml.reporting.tables import overview, read_table


@dataclass(frozen=True)
class AuditLine:
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
    def kind(self) -> str:
        """The verdict without the power of its test."""
        return self.verdict.partition(" (")[0]

    @property
    def what(self) -> str:
        """The algorithm, and the settings that distinguish its lines."""
        own = [f"{key}={value}" for key, value in self.setting.items() if "." in key and value]
        variant = [] if self.setting["variant"] == "paper" else [self.setting["variant"]]
        return " ".join([self.setting["algo"], *variant, *own])


@dataclass(frozen=True)
class Audit:
    """The audit's table, the setting that all its lines share, and the path of the table."""

    lines: Sequence[AuditLine] = ()
    same: str = ""
    figure: FigureFiles | None = None

    def claims_of(self, paper: Paper) -> list[AuditLine]:
        """The lines about a paper's own claims: published noise, as the text defines it."""
        return [line for line in self.lines if line.claimed > 0 and line.proven > 0 and _cites(line.source, paper)]


def audit_of(figures: Iterable[FigureFiles]) -> Audit:
    """The results of the audit; without lines if no figure is an audit's table.

    An audit's table is one whose rows have the metrics `proven` and `attacked`.
    """
    for figure in figures:
        if figure.damaged or figure.drawn:  # a figure with a picture, or a damaged one, is not an audit's table
            continue
        with suppress(UserError):
            rows = read_table(figure.file("csv"), (*_TEXTS, "metric", "mean"))
            if {"proven", "attacked"} <= set(rows["metric"]):
                return _audit(rows, figure)
    return Audit()


def _audit(rows: pd.DataFrame, figure: FigureFiles) -> Audit:
    lines = overview(rows)
    lines = lines.assign(**{key: rows[key].iloc[0] for key in _TEXTS if key not in lines})  # the same in all lines
    texts = [key for key in lines if not is_numeric_dtype(lines[key]) or key in _TEXTS]
    attacks = []
    for line in lines.to_dict("records"):
        setting = {str(key): "" if pd.isna(line[key]) else str(line[key]) for key in texts}
        claimed, proven, attacked = (float(line.get(key, math.nan)) for key in ("claimed", "proven", "attacked"))
        stated = setting["noise"] == "published" and setting["variant"] == "paper"
        source = _claims(setting["algo"]).get(setting["view"], "") if stated else ""
        attacks.append(AuditLine(claimed, proven, attacked, setting.pop("verdict"), setting, source))
    same = [f"{symbol} = {rows[key].iloc[0]:g}" for key, symbol in _SAME.items() if rows[key].nunique() == 1]
    return Audit(attacks, ", ".join(same), figure)


_TEXTS = ("algo", "variant", "loss", "noise", "view", "verdict")
_SAME = {"eps": "ε", "delta": "δ", "M": "M", "d": "d"}


@cache
def _claims(algo: str) -> dict[str, str]:
    """The source of each published guarantee of an algorithm, by view; empty if there is none in this version."""
    ours = {file.stem: file for file in (paths.folder("conf") / "algo").glob("*.yaml")}
    if algo not in ours:  # a user's own algorithm, or what somebody wrote into a table: it is no part of a path
        return {}
    own = yaml.safe_load(ours[algo].read_text("utf-8"))
    kind = get_class(own.pop("_target_"))
    few = {key: count for key, count in ROUNDS.items() if hasattr(kind, key)}
    problem = Problem(5, 10_000, 2, auxiliary=10, classes=2)
    for loss in ("logistic", "squared"):
        with suppress(UserError):  # the algorithm does not support this loss
            given = guaranteed(kind(LOSSES[loss], **own | few), Budget(1.0, 1e-5), problem)
            return {one.view: one.source for one in given if one.basis == "published" and math.isfinite(one.eps)}
    return {}


def _cites(source: str, paper: Paper) -> bool:
    """Whether a source is the paper: same first author and same year."""
    first = [re.match(r"([^\W\d]+).*?\b(\d{4})\b", text) for text in (source, paper.title)]
    return all(first) and len({match.groups() for match in first if match}) == 1


def worst(lines: Sequence[AuditLine]) -> AuditLine | None:
    """The line with the proven eps furthest above its claim, among claims about a whole release if there are any."""
    whole = [line for line in lines if ": " not in line.source] or lines  # "Sec. 5.1: for one round"
    return max(whole, key=lambda line: (round(line.proven / line.claimed, 6), line.attacked), default=None)


def worst_by_paper(papers: Sequence[Paper], audit: Audit) -> list[tuple[Paper, list[AuditLine], AuditLine]]:
    """Of every paper with attacked claims the lines about them, and the worst of these."""
    lines = [(paper, audit.claims_of(paper)) for paper in papers]
    return [(paper, own, line) for paper, own in lines if (line := worst(own))]


class LogScale:
    """Places on a logarithmic scale of eps, in pixels, that covers the values of some lines, except zeros."""

    left, width = 8.0, 144.0

    def __init__(self, lines: Iterable[AuditLine]) -> None:
        values = [value for line in lines for value in (line.claimed, line.proven, line.attacked)]
        logs = [math.log10(value) for value in values if value > 0 and math.isfinite(value)]
        self._low, self._high = min(logs, default=0.0), max(logs, default=0.0)

    def place(self, value: float) -> float | None:
        """Where a value is, None if it has no place."""
        if not (value > 0 and math.isfinite(value)):
            return None
        return self.left + self.width * (math.log10(value) - self._low) / ((self._high - self._low) or 1.0)
