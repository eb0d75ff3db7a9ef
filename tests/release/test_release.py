"""`dpml release` and `dpml predict`: from a file to a published model and its predictions, and what is refused."""

import hashlib
import json
import os
import re
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pandas as pd
import pytest
from scipy.special import softmax
from sklearn.metrics import roc_auc_score

from dpml.algorithms.quadratic.sufficient_statistics import SufficientStatistics
from dpml.data.csv.column_bounds import ColumnBounds
from dpml.data.info import Range
from dpml.errors import UserError
from dpml.files import reserved
from dpml.optim.losses import LOSSES
from dpml.privacy import Budget, Problem
from dpml.release.facts import facts_about, statement
from dpml.release.ledger import Ledger, LedgerEntry
from dpml.release.model import Model, read_model
from dpml.reporting.shapes import shapes, write

BOUNDS = """
columns:
  age: {low: 0, high: 100}
  job: [farm, mine, office]
  smoker: boolean
classes: [well, ill]
"""
BASE = ("dataset=csv", "dataset.path=people.csv", "dataset.label=health", "delta=1e-5")
BOUNDED = (*BASE, "dataset.bounds=people.yaml")
STATED, FOUR = (*BOUNDED, "M=1"), (*BOUNDED, "M=4")


@pytest.fixture
def people(tmp_path, monkeypatch) -> pd.DataFrame:
    """A file of 3,000 made-up people, and what is known of its columns without a look."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DPML_CACHE", str(tmp_path / "cache"))
    rng, n = np.random.default_rng(0), 3000
    age, smoker = rng.integers(18, 90, n), rng.choice(["yes", "no"], n)
    job = rng.choice(["office", "farm", "mine"], n)
    ill = (age - 55) / 10 + 2 * (smoker == "yes") + 2 * (job == "mine") - 1.5 + rng.logistic(size=n) > 0
    table = pd.DataFrame({"age": age, "job": job, "smoker": smoker, "health": np.where(ill, "ill", "well")})
    table.to_csv("people.csv", index=False)
    (tmp_path / "people.yaml").write_text(BOUNDS)
    return table


def assert_refused(done, sentence: str) -> None:
    """With a sentence, and at no cost: no model and no ledger is in the working folder."""
    assert done.code == 2
    assert sentence in " ".join(done.err.split())
    assert "Traceback" not in done.err
    assert not Path("model.json").exists()
    assert not list(Path().glob("*.ledger"))


def calculated(run_command, words) -> list[float]:
    """What `dpml guarantee` proves of a release."""
    done = run_command("dpml", "guarantee", *words, "calibration=tight", "algo.noise=discrete", "--json")
    return [each["eps"] for each in json.loads(done.out)["views"] if each["basis"] == "proven"]


def test_from_a_file_to_a_model_to_predictions(run_command, people, tmp_path) -> None:
    done = run_command("dpml", "release", *STATED, "algo=ssp_descent", "eps=1", "-o", "model.json")
    assert done.code == 0, done.err
    assert "Noise: exact integers" in " ".join(done.out.split())
    assert run_command("dpml", "predict", "model.json", "people.csv", "-o", "out.csv").code == 0
    table = pd.read_csv(tmp_path / "out.csv")
    assert (table["prediction"] == people["health"]).mean() > 0.75
    assert list(table) == ["prediction", "probability_well", "probability_ill"]
    np.testing.assert_allclose(table["probability_well"] + table["probability_ill"], 1, rtol=1e-5)
    assert ((table["probability_ill"] >= 0.5) == (table["prediction"] == "ill")).all()
    assert roc_auc_score(people["health"] == "ill", table["probability_ill"]) > 0.8
    proba = run_command("dpml", "predict", "model.json", "people.csv", "--proba").out
    assert proba == table.drop(columns="prediction").to_csv(index=False)
    one = run_command("dpml", "predict", "model.json", "people.csv", "--class", "ill").out
    assert one == table[["probability_ill"]].to_csv(index=False)
    wrong = run_command("dpml", "predict", "model.json", "people.csv", "--class", "il")
    assert (wrong.code, "'ill'" in wrong.err) == (2, True)
    (entry,) = Ledger(tmp_path / "people.csv.ledger").entries()
    assert entry.model == hashlib.sha256((tmp_path / "model.json").read_bytes()).hexdigest()
    assert entry.guarantees == read_model(tmp_path / "model.json").guarantees


@pytest.mark.parametrize("row", ["50,farm,no,well", "100,mine,yes,ill"])
def test_no_row_decides_whether_rows_are_short_enough(run_command, tmp_path, monkeypatch, row) -> None:
    """One of 1.4 ended the release of rows in the unit ball, though nothing of it is outside what is stated."""
    monkeypatch.chdir(tmp_path)
    Path("people.yaml").write_text(BOUNDS)
    Path("people.csv").write_text("age,job,smoker,health\n" + "50,none,no,well\n50,none,no,ill\n" * 20 + row + "\n")
    words = (*STATED, "algo=ssp", "eps=1", "-o", "model.json")
    done = run_command("dpml", "release", *words, "dataset.steps=[one_hot,min_max]")
    assert_refused(done, "1.732")
    assert run_command("dpml", "release", *words, "delta=1e-6", "dataset.steps=[one_hot,min_max,clip]").code == 0


@pytest.mark.parametrize(
    ("classes", "predicted"), [("[well, ill]", {"ill", "well"}), ("[dead, well, ill]", {"ill", "not ill"})]
)
def test_predictions_are_in_the_labels_words_and_replace_no_file_that_is_read(
    run_command, people, tmp_path, classes, predicted
) -> None:
    (tmp_path / "people.yaml").write_text(BOUNDS.replace("[well, ill]", classes))
    words = (*STATED, "algo=ssp_descent", "eps=5", "dataset.positive=ill")
    assert run_command("dpml", "release", *words, "-o", "model.json").code == 0
    assert run_command("dpml", "predict", "model.json", "people.csv", "-o", "out.csv").code == 0
    found = pd.read_csv(tmp_path / "out.csv")["prediction"]
    assert set(found) == predicted
    assert ((found == "ill") == (people["health"] == "ill")).mean() > 0.75
    for name in ("people.csv", "model.json"):
        before = Path(name).read_bytes()
        assert run_command("dpml", "predict", "model.json", "people.csv", "-o", name).code == 2
        assert Path(name).read_bytes() == before


def test_a_stated_class_that_no_row_has_is_a_class_of_the_model(run_command, people, tmp_path) -> None:
    """Else a replaced row would change how long the published weights are, and how much noise they have."""
    (tmp_path / "people.yaml").write_text(BOUNDS.replace("[well, ill]", "[dead, ill, well, young]"))
    assert run_command("dpml", "release", *FOUR, "algo=ssp", "eps=500", "-o", "model.json").code == 0
    model = read_model(tmp_path / "model.json")
    assert model.weights.shape == (4, 6)
    assert model.stated.classes == ("dead", "ill", "well", "young")
    assert run_command("dpml", "predict", "model.json", "people.csv", "-o", "out.csv").code == 0
    assert set(pd.read_csv(tmp_path / "out.csv")["prediction"]) <= {"dead", "ill", "well", "young"}


@pytest.mark.parametrize("algo", ["capefm", "dpfm", pytest.param("dpgd", marks=pytest.mark.slow)])
def test_noise_is_exact_wherever_it_can_be_and_nothing_else_is_said(run_command, people, tmp_path, algo) -> None:
    words = *FOUR, f"algo={algo}", "eps=0.5"
    done = run_command("dpml", "release", *words, "-o", "model.json")
    assert done.code == 0, done.err
    assert "Noise: exact integers" in " ".join(done.out.split())
    model = read_model(tmp_path / "model.json")
    assert {guarantee.basis for guarantee in model.guarantees} == {"proven"}
    assert max(guarantee.eps for guarantee in model.guarantees) <= 0.5
    assert calculated(run_command, words) == pytest.approx([each.eps for each in model.guarantees], rel=1e-12)


@pytest.mark.parametrize("algo", ["gop", "wddp", "conv", "fm calibration=published"])
def test_floating_point_noise_is_refused_and_then_labelled_everywhere(run_command, people, tmp_path, algo) -> None:
    """Before anything is entered; with --floating the statement, the model's file and the ledger say what is proven."""
    words = (*STATED, "eps=0.5", *f"algo={algo}".split())
    done = run_command("dpml", "release", *words, "-o", "model.json")
    assert_refused(done, "--floating")
    done = run_command("dpml", "release", *words, "--floating", "-o", "model.json")
    assert done.code == 0, done.err
    assert "proven for real numbers, not for these bits" in " ".join(done.out.split())
    content = json.loads((tmp_path / "model.json").read_text())
    assert {guarantee["basis"] for guarantee in content["guarantees"]} == {"proven for real numbers"}
    (entry,) = Ledger(tmp_path / "people.csv.ledger").entries()
    assert entry.guarantees == read_model(tmp_path / "model.json").guarantees
    shown = run_command("dpml", "ledger", "people.csv.ledger").out
    assert "Release 1: proven for real numbers, not for these bits;" in " ".join(shown.split())


def test_the_weights_hold_no_more_than_the_noise_allows(run_command, people, tmp_path) -> None:
    """Nothing in the file but the weights changes when a row is replaced, and no row is counted."""
    texts = []
    for change in (False, True):
        table = people.copy()
        if change:
            table.loc[7] = [99, "mine", "yes", "well"]
        table.to_csv("people.csv", index=False)
        name = f"{change}.json"
        assert run_command("dpml", "release", *STATED, "algo=ssp", "eps=1", "-o", name).code == 0
        content = json.loads((tmp_path / name).read_text())
        assert len(content.pop("weights")[0]) == 6
        assert len(content.pop("checksum")) == 64
        texts.append(json.dumps(content))
    assert texts[0] == texts[1]
    assert "3000" not in texts[0]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ((*BASE, "algo=ssp"), "dataset.bounds=public"),
        ((*STATED, "algo=ssp", "seed=1"), "seed="),
        ((*STATED, "algo=ssp", "eps=inf"), "eps=inf"),
        ((*STATED, "algo=ssp", "dataset.missing=drop"), "leaves rows out"),
        ((*FOUR, "algo=capefm", "calibration=published", "eps=1"), "calibration=tight"),
        ((*STATED, "algo=nonpriv", "eps=1"), "nothing is proven"),
        ((*STATED, "algo=gop", "eps=1", "delta=1e-30", "--floating"), "delta=1e-30"),
        ((*STATED, "algo=ssp", "eps=1", "delta=0.004"), "1/N or more"),
        ((*STATED, "algo=ssp", "eps=1", "-o", "nowhere/model.json"), "nowhere/model.json"),
        ((*BOUNDED, "M=5", "algo=ssp", "eps=1", "algo.unit=party"), "at random"),
        ((*BOUNDED, "M=2", "algo=ssp", "eps=1", "partition=classes"), "private labels"),
        ((*BOUNDED, "M=2", "algo=la", "algo.lam=1", "eps=1", "delta=null", "partition=dirichlet"), "private labels"),
        ((*STATED, "algo=nn_cape", "eps=1"), "no linear model"),
        ((*STATED, "algo=amp", "eps=1", "--floating"), "for experiments and audits only"),
        ((*STATED, "algo=dpgd", "algo.noise=discrete", "eps=1e-15", "delta=1e-15"), "64 bits"),
        ((*STATED, "algo=dpgd", "algo.clip=1e-7", "eps=1"), "1e-06"),
        (("dataset=synthetic", "algo=ssp"), "dataset.bounds=public"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_what_is_refused_leaves_no_model(run_command, people, words, sentence) -> None:
    assert_refused(run_command("dpml", "release", "-o", "model.json", *words), sentence)


@pytest.mark.parametrize("hindrance", ["published", "reserved", "full disk", "no ledger"])
def test_no_noise_is_drawn_for_a_model_that_could_not_be_published(
    run_command, people, tmp_path, monkeypatch, hindrance
) -> None:
    """Nor is a budget spent, and a published model is not overwritten."""
    model, ledger, other = tmp_path / "model.json", tmp_path / "people.csv.ledger", nullcontext()
    if hindrance == "published":
        model.write_text("published")
    elif hindrance == "reserved":
        other = reserved(model)
    elif hindrance == "full disk":
        monkeypatch.setattr("dpml.files.os.fsync", Mock(side_effect=OSError(28, "No space left on device")))
    else:
        ledger.mkdir()
    with other:
        done = run_command("dpml", "release", *STATED, "algo=ssp", "eps=1", "-o", "model.json")
    assert done.code == 2
    assert not ledger.is_file()
    assert hindrance in ("published", "reserved") or not model.exists()
    assert hindrance != "published" or model.read_text() == "published"


def test_a_models_checksum_is_entered_before_the_model_is_there(run_command, people, tmp_path, monkeypatch) -> None:
    """Ended in between, a release leaves no model that the ledger calls unpublished."""
    seen, publish = [], Ledger.publish

    def look(ledger: Ledger, entry: LedgerEntry, model: str) -> None:
        (partial,) = tmp_path.glob(".model.json-*")  # it is whole on the disk, without its name
        seen.append((hashlib.sha256(partial.read_bytes()).hexdigest() == model, (tmp_path / "model.json").exists()))
        publish(ledger, entry, model)

    monkeypatch.setattr(Ledger, "publish", look)
    assert run_command("dpml", "release", *STATED, "algo=ssp", "eps=1", "-o", "model.json").code == 0
    assert seen == [(True, False)]


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["ssp", "dpfm", "gop"])
def test_the_noise_is_the_operating_systems(run_command, people, tmp_path, monkeypatch, algorithm) -> None:
    """With the system's random numbers held fixed two releases are the same: their noise has no other source."""
    words = (*STATED, *f"algo={algorithm}".split(), "eps=1", "--floating")
    assert run_command("dpml", "release", *words, "-o", "first.json").code == 0  # caches are filled
    for name in ("a.json", "b.json"):
        with monkeypatch.context() as patch:
            patch.setattr(os, "urandom", np.random.default_rng(0).bytes)
            assert run_command("dpml", "release", *words, "-o", name).code == 0
    first, one, other = (read_model(tmp_path / name).weights for name in ("first.json", "a.json", "b.json"))
    np.testing.assert_allclose(one, other, rtol=1e-6)
    assert not np.isclose(one, first, rtol=1e-6).any()


# ---- the model's file


def a_model(**changes: object) -> Model:
    stated = ColumnBounds.of_columns("x", {"a": Range(0.0, 10.0), "b": ("p", "q")}, (), Range(0.0, 50.0))  # type: ignore[arg-type]
    weights = np.array([[0.1, 0.25, -1 / 3, 0.5]])
    ssp = SufficientStatistics(LOSSES["squared"], noise="discrete")
    facts = facts_about(ssp, Problem(1, 500, 3), Budget(1.0, 1e-5))
    values = {
        "task": "regression", "loss": "squared", "label": "y", "stated": stated, "weights": weights,
        "steps": ("one_hot", "symmetric", "bias", "sample_norm"), "guarantees": facts.held,
        "statement": statement(facts), "certificate": facts.certificate, "setting": "algo=ssp",
        "versions": {"dpml": "0"}, "offset": 1.0, "scale": 50.0,
    }  # fmt: skip
    return Model(**values | changes)  # type: ignore[arg-type]


def test_the_bounds_may_list_the_columns_in_another_order(run_command, people, tmp_path) -> None:
    """The weights are in the order of the data file's columns, and so must the model's statements be."""
    head, age, job, smoker, classes = BOUNDS.strip().splitlines()
    (tmp_path / "people.yaml").write_text("\n".join([head, smoker, job, age, classes]))
    assert run_command("dpml", "release", *STATED, "algo=ssp_descent", "eps=1", "-o", "model.json").code == 0
    assert list(read_model(tmp_path / "model.json").stated.columns) == ["age", "job", "smoker"]
    people[["smoker", "age", "job"]].to_csv(tmp_path / "other.csv", index=False)  # nor is its order that of the rows
    assert run_command("dpml", "predict", "model.json", "other.csv", "-o", "out.csv").code == 0
    assert (pd.read_csv(tmp_path / "out.csv")["prediction"] == people["health"]).mean() > 0.75


def test_every_class_has_a_column_of_probabilities() -> None:
    stated = ColumnBounds.of_columns("x", {"a": Range(0.0, 10.0)}, ("red", "amber", "green"))  # type: ignore[arg-type]
    weights = np.array([[1.0], [-1.0], [0.5]])
    model = a_model(task="multiclass", loss="softmax", stated=stated, weights=weights, steps=("symmetric",))
    X = np.array([[10.0], [0.0], [5.0], [0.0]])
    table = model.predictions(X)
    assert list(table) == ["prediction", "probability_red", "probability_amber", "probability_green"]
    expected = softmax((X / 5 - 1) @ weights.T, axis=1)
    np.testing.assert_allclose(np.column_stack(list(table.values())[1:]).astype(float), expected, rtol=1e-14)
    assert list(table["prediction"]) == [model.stated.classes[k] for k in expected.argmax(axis=1)]
    squared = a_model(task="binary", loss="squared", stated=replace(stated, classes=("a", "b")), weights=weights[:1])
    assert list(replace(squared, steps=("symmetric",)).predictions(X)) == ["prediction"]


def test_predictions_are_those_of_the_formula() -> None:
    """By hand: a = 7.5 is .5 in [-1, 1]; b = q; the constant 1; all over the length sqrt(.25 + 1 + 1); a log scale."""
    stated = ColumnBounds.of_columns("x", {"a": Range(0, 10), "b": ("p", "q")}, (), Range(0, 50, log=True))  # type: ignore[arg-type]
    row = np.array([0.5, 0.0, 1.0, 1.0]) / np.sqrt(2.25)
    plain = 1 + 50 * row @ [0.1, 0.25, -1 / 3, 0.5]
    for model, due in ((a_model(), plain), (a_model(stated=stated), np.exp(plain) - 1)):
        assert model.predictions(np.array([[7.5, 1.0]]))["prediction"] == pytest.approx(due)


def an_additive_model() -> Model:
    """Of a, piecewise linear between 0, 2, 5 and 10, and of b."""
    stated = ColumnBounds.of_columns("x", {"a": Range(0, 10, edges=(2, 5)), "b": ("p", "q")}, (), Range(0, 50))  # type: ignore[arg-type]
    weights = np.array([[0.3, -0.1, 3.0, -1.0, 2.0, 0.5]])
    return a_model(stated=stated, weights=weights, steps=("one_hot", "spline", "max_norm"))


def test_shapes_are_the_additive_model() -> None:
    model = an_additive_model()
    a, b = shapes(model)
    expected = 50 / np.sqrt(2) * np.interp(a.values, [0, 2, 5, 10], [3, -1, 2, 0.5])
    np.testing.assert_allclose(a.effects[:, 0], expected - expected.mean(), atol=1e-9)
    assert b.effects[:, 0] == pytest.approx([50 / np.sqrt(2) * 0.2, -50 / np.sqrt(2) * 0.2])
    X = np.column_stack([np.random.default_rng(0).uniform(0, 10, 50), np.arange(50) % 2])
    sums = np.interp(X[:, 0], a.values, a.effects[:, 0]) + b.effects[X[:, 1].astype(int), 0]
    assert np.ptp(model.predictions(X)["prediction"] - sums) < 0.05  # between two of 400 points


@pytest.mark.parametrize("name", ["../../evil", *(pytest.param(name, marks=pytest.mark.slow) for name in ("=1", ""))])
def test_shapes_of_any_names_stay_in_their_folder(tmp_path, name) -> None:
    stated = ColumnBounds.of_columns("x", {name: Range(0, 10), "b": ("=p", "q")}, ("a", "$b_{1$"))  # type: ignore[arg-type]
    model = a_model(
        task="binary", loss="logistic", stated=stated, weights=np.ones((1, 3)), steps=("one_hot",), scale=1.0
    )
    written = write(model, tmp_path / "out")
    assert all(path.parent == tmp_path / "out" and path.exists() for path in written)
    assert not re.search(r"(^|,)=", (tmp_path / "out" / "shapes.csv").read_text(), re.MULTILINE)


def test_every_class_has_its_shape() -> None:
    stated = ColumnBounds.of_columns("x", {"a": Range(0.0, 10.0), "b": ("p", "q")}, ("red", "amber", "green"))  # type: ignore[arg-type]
    weights = np.array([[1.0, 0, 1], [-1.0, 1, 0], [0.5, 0, 0]])
    model = a_model(
        task="multiclass", loss="softmax", stated=stated, weights=weights, steps=("one_hot", "symmetric"), scale=1.0
    )
    a, b = shapes(model)
    np.testing.assert_allclose(a.effects, (a.values / 5 - 1)[:, None] * weights[:, 0], atol=1e-9)
    np.testing.assert_allclose(b.effects, (weights[:, 1:] - weights[:, 1:].mean(axis=1, keepdims=True)).T)


def test_a_file_that_is_no_model_is_refused(tmp_path) -> None:
    text = a_model().text()
    edited, unsealed = text.replace("0.25", "0.26"), re.sub(r',\s*"checksum": "\w+"', "", text)
    for wrong in (edited, unsealed, a_model(steps=("symetric",)).text(), a_model(weights=np.ones((1, 3))).text()):
        (tmp_path / "m.json").write_text(wrong)
        with pytest.raises(UserError):
            read_model(tmp_path / "m.json")


@pytest.mark.slow
def test_every_byte_that_is_flipped_is_noticed_or_harmless(tmp_path) -> None:
    """A bit of each. Harmless: white space that becomes other white space, and 1E-05 for 1e-05."""
    path, text, harmless = tmp_path / "m.json", a_model().text(), 0
    content = text.encode()
    for place, bit in enumerate(np.random.default_rng(0).integers(8, size=len(content)).tolist()):
        path.unlink(missing_ok=True)  # a file that is cut to nothing and written again waits for the disk
        path.write_bytes(content[:place] + bytes([content[place] ^ (1 << bit)]) + content[place + 1 :])
        try:
            assert read_model(path).text() == text
            harmless += 1
        except UserError:
            continue
    assert harmless < 100


def test_new_rows_may_have_other_values_and_a_dialect_but_no_missing_number(run_command, people) -> None:
    """A category that the model does not know counts as none, which is told."""
    assert run_command("dpml", "release", *STATED, "algo=ssp", "eps=1", "-o", "model.json").code == 0
    people.head(2).assign(age=[500.5, -3], job=["pilot", "farm"]).to_csv("plain.csv", index=False)
    people.head(2).assign(age=[500.5, -3], job=["pilot", "farm"], ward="Köln").to_csv(
        "dialect.csv", index=False, sep=";", decimal=",", encoding="cp1252"
    )
    plain = run_command("dpml", "predict", "model.json", "plain.csv")
    assert (plain.code, len(plain.out.splitlines())) == (0, 3)
    assert "1 of 2 rows have none of the model's values in the column 'job'" in plain.err
    assert run_command("dpml", "predict", "model.json", "dialect.csv").code == 2
    done = run_command("dpml", "predict", "model.json", "dialect.csv", "--encoding", "cp1252", "--decimal", "comma")
    assert (done.code, done.out) == (0, plain.out)
    for content, said in (("age,job\n20,farm\n", "'smoker'"), ("age,job,smoker\n,farm,yes\n", "line 2, column 'age'")):
        Path("new.csv").write_text(content)
        done = run_command("dpml", "predict", "model.json", "new.csv")
        assert (done.code, said in done.err) == (2, True)


@pytest.mark.usefixtures("sketched")
def test_shapes_of_a_model_are_drawn_without_any_row(run_command, tmp_path) -> None:
    (tmp_path / "m.json").write_text(an_additive_model().text())
    assert run_command("dpml", "show", "m.json", "--shapes", "out").code == 0
    assert {path.name for path in (tmp_path / "out").glob("*.png")} == {"001_a.png", "002_b.png"}
    assert list(pd.read_csv(tmp_path / "out" / "shapes.csv")["feature"].unique()) == ["a", "b"]
    assert run_command("dpml", "show", "m.json", "--shapes", "out").code == 2  # the folder is not empty
