"""The README's first table and the words around the version are what results and code say."""

import re
import sys
from pathlib import Path

import pandas as pd
import pytest
import yaml

import dpml

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "scripts"))
overview = pytest.importorskip("overview")


def test_the_first_table_is_that_of_the_committed_results() -> None:
    if not overview.AUDIT.exists():
        pytest.skip("an sdist has no results")
    table = overview.markdown(overview.headlines(pd.read_csv(overview.AUDIT)))
    assert table in (ROOT / "README.md").read_text(encoding="utf-8")


def test_a_headline_is_the_worst_view_that_a_claim_is_about() -> None:
    def rows(algo: str, view: str, **values: float) -> list[dict[str, object]]:
        same = {"noise": "published", "variant": "paper", "algo.protocol": None, "algo": algo, "loss": "logistic"}
        return [{**same, "view": view, "metric": name, "mean": value} for name, value in values.items()]

    table = [
        *rows("capefm", "release", claimed=1, proven=2, attacked=1.5),
        *rows("capefm", "colluders", claimed=1, proven=3, attacked=0.5),
        *rows("capefm", "client", proven=9, attacked=8),
        *(row for algo in ("wddp", "psgd", "soft") for row in rows(algo, "release", claimed=1, proven=1, attacked=0)),
    ]
    first = overview.headlines(pd.DataFrame(table))[0]
    assert (first.view, first.claimed, first.proven, first.attacked) == ("colluders", 1, 3, 0.5)


def test_one_version() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == dpml.__version__
    newest = re.search(r"^## (\S+)(?: - (\S+))?$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert newest is not None
    assert newest[1] == "Unreleased" or (newest[1], newest[2]) == (dpml.__version__, str(citation["date-released"]))
