"""A cache of its own, no network, and a screen of one width, for every test of faults."""

from collections.abc import Iterator
from pathlib import Path

import failing
import pytest


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where the tests of a module work: always the same place, because manifests name it."""
    place = tmp_path_factory.mktemp("faults") / "work"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DPML_CACHE", str(place / "cache"))
        patch.setenv("DPML_OFFLINE", "1")
        patch.setenv("COLUMNS", "100")
        patch.delenv("DPML_CACHE", raising=False)
        yield place


@pytest.fixture(scope="module")
def light() -> Iterator[None]:
    """Commands of this process draw no curves, and compose once."""
    with failing.light():
        yield
