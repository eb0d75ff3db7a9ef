"""What is written for an experiment: summaries whose lines agree with those of the comparison."""

import pandas as pd
from harness import run

MIXED = {
    "title": "A setting that some algorithms lack",
    "source": "nobody, 2000",
    "settings": {"dataset": "synthetic", "dataset.recipe": "ball_sign", "dataset.d": 2, "M": 1, "N": 60, "draws": 3},
    "grid": {
        "a_eps": [
            {"algo": "wang", "algo.rounds": 3, "algo.step": [None, 0.5], "eps": [0.5, 1.0]},
            {"algo": "gop", "eps": [0.5, 1.0]},
            {"algo": "fm", "eps": [0.5, 1.0]},
        ]
    },
    "panels": [{"block": "a_eps", "x": "eps", "y": "accuracy", "curve": ["algo.step"]}],
    "reference": "gop",
}


def test_differences_are_there_for_settings_that_some_algorithms_lack(tmp_path) -> None:
    assert run(tmp_path, MIXED) == 0
    summary = pd.read_csv(tmp_path / "mine" / "tiny.csv")
    assert set(summary.loc[summary["algo"] == "wang", "algo.step"].fillna(-1)) == {-1, 0.5}
    like = summary[(summary["algo"] == "fm") & (summary["metric"] == "accuracy")]
    assert len(like) == 2
    assert like["difference"].notna().all()  # compared with gop, which has no step either
