"""The table of a run or a sweep, and the numbers of its columns."""

import math
import re

import numpy as np
import pandas as pd
import pytest
from harness import made_rows
from hypothesis import given
from hypothesis import strategies as st

from dpml.reporting.numerals import SUPERSCRIPTS, number, tex_number
from dpml.reporting.run_table import run_table
from dpml.reporting.statistics import summarise

SIZES = st.floats(1e-30, 1e30)


def read(cell: str) -> tuple[float, float]:
    """A number of a table and its half, read as a person does."""
    found = re.fullmatch(r"\(?(-?[\d.]+)(?: ± ([\d.]+))?\)?(?:·10(.+))?", cell)
    assert found, cell
    power = int("".join(SUPERSCRIPTS[digit] for digit in found[3])) if found[3] else 0
    return float(found[1]) * 10.0**power, float(found[2] or "nan") * 10.0**power


@pytest.mark.slow
@given(st.sampled_from([-1, 1]), SIZES, st.one_of(st.just(math.nan), SIZES))
def test_a_table_says_every_number_to_its_last_digit(sign, size, half):
    mean, cell = sign * size, number(sign * size, half)
    written_mean, written_half = read(cell)
    if math.isnan(half):
        assert "±" not in cell
        assert written_mean == pytest.approx(mean, rel=0.0051)
    else:
        assert written_half == pytest.approx(half, rel=0.051)
        assert abs(written_mean - mean) <= 0.06 * half + 1e-12 * abs(mean)


def test_numbers_without_an_interval():
    assert [number(value) for value in (math.nan, math.inf, 0.0, 5.0)] == ["NaN", "∞", "0", "5.00"]


@pytest.mark.parametrize(
    ("text", "tex"),
    [
        ("0.916 ± 0.003", r"\num{0.916 +- 0.003}"), ("-0.5", r"\num{-0.5}"), ("1e-05", r"\num{1 e-5}"), ("inf", None),
        ("(-1.2 ± 3.0)·10⁻²²", r"\num{-1.2 +- 3.0 e-22}"), ("1.5·10⁶", r"\num{1.5 e6}"), ("a ± b", None), ("", None),
    ],
)  # fmt: skip
def test_numbers_for_siunitx(text, tex):
    assert tex_number(text) == tex


def rows() -> pd.DataFrame:
    rng, parts = np.random.default_rng(0), []
    for algo in ("a_b", "nonpriv"):
        for eps in (0.1, 1.0):
            none = {"claimed_eps": math.inf, "proven_eps": math.inf} if algo == "nonpriv" else {}
            privacy = {"algo": algo, "claimed_eps": eps, "proven_eps": eps * 1.00012, "calibration": "tight"} | none
            for metric, scale in (("loss", 1.0), ("optimality_gap", 2e-5), ("accuracy", 0.5)):
                size = 1e-20 if algo == "nonpriv" and metric == "optimality_gap" else scale
                values = size * (1 + 0.1 * rng.standard_normal((3, 2)))
                parts.append(made_rows(values, eps, metric=metric, **privacy))
    return pd.concat(parts, ignore_index=True)


def test_a_line_per_setting_with_its_metrics_and_its_privacy():
    table = run_table(summarise(rows()), claims={("a_b", "paper", "tight")})
    assert (list(table.keys), list(table.metrics)) == (["algo", "eps"], ["accuracy", "optimality_gap"])
    head, *lines = table.texts["columns"], *table.texts["rows"]
    assert head == ["algo", "ε", "test accuracy", "optimality gap", "claimed ε", "proven ε", "view"]
    assert [line[:2] for line in lines] == [["a_b", "0.1"], ["a_b", "1"], ["nonpriv", "0.1"], ["nonpriv", "1"]]
    assert [line[4:6] for line in lines] == [["0.1", "0.1001"], ["1", "1.001"], ["-", "∞"], ["-", "∞"]]  # rounded up
    assert [line[3] for line in lines[2:]] == ["0", "0"]  # what an optimiser leaves is no gap
    assert table.caption.startswith("Settings: dataset = x")
    assert table.caption.endswith("interval over 3 seeds with 2 noise draws each.")


def test_what_only_some_lines_have_is_not_everywhere():
    """As where a run that gives a key is merged with one that leaves it at its default."""
    some = rows().assign(**{"algo.lam": 0.5, "dataset.d": 3})
    some.loc[some["eps"] == 1.0, "algo.lam"] = np.nan
    table = run_table(summarise(some))
    assert "algo.lam" in table.keys
    assert "d = 3" in table.caption
    assert "λ" not in table.caption


def test_a_declared_eps_has_a_column_of_its_own():
    some = rows()
    some.loc[some["algo"] == "a_b", ["proven_eps", "conditional_eps", "not_proven"]] = [math.inf, 1.0, "declared by x"]
    table = run_table(summarise(some)).texts
    places = [table["columns"].index(head) for head in ("proven ε", "declared ε")]
    assert [[line[place] for place in places] for line in table["rows"]] == [["∞", "1"]] * 2 + [["∞", "-"]] * 2


def test_a_value_that_is_missing_is_counted():
    some = rows()
    some.loc[some.index[(some["metric"] == "accuracy") & (some["algo"] == "a_b")][0], "value"] = math.nan
    assert run_table(summarise(some)).texts["rows"][0][2] == "NaN (1 of 6)"
