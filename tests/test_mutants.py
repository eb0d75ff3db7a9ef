"""The mutants of `scripts/mutants.py` can be made: each of their lines is still there, once. The script tries them."""

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SCRIPT = runpy.run_path(str(ROOT / "scripts" / "mutants.py"))


@pytest.mark.parametrize("number", range(len(SCRIPT["MUTANTS"])))
def test_a_mutants_line_and_its_test_are_there(number: int) -> None:
    mutant = SCRIPT["MUTANTS"][number]
    content = (ROOT / mutant.file).read_text(encoding="utf-8")
    assert SCRIPT["broken"](mutant, content) != content
    file, _, name = mutant.test.partition("::")
    assert f"def {name}(" in (ROOT / "tests" / file).read_text(encoding="utf-8")
