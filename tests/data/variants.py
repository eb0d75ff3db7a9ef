"""Data sets whose files are made by a test."""

from dataclasses import replace
from typing import Any


def with_info(kind: Any, **changes: Any) -> Any:
    """A class like `kind`, of a data set with other metadata."""
    return type(kind.__name__, (kind,), {"info": replace(kind.info, **changes), "__module__": kind.__module__})
