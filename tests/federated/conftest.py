"""What the tests of federations share: a data cache of their own."""

from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True, scope="module")
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The user's own is not filled with made-up rows."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DPML_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield
