"""Below the first table: what the same rows give with the least noise that is proven."""

import re

import pandas as pd
import pytest

from dpml.commands import least_noise

LINE = re.compile(
    r"^(accuracy|rmse) (\S+)( ± \S+)? with the least noise that is proven to give this eps: calibration=tight"
)


def said(done):
    return LINE.search(" ".join(done.out.split("publish one release.")[1].split()))


@pytest.mark.parametrize("algo", ["capefm", "fm"])
def test_the_line_is_what_the_tight_run_prints(run_command, monkeypatch, algo) -> None:
    monkeypatch.setattr(least_noise, "_SECONDS", 1000)
    first = run_command("dpml-run", f"algo={algo}", "eps=0.5", "draws=3", "hydra.run.dir=a")
    tight = run_command("dpml-run", f"algo={algo}", "eps=0.5", "draws=3", "calibration=tight", "hydra.run.dir=b")
    found = said(first)
    assert found is not None
    accuracy = next(line.split() for line in tight.out.splitlines() if line.split()[:1] == ["accuracy"])
    assert " ".join(accuracy) == f"{found[1]} {found[2]}{found[3] or ''}"
    assert set(pd.read_csv("a/rows.csv")["calibration"]) == {"published"}  # it changes no file
    assert said(tight) is None


@pytest.mark.parametrize("words", [("algo=dpgd",), ("algo=capefm", "eps=[1,2]"), ("algo=constant",)])
def test_there_is_none_where_it_says_nothing(run_command, monkeypatch, words) -> None:
    monkeypatch.setattr(least_noise, "_SECONDS", 1000)
    assert said(run_command("dpml-run", *words, "draws=2")) is None


def test_a_run_that_takes_long_is_not_made_twice(run_command, monkeypatch) -> None:
    monkeypatch.setattr(least_noise, "_SECONDS", 0)
    assert said(run_command("dpml-run", "algo=capefm", "draws=2")) is None
