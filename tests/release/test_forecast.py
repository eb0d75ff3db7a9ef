"""What accuracy is forecast, before any budget is spent."""

import runpy
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from dpml.algorithms.descent.whitened import WhitenedDescent
from dpml.optim.losses import LOSSES
from dpml.privacy import Budget, Problem, gdp
from dpml.release.forecast import TABLE, Forecast, LookAlike, forecast, look_alikes, reach

ROOT = Path(__file__).parents[2]
DELTA = 1e-5


def wdgd(loss="logistic", **options):
    return WhitenedDescent(LOSSES[loss], **options)


def test_a_curve_is_read_between_what_was_tried_and_not_far_outside():
    table = LookAlike("t", "binary", (1.0, 10.0, 100.0), (0.0, 0.4, 1.0), (False, True, True))
    assert table.at(np.sqrt(10)) == pytest.approx((0.2, False))
    assert table.at(np.sqrt(1000)) == pytest.approx((0.7, True))
    assert table.at(0.6) == (0.0, False)
    assert table.at(1e9) == (1.0, True)
    assert table.at(0.4) is None


def test_the_reach_is_rows_times_mu_over_features():
    mu = gdp.mu_of(0.5, DELTA)
    one = reach(Budget(0.5, DELTA), Problem(1, 3000, 20), wdgd())
    assert 0.9997 < one / (3000 * mu / 20) < 1  # less what rounding moves
    party = reach(Budget(0.5, DELTA), Problem(50, 3000, 20, colluders=10), wdgd(unit="party"))
    assert 0.9997 < party / (50 * mu * np.sqrt(40 / 50) / 20) < 1


@pytest.mark.parametrize("loss", ["logistic", "softmax", "squared"])
def test_more_rows_are_better_and_very_few_are_no_better_than_a_constant(loss):
    few = forecast(Budget(0.1, DELTA), Problem(1, 600, 60), wdgd(loss))
    many = forecast(Budget(4.0, DELTA), Problem(1, 20_000, 60), wdgd(loss))
    middle = [np.median([share for _, share in found.shares]) for found in (few, many)]
    assert middle[0] < 0.5 < 0.8 < middle[1]
    assert many.beaten > len(many.shares) / 2
    assert "Expect no better than a constant" not in " ".join(many.sentences)


def test_what_is_said_is_of_the_tables_that_were_tried_near():
    found = Forecast(12.3, "regression", (("a", 0.1), ("b", 0.4), ("c", 0.8)), beaten=1)
    said = " ".join(found.sentences)
    assert "n mu/d = 12.3" in said
    assert "On 3 public tables wdgd reached 40% of the squared error below the mean's" in said
    assert "the middle half 25% to 60%; a 10%, b 40%, c 80%" in said
    assert "on 1 of them. Expect no better than a constant" in said
    nothing = forecast(Budget(1.0, DELTA), Problem(1, 10, 1000), wdgd())
    assert "nothing is forecast" in " ".join(nothing.sentences)


def test_a_forecast_leaves_each_table_out_and_is_near_what_it_showed():
    """The median of the other tables is within .35 of the share on a table, for three points in four."""
    tables = look_alikes()
    misses = []
    for own in tables:
        for x, share in zip(own.x, own.share, strict=True):
            others = [at[0] for each in tables if each.task == own.task and each is not own and (at := each.at(x))]
            if len(others) >= 3:
                misses.append(abs(np.median(np.clip(others, 0, 1)) - np.clip(share, 0, 1)))
    assert len(misses) > 40
    assert np.mean(np.array(misses) < 0.35) > 0.75


def test_the_file_is_what_the_results_say():
    script = runpy.run_path(str(ROOT / "scripts" / "look_alikes.py"))
    if not script["RESULTS"].exists():
        pytest.skip("an sdist has no results")
    assert TABLE.read_text() == script["table"]()
    assert set(pd.read_csv(TABLE)["task"]) == {"binary", "multiclass", "regression"}


def test_the_command_reads_no_row_and_says_what_it_cannot_forecast(run_command):
    done = run_command("dpml", "forecast", "loss=logistic", "M=1", "N=4000", "d=30", "eps=0.5", "delta=1e-5")
    assert done.code == 0
    assert "public tables wdgd reached" in " ".join(done.out.split())
    for words, message in (
        (("algo=ssp",), "only algo=wdgd was tried"),
        (("eps=inf",), "spends no budget"),
        (("epsilon=1",), "eps"),
    ):
        failed = run_command("dpml", "forecast", "loss=logistic", "M=1", "N=4000", "d=30", "delta=1e-5", *words)
        assert failed.code == 2
        assert message in " ".join(failed.err.split())
