"""The claims that the shipped experiments name, and what else holds their files together."""

import hydra
import pytest

from dpml import where
from dpml.cli.jobs import experiment_jobs
from dpml.config.compose import compose, experiments_of, initialise
from dpml.reporting.judging import claims_of

SHIPPED = experiments_of(compose(["experiment=all"]))


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_experiments_hang_together(name):
    """Every panel and claim is checked when the experiment is read; every claim is about the figure that names it."""
    text = where.folder("experiments").joinpath(f"{name}.yaml").read_text("utf-8")
    assert text.startswith(f"# To run: dpml-run experiment={name}")
    words = [f"experiment={name}"]
    with initialise():
        (job,) = experiment_jobs(hydra.compose("config", words), words, [where.folder("experiments")])
    experiment = job.publication.experiment
    if experiment.claims:
        claims = claims_of(experiment.claims_from)
        assert {claims[claim].figure for claim in experiment.claims} == {name}
