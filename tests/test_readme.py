"""The README's promises: two commands, a privacy table that they print, and a page that is short."""

from pathlib import Path

import pytest

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


def test_two_commands_lead_from_a_clone_to_a_result_and_to_the_tests() -> None:
    """.ci/run runs them as they are printed."""
    first, second = README.split("```bash\n")[1].split("```")[0].strip().splitlines()
    assert first.startswith("python3 -m venv ")
    assert " && pip install -e . && dpml-run " in first
    assert second == "pip install -e '.[test]' && pytest -q"


@pytest.mark.slow
def test_the_privacy_table_is_the_one_that_the_command_prints(run_command) -> None:
    table = run_command("dpml-run", "algo=capefm", "draws=2").out
    for line in README.split("## Reading a result")[1].split("```")[1].strip().splitlines()[2:]:
        assert line.split() in [row.split() for row in table.splitlines()]


def test_it_fits_on_a_few_screens() -> None:
    assert len(README.splitlines()) < 80
