"""What the tests of federations share: a data cache of their own, and rows that are parsed once."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from dpml.federated import party


@pytest.fixture(autouse=True, scope="module")
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The user's own is not filled with made-up rows, and the same rows are parsed once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DPML_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


_ROWS: dict[tuple[str, str, bytes], tuple[np.ndarray, np.ndarray]] = {}


@pytest.fixture(autouse=True)
def rows_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same columns of a file of the same content have the same rows."""
    really = party.own_rows

    def own_rows(dataset, stated, path: Path):
        said = repr(dataset), repr(stated), path.read_bytes()
        if said not in _ROWS:
            _ROWS[said] = really(dataset, stated, path)
        return tuple(part.copy() for part in _ROWS[said])

    monkeypatch.setattr(party, "own_rows", own_rows)
