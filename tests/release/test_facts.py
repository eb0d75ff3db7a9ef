"""What is said of a release follows from what happened in it: facts that break a proof leave nothing proven."""

import hashlib
import json
import math
import shlex
import sqlite3
import stat
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from test_ledger import gaussian

import dpml
from dpml.algorithms.quadratic.sufficient_statistics import SufficientStatistics
from dpml.api.release import request_of
from dpml.api.settings import Settings
from dpml.errors import PrivacyWarning, UserError
from dpml.optim.losses import LOSSES
from dpml.privacy import Budget, Guarantee, Problem
from dpml.privacy.guarantee import REAL
from dpml.release.facts import Facts, facts_about, statement
from dpml.release.ledger import Cap, Ledger

PROVEN = Guarantee("release", "sample", 1.0, 1e-5, "proven", "a proof", 0.27)
FACTS = Facts("ssp", Problem(1, 500, 3), (PROVEN,))
FLOATING = replace(FACTS, given=(replace(PROVEN, basis=REAL),))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"randomness": "seed"}, "made from a seed"),
        ({"ranges": "fitted"}, "fitted to the private rows"),
        ({"dealt": "by labels"}, "by their private labels"),
        ({"missing": True}, "left out because of their content"),
        (
            {"given": (replace(PROVEN, unit="party"),), "dealt": "at random", "problem": Problem(5, 500, 3)},
            "formed at random",
        ),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_a_fact_under_which_the_proof_does_not_hold_leaves_nothing_proven(change, why) -> None:
    assert FACTS.guarantees == (PROVEN,)
    facts = replace(FACTS, **change)
    proven, otherwise = facts.guarantees
    assert (proven.basis, proven.eps, proven.mu) == ("proven", math.inf, None)
    assert why in proven.source
    assert (otherwise.basis, otherwise.eps) == ("conditional", 1.0)
    assert "nothing is proven" in statement(facts)[1]
    assert not any(sentence.startswith("Warning") for sentence in statement(facts))
    with pytest.raises(UserError, match=why):
        facts.require_proof(1.0)


def test_what_a_guarantee_does_not_exclude_is_said() -> None:
    """Another party, where nobody colludes, much, where eps is large, and a whole record, where delta is large."""
    ssp, budget = SufficientStatistics(LOSSES["squared"], noise="discrete"), Budget(1.0, 1e-5)
    for colluders in (0, 1):
        said = statement(facts_about(ssp, Problem(4, 500, 3, colluders=colluders), budget, dealt="natural"))
        assert ("No guarantee holds against another party" in said[3]) == (colluders == 0)
    assert "e^12" in statement(facts_about(ssp, Problem(1, 500, 3), Budget(12.0, 1e-5)))[3]
    for unit, end in (("sample", "published."), ("party", "published, with a probability of 0.02.")):
        facts = facts_about(replace(ssp, unit=unit), Problem(4, 500, 3), Budget(1.0, 0.005), dealt="natural")
        assert statement(facts)[3].endswith(f"1/N or more allows that one of the N = 500 records is {end}")


def rows(n: int = 400) -> tuple[np.ndarray, np.ndarray]:
    X = np.random.default_rng(0).uniform(-1, 1, (n, 2))
    return X, X[:, 0] > 0


def test_a_seeded_fit_is_not_proven_and_not_saved(tmp_path) -> None:
    """Who has the seed refits both candidates: the same weights, bit for bit, tell which of them it was."""
    model = dpml.PrivateClassifier("ssp", eps=0.01, delta=1e-9, bounds=(-1, 1), random_state=0)
    with pytest.warns(PrivacyWarning, match="random_state"):
        model.fit(*rows())
    assert all(g.eps == math.inf for g in model.guarantees_ if g.basis == "proven")
    with pytest.raises(UserError, match="made from a seed"):
        model.save(tmp_path / "m.json")
    model.save(tmp_path / "m.json", unsafe=True)
    content = json.loads((tmp_path / "m.json").read_text())
    assert "nothing is proven" in content["statement"][1]
    assert [g["eps"] for g in content["guarantees"] if g["basis"] == "proven"] == [None]


def test_a_ledger_around_fits_takes_all_of_them_and_refuses_too_many(tmp_path) -> None:
    X, y = rows()
    with dpml.Ledger(tmp_path / "ledger", cap=1.2) as ledger:
        model = dpml.PrivateClassifier("ssp", eps=1.0, bounds=(-1, 1)).fit(X, y)
        with pytest.raises(UserError, match="above its cap"):
            model.fit(X, y)
    model.save(tmp_path / "m.json")
    (entry,) = ledger.entries()
    assert entry.model is not None
    with pytest.warns(PrivacyWarning, match="in no ledger"):
        model.fit(X, y)
    with pytest.raises(UserError, match="in no ledger"):
        model.save(tmp_path / "n.json")


def test_a_process_has_the_ledger_of_one_block_in_all_threads(tmp_path) -> None:
    def fit() -> str:
        model = dpml.PrivateClassifier("ssp", eps=1.0, bounds=(-1, 1)).fit(*rows())
        return "none" if model.ledger_ is None else model.ledger_.path.name

    def fit_in(name: str) -> str:
        with dpml.Ledger(tmp_path / name):
            return fit()

    with ThreadPoolExecutor(1) as pool:
        with dpml.Ledger(tmp_path / "a"):
            assert (fit(), fit_in("a"), pool.submit(fit).result(), pool.submit(fit_in, "a").result()) == ("a",) * 4
            for refused in (lambda: fit_in("b"), pool.submit(fit_in, "b").result):
                with pytest.raises(UserError, match="open in a `with` block"):
                    refused()
            assert fit() == "a"
        assert pool.submit(fit).result() == "none"


def test_a_fit_that_ends_early_leaves_the_model_with_what_is_proven_of_it(tmp_path, monkeypatch) -> None:
    """The weights of eps = 5 were saved as proven for eps = 0.01, with ranges of the rows of a later fit."""
    X, y = rows()
    model = dpml.PrivateClassifier("ssp", eps=5.0, bounds=(-1, 1), ledger=dpml.Ledger(tmp_path / "ledger")).fit(X, y)
    fitted = dict(vars(model))
    model.set_params(eps=0.01)
    monkeypatch.setattr("dpml.api.estimators.SystemGenerator", Mock(side_effect=KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, np.where(y, "b", "a"))
    model.set_params(bounds=None)
    with pytest.raises(ValueError, match="inconsistent"):
        model.fit(X, y, party=[1, 2])
    assert vars(model) == {**fitted, "eps": 0.01, "bounds": None}
    model.save(tmp_path / "m.json")
    content = json.loads((tmp_path / "m.json").read_text())
    assert [g["eps"] for g in content["guarantees"]] == [pytest.approx(5, rel=1e-5)]
    assert "eps=5.0, " in content["setting"]
    assert [(column["low"], column["high"]) for column in content["stated"]["columns"].values()] == [(-1, 1)] * 2
    new = clone(model).set_params(bounds=(-1, 1), ledger=None)
    with pytest.raises(KeyboardInterrupt):
        new.fit(X, y)
    with pytest.raises(NotFittedError):
        new.save(tmp_path / "n.json")


@pytest.mark.parametrize("second", ["sample", "party"])
def test_a_cap_holds_in_its_own_unit_whatever_is_released(tmp_path, second) -> None:
    ledger = Ledger(tmp_path / "ledger")
    ledger.enter("", [gaussian(0.3, unit="party")], Cap(5.0, 1e-5, "party"), parties="these")
    with pytest.raises(UserError, match="limits the total eps of every party"):
        ledger.enter("", [gaussian(0.1, unit=second)], parties=None if second == "sample" else "those")
    ledger.enter("", [gaussian(0.1, unit="party")], parties="these")
    assert len(ledger.entries()) == 2


def parties_of(path: Path) -> list[str | None]:
    return [entry.parties for entry in Ledger(path).entries()]


def test_parties_are_those_who_hold_the_same_rows_of_the_same_file(run_command, words, table) -> None:
    """Two groupings of one file whose parties had the same names were added up: 1.278, where 29.5 is true."""
    table = table.assign(who=np.arange(400) % 3, ward=lambda t: t["who"].sample(frac=1, random_state=0).to_numpy())
    table.to_csv("t.csv", index=False)
    usual = ["partition=natural", "M=3", "algo=ssp", "algo.unit=party", "delta=1e-6", "adversary.colluders=0"]

    def release(name: str, *more: str) -> int:
        return run_command(*words, *usual, "dataset.party=who", "--ledger", "ledger", "-o", name, *more).code

    by_who = "dataset.drop=[ward]"
    assert release("1", by_who, "--cap", "9") == 0
    assert release("2", by_who, "calibration=tight", "dataset.steps=[symmetric,sample_norm]", "algo.lam=0.1") == 0
    Path("u.yaml").write_text("columns:\n  a: {low: -2, high: 1}\nclasses: ['no', 'yes']\n")
    assert release("3", "dataset.drop=[ward,b]", "dataset.bounds=u.yaml", "N=300") == 0
    assert len(set(parties_of(Path("ledger")))) == 1
    assert Ledger(Path("ledger")).spent("party", "worst").mu == pytest.approx(
        math.hypot(*(entry.seen_by("worst").mu for entry in Ledger(Path("ledger")).entries()))
    )
    assert release("4", "dataset.party=ward", "dataset.drop=[who]") == 2  # the cap refuses what has no total
    table.rename(columns={"who": "ward", "ward": "who"}).to_csv("u.csv", index=False)  # a column of the same name
    assert release("5", "dataset.path=u.csv", by_who) == 2
    table.assign(a=table["a"].where(table.index > 0, 0.5)).to_csv("t.csv", index=False)
    assert release("6", by_who) == 2
    assert len(parties_of(Path("ledger"))) == 3
    assert not Path("4").exists()


@pytest.mark.parametrize("other", ["grouping", "row", "label", "order"])
def test_parties_of_estimators_are_those_who_hold_the_same_rows(tmp_path, other) -> None:
    X, y = rows()
    party, ledger = np.arange(len(y)) % 5, Ledger(tmp_path / "ledger")

    def fit(X, y, party) -> None:
        options = {"unit": "party"}
        dpml.PrivateClassifier("ssp", bounds=(-1, 1), algo_options=options, ledger=ledger).fit(X, y, party=party)

    fit(X, y, party)
    fit(X, y, [f"clinic {number}" for number in party])
    assert ledger.spent("party", "worst") is not None
    rng = np.random.default_rng(0)
    if other == "grouping":
        party = rng.permutation(party)
    elif other == "row":
        X = np.vstack([X[0] / 2, X[1:]])
    elif other == "label":
        y = np.append(~y[:1], y[1:])
    else:
        order = rng.permutation(len(y))
        X, y, party = X[order], y[order], party[order]
    fit(X, y, party)
    assert ledger.spent("party", "worst") is None
    assert ledger.spent("sample", "worst") is not None


def test_an_identity_of_parties_tells_nothing_without_the_ledgers_key(tmp_path) -> None:
    for name in "ab":
        Ledger(tmp_path / name).enter("", [gaussian(0.3, unit="party")], parties="digest of the rows")
        assert b"digest of the rows" not in (tmp_path / name).read_bytes()
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600
    assert parties_of(tmp_path / "a") != parties_of(tmp_path / "b")


def test_parties_of_an_earlier_version_are_unknown(tmp_path) -> None:
    """Up to version 0.2 an entry had a digest of its parties' names, which identifies nobody."""
    ledger = Ledger(tmp_path / "ledger")
    content = {"setting": "", "parties": "of names", "guarantees": [asdict(gaussian(0.3, unit="party"))], "cap": None}
    for releases in (1, 2):
        with ledger._opened() as (connection, before):
            before.append(connection, "release", "2026-11-23T00:00:00+00:00", content)
        assert (ledger.spent("party", "worst") is None) == (releases == 2)
    assert ledger.spent("sample", "worst") is not None


@pytest.mark.parametrize(
    "content",
    [{"guarantees": [{"view": "release"}], "cap": None}, {"guarantees": 3, "cap": None}, {}],
    ids=str,
)
def test_a_ledger_that_another_program_wrote_with_right_checksums_is_one_sentence(tmp_path, content) -> None:
    ledger = Ledger(tmp_path / "ledger")
    ledger.enter("", [gaussian(0.3)])
    with closing(sqlite3.connect(ledger.path)) as connection, connection:
        (kind, time), text = connection.execute("SELECT kind, time FROM event").fetchone(), json.dumps(content)
        checksum = hashlib.sha256(json.dumps(["", "1", kind, time, text]).encode()).hexdigest()
        connection.execute("UPDATE event SET content = ?, checksum = ?", (text, checksum))
        connection.execute("UPDATE last SET checksum = ?", (checksum,))
    for use in (ledger.entries, ledger.caps, lambda: ledger.enter("", [gaussian(0.3)])):
        with pytest.raises(UserError, match="cannot be used"):
            use()


@pytest.fixture
def words(table) -> list[str]:
    return ["dpml", "release", "dataset=csv", "dataset.path=t.csv", "dataset.label=y", "dataset.bounds=t.yaml", "eps=1"]


def test_an_error_after_the_entry_names_it(run_command, words, monkeypatch) -> None:
    monkeypatch.setattr(Ledger, "publish", Mock(side_effect=OSError(28, "No space left on device")))
    done = run_command(*words, "delta=1e-5")
    assert done.code == 2
    assert "t.csv.ledger keeps entry 1" in " ".join(done.err.split())
    assert not [path for path in Path().iterdir() if "model.json" in path.name]


@pytest.mark.parametrize("word", ["++dataset.path=DIR/t.csv", "++dataset.bounds=DIR/t.yaml", "++data_dir=DIR"])
def test_the_file_names_no_path_and_has_no_copy_of_the_rows_beside_it(run_command, words, tmp_path, word) -> None:
    typed = [each for each in words if each.partition("=")[0] != word.lstrip("+").partition("=")[0]]
    more = ["delta=1e-5", "~dataset.label", "+dataset.label=y", "++algo.rounds=20"]
    done = run_command(*typed, word.replace("DIR", str(tmp_path)), *more)
    assert done.code == 0, done.err
    text = Path("model.json").read_text()
    assert not any(name in text for name in (str(tmp_path), "t.csv", "t.yaml"))
    assert [each["view"] for each in json.loads(text)["guarantees"]] == ["release"]  # one file is one place
    assert not list(tmp_path.rglob("*.npy"))


@pytest.mark.parametrize("algo", ["capefm", "dpfm", "la", "ssp_descent", "wdgd"])
def test_what_a_file_says_of_its_setting_can_be_typed_again(algo, table) -> None:
    table.assign(who=np.arange(400) % 3).to_csv("t.csv", index=False)
    places = ["dataset.path=t.csv", "dataset.bounds=t.yaml"]
    more = ["eps=1", "M=3", "partition=natural", "dataset.party=who", "dataset.na=['a b',c]", "dataset.positive=no"]
    first = request_of(Settings(["dataset=csv", "dataset.label=y", f"algo={algo}", *places, *more]))[0]
    again = request_of(Settings([*shlex.split(first.setting), *places]))[0]
    assert (again.algorithm, again.dataset, again.budget) == (first.algorithm, first.dataset, first.budget)
    assert again.setting == first.setting
