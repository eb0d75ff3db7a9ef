"""What a run, a guarantee and an audit show."""

import json
import re

import numpy as np
import pandas as pd
import pytest

import dpml
from dpml.cli.console import show
from dpml.privacy.safe import written
from dpml.screen import Screen

VIEWS = [
    ("release", "published", 0.1, "a paper"), ("release", "proven", np.inf, "it was tuned"),
    ("release", "conditional", 0.08, "a proof"), ("colluders", "proven", 0.1234, "a proof"),
    ("colluders", "proven", 0.4321, "a proof"),  # of another seed
]  # fmt: skip


def test_views_show_the_weakest_guarantee_of_all_seeds_and_why_nothing_is_proven(folder, monkeypatch, capsys) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    rows = dpml.run(algo="capefm", eps=0.1, seed=[0, 1], draws=2).rows
    guarantees = pd.DataFrame(VIEWS, columns=["view", "basis", "eps", "source"])
    capsys.readouterr()
    show(rows, guarantees.assign(algo="capefm", variant="paper", calibration="published", unit="sample", delta=1e-3))
    out = capsys.readouterr().out
    lines = {line.split()[0]: line.split()[1:] for line in out.splitlines() if line}
    assert lines["release"] == ["0.1", "no", "meaningful", "guarantee", "0.08"]
    assert lines["colluders"] == ["-", "0.4321", "-"]
    assert "Nothing is proven: it was tuned." in out


def words(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.usefixtures("unsearched")
def test_an_audit(run_command) -> None:
    arguments = ["dpml", "audit", "algo=capefm", "eps=1.2345", "draws=2000"]
    lines = run_command(*arguments).out.splitlines()
    findings = json.loads(run_command(*arguments, "--json").out)["views"]
    assert len(findings) == 5
    for finding in findings:
        line = next(line for line in lines if line.split()[:1] == [finding["view"]])
        claimed, proven, *least = line.split()[1:5]
        assert (claimed, proven) == (written(finding["claimed"]), written(finding["proven"]))
        for bound, number in zip(map(float, least), (finding["exact"], finding["attacked"]), strict=True):
            assert 0.999 * number < bound <= number * (1 + 1e-6)  # lower bounds
        below = lines[lines.index(line) : lines.index(line) + 4]  # a verdict may take several lines
        assert all(word in " ".join(below) for word in finding["judgement"].split())
    assert {"algo=capefm", "eps=1.2345", "N=10000", "d=2", "M=5", "loss=logistic"} <= set(lines[0].split())


def test_an_audit_without_privacy(run_command) -> None:
    done = run_command("dpml", "audit", "algo=nonpriv", "--figure", "none.png")
    assert done.code == 0
    assert "no privacy" in done.out


def test_a_guarantee_and_why(run_command) -> None:
    command = ["dpml", "guarantee", "algo=capefm", "eps=0.123456"]
    text = run_command(*command).out
    lines = [line.split() for line in text.splitlines()]
    for entry in json.loads(run_command(*command, "--json").out)["views"]:
        assert any(line[:1] == [entry["view"]] and written(entry["eps"]) in line for line in lines)
        assert all(word in text for word in entry["source"].split())
    said = words(run_command(*command, "--why").out)
    assert "Theorems 1 and 2, docs/privacy/imtiaz2019.md" in said
    assert re.search(r"noise = ([\d.]+) / 1 = \1 .*- release: \1-GDP, which gives eps = [\d.]+ at delta = 0\.001", said)


@pytest.mark.parametrize(
    ("unit", "delta", "often"),
    [("sample", 0.01, ""), ("party", 0.01, ", with a probability of 0.1,"), ("party", 0.1, "")],
)
def test_a_large_delta_is_said_to_publish_a_record(run_command, unit, delta, often) -> None:
    """What picks a party, and of it a record, and publishes it with probability p is (0, p/M)-private for a party."""
    setting = ["algo=dpgd", f"algo.unit={unit}", "M=10", "N=1000", "d=5", "eps=1"]
    said = words(run_command("dpml", "guarantee", *setting, f"delta={delta}").out)
    assert f"publishes one random record as it is{often} also satisfies this delta." in said
    assert "random record" not in run_command("dpml", "guarantee", *setting, "delta=0.0009").out


def test_a_screen_shows_texts_as_they_are(capsys) -> None:
    Screen().print("label [red]:key: 1")
    assert capsys.readouterr().out == "label [red]:key: 1\n"
