"""Keys that had another name in an earlier version."""

from collections.abc import Mapping

RENAMED: Mapping[tuple[str, str | None], str] = {}
"""The new key for an old key of one option, ``("algo.rate", "dpgd")``, or of a run, ``("epsilon", None)``."""


def sentence(key: str, option: str | None = None) -> str | None:
    """What a former key is called now; None if it never was one. `option` is the name of the option that it is of."""
    if (key, option) in RENAMED:
        of = f" of {key.partition('.')[0]}={option}" if option else ""
        return f"{key}{of} is now called {RENAMED[key, option]}."
    return None
