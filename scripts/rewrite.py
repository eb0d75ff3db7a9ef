"""Rewrite the texts of results/ from its rows, after a change of tests, words or drawing; no data sets are needed.

python scripts/rewrite.py                          # all verdicts and pages
python scripts/rewrite.py kang2019/fig1 ...        # and the pictures of these experiments

Pictures and rankings use the current points of others (published.csv, peers.csv). Numbers, and the commit that computed
them, do not change. Afterwards `dpml verify results` must succeed.
"""

import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd

from dpml import packs
from dpml.config import experiments
from dpml.files import write_atomically
from dpml.reporting import evidence
from dpml.reporting.artifacts import draw, write_claims
from dpml.reporting.cards import claims_about
from dpml.reporting.charts import points_of, read_published, titled
from dpml.reporting.manifest import Manifest, checksums, manifests
from dpml.reporting.pages import figure_page
from dpml.reporting.ranking import peers
from dpml.running.plan import Results
from dpml.running.spec import Experiment

RESULTS = Path(__file__).parents[1] / "results"


def rewrite(base: Path, about: dict[str, Any], pictures: bool) -> None:
    """Write new verdicts of the experiment at `base` into its manifest and pages; with `pictures`, redraw figures."""
    name, rows = about["experiment"], evidence.read_rows(base, about["files"])
    paper = name.partition("/")[0]
    points = read_published([packs.home(paper).parent], paper)
    written: list[Path] = []
    if pictures:
        files = experiments.files()
        experiment = titled(Experiment.from_content(name, experiments.content(name, files)), rows)
        about = about | said_in_files(about, experiment, points)
        for figure in about["figures"]:  # guarantees do not follow from rows
            kept = [section for section in figure["sections"] if section["title"] == "Guarantees"]
            results = Results(experiment, rows, pd.DataFrame(columns=["calibration"]), published=points)
            new, drawn, _ = draw(results, figure["twin"], base.with_name(figure["name"]))
            figure |= new | {"sections": [*kept, *new["sections"]]}
            written += drawn
    verdicts = evidence.judge(rows, [*claims_about(name).values()], about["panels"], points)  # also of new claims
    about = about | {"claims": [asdict(verdict) for verdict in verdicts]}
    for figure in about["figures"]:
        written.append(base.with_name(f"{figure['name']}.md"))
        write_atomically(written[-1], figure_page(about, figure))
    # checksums of files that are not published, such as plain rows, are kept
    sums = {name: found for name, found in checksums(written).items() if name in about["files"]}
    Manifest(base.with_suffix(".json")).keep(about | {"files": about["files"] | sums})


def said_in_files(about: Mapping[str, Any], experiment: Experiment, points: pd.DataFrame) -> dict[str, Any]:
    """Return the title, note and panels of the experiment's file, and the rankings with other programs' new points."""
    panels = [asdict(panel) for panel in experiment.panels]
    pairs = zip(about["panels"], experiment.panels, strict=bool(about["rankings"]))
    own = {(old["title"], old["y"].rpartition(".")[2]): new for old, new in pairs}
    rankings = []
    for ranking in about["rankings"]:
        panel = own[ranking["title"], ranking["metric"]]
        theirs = points_of(points, panel)
        choices = [choice | {"peers": peers(theirs, choice["eps"])} for choice in ranking["choices"]]
        rankings.append(ranking | {"title": panel.title, "choices": choices})
    return {"title": experiment.title, "note": experiment.note, "panels": panels, "rankings": rankings}


def main(names: list[str]) -> None:
    """Rewrite the texts of all experiments, and draw the named ones."""
    for about in manifests(RESULTS):
        rewrite(RESULTS / about["experiment"], about, about["experiment"] in names)
    write_claims(RESULTS)


if __name__ == "__main__":
    main(sys.argv[1:])
