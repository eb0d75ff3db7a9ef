"""A file of one's own on the command line: `dpml data describe`, and runs with dataset=csv."""

import os
import shutil

import pandas as pd
import pytest
import yaml
from harness import tables

PEOPLE = """\
name,age,job,member,hospital,income
Ann,31,nurse,yes,North,low
Bob,52,?,no,South,high
"Cy, Jr",44,clerk,yes,North,high
Dee,29,nurse,no,East,low
Eve,38,clerk,,South,low
Fay,61,judge,no,North,high
"""


def test_describe_names_what_would_be_refused_and_the_command_leaves_it_out(run_command, tmp_path):
    rows = "".join(f"k{i},{i},{i * i},1,{i % 3},{i % 2}\n" for i in range(30))
    (tmp_path / "f.csv").write_text(f"the key,row,x,one,3,label\n{rows}")
    outcome = run_command("dpml", "data", "describe", "f.csv", "--label", "3", "--drop", "label")
    assert "refuse the column 'the key'" in outcome.out
    printed = next(line for line in outcome.out.splitlines() if line.startswith("A run: dpml-run "))
    assert printed.startswith("""A run: dpml-run dataset=csv dataset.path=f.csv 'dataset.label="3"' """)
    assert """'dataset.drop=[label,"the key"]'""" in printed
    words = ["dataset=csv", "dataset.path=f.csv", 'dataset.label="3"', 'dataset.drop=[label,"the key"]']
    assert run_command("dpml-run", *words, "algo=nonpriv", "draws=1", "M=2", "hydra.run.dir=out").code == 0
    refused = run_command("dpml", "data", "describe", "f.csv", "--label", "3", "--bounds-out", "b.yaml")
    assert refused.code == 2
    assert not (tmp_path / "b.yaml").exists()


def test_a_bounds_file_is_written_edited_and_used(run_command, tmp_path):
    (tmp_path / "people.csv").write_text(PEOPLE)
    options = ["people.csv", "--label", "income", "--drop", "name", "--party", "hospital"]
    assert run_command("dpml", "data", "describe", *options, "--bounds-out", "b.yaml").code == 0
    text = (tmp_path / "b.yaml").read_text()
    assert yaml.safe_load(text) == {
        "from_rows": True,
        "columns": {"age": {"low": 29, "high": 61}, "job": ["clerk", "judge", "nurse"], "member": "boolean"},
        "classes": ["high", "low"],
        "label": "income",
        "party": "hospital",
        "drop": ["name"],
    }
    again = run_command("dpml", "data", "describe", *options, "--bounds-out", "b.yaml")
    assert (again.code, (tmp_path / "b.yaml").read_text()) == (2, text)
    words = ["dataset=csv", "dataset.path=people.csv", "dataset.label=income", "dataset.drop=[name]"]
    words += ["dataset.party=hospital", "dataset.bounds=b.yaml", "algo=nonpriv", "M=2", "draws=1", "hydra.run.dir=out"]
    refused = run_command("dpml-run", *words)
    assert refused.code == 2
    assert "b.yaml still says `from_rows: true`" in refused.err
    (tmp_path / "b.yaml").write_text(text.replace("from_rows: true\n", "").replace("61", "50").replace("judge, ", ""))
    outcome = run_command("dpml", "data", "describe", *options, "--bounds", "b.yaml")
    assert "people.csv, line 3, column 'age': 52 is outside 29 to 50 of b.yaml (2 in all)." in outcome.out
    assert "people.csv, line 7, column 'job': 'judge' is outside the 2 values of b.yaml (1 in all)." in outcome.out
    assert outcome.out.splitlines()[-1].endswith("as private as they are: do not publish it.")
    assert run_command("dpml-run", *words).code == 0
    rows = pd.read_csv(tmp_path / "out" / "rows.csv", keep_default_na=False)
    assert set(rows["private_preprocessing"]) == {"rows with a missing value left out"}
    assert set(rows["dataset"]) == {"csv"}
    assert set(rows["d"]) == {5}  # and the constant


WORDS = ("dataset=csv", "dataset.label=label", "algo=gop", "eps=1", "draws=2", "M=2")


@pytest.mark.slow
def test_a_changed_file_is_computed_again_and_the_same_rows_elsewhere_are_not(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rows = "".join(f"{(7 * i) % 31},{i % 5},{'uv'[i % 3 == 0]}\n" for i in range(60))
    (tmp_path / "f.csv").write_text(f"a,b,label\n{rows}")

    def run(path: str) -> tuple[pd.DataFrame, str]:
        rows, _ = tables([*WORDS, f"dataset.path={path}"], tmp_path / "results")
        return rows, capsys.readouterr().out

    first, said = run("f.csv")
    assert "0 cached, 1 to run" in said
    assert "1 cached, 0 to run" in run("f.csv")[1]
    shutil.copy(tmp_path / "f.csv", tmp_path / "g.csv")
    assert "1 cached, 0 to run" in run("g.csv")[1]
    (tmp_path / "f.csv").write_text(f"a,b,label\n{rows}30,4,u\n")
    os.utime(tmp_path / "f.csv", ns=(1, 1))
    second, said = run("f.csv")
    assert "0 cached, 1 to run" in said
    assert not first.equals(second)  # in this very process, too, which remembers what it has loaded
