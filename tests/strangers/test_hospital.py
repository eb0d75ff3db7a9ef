"""A hospital: a file as Excel writes it, from `describe` to a published model and a risk for every patient."""

import re
import shlex

import numpy as np
import pandas as pd
import pytest
import yaml
from sklearn.metrics import roc_auc_score

N = 3000


def messy() -> pd.DataFrame:
    """Rows with ids, dates, gaps of two kinds, cities with umlauts, and few who died."""
    rng = np.random.default_rng(0)
    age = rng.integers(18, 95, N).astype(object)
    smoker = rng.choice(["yes", "no"], N)
    risk = (age.astype(float) - 85) / 8 + (smoker == "yes")
    bmi = np.round(rng.normal(26, 5, N), 1).astype(object)
    bmi[rng.random(N) < 0.03] = "unbekannt"
    age[rng.random(N) < 0.05] = None
    seen = pd.to_datetime("2019-01-01") + pd.to_timedelta(rng.integers(0, 1500, N), "D")
    return pd.DataFrame(
        {
            "patient": [f"P{i:05d}" for i in range(N)],
            "seen": seen.strftime("%d.%m.%Y"),
            "age": age,
            "bmi": [str(value).replace(".", ",") for value in bmi],
            "city": rng.choice(["Zürich", "Genève", "Köln"], N),
            "smoker": smoker,
            "died": np.where(rng.random(N) < 1 / (1 + np.exp(-risk)), "dead", "alive"),
        }
    )


@pytest.mark.slow
def test_a_hospital_publishes_a_model_at_the_first_try(typed, tmp_path) -> None:
    table = messy()
    table.to_csv(tmp_path / "a.csv", sep=";", index=False, encoding="latin-1")
    said = typed("dpml data describe a.csv --label died --drop patient --encoding cp1252 --bounds-out draft.yaml")
    for noticed in ("dataset.encoding=cp1252", "dataset.decimal=comma", "dataset.na=[unbekannt]", "missing=keep"):
        assert noticed in said
    # the owner writes what is known without the rows, in the form of the draft
    content = yaml.safe_load((tmp_path / "draft.yaml").read_text(encoding="utf-8"))
    assert content.pop("from_rows")
    seen = content["columns"]["seen"]
    assert seen == {"unit": "days", "low": "2019-01-01", "high": "2023-02-08", "format": "%d.%m.%Y"}
    content["columns"] |= {"age": {"low": 0, "high": 110}, "bmi": {"low": 10, "high": 60}}
    (tmp_path / "bounds.yaml").write_text(yaml.safe_dump(content, allow_unicode=True), encoding="utf-8")
    # the printed command, with what a release needs in addition
    printed = re.search(r"A run: dpml-run (.*), with the steps", said)
    assert printed is not None
    words = shlex.split(printed[1])
    missing = ["dataset.missing=keep", "dataset.steps=[impute,one_hot,symmetric,bias,sample_norm]"]
    released = typed("dpml release", *words, *missing, "dataset.bounds=bounds.yaml", "eps=1", "delta=1e-5")
    assert "Unit of privacy: one record" in released
    assert "holds" in typed("dpml verify model.json")
    shown = typed("dpml show model.json")
    assert all(word in shown for word in ("log odds of dead", "age", "per unit", "+1 is dead"))
    options = "--encoding cp1252 --decimal comma --na unbekannt"
    typed(f"dpml predict model.json a.csv {options} -o risks.csv")
    risks = pd.read_csv(tmp_path / "risks.csv")
    assert list(risks) == ["prediction", "probability_alive", "probability_dead"]
    assert roc_auc_score(table["died"] == "dead", risks["probability_dead"]) > 0.75
    assert "eps" in typed("dpml ledger a.csv")
    assert "for prediction" in typed("dpml table model.json", code=2)
