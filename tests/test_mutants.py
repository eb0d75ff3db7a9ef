"""The listed mutants of `scripts/mutants.py` can be made: each of their lines is still there, once.

The script tries them.
"""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "scripts"))
from mutants import MUTANTS, Mutant  # noqa: E402


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_mutants_line_and_its_test_are_there(mutant: Mutant) -> None:
    before, after = mutant.change.lines
    assert before != after
    file, _, name = mutant.test.partition("::")
    assert f"def {name}(" in (ROOT / "tests" / file).read_text(encoding="utf-8")
