"""Which cases of a parametrisation every run has, and which are among the slow tests."""

from collections.abc import Iterable
from typing import Any

import pytest


def quick_first(cases: Iterable[Any], quick: int = 1) -> list[Any]:
    """The cases, of which all but the first `quick` are slow; a tuple has the values of several arguments."""
    return [case if number < quick else _slow(case) for number, case in enumerate(cases)]


def _slow(case: Any) -> Any:
    return pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.slow)
