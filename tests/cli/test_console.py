"""What a run, a sweep, a guarantee and an audit show at 80 columns, which is what a pipe gets."""

import json
import os
import re
import subprocess
import sys
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from harness import RARE, imported
from rich.cells import cell_len

from dpml.cli.console import short, show
from dpml.privacy.safe import written
from dpml.reporting.statistics import summarise
from dpml.reporting.tables import value

COMMON = {
    "dataset": "wdbc",
    "partition": "equal",
    "variant": "paper",
    "calibration": "published",
    "loss": "logistic",
    "delta": 1e-3,
    "N": 455,
    "d": 30,
    "unit": "sample",
    "private_preprocessing": "",
}


def rows_of(seeds: int = 1, draws: int = 10, spread: float = 0.1, **settings: list[object]) -> pd.DataFrame:
    """Rows made up of every combination of some settings, with two metrics."""
    axes = {"algo": ["capefm"], "eps": [0.1], "M": [5], "tuned": ["fixed"]} | settings
    rng = np.random.default_rng(0)
    lines = []
    for values in product(*axes.values(), range(seeds)):
        setting = dict(zip((*axes, "seed"), values, strict=True))
        privacy = {
            "claimed_eps": setting["eps"],
            "proven_eps": 1.234 * setting["eps"],
            "proven_view": "colluders",
            "not_proven": None,
            "conditional_eps": np.nan,
            "n_min": 20,
            "n_max": 20,
        }
        for metric, draw in product(("loss", "accuracy"), range(draws)):
            value = 0.5 + spread * rng.standard_normal()
            lines.append(COMMON | setting | privacy | {"metric": metric, "draw": draw, "value": value})
    return pd.DataFrame(lines)


GUARANTEES = pd.DataFrame(
    [
        {"algo": "capefm", "variant": "paper", "calibration": "published"}
        | {"view": view, "unit": "sample", "eps": eps, "delta": 1e-3, "basis": basis, "source": "a proof"}
        for view, basis, eps in (
            ("release", "published", 0.1),
            ("release", "proven", 0.08),
            ("colluders", "proven", 0.1234),
            ("colluders", "proven", 0.4321),  # of another seed
        )
    ]
)


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """What `show` prints for some rows at a width."""

    def run(rows: pd.DataFrame, width: int = 80) -> str:
        monkeypatch.setenv("COLUMNS", str(width))
        show(rows, GUARANTEES)
        out = capsys.readouterr().out
        assert max(map(cell_len, out.splitlines())) <= width
        assert "…" not in out
        return out

    return run


def words(text: str) -> str:
    return " ".join(text.split())


def test_one_setting(shown) -> None:
    out = shown(rows_of(**{"algo.lam": [0.25]}))
    assert "algo.lam=0.25" in out
    assert "eps=0.1" in out
    assert "tuned" not in out
    assert re.search(r"release +\(0\.1, 0\.001\) +\(0\.08, 0\.001\) +sample", out)
    assert re.search(r"colluders +- +\(0\.4321, 0\.001\) +sample", out)  # the weakest of two seeds


FOUR = {"algo": ["capefm", "conv"], "eps": [0.0123, 12.34], "M": [5, 1_000_000], "algo.lam": [0.0005, 0.25]}


def test_a_sweep_over_four_keys_says_everything(shown) -> None:
    rows = rows_of(**FOUR)
    lines = shown(rows, 200).splitlines()
    summary = summarise(rows)
    assert len(summary) == 2 * 2**4
    for _, row in summary.iterrows():
        mean = value(row)
        values = [row["algo"], short(row["eps"]), str(row["M"]), short(row["algo.lam"])]
        assert any(line.split()[:4] == values and mean in line for line in lines)


def test_a_setting_and_a_metric_of_one_name_have_a_column_each(shown) -> None:
    lines = shown(rows_of(loss=["logistic", "squared"]), 120).splitlines()
    assert any(line.split()[:5] == ["loss", "training", "loss", "test", "accuracy"] for line in lines)
    assert {line.split()[0] for line in lines if "colluders" in line} == {"logistic", "squared"}


def test_tuned_is_a_column_where_it_varies_and_said_once_where_not(shown) -> None:
    out = shown(rows_of(eps=[0.1, 1.0], tuned=["fixed", "oracle"]), 120)
    assert "tuned" in out
    assert sum("oracle" in line for line in out.splitlines()) == 2
    out = shown(rows_of(eps=[0.1, 1.0], tuned=["oracle"]), 120)
    assert out.count("tuned=oracle") == 1


def test_why_nothing_is_proven_is_said(monkeypatch, capsys) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    lines = [("published", 0.1, "a paper"), ("proven", np.inf, "it was tuned"), ("conditional", 0.08, "a proof")]
    views = [dict(GUARANTEES.iloc[0]) | {"basis": basis, "eps": eps, "source": source} for basis, eps, source in lines]
    show(rows_of(), pd.DataFrame(views))
    out = capsys.readouterr().out
    (line,) = (line.split() for line in out.splitlines() if line.split()[:1] == ["release"])
    assert line == ["release", "(0.1,", "0.001)", "(inf,", "0.001)", "(0.08,", "0.001)", "sample"]
    assert "Nothing is proven: it was tuned." in out


def test_a_setting_that_only_one_algorithm_has(shown) -> None:
    rows = rows_of(algo=["capefm", "nonpriv"])
    rows.loc[rows["algo"] == "capefm", "algo.lam"] = 0.25
    out = shown(rows, 120)
    assert [line.split()[:2] for line in out.splitlines() if line.split()[:1] in (["capefm"], ["nonpriv"])] == [
        ["capefm", "0.25"],
        ["nonpriv", "-"],
    ]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"seeds": 5, "draws": 4}, "± is half a 95 % interval over 5 seeds, 4 draws each."),
        ({"draws": 10}, "± is half a 95 % interval over 10 draws of one seed: these rows and this partition only."),
        ({"spread": 0.0}, "No intervals: one seed without noise"),
    ],
)
def test_what_an_interval_is_over(shown, options, expected) -> None:
    assert expected in words(shown(rows_of(**options)))


# ---- the commands, through a pipe


@pytest.fixture
def piped(run_command, monkeypatch):
    """The tables that a command writes where no screen is, no line of them longer than 80 columns."""
    monkeypatch.setenv("COLUMNS", "80")

    def run(program: str, *arguments: str) -> list[str]:
        done = run_command(program, *arguments)
        assert done.code == 0, done.err
        # the plan and what was written are names and paths, which cannot be broken
        lines = [line for line in done.out.splitlines() if not re.match("job |Written to ", line)]
        if "--json" in arguments:
            return lines
        assert max(map(cell_len, lines)) <= 80
        assert "…" not in done.out
        return lines

    return run


@pytest.mark.usefixtures("unsearched")
def test_an_audit(piped) -> None:
    arguments = ["audit", "algo=capefm", "eps=1.2345", "draws=2000"]
    lines = piped("dpml", *arguments)
    findings = json.loads("\n".join(piped("dpml", *arguments, "--json")))
    eps = {"claimed", "proven", "declared", "exact", "attacked"}
    others = {"view", "unit", "delta", "mu", "attack", "power", "verdict", "judgement", "rates", "moved", "notes"}
    assert eps | others == set(findings[0])
    assert len(findings) == 5
    for finding in findings:
        line = next(line for line in lines if line.split()[:1] == [finding["view"]])
        claimed, proven, *least = line.split()[1:5]
        assert (claimed, proven) == (f"{finding['claimed']:.4g}", written(finding["proven"]))
        for shown, number in zip(map(float, least), (finding["exact"], finding["attacked"]), strict=True):
            assert 0.999 * number < shown <= number * (1 + 1e-6)  # lower bounds
        below = lines[lines.index(line) : lines.index(line) + 4]  # a verdict may take several lines
        assert all(word in " ".join(below) for word in finding["judgement"].split())
    assert "eps; per sample; delta 0.001; colluders 1 of 5 parties; attacked:" in words(" ".join(lines))


def test_an_audit_without_privacy(run_command) -> None:
    done = run_command("dpml", "audit", "algo=nonpriv", "--figure", "none.png")
    assert (done.code, done.err) == (0, "No figure: no view was attacked.\n")
    assert "no privacy" in done.out


@pytest.mark.slow
def test_guarantees(piped) -> None:
    arguments = ["guarantee", "algo=capefm", "eps=0.123456"]
    text = piped("dpml", *arguments)
    program = Path(sys.executable).with_name("dpml")
    environment = os.environ | {"COLUMNS": "80", "PYTHONPROFILEIMPORTTIME": "1"}
    through = subprocess.run([program, *arguments], env=environment, capture_output=True, text=True, check=True)
    assert through.stdout.splitlines() == text  # a pipe gets the same
    loaded = imported(through.stderr)  # and it does not wait for libraries that it does not need
    assert "dpml.cli.errors" in loaded
    assert not loaded & {"pandas", *RARE}
    lines = [line.split() for line in text]
    for entry in json.loads("\n".join(piped("dpml", *arguments, "--json"))):
        assert set(entry) == {"view", "unit", "eps", "delta", "basis", "source", "mu"}
        assert any(line[:3] == [entry["view"], written(entry["eps"], 6), entry["basis"]] for line in lines)
        assert all(word in "\n".join(text) for word in entry["source"].split())
    assert text[-1].strip() == "per sample  delta 0.001  colluders 1 of 5 parties"


@pytest.mark.parametrize(("N", "said"), [(99, False), (100, True)])
def test_a_delta_that_publishing_a_record_has_too_is_said(run_command, N, said):
    done = run_command("dpml", "guarantee", "algo=fm", "M=1", f"N={N}", "d=3", "eps=0.5", "delta=0.01")
    assert done.code == 0, done.err
    assert ("delta=0.01 is 1/N or more" in " ".join(done.out.split())) == said


@pytest.mark.parametrize(
    ("unit", "M", "delta", "end"),
    [
        ("sample", 10, 0.01, "has it, too."),
        ("party", 10, 0.01, "has it, too, if it does with a probability of 0.1."),
        ("party", 10, 0.1, "has it, too."),
    ],
)
def test_a_delta_of_one_record_is_that_of_a_record_of_a_party_by_chance(run_command, unit, M, delta, end) -> None:
    """What picks a party, and of it a record, and publishes it with probability p is (0, p/M)-private for a party."""
    words = ["algo=dpgd", f"algo.unit={unit}", f"M={M}", "N=1000", "d=5", "eps=1", f"delta={delta}"]
    said = " ".join(run_command("dpml", "guarantee", *words).out.split())
    assert said.endswith(f"is 1/N or more: what publishes one of the N=1,000 records {end}")


def test_tight_noise_is_named_below_the_table_of_a_papers_noise(shown) -> None:
    named = "calibration=tight adds the least noise that is proven to give this eps"
    assert named in words(shown(rows_of()))
    assert named not in words(shown(rows_of(eps=[0.1, 1.0])))
    assert named not in words(shown(rows_of().assign(calibration="tight")))
    assert named not in words(shown(rows_of().assign(variant="halving")))


def test_a_run_without_tight_noise_succeeds(run_command) -> None:
    words = ["algo=psgd", "algo.variant=halving", "algo.rounds=200", "calibration=published"]
    done = run_command("dpml-run", *words, "M=5", "N=300", "eps=5", "delta=1e-3", "draws=2")
    assert done.code == 0, done.err
