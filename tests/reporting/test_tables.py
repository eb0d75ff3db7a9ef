"""Tables: pairs over shared seeds, Markdown and LaTeX, and the union of runs."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from dpml.errors import UserError
from dpml.reporting.statistics import compare
from dpml.reporting.tables import latex, markdown, merge, wide
from dpml.running.rows import COLUMNS


def rows(values, algos=("capefm", "conv"), metric="loss"):
    """A table of rows: values (algorithms, seeds, draws)."""
    about = dict.fromkeys(COLUMNS, "x") | {"eps": 1.0, "delta": 1e-5, "M": 2, "N": 10, "d": 3, "metric": metric}
    lines = [
        about | {"algo": algo, "seed": seed, "draw": draw, "value": value}
        for algo, per_algo in zip(algos, values, strict=True)
        for seed, per_seed in enumerate(per_algo)
        for draw, value in enumerate(per_seed)
    ]
    return pd.DataFrame(lines, columns=COLUMNS)


def test_with_several_seeds_the_comparison_is_paired_over_them():
    rng = np.random.default_rng(0)
    hard = rng.normal(0, 100, (1, 6, 1))  # what a seed's data cost every algorithm: it must cancel
    noise = rng.normal(0, 1, (2, 6, 4))
    found = compare(rows(hard + noise + np.array([0, 5])[:, None, None]), "capefm").iloc[0]
    gaps = (noise[1] - noise[0] + 5).mean(axis=1)
    assert (found["algo"], found["reference"], found["paired"], found["n"]) == ("conv", "capefm", "seeds", 6)
    assert found["difference"] == pytest.approx(gaps.mean())
    low, high = stats.t.interval(0.95, 5, gaps.mean(), stats.sem(gaps))
    assert found["interval"] == pytest.approx((high - low) / 2)


def test_with_one_seed_it_is_welchs_interval_over_draws():
    values = np.random.default_rng(1).normal(0, [[[1]], [[3]]], (2, 1, 30))
    found = compare(rows(values), "capefm").iloc[0]
    theirs = stats.ttest_ind(values[1, 0], values[0, 0], equal_var=False).confidence_interval()
    assert found["paired"] == "no"
    assert found["interval"] == pytest.approx((theirs.high - theirs.low) / 2)


def test_wide_tables_read_as_markdown_and_latex():
    summary = pd.DataFrame(
        {"eps": [0.1, 0.1, 1], "algo": ["a_b", "c", "c"], "mean": [1, 2, 3.0], "interval": [0.5, 0, 1]}
    )
    table = wide(summary, "eps")
    assert markdown(table).splitlines() == [
        "| ε | a_b | c |", "| --- | --- | --- |", "| 0.1 | 1 ± 0.5 | 2 |", "| 1 |  | 3 ± 1 |"
    ]  # fmt: skip
    text = latex(table, "50 % of a_b")
    assert r"\caption{50 \% of a\_b}" in text
    assert r"$\varepsilon$ & a\_b & c \\" in text
    assert r"0.1 & 1 $\pm$ 0.5 & 2 \\" in text


def write(folder, table):
    folder.mkdir()
    table.to_csv(folder / "rows.csv", index=False)
    pd.DataFrame({"algo": table["algo"].unique(), "eps": 1.0}).to_csv(folder / "guarantees.csv", index=False)
    return folder


def test_merge_keeps_every_row_once_and_every_digit(tmp_path):
    values = np.random.default_rng(2).random((2, 2, 3))
    a, b = write(tmp_path / "a", rows(values)), write(tmp_path / "b", rows(values[1:], ["conv"]))
    c = write(tmp_path / "c", rows(values[:1], ["local"]))
    merge([a, b, c], tmp_path / "all")
    merged = pd.read_csv(tmp_path / "all" / "rows.csv", dtype=str)
    assert len(merged) == 18
    assert {float(value) for value in merged["value"]} == set(values.ravel())


def test_merge_refuses_rows_that_disagree(tmp_path):
    a, b = write(tmp_path / "a", rows([[[1.0]]], ["conv"])), write(tmp_path / "b", rows([[[2.0]]], ["conv"]))
    with pytest.raises(UserError, match=r"disagree about .*algo=conv"):
        merge([a, b], tmp_path / "all")
    assert not (tmp_path / "all").exists()
    with pytest.raises(UserError, match="there is no"):
        merge([tmp_path / "nowhere"], tmp_path / "all")
