"""What is written for an experiment: summaries whose lines agree with those of the comparison."""

import re

import pytest
from harness import run

from dpml.reporting import artifacts
from dpml.reporting.manifest import Manifest

FIGURE = {
    "title": "A figure",
    "source": "nobody, 2000",
    "settings": {"dataset": "synthetic", "dataset.recipe": "ball_sign", "dataset.d": 2, "M": 1, "N": 60, "draws": 3},
    "grid": {"a_eps": {"algo": "fm", "eps": [0.5, 1.0]}},
    "panels": [{"block": "a_eps", "x": "eps", "y": "accuracy"}],
}


@pytest.mark.usefixtures("sketched")
def test_a_picture_goes_with_the_last_of_its_panels(tmp_path) -> None:
    assert run(tmp_path, FIGURE) == 0
    kinds = {".png", ".svg"}
    assert kinds <= {path.suffix for path in (tmp_path / "mine").iterdir()}
    assert run(tmp_path, FIGURE | {"panels": [], "metrics": ["accuracy"]}) == 0
    assert not kinds & {path.suffix for path in (tmp_path / "mine").iterdir()}


def test_the_page_of_claims_names_the_experiments_of_a_paper_that_were_not_computed(tmp_path) -> None:
    verdict = {"id": "H2.1", "text": "t", "criterion": "c", "decision": "reproduced"}
    known = {"experiment": "hamm2016/fig2", "title": "T", "command": "dpml-run experiment=hamm2016/fig2"}
    known |= {"claims": [verdict], "panels": [], "figures": []}
    mine = known | {"experiment": "mine/x"}
    for manifest in (known, mine):
        path = tmp_path / f"{manifest['experiment']}.json"
        path.parent.mkdir(parents=True)
        Manifest(path).keep(manifest)
    paths = [str(path.relative_to(tmp_path)) for path in artifacts.write_claims(tmp_path)]
    assert paths == ["claims.md", "hamm2016/claims.md", "mine/claims.md"]
    page = (tmp_path / "hamm2016" / "claims.md").read_text()
    assert "`dpml-run experiment=hamm2016/fig4 data_dir=DIR`" in page
    assert re.search(r"\(H4.1\).*not computed; its command needs data_dir=DIR", page)
    assert artifacts.write_claims(tmp_path) == []


def test_a_manifest_reads_back_as_it_was_written(tmp_path) -> None:
    rows = [["a, b", 'quoted "]"', "[\n", "ε \\"], [], [1, -2.5e-7, None, True], [["nested"], {"key": "]"}]]
    manifest = Manifest(tmp_path / "x.json")
    manifest.keep({"rows": rows, "files": {}})
    assert manifest.read() == {"rows": rows, "files": {}}
    assert "  [1, -2.5e-07, null, true]," in manifest.path.read_text("utf-8").splitlines()
