"""Hamm 2016: the exponents of what the noise costs, on planted powers."""

import pytest
from made_up import decide, joined, made_up

from dpml.reporting.cards import claims_of
from dpml.reporting.claims import Evidence

CLAIMS = claims_of("hamm2016")
MS, EPS = (25, 50, 100, 200), (0.1, 1.0, 10.0)


def planted(power, vote=0.0, noise=1e-3):
    """Gaps of 0.5 without noise and, with it, of powers of M and eps more."""
    grids = {"M": MS, "eps": EPS}
    free = {"soft": [0.5] * len(MS), "vote": [0.5] * len(MS)}
    over_M = {"soft": [0.5 + 1e3 * M**power for M in MS], "vote": [0.5 + 10.0 * M**vote for M in MS]}
    over_eps = {name: [0.5 + 10.0 * eps**power for eps in EPS] for name in ("soft", "vote")}
    tables = [made_up({"law_M": over_M}, grids, "optimality_gap", noise=noise),
              made_up({"law_eps": over_eps}, grids, "optimality_gap", noise=noise),
              made_up({"free_M": free}, grids, "optimality_gap", noise=1e-6)]  # fmt: skip
    found = joined(*tables)
    rows = found.rows.assign(block=found.rows["block"].replace("free_M", "law_free"))
    return Evidence(rows, found.published, found.axes | {"law_free": "M"})


@pytest.mark.parametrize(
    ("power", "vote", "by_eps", "by_M"),
    [
        (-2.0, 0.0, "reproduced", "reproduced"),
        (-1.8, 0.0, "not reproduced", "not reproduced"),
        (-2.0, -0.5, "reproduced", "not reproduced"),
    ],
)
def test_exponents(power, vote, by_eps, by_M):
    found = planted(power, vote)
    assert decide(CLAIMS["H6.1"], found) == by_eps
    assert decide(CLAIMS["H6.2"], found) == by_M
    verdict = CLAIMS["H6.2"].judge(found)
    assert verdict.deciding["effect"].startswith(f"exponent {power:.3f}"[:-1]) or vote
