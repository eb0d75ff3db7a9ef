"""The outputs of experiments as pages show them: read from the manifests under a results folder, by paper."""

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import groupby
from pathlib import Path
from typing import Any

import pandas as pd

from dpml import packs
from dpml.config.compose import natural
from dpml.errors import UserError
from dpml.reporting.cards import claims_of
from dpml.reporting.charts import read_published
from dpml.reporting.claims import Decision, Verdict
from dpml.reporting.manifest import changed, manifests
from dpml.running.spec import Panel

NOT_TESTED: Decision = "cannot be tested here"

# the fields of an experiment's manifest; a manifest of another version may lack some of them
_MANIFEST: dict[str, Any] = {
    "experiment": "", "title": "", "source": "", "note": "", "command": "", "panels": [], "claims": [], "rankings": [],
    "files": {}, "figures": [], "skipped": {}, "environment": {},
}  # fmt: skip


@dataclass(frozen=True)
class FigureFiles:
    """The files ``NAME.csv .md .svg`` of a figure or table, and the content of its page.

    Args:
        folder: where they are.
        name: theirs, without a suffix.
        twin: its calibration, if it is shown beside a figure of the published noise.
        sections: the paragraphs and tables of its page (`dpml.reporting.sections`).
        damaged: which of the files were changed after they were written, in words.
    """

    folder: Path
    name: str
    twin: str | None
    sections: Sequence[Mapping[str, Any]]
    damaged: str

    def file(self, kind: str) -> Path:
        return self.folder / f"{self.name}.{kind}"

    @property
    def caption(self) -> str:
        """Its name, and its noise unless that is the published one."""
        return f"{self.name.removesuffix(f'_{self.twin}')}, {self.twin} noise" if self.twin else self.name

    @property
    def drawn(self) -> bool:
        return not self.damaged and self.file("svg").is_file()


@dataclass(frozen=True)
class Outputs:
    """An experiment's manifest, its verdicts and figures, and the points that others published about them."""

    about: Mapping[str, Any]
    verdicts: Sequence[Verdict]
    figures: Sequence[FigureFiles]
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

    @property
    def rankings(self) -> list[Mapping[str, Any]]:
        """Its rankings of algorithms, if there are any."""
        return [one for one in self.about["rankings"] if isinstance(one, dict) and one.get("choices")]

    @property
    def environment(self) -> str:
        """The commit and the versions that made it, in one line."""
        parts = [part for part in self.about["environment"].values() if isinstance(part, dict)]
        return ", ".join(f"{key} {value}" for part in parts for key, value in part.items() if value is not False)


@dataclass(frozen=True)
class Paper:
    """The experiments of one folder: a paper, or a study of our own."""

    name: str
    experiments: Sequence[Outputs]

    @property
    def title(self) -> str:
        """The authors and the year, as the experiments cite the paper; without a citation, the folder's name."""
        cited = (re.match(r".*?\b\d{4}\b", experiment.about["source"]) for experiment in self.experiments)
        return next((match[0] for match in cited if match), self.name.capitalize())

    @property
    def verdicts(self) -> list[Verdict]:
        return [verdict for experiment in self.experiments for verdict in experiment.verdicts]

    @property
    def figures(self) -> list[tuple[Outputs, FigureFiles]]:
        """All its figures, each with its experiment."""
        return [(experiment, figure) for experiment in self.experiments for figure in experiment.figures]

    @property
    def drawn(self) -> list[tuple[Outputs, FigureFiles]]:
        """Those of its figures that have a picture."""
        return [(experiment, figure) for experiment, figure in self.figures if figure.drawn]

    @property
    def ranked(self) -> list[Outputs]:
        """Its experiments that rank algorithms."""
        return [experiment for experiment in self.experiments if experiment.rankings]


def read(results: Path, own: Sequence[Path] = ()) -> list[Paper]:
    """Everything under a results folder by paper: papers with claims come first.

    Experiments of these papers that were not computed are there with their claims. Damaged files are reported on
    stderr, a line for every figure.

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
    missing = [about | {"title": f"{about['experiment']}: {about['title']}"} for about in not_computed(known)]
    papers = []
    whole = sorted(map(_whole, [*known, *missing]), key=lambda about: natural(about["experiment"]))
    for name, members in groupby(whole, key=lambda about: about["experiment"].rpartition("/")[0]):
        published = read_published([*own, packs.home(name).parent], name)
        papers.append(Paper(name, [_outputs(about, results, published) for about in members]))
    return sorted(papers, key=lambda paper: not paper.verdicts)


def _whole(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """A manifest with every field that pages need; a field that is missing or of another type is empty."""
    about = {
        key: value if isinstance(value := manifest.get(key), type(empty)) else empty for key, empty in _MANIFEST.items()
    }
    return about | {"experiment": str(manifest["experiment"])}


def _outputs(about: Mapping[str, Any], results: Path, published: pd.DataFrame) -> Outputs:
    folder = (results / about["experiment"]).parent
    verdicts = [Verdict.stored(claim) for claim in about["claims"] if isinstance(claim, dict)]
    figures = [_figure(figure, folder, about) for figure in about["figures"] if _is_own(figure, about["experiment"])]
    return Outputs(about, verdicts, figures, published)


def _is_own(figure: Any, experiment: str) -> bool:
    """Whether an entry of a manifest is a figure of its experiment: a manifest chooses no other file that is read."""
    stem = experiment.rpartition("/")[2]
    return (
        isinstance(figure, dict)
        and {"name", "twin", "sections"} <= set(figure)
        and figure["name"] in (stem, f"{stem}_tight", f"{stem}_published")
    )


def _figure(figure: Mapping[str, Any], folder: Path, about: Mapping[str, Any]) -> FigureFiles:
    paths = [folder / f"{figure['name']}.{kind}" for kind in ("csv", "md", "svg")]
    damaged = " and ".join(path.name for path in paths if changed(path, about["files"]))
    if damaged:
        print(f"note: {folder}: not as written: {damaged}; make it again: {about['command']}", file=sys.stderr)
    return FigureFiles(folder, figure["name"], figure["twin"], figure["sections"], damaged)


def not_computed(known: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Manifest entries for the experiments without a manifest, of papers that have at least one.

    The first line of an experiment's file says how to run it and what data it needs.
    """
    computed = {manifest["experiment"] for manifest in known}
    papers = {name.partition("/")[0] for name in computed}
    missing: dict[str, dict[str, Any]] = {}
    for claim in (claim for paper in sorted(papers) for claim in claims_of(paper).values()):
        file = packs.home(claim.figure.partition("/")[0]) / f"{claim.figure.partition('/')[2]}.yaml"
        if claim.figure in computed or not file.is_file():
            continue
        first = file.read_text(encoding="utf-8").partition("\n")[0]
        command, _, needs = first.removeprefix("# To run: ").partition("(")
        about = {"experiment": claim.figure, "title": "not computed here", "command": command.strip(), "claims": []}
        lacks = "not computed" + (f"; needs data_dir=DIR: {needs.rstrip(')')}" if needs else "")
        reading = {"name": "all", "metric": "", "outcome": NOT_TESTED, "lacks": [lacks], "groups": []}
        verdict = Verdict(claim.id, claim.text, claim.criterion, NOT_TESTED, [reading])
        missing.setdefault(claim.figure, about)["claims"].append(verdict.record)
    return list(missing.values())
