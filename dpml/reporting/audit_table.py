"""The privacy claims of papers as the audit found them: claimed, proven and attacked eps of every algorithm."""

import math
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from hydra.utils import get_class

from dpml import paths
from dpml.audit import ROUNDS
from dpml.errors import UserError
from dpml.mechanism.declared import guaranteed
from dpml.optim.losses import LOSSES
from dpml.privacy import Budget, Problem
from dpml.privacy.safe import written, written_below
from dpml.reporting.manifest import Manifest, changed
from dpml.reporting.tables import overview, read_table
from dpml.reporting.words import WORDS, algorithm

_TEXTS = ("algo", "variant", "loss", "noise", "view", "verdict")


@dataclass(frozen=True)
class Audited:
    """A paper's privacy claim about one algorithm: the lines of the audit, the worst of them first.

    Args:
        algorithm: its display name.
        source: where the paper makes the claim.
        lines: of the audit, as plain values.
    """

    algorithm: str
    source: str
    lines: Sequence[dict[str, Any]]

    @property
    def name(self) -> str:
        """The display name at the beginning of a sentence."""
        own = self.algorithm
        return own if own != own.lower() else own[0].upper() + own[1:]

    @property
    def once(self) -> bool:
        """Whether the claim is about one round."""
        return ": " in self.source

    @property
    def where(self) -> str:
        """The place in the paper."""
        return re.split(r": | \(", self.source.partition(", ")[2])[0]

    @property
    def status(self) -> str:
        """``no`` if an attack exceeds the claim, ``open`` if no proof reaches it, otherwise ``yes``."""
        outcomes = [_status(line) for line in self.lines]
        return "open" if self.once else next(kind for kind in ("no", "open", "yes") if kind in outcomes)

    @property
    def symbol(self) -> str:
        return str(WORDS["privacy"][self.status][0])

    @property
    def word(self) -> str:
        return "claimed per round only" if self.once else str(WORDS["privacy"][self.status][1])

    @property
    def view(self) -> str:
        return seen_by(self.lines[0])

    @property
    def claimed(self) -> str:
        return f"{self.lines[0]['claimed']:g}"

    @property
    def proven(self) -> str:
        return written(self.lines[0]["proven"], 3)

    @property
    def attacked(self) -> str:
        return written_below(self.lines[0]["attacked"], 3)

    @property
    def table(self) -> list[list[str]]:
        """Every line: the adversary, the loss, the three values of eps, and a symbol."""
        return [
            [
                self.algorithm, seen_by(line), line["loss"], f"{line['claimed']:g}", written(line["proven"], 3),
                written_below(line["attacked"], 3), "!" if self.once else WORDS["privacy"][_status(line)][0],
            ]
            for line in self.lines
        ]  # fmt: skip


def seen_by(line: dict[str, Any]) -> str:
    """Return the adversary of a line in words."""
    return str(WORDS["views"].get(line["view"], line["view"]))


def _status(line: dict[str, Any]) -> str:
    if str(line["verdict"]).startswith("claim violated"):
        return "no"
    return "open" if line["proven"] > 1.0001 * line["claimed"] else "yes"


def audited(results: Path, title: str) -> list[Audited]:
    """Return the privacy claims of a paper, with this title, from the audit under a results folder; none without it."""
    path = results / "audit" / "all.csv"
    if not path.is_file() or changed(path, Manifest(path.with_suffix(".json")).read().get("files")):
        return []
    return [one for key, one in _claimed(path, path.stat().st_mtime_ns) if key == _cited(title)]


@cache
def _claimed(path: Path, _: int) -> list[tuple[tuple[str, ...], Audited]]:
    """The claims of all papers, each with the paper's first author and year."""
    rows = read_table(path, (*_TEXTS, "metric", "mean"), low_memory=False)
    lines = overview(rows)
    lines = lines.assign(**{key: rows[key].iloc[0] for key in _TEXTS if key not in lines})  # the same in all lines
    lines = lines[(lines["noise"] == "published") & (lines["variant"] == "paper") & (lines["claimed"] > 0)]
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for each in lines.to_dict("records"):
        line = {str(key): value for key, value in each.items()}
        source = _claims(str(line["algo"])).get(str(line["view"]), "")
        if source:
            found.setdefault((str(line["algo"]), re.sub(r" \(.*", "", source)), []).append(line)
    return [
        (_cited(source), Audited(algorithm(algo), source, sorted(own, key=_excess, reverse=True)))
        for (algo, source), own in found.items()
    ]


def _excess(line: dict[str, Any]) -> tuple[bool, float, float]:
    """By how much a line exceeds its claim: first whether an attack does, then the proof."""
    return line["attacked"] > line["claimed"], round(line["proven"] / line["claimed"], 6), line["attacked"]


def _cited(text: str) -> tuple[str, ...]:
    """The first author and the year in a citation or a title."""
    found = re.match(r"([^\W\d]+).*?\b(\d{4})\b", text)
    return found.groups() if found else (text,)


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
