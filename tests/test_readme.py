"""The README's promises: two commands, a privacy table that they print, and a page that is short."""

from pathlib import Path

import pandas as pd

from dpml.privacy.safe import written, written_below

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_two_commands_lead_from_a_clone_to_a_result_and_to_the_tests() -> None:
    """.ci/run runs them as they are printed."""
    first, second = README.split("```bash\n")[1].split("```")[0].strip().splitlines()
    assert first.startswith("python3 -m venv ")
    assert " && pip install -e . && dpml-run " in first
    assert second == "pip install -e '.[test]' && pytest -q"


def test_the_privacy_table_is_the_one_that_the_command_prints(run_command) -> None:
    table = run_command("dpml-run", "algo=capefm", "draws=2").out
    for line in README.split("## Reading a result")[1].split("```")[1].strip().splitlines()[2:]:
        assert line.split() in [row.split() for row in table.splitlines()]


def test_the_findings_are_those_of_the_audit() -> None:
    """A proven eps is rounded up, and an attacked one, a lower bound, down."""
    audit = pd.read_csv(ROOT / "results" / "audit" / "all.csv")
    audit = audit[audit["noise"] == "published"]
    lines = [line.strip("| ").split(" | ") for line in README.splitlines() if line.startswith("| ") and "`" in line]
    assert len(lines) == 4
    for _, algo, view, claimed, *shown in lines:
        seen = audit[(audit["algo"] == algo.strip("`")) & (audit["view"] == view)].groupby("metric")["mean"].max()
        assert seen["claimed"] == float(claimed)
        expected = [written(seen["proven"], 3), written_below(seen["attacked"], 3)]
        assert [float(value) for value in shown] == [float(value) for value in expected]


def test_it_fits_on_a_few_screens() -> None:
    assert len(README.splitlines()) < 80
