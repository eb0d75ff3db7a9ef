"""Table 1: the measured bytes follow the stated form, and the claim on them can fail."""

import numpy as np
import pandas as pd
import pytest

from dpml.protocols.costs import communication, exponents
from dpml.reporting.judging import Evidence, claims_of

FEW = {"everybody": [4, 8, 16], "ring": [], "d": [10, 1000, 100_000]}


@pytest.fixture(scope="module")
def slopes() -> pd.DataFrame:
    return exponents(**FEW)


def test_bytes_are_those_of_a_formula(slopes) -> None:
    table = communication(**FEW).set_index(["M", "d", "metric"])["value"]
    for M in FEW["everybody"]:
        for d in FEW["d"]:  # the formulas of test_secagg's count, added up
            site = 7 * 29 + 100 + 44 * M + 252 * (M - 1) + 8 * d
            assert table[M, d, "site_bytes"] == site
            assert table[M, d, "aggregator_bytes"] == M * site
            assert table[M, d, "degree"] == M - 1


def test_slopes_and_the_stated_form(slopes) -> None:
    found = slopes.set_index(["who", "metric"])["value"]
    assert found["site", "in_d"] == pytest.approx(found["aggregator", "in_d"])
    assert found["aggregator", "in_M"] == pytest.approx(found["site", "in_M"] + 1)
    assert 0.5 < found["site", "in_d"] < 1
    assert max(found["site", "misfit"], found["aggregator", "misfit"]) < 1e-9


def test_the_claim_follows_from_rows(slopes) -> None:
    claim = claims_of("dpml.papers.imtiaz2019.claims")["IT.2"]
    rows = pd.concat([slopes, slopes.assign(algo="ring")])
    none = pd.DataFrame()
    assert claim.judge(Evidence(rows, none)).decision == "reproduced"
    worse = rows.assign(value=rows["value"] + np.where(rows["metric"] == "in_M", 0.7, 0.0))
    assert claim.judge(Evidence(worse, none)).decision == "not reproduced"
    misfit = rows.assign(value=rows["value"] + np.where(rows["metric"] == "misfit", 0.02, 0.0))
    assert claim.judge(Evidence(misfit, none)).decision == "not reproduced"
