"""The README's promises, run as they are printed: the plug-ins from a scratch folder, and numbers in its text."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from dpml import where

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


def blocks(section: str) -> list[tuple[str, str, str]]:
    """(file named just before it, language, text) of every fenced block of a section."""
    text = README.split(f"\n## {section}\n")[1].split("\n## ")[0]
    found = re.findall(r"([^\n]*)\n\n```(\w+)\n(.*?)```", text, flags=re.DOTALL)
    return [
        ((re.findall(r"`([^`\s]+\.(?:py|yaml))`", before) or [""])[-1], language, body)
        for before, language, body in found
    ]


def test_two_commands_lead_from_a_clone_to_a_result_and_to_the_tests() -> None:
    """.ci/run runs them as they are printed."""
    first, second = README.split("```bash\n")[1].split("```")[0].strip().splitlines()
    assert first.startswith("python3 -m venv ")
    assert " && pip install -e . && dpml-run " in first
    assert second == "pip install -e '.[test]' && pytest -q"


@pytest.mark.parametrize("group", ["algo", "dataset", "partition"])
def test_every_option_is_named(group: str) -> None:
    prose = re.sub(r"```.*?```", "", README, flags=re.DOTALL)
    named = {word for text in re.findall(r"`([^`]+)`", prose) for word in text.split()}
    assert {path.stem for path in where.folder("conf").joinpath(group).glob("*.yaml")} <= named


def test_every_experiment_is_in_the_table() -> None:
    named = set()
    for row in re.findall(r"^\| (`\w+/.*?) \|", README, flags=re.MULTILINE):
        names = re.findall(r"`([\w/]+)`( to)?", row)
        paper = names[0][0].split("/")[0]
        for (name, to), (after, _) in zip(names, [*names[1:], ("", "")], strict=True):
            named.add(f"{paper}/{name.split('/')[-1]}")
            if to:
                first, last = (int(re.sub(r"\D", "", text.split("/")[-1])) for text in (name, after))
                named |= {f"{paper}/fig{number}" for number in range(first, last)}
    files = where.folder("experiments").glob("*/[!_]*.yaml")
    assert named == {f"{path.parent.name}/{path.stem}" for path in files}


def carried_out(section: str, folder: Path) -> pd.DataFrame:
    """The rows of a section's only command, run in a folder with its files."""
    commands = []
    for file, language, body in blocks(section):
        if language == "bash":
            commands.append(body.strip())
        else:
            target = folder / file
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(body, encoding="utf-8")
    assert len(commands) == 1
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        f"{commands[0]} hydra.run.dir=out",
        shell=True,
        cwd=folder,
        env=os.environ | {"PATH": path},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return pd.read_csv(folder / "out" / "rows.csv")


@pytest.mark.parametrize(
    ("section", "column", "name"),
    [("Add an algorithm", "algo", "mean_model"), ("Add a data set", "dataset", "two_moons")],
)
def test_plug_ins_work_as_printed(tmp_path: Path, section: str, column: str, name: str) -> None:
    rows = carried_out(section, tmp_path)
    assert set(rows[column]) == {name}
    assert rows[rows["metric"] == "accuracy"]["value"].mean() > 0.6  # it learns something


def test_a_metric_of_ones_own_works_as_printed(tmp_path: Path) -> None:
    rows = carried_out("Add a metric, an experiment, a paper", tmp_path)
    assert (rows[rows["metric"] == "length"]["value"] > 0).all()


def test_the_privacy_table_and_the_text_have_the_numbers_that_the_command_gives(run_command) -> None:
    table = run_command("dpml-run", "algo=capefm", "draws=2").out
    for line in README.split("## The privacy table")[1].split("```")[1].strip().splitlines()[2:]:
        assert line.split() in [row.split() for row in table.splitlines()]
    proven = run_command("dpml", "guarantee", "algo=capefm", "eps=10").out
    assert "23.5" in next(line for line in proven.splitlines() if "colluders" in line and "proven" in line)
    assert "ε = 23.5" in README
