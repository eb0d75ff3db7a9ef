"""`dpml guarantee` where the parties' sizes are not known: what it gives holds for all sizes, or it refuses."""

import json
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from harness import algorithms

from dpml.algorithms import Algorithm
from dpml.errors import UserError
from dpml.privacy import CALIBRATIONS, Budget, Problem, UnsizedProblem

OF_SIZES = {"jayaraman", "jayaraman_local", "la", "wddp"}


def with_calibrations(algorithm: Algorithm) -> list[Algorithm]:
    found = []
    for calibration in CALIBRATIONS:
        with suppress(UserError):
            found.append(replace(algorithm, calibration=calibration))
    assert found
    return found


@pytest.mark.parametrize(
    "algo", [pytest.param(algo, marks=[pytest.mark.slow] if algo == "psgd" else []) for algo in algorithms()]
)
def test_what_is_given_without_sizes_is_given_for_all_sizes(algo) -> None:
    problem, budget = Problem(7, 400, 12, auxiliary=50), Budget(0.5, 1e-5)
    unknown = UnsizedProblem(problem, "who knows")
    sizes = np.full(7, 1), np.array([100, 90, 80, 70, 40, 15, 5])
    sizes[0][-1] = 394
    for algorithm in with_calibrations(algorithms()[algo]):
        known = [algorithm.guarantees(budget, problem.of_sizes(each)) for each in sizes]
        assert all(problem.of_sizes(each).N == problem.N for each in sizes)
        if algo in OF_SIZES:
            with pytest.raises(UserError, match="who knows"):
                algorithm.guarantees(budget, unknown)
            if not algo.startswith("jayaraman") and algorithm.calibration == "published":
                assert known[0] != known[1]  # to refuse is right
        else:
            assert known == [algorithm.guarantees(budget, unknown)] * 2


@pytest.mark.slow
def test_parties_by_label_have_what_a_run_of_them_proves(run_command, tmp_path) -> None:
    words = ["dataset=wdbc", "algo=capefm,ssp", "partition=dirichlet", "partition.alpha=0.2", "M=6", "delta=1e-5"]
    assert run_command("dpml-run", "-m", *words, "calibration=tight", "draws=1", "hydra.sweep.dir=out").code == 0
    ran = pd.read_csv(tmp_path / "out" / "guarantees.csv")
    for algo, rows in ran.groupby("algo"):
        words[1] = f"algo={algo}"
        given = json.loads(run_command("dpml", "guarantee", *words, "calibration=tight", "--json").out)["views"]
        assert [entry["eps"] for entry in given] == pytest.approx(list(rows["eps"]), rel=1e-12)
        assert [entry["view"] for entry in given] == list(rows["view"])


@pytest.mark.parametrize(
    ("words", "given"),
    [
        (["partition=natural"], True),
        (["partition=natural", "algo=la"], False),
        (["partition=classes"], False),  # of rows that are nobody's it is not known how many there are
        (["partition=dirichlet", "algo=wddp"], False),
        (["partition=two_group", "algo=wddp"], True),
    ],
)
def test_a_refusal_is_one_sentence(run_command, words, given) -> None:
    done = run_command("dpml", "guarantee", "dataset=wdbc", "delta=1e-5", *words)
    assert (done.code == 0) == given
    if not given:
        assert done.err.count("\n") == 1
        assert words[0] in done.err
