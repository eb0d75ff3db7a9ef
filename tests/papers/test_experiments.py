"""The experiments that come with dpml: their files hang together, and templates are no experiments."""

import re
from functools import cache

import pandas as pd
import pytest

from dpml import packs
from dpml.api.jobs import ask
from dpml.api.settings import Settings
from dpml.config.experiments import names, selected
from dpml.data.sets.official import HAR, HAR73
from dpml.files import shipped_folder
from dpml.reporting.cards import card_of
from dpml.reporting.charts import read_published
from dpml.running.rows import COLUMNS, EPS
from dpml.running.spec import is_computed, parts

FILES = sorted(path for path in shipped_folder("experiments").glob("*/*.yaml") if path.name != "card.yaml")
NAMES = [f"{path.parent.name}/{path.stem}" for path in FILES if not path.name.startswith("_")]
TEMPLATES = [f"{path.parent.name}/{path.stem}" for path in FILES if path.name.startswith("_")]
DERIVED = {"inverse_eps"}  # axes that are computed from a column
MANY = "frontier", "imtiaz2019", "kang2019", "rajkumar2012"
PACKS = [
    pytest.param(pack, marks=[pytest.mark.slow] if pack in MANY else [])  # whose cells take seconds to list
    for pack in sorted({path.parent.name for path in FILES})
]


@cache  # few tests, because every worker that takes one of a pack composes it
def plans(pack):
    """By name, the jobs of a pack's experiments, composed once.

    Composing refuses unknown keys, blocks, settings and functions, panels of what no cell has, and unknown claims.
    """
    return {plan.experiment.name: plan for plan in ask(Settings([f"experiment={pack}"])).plans}


def experiments(pack):
    return {name: plan.experiment for name, plan in plans(pack).items()}


def cells(name):
    return [point.cell for point in plans(name.partition("/")[0])[name].points]


def test_all_are_those_of_every_pack():
    assert set(selected("all")) == set(NAMES)


@pytest.mark.slow
@pytest.mark.parametrize("pack", PACKS)
def test_every_file_says_how_it_is_run_and_has_the_options_that_it_names(pack):
    assert set(plans(pack)) == {name for name in NAMES if name.startswith(f"{pack}/")}
    for name in plans(pack):
        text = shipped_folder("experiments").joinpath(f"{name}.yaml").read_text("utf-8")
        assert text.startswith(f"# To run: dpml-run experiment={name}")
    reasons = {point.reason for plan in plans(pack).values() for point in plan.points if point.reason}
    assert all("is a reading of the published noise only" in reason for reason in reasons)  # no option is missing


@pytest.mark.parametrize("pack", PACKS)
def test_claims_and_published_points_are_there(pack):
    for name, experiment in experiments(pack).items():
        series = {panel.published for panel in experiment.panels if panel.published is not None}
        if series:
            points = read_published([shipped_folder("experiments")], name.split("/")[0])
            assert series <= set(points["series"]), name


@pytest.mark.parametrize("pack", PACKS)
def test_panels_name_settings_as_the_command_line_does(pack):
    for name, experiment in experiments(pack).items():
        for panel in experiment.panels:
            block = experiment.grid[panel.block]
            if is_computed(block):
                continue  # the columns of a function's rows are its own
            settings = {key for part in [experiment.settings, *parts(block)] for key in part}
            keys = {panel.x, *panel.curve, *panel.where}
            assert keys <= settings | set(COLUMNS) | DERIVED, name
            # a dotted setting goes by its whole name, also where a column of the rows has its last part
            assert not keys & {key.rpartition(".")[2] for key in settings if "." in key} - settings, name


def test_every_claim_of_a_paper_belongs_to_an_experiment():
    cards = {name: card_of(name) for name in packs.known()}
    assert {claim.figure for card in cards.values() for claim in card.claims.values()} <= set(NAMES)


def test_templates_are_not_among_the_options():
    listed = {name for name in names() if "/" in name}
    assert TEMPLATES
    assert listed == set(NAMES)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "M", "eps"),
    [("fig4", 2, 6), ("fig5", 2, 6), ("fig1", 32, 6), ("fig13", 32, 1), ("fig16", 8, 1)],
)
def test_a_figure_overrides_its_template(name, M, eps):
    experiment, own = experiments("kang2019")[f"kang2019/{name}"], cells(f"kang2019/{name}")
    # at one place; the floor stands at every u
    alone = ("wang",) if experiment.panels[0].x == "partition.u" else ("wang", "constant")
    assert {cell.M for cell in own if cell.algorithm.name not in alone} == {M}
    assert {cell.M for cell in own if cell.algorithm.name in alone} == {1}
    assert {len(cell.budgets) for cell in own} == {eps}
    assert {panel.y for panel in experiment.panels if panel.y not in EPS} == {
        "fig4": {"accuracy"}, "fig5": {"optimality_gap"}, "fig1": {"accuracy"}, "fig13": {"accuracy"},
        "fig16": {"optimality_gap"},
    }[name]  # fmt: skip


@pytest.mark.parametrize(("name", "dataset"), [("fig2", HAR), ("fig2_73of561", HAR73)])
def test_fig2_of_hamm_is_about_the_data_that_it_names(name, dataset):
    own = cells(f"hamm2016/{name}")
    assert {type(cell.dataset) for cell in own} == {dataset}
    # 10 trials without noise, 100 with
    trials = {}
    for cell in own:
        key = cell.algorithm.name, cell.algorithm.calibration
        trials[key] = trials.get(key, 0) + cell.draws
    assert trials == dict.fromkeys(((name, "published") for name in ("batch", "indiv", "constant")), 10) | {
        (name, calibration): 100 for name in ("soft", "avg", "vote") for calibration in ("published", "tight")
    }


def test_fig3_of_hamm_has_the_papers_sizes():
    own = cells("hamm2016/fig3")
    sizes = {(cell.M, cell.partition.n, round(494_021 * cell.partition.auxiliary)) for cell in own}
    assert sizes == {(5000, 22, 43_128), (10000, 22, 43_128), (20000, 22, 43_128)}
    other = plans("hamm2016")["hamm2016/fig4"].points
    ours = {cell for cell in own if cell.algorithm.calibration == "published"}
    assert ours == {point.cell for point in other if point.block.startswith("kdd")}  # computed once for both


@pytest.mark.slow
def test_figures_3_and_7_of_imtiaz_share_their_cells():
    assert set(cells("imtiaz2019/fig3")) <= set(cells("imtiaz2019/fig7"))


@pytest.mark.parametrize("pack", PACKS)
def test_every_metric_is_explained_by_the_reference_or_by_the_card_of_its_pack(pack):
    page = (shipped_folder("experiments").parent / "docs/howto/algorithms.md").read_text("utf-8")
    general = set(re.findall(r"`(\w+)`", page))
    found = set()
    for name, experiment in experiments(pack).items():
        kept = {panel.y for panel in experiment.panels}
        kept |= {metric.rpartition(".")[2] for metric in experiment.metrics}
        path = shipped_folder("experiments").parent / "results" / f"{name}.csv"
        kept |= set(pd.read_csv(path, usecols=["metric"], dtype=str)["metric"].dropna()) if path.is_file() else set()
        found |= kept - general - set(EPS)
    card = card_of(pack)
    assert found == (set(card.metrics) if card else set())


@pytest.mark.slow
def test_figures_of_one_setting_share_their_cells():
    """Accuracy and gap come from the same runs; and one place is the same for every number of clients."""
    for one, other in (("fig1", "fig3"), ("fig2", "fig12"), ("fig13", "fig14"), ("fig15", "fig16")):
        assert cells(f"kang2019/{one}") == cells(f"kang2019/{other}")
    alone, fewer = (
        [cell for cell in cells(f"kang2019/{name}") if cell.algorithm.name == "wang"] for name in ("fig1", "fig4")
    )
    assert alone == fewer
