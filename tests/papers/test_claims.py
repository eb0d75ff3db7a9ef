"""The claims that the shipped experiments name, and what else holds their files together."""

import hydra

from dpml import where
from dpml.cli.jobs import experiment_jobs
from dpml.config.compose import experiments_of, initialise
from dpml.reporting.judging import claims_of

ALL = ["experiment=all"]


def test_shipped_experiments_hang_together():
    """Every panel and claim is checked when an experiment is read; every claim is about the figure that names it."""
    with initialise():
        config = hydra.compose("config", ALL)
        jobs = experiment_jobs(config, ALL, [where.folder("experiments")])
    experiments = {job.publication.experiment.name: job.publication.experiment for job in jobs}
    assert list(experiments) == experiments_of(config)
    reasons = {point.reason for job in jobs for point in job.task.points if point.reason}
    assert all("is a reading of the published noise only" in reason for reason in reasons)  # no option is missing
    for name, experiment in experiments.items():
        text = where.folder("experiments").joinpath(f"{name}.yaml").read_text("utf-8")
        assert text.startswith(f"# To run: dpml-run experiment={name}")
        claims = claims_of(experiment.claims_from) if experiment.claims else {}
        assert {claims[claim].figure for claim in experiment.claims} <= {name}, name
