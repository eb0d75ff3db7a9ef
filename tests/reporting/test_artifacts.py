"""What is written for an experiment: summaries whose lines agree with those of the comparison."""

import json

import pandas as pd
from harness import run, without_pictures

from dpml.reporting import artifacts

MIXED = {
    "title": "A setting that some algorithms lack",
    "source": "nobody, 2000",
    "settings": {"dataset": "synthetic", "dataset.recipe": "ball_sign", "dataset.d": 2, "M": 1, "N": 60, "draws": 3},
    "grid": {
        "a_eps": [
            {"algo": "wang", "algo.rounds": 3, "algo.step": [None, 0.5], "eps": [0.5, 1.0]},
            {"algo": "objpert", "eps": [0.5, 1.0]},
            {"algo": "fm", "eps": [0.5, 1.0]},
        ]
    },
    "panels": [{"block": "a_eps", "x": "eps", "y": "accuracy", "curve": ["algo.step"]}],
    "reference": "objpert",
}


def test_differences_are_there_for_settings_that_some_algorithms_lack(tmp_path) -> None:
    with without_pictures():
        assert run(tmp_path, MIXED) == 0
    summary = pd.read_csv(tmp_path / "mine" / "tiny.csv")
    assert set(summary.loc[summary["algo"] == "wang", "algo.step"].fillna(-1)) == {-1, 0.5}
    like = summary[(summary["algo"] == "fm") & (summary["metric"] == "accuracy")]
    assert len(like) == 2
    assert like["difference"].notna().all()  # compared with objpert, which has no step either


def test_the_page_of_claims_names_the_experiments_of_a_paper_that_were_not_computed(tmp_path) -> None:
    verdict = {"id": "H2.1", "text": "t", "criterion": "c", "decision": "reproduced", "numbers": "n"}
    known = {"experiment": "hamm2016/fig2", "title": "T", "command": "dpml-run experiment=hamm2016/fig2"}
    known |= {"claims": [verdict], "claims_from": "dpml.papers.hamm2016.claims"}
    mine = known | {"experiment": "mine/x", "claims_from": "dpml.papers.kang2019.claims"}
    for manifest in (known, mine):
        path = tmp_path / f"{manifest['experiment']}.json"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(manifest))
    (page,) = artifacts.write_claims(tmp_path)
    sections = {part.partition(":")[0]: part for part in page.read_text().split("\n## ")[1:]}
    assert list(sections) == ["hamm2016/fig2", "hamm2016/fig3", "hamm2016/fig4", "hamm2016/readings", "mine/x"]
    url = sections["hamm2016/fig4"].splitlines()
    assert "`dpml-run experiment=hamm2016/fig4 data_dir=DIR`" in url
    for name in ("H4.1", "H4.2"):
        (line,) = (line for line in url if line.startswith(f"| {name} "))
        needs = "DIR holds the official url/Day0.svm to url/Day19.svm, "
        assert f"| cannot be tested here |  | not computed; needs data_dir=DIR: {needs}" in line
    assert "cannot be tested here" not in sections["hamm2016/fig2"]
    assert artifacts.write_claims(tmp_path) == []
