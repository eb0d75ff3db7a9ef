"""The report's inputs: the manifests of experiments, and the files that they name."""

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import groupby
from pathlib import Path
from typing import Any

import pandas as pd

from dpml import paths
from dpml.config.compose import natural
from dpml.errors import UserError
from dpml.reporting.absent import not_computed
from dpml.reporting.charts import read_published
from dpml.reporting.manifest import changed, manifests
from dpml.reporting.page.markup import anchor
from dpml.running.spec import Panel

KINDS = ("csv", "md", "png", "svg")
"""The files of a figure that the report shows."""

# the fields of an experiment's manifest; a manifest of another version may lack some of them
_MANIFEST: dict[str, Any] = {
    "experiment": "", "title": "", "source": "", "note": "", "command": "",
    "panels": [], "claims": [], "rankings": [], "files": {}, "guarantees": {}, "skipped": {}, "environment": {},
}  # fmt: skip


@dataclass(frozen=True)
class Claim:
    """A claim and its verdict, as texts; a field that the manifest lacks is empty."""

    id: str
    text: str
    criterion: str
    decision: str
    numbers: str
    needed: str
    seeds: str


@dataclass(frozen=True)
class Figure:
    """The files ``target.csv .md .png .svg`` of an experiment: a table, and a picture if panels draw it.

    Args:
        target: their path without a suffix.
        calibrations: of the noise.
        twin: whether it is shown beside a figure of the published noise.
        wrong: which of its files were changed after they were written, in words.
    """

    target: Path
    calibrations: tuple[str, ...]
    twin: bool
    wrong: str

    @property
    def name(self) -> str:
        return self.target.name

    def file(self, kind: str) -> Path:
        return self.target.with_name(f"{self.name}.{kind}")

    def text(self, kind: str) -> str:
        """The content of one of its files; empty if it is missing, or if any of the files is damaged."""
        path = self.file(kind)
        return path.read_text("utf-8") if path.is_file() and not self.wrong else ""

    @property
    def drawn(self) -> bool:
        return not self.wrong and self.file("svg").is_file()


@dataclass(frozen=True)
class Experiment:
    """An experiment's manifest, its figures, and the points that others published about them."""

    about: Mapping[str, Any]
    claims: Sequence[Claim]
    figures: Sequence[Figure]
    published: pd.DataFrame

    @property
    def name(self) -> str:
        return str(self.about["experiment"])

    @property
    def short(self) -> str:
        """Its name without the paper's."""
        return self.name.rpartition("/")[2]

    @property
    def title(self) -> str:
        return self.about["title"] or self.name

    @property
    def panels(self) -> list[Panel]:
        """Its panels, without keys that this version does not support."""
        known = {field.name for field in fields(Panel)}
        return [
            Panel(**{key: value for key, value in panel.items() if key in known})
            for panel in self.about["panels"]
            if isinstance(panel, dict) and {"block", "x", "y"} <= panel.keys()
        ]


@dataclass(frozen=True)
class Paper:
    """The experiments of one folder: a paper, or a study of our own."""

    name: str
    experiments: Sequence[Experiment]

    @property
    def title(self) -> str:
        """The authors and the year, as the experiments cite the paper; without a citation, the folder's name."""
        cited = (re.match(r".*?\b\d{4}\b", experiment.about["source"]) for experiment in self.experiments)
        return next((match[0] for match in cited if match), self.name.capitalize())

    @property
    def page(self) -> str:
        """The name of its file."""
        return f"{anchor(self.name)}.html"

    @property
    def claims(self) -> list[Claim]:
        return [claim for experiment in self.experiments for claim in experiment.claims]


def read(results: Path, own: Sequence[Path]) -> list[Paper]:
    """Everything under a results folder by paper: papers with claims come first.

    Damaged files are reported on stderr, a line for every figure.

    Args:
        results: the folder with the outputs of experiments.
        own: the user's own folders of experiments, with their published points.

    Raises:
        UserError: there are no experiments.
    """
    known = manifests(results)
    if not known:
        raise UserError(
            f"there are no results of experiments in {results}: run one, dpml-run experiment=imtiaz2019/fig3"
        )
    absent = [about | {"title": f"{about['experiment']}: {about['title']}"} for about in not_computed(known)]
    folders = [*own, paths.folder("experiments")]
    papers = []
    for name, members in groupby(map(_whole, known), key=lambda about: _paper(about["experiment"])):
        published = read_published(folders, name)
        computed = [_experiment(about, results, published) for about in members]
        missing = [_whole(about) for about in absent if _paper(about["experiment"]) == name]
        whole = [*computed, *(_experiment(about, results, published) for about in missing)]
        papers.append(Paper(name, sorted(whole, key=lambda experiment: natural(experiment.name))))
    return sorted(papers, key=lambda paper: not paper.claims)


def _paper(name: str) -> str:
    return name.rpartition("/")[0] or name


def _whole(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """A manifest with every field that the report needs; a field that is missing or of another type is empty."""
    about = {
        key: value if isinstance(value := manifest.get(key), type(empty)) else empty for key, empty in _MANIFEST.items()
    }
    return about | {"experiment": str(manifest["experiment"])}


def _experiment(about: Mapping[str, Any], results: Path, published: pd.DataFrame) -> Experiment:
    claims = [
        Claim(*("" if claim.get(field.name) is None else str(claim[field.name]) for field in fields(Claim)))
        for claim in about["claims"]
        if isinstance(claim, dict)
    ]
    return Experiment(about, claims, _figures(about, results / about["experiment"]), published)


def _figures(about: Mapping[str, Any], base: Path) -> list[Figure]:
    """A figure for every calibration that has one of its own; a single figure may show all of them."""
    targets = {c: base if c == "published" else base.with_name(f"{base.name}_{c}") for c in about["guarantees"]}
    own = {c: target for c, target in targets.items() if f"{target.name}.csv" in about["files"]}
    if not own and f"{base.name}.csv" in about["files"]:
        own = {next(iter(targets), "published"): base}
    figures = []
    for calibration, target in own.items():
        together = (calibration,) if len(own) > 1 else tuple(targets)
        paths = [target.with_name(f"{target.name}.{kind}") for kind in KINDS]
        wrong = " and ".join(path.name for path in paths if changed(path, about["files"]))
        if wrong:
            print(f"note: {base.parent}: not as written: {wrong}; make it again: {about['command']}", file=sys.stderr)
        figures.append(Figure(target, together, target != base, wrong))
    return figures
