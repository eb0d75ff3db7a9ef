"""The report about the committed results, which the tests of the report share."""

from pathlib import Path

import pytest

from dpml.reporting.html import write_report

RESULTS = Path(__file__).parents[2] / "results"


@pytest.fixture(scope="session")
def committed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the report about the results of this repository."""
    results = tmp_path_factory.mktemp("committed")
    for folder in RESULTS.iterdir():
        if any(folder.glob("*.json")):
            (results / folder.name).symlink_to(folder)
    return write_report(results).parent
