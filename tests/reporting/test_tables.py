"""Tables: pairs over shared seeds, Markdown and LaTeX, and the union of runs."""

import numpy as np
import pandas as pd
import pytest
from harness import made_rows

from dpml.errors import UserError
from dpml.reporting.manifest import beside
from dpml.reporting.tables import (
    latex,
    markdown,
    merge,
    overview,
    proven,
    read_rows,
    short,
    shortened,
    texts,
    wide,
)
from dpml.running.rows import COLUMNS


def rows(values, algos=("capefm", "conv")):
    return pd.concat([made_rows(own, algo=algo) for algo, own in zip(algos, values, strict=True)])[COLUMNS]


def test_wide_tables_read_as_markdown_and_latex():
    summary = pd.DataFrame(
        {"eps": [0.1, 0.1, 1], "algo": ["a_b", "c", "c"], "mean": [1, 2, 3.0], "interval": [0.5, 0, 1]}
    )
    table = texts(wide(summary, "eps"))
    assert markdown(table).splitlines() == [
        "| ε | a_b | c |", "| --- | --- | --- |", "| 0.1 | 1.00 ± 0.50 | 2.00 |", "| 1 |  | 3.0 ± 1.0 |"
    ]  # fmt: skip
    text = latex(table, "50 % of a_b", "t")
    assert "\\caption{50 \\% of a\\_b}\n\\label{tab:t}\n" in text
    assert r"$\varepsilon$ & a\_b & c \\" in text
    assert r"\num{0.1} & \num{1.00 +- 0.50} & \num{2.00} \\" in text


def test_signed_metrics_have_the_absolute_values_that_figures_draw():
    lines = [("noisy_objective", 0.1, -16700.0, 600.0), ("noisy_objective", 1, 32000.0, 1e3)]
    summary = pd.DataFrame(lines, columns=["metric", "eps", "mean", "interval"]).assign(algo="c")
    assert wide(summary, "eps")["c"].tolist() == ["(1.670 ± 0.060)·10⁴", "(3.20 ± 0.10)·10⁴"]


def write(folder, table):
    folder.mkdir()
    table.to_csv(folder / "rows.csv", index=False)
    pd.DataFrame({"algo": table["algo"].unique(), "eps": 1.0}).to_csv(folder / "guarantees.csv", index=False)
    return folder


def test_merge_keeps_every_row_once_and_every_digit(tmp_path):
    values = np.random.default_rng(2).random((2, 2, 3))
    a, b = write(tmp_path / "a", rows(values)), write(tmp_path / "b", rows(values[1:], ["conv"]))
    c = write(tmp_path / "c", rows(values[:1], ["local"]).assign(**{"algo.lam": 0.5}))  # which the others lack
    merge([a, b, c], tmp_path / "all")
    merged = pd.read_csv(tmp_path / "all" / "rows.csv", dtype=str, keep_default_na=False)
    assert len(merged) == 18
    assert {float(value) for value in merged["value"]} == set(values.ravel())
    assert merged["algo.lam"].tolist() == [""] * 12 + ["0.5"] * 6


def test_merge_replaces_no_rows_but_its_own(tmp_path):
    a, b = write(tmp_path / "a", rows([[[1.0, 2.0]]], ["conv"])), write(tmp_path / "b", rows([[[3.0]]], ["local"]))
    before = (a / "rows.csv").read_bytes()
    with pytest.raises(UserError, match=r"a rows\.csv that dpml merge did not write"):
        merge([a, b], a)
    assert (a / "rows.csv").read_bytes() == before
    for sources in ([a], [tmp_path / "all", b]):  # what was merged can be added to
        merge(sources, tmp_path / "all")
    assert pd.read_csv(tmp_path / "all/rows.csv")["value"].tolist() == [1, 2, 3]
    sweep = write(tmp_path / "sweep", rows([[[1.0]]], ["conv"]))
    beside(sweep).keep({"command": "dpml-run -m", "merged": ["0"]}, [sweep / "rows.csv"])
    with pytest.raises(UserError, match="dpml merge did not write"):
        merge([a, sweep], sweep)


def test_merge_refuses_rows_that_disagree(tmp_path):
    a, b = write(tmp_path / "a", rows([[[1.0]]], ["conv"])), write(tmp_path / "b", rows([[[2.0]]], ["conv"]))
    with pytest.raises(UserError, match=r"different numbers for .*algo=conv"):
        merge([a, b], tmp_path / "all")
    assert not (tmp_path / "all").exists()
    with pytest.raises(UserError, match="there is no"):
        merge([tmp_path / "nowhere"], tmp_path / "all")


def test_two_settings_never_share_an_entry():
    lines = [
        {"algo": "capefm", "algo.lam": lam, "eps": eps, "N": 100 * lam, "mean": lam + eps / 10, "interval": 0.0}
        for lam in (1.0, 10.0)
        for eps in (1, 2)
    ]
    lines += [{"algo": "conv", "eps": eps, "N": 100, "mean": eps / 10, "interval": 0.0} for eps in (1, 2)]
    table = wide(pd.DataFrame(lines), "eps")
    assert list(table) == ["ε", "capefm algo.lam=1", "capefm algo.lam=10", "conv"]
    assert table["capefm algo.lam=10"].tolist() == ["10.1", "10.2"]


def test_a_proven_eps_is_rounded_up():
    lines = [
        {"algo": algo, "eps": 1, "metric": "proven_eps", "mean": 1.23412, "interval": 0.0} for algo in ("fm", "claimed")
    ]
    assert wide(pd.DataFrame(lines), "eps").iloc[0].tolist() == ["1", "1.24", "1.23"]


def test_two_statements_about_the_same_settings_are_both_shown():
    lines = [{"algo": "conv", "eps": 1, "mean": mean, "interval": 0.0} for mean in (1.0, 2.0)]
    assert wide(pd.DataFrame(lines), "eps")["conv"].tolist() == ["1.00 or 2.00"]


def guarantees(*lines):
    about = {"algo": "wddp", "variant": "paper", "view": "client", "basis": "proven", "budget_eps": 1.0, "seed": 0}
    return pd.DataFrame([about | line for line in lines])


def test_guarantees_have_a_line_for_every_setting_that_changes_them():
    given = guarantees(
        *({"partition.u": u, "algo.lam": lam, "seed": seed, "eps": u + seed / 10}
          for u in (1, 9) for lam in (0.1, 1.0) for seed in (0, 1)),
    )  # fmt: skip
    table = proven(given)
    assert list(table) == ["algo", "variant", "partition.u", "view", "claimed", "ε = 1"]
    assert table[["partition.u", "ε = 1"]].to_numpy().tolist() == [["1", "1.1"], ["9", "9.1"]]  # the worst seed


def test_guarantees_that_do_not_depend_on_a_setting_stand_there_once():
    given = guarantees(
        *({"algo": a, "partition.u": u, "eps": u if a == "wddp" else 2.0} for a in ("wddp", "wang") for u in (1, 9))
    )
    table = proven(given)
    assert table[["algo", "partition.u", "ε = 1"]].to_numpy().tolist() == [
        ["wddp", "1", "1"], ["wddp", "9", "9"], ["wang", "", "2"]
    ]  # fmt: skip


BROKEN = {
    "empty": (b"", "not a whole table"),
    "binary": (bytes(range(256)), "not a whole table"),
    "zeros": (b"\0" * 100, "rows.csv"),
    "another table": (b"a,b\n1,2\n", "no column 'dataset'"),
    "a wider line": (b"a,b\n1,2,3\n4,5,6,7\n", "not a whole table"),
}


@pytest.mark.parametrize(("content", "said"), BROKEN.values(), ids=BROKEN)
def test_what_is_no_table_of_rows_is_refused_in_one_sentence(tmp_path, content, said):
    folder = write(tmp_path / "a", rows([[[1.0]]], ["conv"]))
    (folder / "rows.csv").write_bytes(content)
    for read in (lambda: read_rows(folder / "rows.csv"), lambda: merge([folder], tmp_path / "all")):
        with pytest.raises(UserError, match=said) as caught:
            read()
        assert "\n" not in str(caught.value)


def test_rows_that_were_cut_off_are_refused(tmp_path):
    folder = write(tmp_path / "a", rows([[[1.0, 2.0, 3.0]]], ["conv"]))
    whole = (folder / "rows.csv").read_bytes()
    assert len(read_rows(folder / "rows.csv")) == 3
    for length in (len(whole) - 1, len(whole) - 5, len(whole) // 2, whole.index(b"\n") + 1):
        (folder / "rows.csv").write_bytes(whole[:length])
        with pytest.raises(UserError, match=r"rows\.csv"):
            read_rows(folder / "rows.csv")


def test_numbers_below_a_million_have_no_power_of_ten():
    assert [short(value) for value in (1000.0, 12345.0, 1.5, 0.00012, 2e7, np.inf)] == [
        "1000", "12300", "1.5", "0.00012", "2e+07", "∞"
    ]  # fmt: skip
    assert [short(value, up=True) for value in (1000.001, 12345.0, 999.01, 1.001)] == ["1001", "12345", "1000", "1.01"]


def test_six_digits_of_what_is_proven_are_rounded_up_and_of_what_is_shown_at_least_down():
    lines = [("proven", 1.0000014, 20.00002828), ("attacked", 0.1512347, np.nan), ("power", 0.1234567, np.inf)]
    summary = pd.DataFrame([*lines, ("loss", 0.1234567, 1.0)], columns=["metric", "mean", "proven_eps"])
    summary["algo"] = "fm"
    table = shortened(summary)
    assert table["mean"].tolist() == [1.00001, 0.151234, 0.123456, 0.1234567]
    assert table["proven_eps"].tolist()[::3] == [20.0001, 1.0]
    assert table["proven_eps"].isna().tolist() == [False, True, False, False]
    assert overview(summary).loc[0, ["proven", "attacked"]].tolist() == [1.00001, 0.151234]
