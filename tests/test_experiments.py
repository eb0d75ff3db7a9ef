"""The experiments that come with dpml: their files hang together, and templates are no experiments."""

import importlib
from functools import cache

import pytest
from hydra import compose
from hydra.core.global_hydra import GlobalHydra
from omegaconf import OmegaConf

from dpml import where
from dpml.config.compose import initialise
from dpml.reporting.charts import read_published
from dpml.running.expansion import Expansion
from dpml.running.rows import COLUMNS, EPS
from dpml.running.spec import Experiment

FILES = sorted(where.folder("experiments").glob("*/*.yaml"))
NAMES = [f"{path.parent.name}/{path.stem}" for path in FILES if not path.name.startswith("_")]
TEMPLATES = [f"{path.parent.name}/{path.stem}" for path in FILES if path.name.startswith("_")]
DERIVED = {"inverse_eps"}  # axes that are computed from a column


@pytest.fixture(scope="module", autouse=True)
def hydra_is_initialised():
    with initialise():
        yield


@cache
def content_of(name):
    return OmegaConf.to_container(compose("config", overrides=[f"experiment={name}"]).experiment, resolve=True)


@cache
def cells_of(name):
    experiment = Experiment.from_content(name, content_of(name))
    points = Expansion.from_config(compose("config"), [f"experiment={name}"]).experiment(experiment)
    return experiment, [point.cell for point in points]


@pytest.mark.parametrize("name", NAMES)
def test_a_file_says_how_it_is_run_and_its_experiment_is_complete(name):
    path = where.folder("experiments") / f"{name}.yaml"
    assert path.read_text("utf-8").startswith(f"# To run: dpml-run experiment={name}")
    Experiment.from_content(name, content_of(name))  # refuses unknown keys, blocks, settings and functions


@pytest.mark.parametrize("name", NAMES)
def test_claims_and_published_points_are_there(name):
    content = content_of(name)
    wanted = content.get("claims", [])
    if wanted:
        claims = {claim.id: claim for claim in importlib.import_module(content["claims_from"]).CLAIMS}
        assert {claims[claim].figure for claim in wanted} == {name}
    series = {panel["published"] for panel in content["panels"] if "published" in panel}
    if series:
        points = read_published([where.folder("experiments")], name.split("/")[0])
        assert series <= set(points["series"])


@pytest.mark.parametrize("name", NAMES)
def test_panels_name_settings_as_the_command_line_does(name):
    content = content_of(name)
    for panel in content["panels"]:
        block = content["grid"][panel["block"]]
        if "_target_" in block:
            continue  # the columns of a function's rows are its own
        settings = {
            key for part in [content["settings"], *([block] if isinstance(block, dict) else block)] for key in part
        }
        keys = {panel["x"], *panel.get("curve", ()), *panel.get("where", ())}
        assert keys <= settings | set(COLUMNS) | DERIVED
        # a dotted setting goes by its whole name, also where a column of the rows has its last part
        assert not keys & {key.rpartition(".")[2] for key in settings if "." in key} - settings


def test_every_claim_of_a_paper_belongs_to_an_experiment():
    contents = [content_of(name) for name in NAMES]
    modules = {content["claims_from"] for content in contents if content.get("claims")}
    known = {claim.id for module in modules for claim in importlib.import_module(module).CLAIMS}
    assert known == {claim for content in contents for claim in content.get("claims", [])}


def test_templates_are_not_among_the_options():
    loader = GlobalHydra.instance().config_loader()
    papers = {path.parent.name for path in FILES}
    listed = {f"{paper}/{name}" for paper in papers for name in loader.get_group_options(f"experiment/{paper}")}
    assert TEMPLATES
    assert listed == set(NAMES)


@pytest.mark.parametrize(
    ("name", "M", "eps"),
    [("fig4", 2, 6), ("fig5", 2, 6), ("fig1", 32, 6), ("fig13", 32, 1), ("fig16", 8, 1)],
)
def test_a_figure_overrides_its_template(name, M, eps):
    experiment, cells = cells_of(f"kang2019/{name}")
    # at one place; the floor stands at every u
    alone = ("wang",) if experiment.panels[0].x == "partition.u" else ("wang", "constant")
    assert {cell.M for cell in cells if cell.algorithm.name not in alone} == {M}
    assert {cell.M for cell in cells if cell.algorithm.name in alone} == {1}
    assert {len(cell.budgets) for cell in cells} == {eps}
    assert {panel.y for panel in experiment.panels if panel.y not in EPS} == {
        "fig4": {"accuracy"}, "fig5": {"optimality_gap"}, "fig1": {"accuracy"}, "fig13": {"accuracy"},
        "fig16": {"optimality_gap"},
    }[name]  # fmt: skip


def test_figures_3_and_7_of_imtiaz_share_their_cells():
    _, third = cells_of("imtiaz2019/fig3")
    _, seventh = cells_of("imtiaz2019/fig7")
    assert set(third) <= set(seventh)


def test_the_page_of_metrics_explains_each_that_an_experiment_keeps():
    page = (where.folder("experiments").parent / "docs/howto/algorithms.md").read_text("utf-8")
    table = page.split("| metric | meaning |")[1].split("\n\n")[0]
    kept = set()
    for content in map(content_of, NAMES):
        cells = {block for block, settings in content["grid"].items() if "_target_" not in settings}
        kept |= {panel["y"] for panel in content["panels"] if panel["block"] in cells}
        kept |= set(content.get("metrics", [])) if cells else set()
    named = {name.rpartition(".")[2] for name in kept - set(EPS)}  # as the rows name it
    assert {name for name in named if f"`{name}`" not in table} == set()


@pytest.mark.parametrize(
    ("one", "other"), [("fig1", "fig3"), ("fig2", "fig12"), ("fig13", "fig14"), ("fig15", "fig16")]
)
def test_figures_of_one_setting_share_their_cells(one, other):
    """Accuracy and gap come from the same runs; and one place is the same for every number of clients."""
    (_, first), (_, second), (_, fewer) = (cells_of(f"kang2019/{name}") for name in (one, other, "fig4"))
    assert first == second
    if one == "fig1":
        assert [c for c in first if c.algorithm.name == "wang"] == [c for c in fewer if c.algorithm.name == "wang"]
