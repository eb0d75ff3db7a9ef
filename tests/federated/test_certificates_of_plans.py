"""A plan's certificate is accepted, and not a thousandth less: also for those that count on parties who drop out."""

import json
import math
from fractions import Fraction

import pytest
from examples_federated import plan_of

from dpml.privacy import gdp
from dpml.release import verify


@pytest.mark.parametrize(("colluders", "dropouts"), [(1, 0), (1, 1)])
@pytest.mark.parametrize(
    "words",
    [
        ("algo=ssp",),
        ("algo=dpgd", "algo.unit=party", "algo.noise=discrete"),
        ("algo=wdgd", "algo.noise=discrete", "count_errors=0.5"),
    ],
)
def test_every_view_has_the_noise_of_those_that_are_left(words, colluders, dropouts) -> None:
    plan = plan_of(words, colluders, dropouts)
    made = json.loads(json.dumps(plan.facts.certificate))
    results = verify.verify(made)
    assert [(view, float(eps)) for view, eps, _ in results] == [(each.view, each.eps) for each in plan.guarantees]
    assert all(stated == proven for _, stated, proven in results)
    M = len(plan.seats)
    colluding = {each.view: each for each in plan.facts.given}["colluders"]
    for view, _, _ in results:
        # as much of the noise is unknown as parties are left that do not collude
        left = M - dropouts - (colluders if view == "colluders" else 0)
        eps = gdp.eps_of(colluding.mu * math.sqrt((M - colluders - dropouts) / left), made["delta"])
        at = verify.total(made["messages"], verify.unknown_noise(made["noise"], view)).delta
        delta = Fraction(made["delta"])
        assert at(Fraction(eps) * Fraction(999, 1000)) > delta >= at(Fraction(eps) * Fraction(1001, 1000))
