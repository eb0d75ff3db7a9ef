"""What code outside dpml says of itself is declared, in tables and files, and published only if that is asked for."""

import json
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from harness import written_from_page

import dpml
from dpml.algorithms.descent.clipped import ClippedDescent
from dpml.algorithms.quadratic.sufficient_statistics import SufficientStatistics
from dpml.errors import UserError
from dpml.mechanism.guarantees import author, guaranteed
from dpml.optim.losses import LOSSES
from dpml.privacy import Budget, Problem
from dpml.release.ledger import Ledger
from dpml.reporting.tables import proven

LIAR = """
from dataclasses import dataclass
from centroid import Centroid
from dpml.algorithms import Release


@dataclass(frozen=True)
class Liar(Centroid):
    name = "liar"

    def run(self, carrier):
        return Release(carrier.by_budget(carrier.mechanism.parties.y @ carrier.mechanism.parties.X
                                         + 1e-6 * carrier.ask(0)))
"""


@pytest.fixture
def own(tmp_path, monkeypatch, table) -> Path:
    """The algorithms of the pages, one that publishes nearly without noise, and a file to release."""
    for page in ("howto/plug_ins.md", "tutorials/algorithm.md"):
        written_from_page(page, tmp_path)
    (tmp_path / "liar.py").write_text(LIAR)
    (tmp_path / "conf/algo/liar.yaml").write_text("_target_: liar.Liar\n")
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


RELEASE = ["release", "-cd", "conf", "dataset=csv", "dataset.path=t.csv", "dataset.label=y", "dataset.bounds=t.yaml"]
SETTING = ["eps=1", "delta=1e-5"]


@pytest.mark.usefixtures("undrawn")
def test_every_table_says_that_it_is_declared(run_command, own) -> None:
    done = run_command("dpml", "guarantee", "-cd", "conf", "algo=centroid", *SETTING, "--json")
    entries = json.loads(done.out)["views"]
    assert {entry["basis"] for entry in entries} == {"declared"}
    settings = ["dataset=synthetic", "dataset.d=3", "N=200", "delta=1e-5", "draws=2"]
    done = run_command("dpml-run", "-cd", "conf", "algo=centroid", "eps=1", *settings, "hydra.run.dir=one")
    assert done.code == 0, done.err
    assert "declared by centroid.Centroid" in " ".join(done.out.split())
    rows, guarantees = (pd.read_csv(f"one/{name}.csv") for name in ("rows", "guarantees"))
    assert set(guarantees["basis"]) == {"declared"}
    assert set(rows["proven_eps"]) == {math.inf}
    assert rows["conditional_eps"].max() == pytest.approx(1)
    assert rows["not_proven"].str.startswith("declared by").all()
    table = proven(guarantees.assign(block="one"))
    assert {view.partition(", ")[2] for view in table["view"]} == {"declared"}


def test_a_release_of_it_has_to_be_asked_for_and_its_file_says_so(run_command, own) -> None:
    done = run_command("dpml", *RELEASE, *SETTING, "algo=centroid")
    assert done.code == 2
    assert "--declared" in done.err
    assert not Path("t.csv.ledger").exists()
    done = run_command("dpml", *RELEASE, *SETTING, "algo=centroid", "--declared")
    assert done.code == 0, done.err
    content = json.loads(Path("model.json").read_text())
    assert {guarantee["basis"] for guarantee in content["guarantees"]} == {"declared"}
    assert "declared by centroid.Centroid" in content["statement"][1]
    assert content["certificate"]["declared"] == "centroid.Centroid"
    done = run_command("dpml", "verify", "model.json")
    assert done.code == 0, done.out
    assert "holds, if the declaration of 'centroid.Centroid' is right" in done.out
    assert {each.basis for each in Ledger(Path("t.csv.ledger")).entries()[0].guarantees} == {"declared"}


def test_an_estimator_of_it_is_saved_only_if_that_is_asked_for(own) -> None:
    X = np.random.default_rng(0).uniform(-1, 1, (400, 2))
    kind = {"_target_": "centroid.Centroid"}
    with dpml.Ledger("people.ledger") as ledger:
        model = dpml.PrivateClassifier("ssp", bounds=(-1, 1), algo_options=kind).fit(X, X[:, 0] > 0)
    assert {each.basis for each in (*model.guarantees_, *ledger.entries()[0].guarantees)} == {"declared"}
    with pytest.raises(UserError, match=r"declared by centroid\.Centroid"):
        model.save("m.json")
    model.save("m.json", declared=True)
    assert "declared by centroid.Centroid" in json.loads(Path("m.json").read_text())["statement"][1]


def test_an_algorithm_without_noise_is_called_a_bug(run_command, own) -> None:
    """Its messages have noise, which is proven to suffice; what it makes of them has next to none."""
    for words in (["-cd", "conf", "algo=liar"], ["algo._target_=liar.Liar"]):
        done = run_command("dpml", "audit", *words, "M=1", *SETTING, "draws=5000", "--json")
        assert done.code == 1, done.err
        (release, *_) = (each for each in json.loads(done.out)["views"] if each["view"] == "release")
        assert release["verdict"] == "BUG"
        assert release["attacked"] > 2


def test_dpmls_own_are_proven_and_algorithms_and_losses_that_derive_from_them_elsewhere_are_not() -> None:
    class Louder(SufficientStatistics):
        name = "louder"

    class Steeper(type(LOSSES["logistic"])):
        pass

    squared, logistic = LOSSES["squared"], LOSSES["logistic"]
    for algorithm, who, basis in (
        (SufficientStatistics(squared), "", "proven"), (Louder(squared), "Louder", "declared"),
        (ClippedDescent(logistic), "", "proven"), (ClippedDescent(Steeper()), "Steeper", "declared"),
    ):  # fmt: skip
        assert (author(algorithm) or "").endswith(who)
        assert {each.basis for each in guaranteed(algorithm, Budget(1.0, 1e-5), Problem(1, 100, 2))} == {basis}


@pytest.mark.parametrize(
    ("module", "returned"),
    [
        *((f"says_{k}", f"[*good, replace(good[0], {wrong})]") for k, wrong in enumerate(
            ("eps=nan", "delta=1.0", "mu=-1.0", "curve=(nan, 1.0, 0.0)", "unit='party'"))),
        ("claims_nothing", "[]"),
        ("claims_a_number", "[replace(each, basis='published') for each in good]"),
        ("claims_a_view", "[*good, replace(good[0], view='transcript', basis='published')]"),
        ("only_eps", "[replace(each, eps=each.eps / 2, mu=None) for each in good]"),  # in no certificate
    ],
)  # fmt: skip
def test_what_is_no_guarantee_of_every_view_is_not_released(run_command, own, module, returned) -> None:
    """A NaN is the least of all eps to `max`; a view without one would have that of the others, or of none."""
    (own / f"{module}.py").write_text(
        "from dataclasses import dataclass, replace\nfrom math import nan\nfrom centroid import Centroid\n\n\n"
        "@dataclass(frozen=True)\nclass Odd(Centroid):\n    name = 'odd'\n\n"
        "    def guarantees(self, budget, problem):\n        good = super().guarantees(budget, problem)\n"
        f"        return {returned}\n"
    )
    (own / "conf/algo/odd.yaml").write_text(f"_target_: {module}.Odd\n")
    done = run_command("dpml", *RELEASE, "algo=odd", *SETTING, "--declared", "--floating")
    assert done.code == 2
    assert not Path("t.csv.ledger").exists()
    assert not Path("model.json").exists()
