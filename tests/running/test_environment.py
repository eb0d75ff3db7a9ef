"""The versions and the commit that are stored with numbers."""

import importlib
import sys
from dataclasses import replace

from harness import plan, run

SMALL = {
    "title": "Small", "source": "nobody, 2000", "panels": [], "grid": {"a": {"N": 50, "eps": 1.0, "seed": [0, 1]}},
    "settings": {"dataset": "synthetic", "dataset.d": 2, "algo": "nonpriv", "M": 2, "draws": 1}, "metrics": ["loss"],
}  # fmt: skip


def test_versions_are_recorded_with_the_numbers_and_shown_together(tmp_path):
    assert run(tmp_path, dry=False, content=SMALL) == 0
    found = plan(tmp_path, SMALL)
    assert found.versions()["numpy"] == importlib.import_module("numpy").__version__
    assert found.versions()["python"] == ".".join(map(str, sys.version_info[:3]))
    point = found.points[0]
    point.record = replace(point.record, made_with={**point.record.made_with, "numpy": "1.26.2"})
    assert found.versions()["numpy"].startswith("1.26.2 and ")
