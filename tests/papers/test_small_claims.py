"""Claims about computed rows: drop-outs, the need of rho, auxiliary samples: both verdicts, and the numbers by hand."""

import math

import numpy as np
import pandas as pd
import pytest
from made_up import decide
from scipy.optimize import minimize

from dpml.packs.hamm2016 import auxiliary
from dpml.packs.imtiaz2019 import dropouts
from dpml.packs.rajkumar2012 import need_of_rho


def test_the_gain_is_that_of_all_sites_whoever_drops_out():
    """With n of 5 sites left: tau^2/n against tau^2/(5 n); the test has a false alarm in twenty, and this seed none."""
    rows = dropouts.noise_after_dropouts(5, [0, 1], samples=4_000)
    assert decide("IT.4", rows) == "reproduced"
    gains = rows.loc[rows["metric"] == "gain", "value"].to_numpy()
    assert gains == pytest.approx([5, 5], rel=5 * 2 / math.sqrt(4_000))
    assert rows.loc[rows["metric"] == "mu", "value"].to_list() == pytest.approx([1, math.sqrt(5 / 4)])
    fewer = rows.assign(value=rows["value"].where(rows["dropped"] == 0, rows["value"] * 0.8))  # the survivors' number
    assert decide("IT.4", fewer) == "not reproduced"
    assert decide("IT.4", rows[rows["dropped"] == 0]) == "cannot be tested here"


def test_without_rho_two_gradients_tell_a_row():
    rows = need_of_rho.guessing([0.2, 2.0], trials=6_000)
    assert decide("R3.3", rows) == "reproduced"
    shares = rows[rows["metric"] == "guessed"].set_index(["rho", "eps"])["value"]
    assert list(shares["without"]) == [1.0, 1.0]
    assert shares["with", 2.0] < 1 / (1 + math.exp(-4))
    for rho, value in (("without", 0.9), ("with", 0.99)):
        changed = rows["value"].where((rows["rho"] != rho) | (rows["metric"] != "guessed"), value)
        assert decide("R3.3", rows.assign(value=changed)) == "not reproduced"
    assert decide("R3.3", rows.iloc[:0]) == "cannot be tested here"


def test_minimisers_move_by_what_the_text_allows():
    rows = auxiliary.moves([4], tries=20)
    assert decide("H5.1", rows) == "reproduced"
    assert decide("H5.1", rows.assign(value=rows["value"] * 4)) == "not reproduced"
    assert decide("H5.1", pd.DataFrame(columns=["block"])) == "cannot be tested here"
    assert (rows["value"] > 0.2).all()  # changes that add up were among those tried


def test_the_minimiser_is_that_of_scipy():
    rng = np.random.default_rng(0)
    X, a = rng.standard_normal((12, 2)), rng.random(12)

    def risk(w):
        scores = X @ w
        return np.mean(a * np.logaddexp(0, -scores) + (1 - a) * np.logaddexp(0, scores)) + 0.25 * w @ w

    found = minimize(risk, np.zeros(2), tol=1e-12).x
    assert auxiliary._minimiser(X, a, 0.5) == pytest.approx(found, abs=1e-6)
