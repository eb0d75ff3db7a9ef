"""`dpml table MODEL`: coefficients with intervals from a published model, and when there are none."""

import json

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from scipy.stats import norm

import dpml
from dpml import files
from dpml.errors import UserError
from dpml.files import seal_object
from dpml.release.model import read_model

COLUMNS = """columns:
  age: {low: 20, high: 80}
  job: [nurse, clerk, smith]
  union: boolean
  hired: {unit: days, low: 2010-01-01, high: 2019-12-31}
label: wage
drop: [ill]
"""
BOUNDS = f"{COLUMNS}target: {{low: 0, high: 80}}\n"
TRUE = {"+10": 2.0, "clerk against nurse": -3.0, "smith against nurse": -7.0, "if true": 5.0, "-365 days": -2.0}

ILL = "columns: {age: {low: 20, high: 80}, job: [clerk, nurse, smith]}\nclasses: ['no', 'yes']\nlabel: ill\n"
ILL += "drop: [union, hired, wage]\n"


EXPECTED = ("algo=regression", "loss=squared", "N=20000", "d=6", "M=1", "delta=1e-6")


@pytest.fixture
def staff(tmp_path, monkeypatch, rows=20_000):
    """A file of wages and illness, and what is publicly known of its columns."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    age, job = rng.uniform(20, 80, rows).round(), rng.choice(["clerk", "nurse", "smith"], rows, p=[0.6, 0.3, 0.1])
    union, days = rng.choice(["yes", "no"], rows), rng.integers(0, 3650, rows)
    wage = 10 + age / 5 + 3 * (job == "nurse") - 4 * (job == "smith") + 5 * (union == "yes") + days * 2 / 365
    table = {"age": age, "job": job, "union": union, "hired": np.datetime64("2010-01-01") + days}
    table["wage"] = (wage + rng.standard_normal(rows) * 4).round(2)
    logits = -1 + 0.03 * (age - 50) + 0.8 * (job == "nurse") - 0.5 * (job == "smith")
    table["ill"] = np.where(rng.random(rows) < 1 / (1 + np.exp(-logits)), "yes", "no")
    pd.DataFrame(table).to_csv("staff.csv", index=False)
    (tmp_path / "staff.yaml").write_text(BOUNDS)


def released(run_command, *words):
    """Release a model of the file into model.json."""
    return run_command("dpml", "release", "staff.csv", "--bounds", "staff.yaml", "delta=1e-6", *words)


def write(folder, content):
    """Write a model's content with the checksum that it now has."""
    content = {key: value for key, value in content.items() if key != "checksum"}
    (folder / "model.json").write_text(json.dumps(seal_object(content), indent=1, ensure_ascii=False))


def test_a_released_model_has_a_table_that_covers_the_truth_and_a_verified_guarantee(staff, run_command, tmp_path):
    assert released(run_command, "algo=regression", "eps=2").code == 0
    table = dpml.read_table("model.json", level=0.9999, per={"age": 10, "hired": -365}).set_index("unit")
    for unit, effect in TRUE.items():  # all five cover with a probability of .9995
        assert table.loc[unit, "low"] < effect < table.loc[unit, "high"]
        assert table.loc[unit, "p"] < 0.001
    assert run_command("dpml", "verify", "model.json").code == 0
    shown = run_command("dpml", "table", "model.json", "--per", "age=10")
    assert "smith against nurse" in shown.out
    assert "Linear regression of wage" in shown.out
    assert run_command("dpml", "table", "model.json", "-o", "table.tex").code == 0
    for wrong in ("age=0", "union=2", "job=2", "wage=2", "age"):
        assert run_command("dpml", "table", "model.json", "--per", wrong).code == 2
    content = json.loads((tmp_path / "model.json").read_text())
    write(tmp_path, content | {"moments": content["moments"] | {"labels": "1"}})
    assert run_command("dpml", "verify", "model.json").code == 2


def test_a_logistic_model_has_a_table_of_odds_ratios(staff, run_command, tmp_path):
    (tmp_path / "staff.yaml").write_text(ILL)
    assert released(run_command, "algo=regression", "eps=2").code == 0
    table = dpml.read_table("model.json", level=0.9999, per={"age": 10}).set_index("unit")
    for unit, effect in {"+10": 0.3, "nurse against clerk": 0.8, "smith against clerk": -0.5}.items():
        assert table.loc[unit, "odds_low"] < np.exp(effect) < table.loc[unit, "odds_high"]
        assert np.log(table.loc[unit, "odds_ratio"]) == pytest.approx(table.loc[unit, "estimate"])
        assert table.loc[unit, "p"] < 0.01
    assert read_model(tmp_path / "model.json").text() == (tmp_path / "model.json").read_text()
    assert run_command("dpml", "verify", "model.json").code == 0
    shown = run_command("dpml", "table", "model.json").out
    assert "odds ratio" in shown
    assert "ill = yes" in " ".join(shown.split())
    content = json.loads((tmp_path / "model.json").read_text())
    for change in ({"note": 1}, {"last": content["moments"]["last"] | {"note": 1}}, {"rows": "1"}):
        write(tmp_path, content | {"moments": content["moments"] | change})
        assert run_command("dpml", "verify", "model.json").code == 2


def test_steps_that_change_the_coefficients_are_refused_before_anything_is_spent(staff, run_command, tmp_path):
    refused = released(run_command, "algo=regression", "eps=2", "dataset.steps=[one_hot,symmetric,bias,sample_norm]")
    assert refused.code == 2
    assert "treatment" in refused.err
    assert not (tmp_path / "model.json").exists()
    (tmp_path / "staff.yaml").write_text(ILL)
    refused = released(run_command, "algo=regression", "loss=squared", "eps=2")
    assert "loss=logistic for two classes" in " ".join(refused.err.split())
    assert not list(tmp_path.glob("*.ledger"))


@pytest.mark.parametrize(
    ("algo", "eps", "said"), [("wdgd", 2, "for prediction"), ("regression", 5e-4, "the noise hides")]
)
def test_weights_that_are_no_effects_or_that_the_noise_hides_have_no_table(staff, run_command, algo, eps, said):
    assert released(run_command, f"algo={algo}", f"eps={eps}").code == 0
    refused = run_command("dpml", "table", "model.json")
    assert (refused.code, said in " ".join(refused.err.split())) == (2, True)
    assert ("Expect no table" in run_command("dpml", "guarantee", *EXPECTED, f"eps={eps}").out) == (eps < 2)


@pytest.mark.parametrize("bounds", [BOUNDS, ILL], ids=["wage", "ill"])
def test_the_room_on_the_disk_before_noise_is_drawn_is_enough_for_the_longest_numbers(
    staff, run_command, tmp_path, monkeypatch, bounds
):
    sizes, really = [], files._write

    def spy(file, content, path):
        if path.name == "model.json":
            sizes.append(len(content))
        really(file, content, path)

    monkeypatch.setattr(files, "_write", spy)
    (tmp_path / "staff.yaml").write_text(bounds)
    assert released(run_command, "algo=regression", "eps=2").code == 0
    content = json.loads((tmp_path / "model.json").read_text())
    for key in ("weights", "moments"):
        content[key] = json.loads(json.dumps(content[key]), parse_float=lambda _: -1.2345678901234567e-300)
    write(tmp_path, content)
    assert len(sizes) == 2
    assert sizes[0] > (tmp_path / "model.json").stat().st_size


def test_the_summary_of_a_regression_without_noise_is_that_of_least_squares():
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 10, (400, 2))
    y = 5 + X @ [3.0, -0.5] + rng.normal(0, 2, 400)
    model = dpml.PrivateRegressor("regression", eps=np.inf, bounds=[-2, 12], y_bounds=[-40, 60]).fit(X, y)
    found = model.summary(per={"x0": 10.0})
    A = np.column_stack([np.ones(400), X - 5])  # the constant is the value at mid-range
    beta, squares, _, _ = np.linalg.lstsq(A, y, rcond=None)
    errors = np.sqrt(squares[0] / 397 * np.diag(np.linalg.inv(A.T @ A)))
    unit = [1, 10, 1]
    np.testing.assert_allclose(found["estimate"], beta * unit)
    np.testing.assert_allclose(found["high"] - beta * unit, norm.ppf(0.975) * errors * unit)
    np.testing.assert_allclose(model.predict(X), A @ beta)


def test_the_summary_of_a_private_classifier_covers_the_truth_and_is_the_table_of_its_file(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 10, (20_000, 2))
    y = np.where(rng.random(20_000) < expit(X[:, 0] / 2 - 2), "yes", "no")
    ledger = tmp_path / "my.ledger"
    fit = dpml.PrivateClassifier("regression", eps=4.0, delta=1e-6, bounds=[0, 10], ledger=ledger).fit(X, y)
    fit.save(tmp_path / "model.json")
    wide = fit.summary(level=0.9999)  # three intervals miss with a probability of 3e-4
    assert np.all((wide["low"] < [0.5, 0.5, 0.0]) & (wide["high"] > [0.5, 0.5, 0.0]))
    pd.testing.assert_frame_equal(dpml.read_table(tmp_path / "model.json"), fit.summary())


@pytest.mark.parametrize("wrong", [{"fit_intercept": False}, {"class_weight": {0: 0.5, 1: 1.0}}])
def test_an_estimator_refuses_what_would_change_the_coefficients(wrong):
    with pytest.raises(UserError, match="fit_intercept"):
        dpml.PrivateClassifier("regression", bounds=[0, 1], **wrong).fit(np.eye(2)[:, :1], [0, 1])
