"""An engineer: parties with files of their own, tried on one machine, and the first steps in earnest."""

import numpy as np
import pandas as pd
import pytest

BOUNDS = "columns: {age: {low: 0, high: 100}, smoker: boolean}\nclasses: [well, ill]\n"
SET = "--bounds b.yaml --set algo=ssp eps=1 delta=1e-6 dataset.label=health dataset.drop=[pay]"
PAY = "columns: {age: {low: 0, high: 100}, smoker: boolean}\ntarget: {low: 0, high: 6000}\nlabel: pay\ndrop: [health]\n"


@pytest.mark.slow
def test_an_engineer_has_parties_make_one_model(typed, tmp_path) -> None:
    (tmp_path / "b.yaml").write_text(BOUNDS)
    for seed, name in enumerate(("ayr", "bonn", "cork")):
        rng = np.random.default_rng(seed)
        age, smoker = rng.integers(18, 90, 800), rng.choice(["yes", "no"], 800)
        ill = (age - 55) / 10 + 2 * (smoker == "yes") - 1 + rng.logistic(size=800) > 0
        table = pd.DataFrame({"age": age, "smoker": smoker, "health": np.where(ill, "ill", "well")})
        table["pay"] = (1000 + 20 * age + 500 * (smoker == "yes") + 300 * rng.standard_normal(800)).round()
        table.to_csv(tmp_path / f"{name}.csv", index=False)
        typed(f"dpml federate card {name}.csv --key {name}.key -o {name}.card {SET}")
    typed(f"dpml federate plan ayr.card bonn.card cork.card -o plan.yaml {SET}")
    assert (tmp_path / "ayr.key").stat().st_mode & 0o77 == 0
    assert "no ledger was charged" in typed(f"dpml federate try ayr.csv bonn.csv cork.csv {SET}")
    assert not list(tmp_path.glob("*.ledger"))
    typed(f"dpml federate try ayr.csv bonn.csv cork.csv --release -o model.json {SET}")
    assert "holds" in typed("dpml verify model.json")
    found = typed("dpml predict model.json ayr.csv --class ill").splitlines()
    assert (found[0], len(found)) == ("probability_ill", 801)
    assert all((tmp_path / f"{name}.csv.ledger").exists() for name in ("ayr", "bonn", "cork"))
    (tmp_path / "pay.yaml").write_text(PAY)
    words = "--bounds pay.yaml --set algo=regression eps=4 delta=1e-6 count_errors=1"
    typed(f"dpml federate try ayr.csv bonn.csv cork.csv --release -o pay.json {words}")
    assert "smoker | if true" in typed("dpml table pay.json --per age=10")
