"""What results/ says, made again from its rows, after a change of what judges, words or draws them; no data are needed.

python scripts/rewrite.py                          # verdicts, and the pages that have them
python scripts/rewrite.py kang2019/fig1 ...        # and the pictures of these

The pictures, and the tables of which algorithm when, have the points of others (published.csv, peers.csv) as they are
now. Numbers, and the commit that they are of, stay as they are. `dpml verify results` must find nothing afterwards.
"""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import hydra
import pandas as pd
from omegaconf import OmegaConf

from dpml import packs
from dpml.config.compose import PACKAGE, initialise
from dpml.files import write_atomically
from dpml.reporting import evidence
from dpml.reporting.artifacts import write_claims
from dpml.reporting.cards import claims_about
from dpml.reporting.charts import points_of, read_published, shown
from dpml.reporting.figures import plot_experiment
from dpml.reporting.manifest import Manifest, checksums, manifests
from dpml.reporting.modified import titled
from dpml.reporting.pages import figure_page
from dpml.reporting.panels import Chart
from dpml.reporting.ranking import peers
from dpml.reporting.results import Publication, Results, rows_of
from dpml.reporting.sections import sections
from dpml.reporting.statistics import with_differences
from dpml.running.expansion import Expansion
from dpml.running.spec import Experiment, Panel

RESULTS = Path(__file__).parents[1] / "results"


def rewrite(base: Path, about: dict[str, Any], pictures: bool) -> None:
    """Write the verdicts of an experiment into its manifest and pages; with `pictures` also its figures and tables.

    Args:
        base: the figure's path, without a suffix.
        about: the manifest's content.
        pictures: whether to draw.
    """
    rows = evidence.read_rows(base, about["files"])
    paper = about["experiment"].partition("/")[0]
    points = read_published([packs.home(paper).parent], paper)
    experiment = as_in_files(about["experiment"]) if pictures else None
    if experiment:
        about = about | said_in_files(about, experiment, points)
    claims = [*claims_about(about["experiment"]).values()]  # new ones, too
    verdicts = evidence.judge(rows, claims, about["panels"], points)
    about = about | {"claims": [verdict.record for verdict in verdicts]}
    written: list[Path] = []
    for one in about["figures"]:
        target = base.with_name(one["name"])
        if experiment:
            written += redraw(Publication(experiment, about["command"], points), about, one, rows, target)
        page = target.with_name(f"{target.name}.md")
        write_atomically(page, figure_page(about, one))
        written.append(page)
    # of files that are not published, such as plain rows, the checksums of what there was stay
    sums = {name: found for name, found in checksums(written).items() if name in about["files"]}
    Manifest(base.with_suffix(".json")).keep(about | {"files": about["files"] | sums})


def redraw(
    publication: Publication, about: Mapping[str, Any], figure: dict[str, Any], rows: pd.DataFrame, target: Path
) -> list[Path]:
    """Draw a figure; make its caption and its tables again, except guarantees, which do not follow from rows."""
    twins = any(one["twin"] for one in about["figures"])
    part = rows_of(rows, figure["twin"] or "published") if twins else rows
    summary = with_differences(part, about["reference"], about["computed"])
    charts = [
        Chart(panel, table, None if figure["twin"] else points_of(publication.points, panel))
        for panel in (Panel(**content) for content in about["panels"])
        if len(table := shown(summary, panel))
    ]
    kept = [section for section in figure["sections"] if section["title"] == "Guarantees"]
    figure["sections"] = [*kept, *sections(Results(publication, part, pd.DataFrame(), {}), charts, summary)]
    columns = publication.experiment.columns
    files, figure["caption"] = plot_experiment(charts, columns, target) if charts else ([], "")
    return files


def as_in_files(name: str) -> Experiment:
    """Return the experiment as its file and their templates have it now, with the settings in its titles."""
    words = [f"{PACKAGE}={name}"]
    with initialise():
        config = hydra.compose("config", words)
        content: Any = OmegaConf.to_container(config[PACKAGE], resolve=True)
        experiment = Experiment.from_content(name, content)
        return titled(experiment, Expansion.from_config(config, words).experiment(experiment))


def said_in_files(about: Mapping[str, Any], experiment: Experiment, points: pd.DataFrame) -> dict[str, Any]:
    """Return the words of an experiment as its file has them, the series of points, and rankings with these points."""
    panels = [
        panel | {key: getattr(new, key) for key in ("published", "title", "ylim")}
        for panel, new in zip(about["panels"], experiment.panels, strict=True)
    ]
    own = {(one["title"], one["y"].rpartition(".")[2]): points_of(points, Panel(**one)) for one in panels}
    rankings = [
        ranking
        | {
            "choices": [
                choice | {"peers": peers(own[ranking["title"], ranking["metric"]], choice["eps"])}
                for choice in ranking["choices"]
            ]
        }
        for ranking in about["rankings"]
    ]
    facts = {key: getattr(experiment, key) for key in ("title", "source", "note")}
    return {**facts, "panels": panels, "rankings": rankings}


def main(names: list[str]) -> None:
    """Make again what all experiments say; draw those that are named."""
    for about in manifests(RESULTS):
        rewrite(RESULTS / about["experiment"], about, about["experiment"] in names)
    write_claims(RESULTS)


if __name__ == "__main__":
    main(sys.argv[1:])
