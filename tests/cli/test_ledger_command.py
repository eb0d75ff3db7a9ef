"""`dpml ledger` as a user meets it."""

import json
import math

import pytest

from dpml.privacy import Guarantee, gdp
from dpml.privacy.safe import written
from dpml.release.ledger import Cap, Ledger


@pytest.fixture
def ledger(tmp_path):
    ledger = Ledger(tmp_path / "people.csv.ledger")
    views = [Guarantee(v, "sample", gdp.eps_of(mu, 1e-5), 1e-5, "proven", "x", mu) for v, mu in _MUS.items()]
    first = ledger.enter("algo=ssp eps=1", views, Cap(20.0, 1e-5))
    ledger.publish(first, "b" * 64)
    ledger.enter("algo=ssp eps=1", views)
    return ledger


_MUS = {"release": 0.3, "colluders": 0.5}


def test_it_says_what_was_released_and_what_it_adds_up_to(run_command, ledger) -> None:
    done = run_command("dpml", "ledger", str(ledger.path))
    assert done.code == 0, done.err
    text = " ".join(done.out.split())
    for audience, mu in (("those who see what is published", 0.3), ("the worst view of every release", 0.5)):
        eps = gdp.eps_of(mu * math.sqrt(2), 1e-5)
        assert f"All releases together, for one sample and {audience}: eps = {written(eps)} at delta = 1e-05." in text
    assert "The cap holds even if earlier results chose them." in text
    assert "ssp" in done.out.splitlines()[3].split()  # the algorithm
    assert "Cap for one sample: eps = 20 at delta = 1e-05." in text
    assert "Release 2: not published, but accounted for" in text


def test_as_json_at_another_delta(run_command, ledger) -> None:
    views = [Guarantee(view, "sample", 1.0, 0.0, "proven", 'of "Infinity"') for view in _MUS]

    def shown(*words):
        return json.loads(run_command("dpml", "ledger", str(ledger.path), "--json", *words).out)

    whole = shown("--delta", "1e-7")
    assert [release["model"] for release in whole["releases"]] == ["b" * 64, None]
    eps = pytest.approx(gdp.eps_of(0.3 * math.sqrt(2), 1e-7))
    assert whole["totals"][0] == {"unit": "sample", "audience": "release", "eps": eps, "delta": 1e-7}
    assert whole["caps"] == [{"eps": 20.0, "delta": 1e-5, "unit": "sample"}]
    ledger.publish(ledger.enter("dataset.label=Infinity", views), "c" * 64)
    entry = shown()["releases"][-1]  # a text about infinity is as it was
    assert (entry["setting"], entry["guarantees"][0]["source"]) == ("dataset.label=Infinity", 'of "Infinity"')
