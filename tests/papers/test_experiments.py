"""The experiments that come with dpml: their files hang together, and templates are no experiments."""

from functools import cache

import pytest

from dpml import packs
from dpml.api.jobs import ask
from dpml.api.settings import Settings
from dpml.config.experiments import names, selected
from dpml.files import shipped_folder
from dpml.reporting.cards import card_of
from dpml.reporting.charts import read_published
from dpml.running.rows import COLUMNS
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


@pytest.mark.slow
@pytest.mark.parametrize("pack", PACKS)
def test_every_file_is_an_experiment_whose_options_exist(pack):
    assert set(plans(pack)) == {name for name in NAMES if name.startswith(f"{pack}/")}
    reasons = {point.reason for plan in plans(pack).values() for point in plan.points if point.reason}
    assert not any(reason.startswith("there is no ") for reason in reasons)  # no option is missing


@pytest.mark.parametrize("pack", PACKS)
def test_panels_have_their_points_and_name_settings_as_the_command_line_does(pack):
    for name, plan in plans(pack).items():
        experiment = plan.experiment
        series = {panel.published for panel in experiment.panels if panel.published is not None}
        if series:
            assert series <= set(read_published([shipped_folder("experiments")], pack)["series"]), name
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


def test_all_are_options_and_templates_are_not():
    assert set(selected("all")) == set(NAMES) == {name for name in names() if "/" in name}
    assert TEMPLATES
