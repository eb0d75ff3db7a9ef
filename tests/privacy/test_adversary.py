"""How many parties collude: a setting that every view, calibration and attack reads."""

import math

import pytest
from examples import LOGISTIC

from dpml.algorithms.quadratic.functional_mechanism import FunctionalMechanism
from dpml.audit import audit
from dpml.errors import UserError
from dpml.privacy import Adversary, Budget, Problem


@pytest.mark.parametrize(
    ("given", "M", "colluders"),
    [
        *((None, M, colluders) for M, colluders in enumerate((0, 0, 0, 1, 1, 1, 2, 2, 2, 3), 1)),
        (0, 5, 0), (1, 3, 1), (2, 3, 2), (4.0, 5, 4), (0.5, 5, 2), (0.4, 5, 2), (0.99, 100, 99), (0.1, 7, 0),
    ],
)  # fmt: skip
def test_a_number_a_share_or_the_papers(given, M, colluders) -> None:
    assert Adversary(given).count(M) == colluders
    assert Problem(M, 10 * M, 2, colluders=colluders).honest == M - colluders


@pytest.mark.parametrize("given", [-1, 1.5, -0.1, math.inf, math.nan])
def test_what_is_no_number_of_parties_is_refused(given) -> None:
    with pytest.raises(UserError, match=r"adversary\.colluders must be a whole number"):
        Adversary(given)


def test_somebody_must_be_left_to_protect() -> None:
    with pytest.raises(UserError, match="leaves none of M=3 parties"):
        Adversary(3).count(3)


@pytest.mark.slow
def test_more_colluders_are_shown_more_by_the_attacked_pair(monkeypatch) -> None:
    monkeypatch.setattr("dpml.audit.search.TRIES", 5)  # the pair is the worst one as it is
    findings = {}
    for colluders in (0, 1, 2):
        problem = Problem(3, 15, 2, colluders=colluders)
        (found,) = (
            f
            for f in audit(FunctionalMechanism(LOGISTIC, sites="cape"), Budget(1.0, 1e-3), problem, 100, seed=1)
            if f.view == "colluders"
        )
        assert found.exact == pytest.approx(found.proven, rel=1e-3)  # the pair reaches what is proven
        findings[colluders] = found.exact
    assert findings[0] < findings[1] < findings[2]
