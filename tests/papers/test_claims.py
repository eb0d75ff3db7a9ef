"""The claims that the shipped experiments name, and what else holds their files together."""

import pytest
from omegaconf import OmegaConf

from dpml import where
from dpml.reporting.artifacts import published
from dpml.reporting.figures import AXES
from dpml.reporting.judging import claims_of
from dpml.running.spec import Experiment, _parts

SHIPPED = sorted(
    f"{paper.name}/{figure.name.removesuffix('.yaml')}"
    for paper in where.folder("experiments").iterdir()
    for figure in paper.iterdir()
    if figure.name.endswith(".yaml")
)


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_experiments_hang_together(name):
    text = where.folder("experiments").joinpath(f"{name}.yaml").read_text("utf-8")
    assert text.startswith(f"# To run: dpml-run experiment={name}")
    experiment = Experiment.of(name, OmegaConf.to_container(OmegaConf.create(text)))
    if experiment.claims:
        claims = claims_of(f"dpml.papers.{name.partition('/')[0]}.claims")
        assert {claims[claim].figure for claim in experiment.claims} == {name}
    series = set(published(name)["series"])
    assert {panel.published for panel in experiment.panels if panel.published} <= series
    computed = {block.block for block in experiment.computed}
    cells = [panel for panel in experiment.panels if panel.block not in computed]
    settings = {key.rpartition(".")[2] for block in experiment.grid.values() for part in _parts(block) for key in part}
    assert {panel.x for panel in cells} <= {*AXES, "partition", "proven_eps", *settings}
