"""What goes into a paper: figures at a column's width, tables, and what to cite."""

import re
from pathlib import Path

import pandas as pd
import pytest

import dpml
from dpml.cli.papers import citations


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    from harness import TINY, run, without_pictures

    folder = tmp_path_factory.mktemp("made")
    rows = dpml.run(algo=["capefm", "nonpriv"], eps=[0.1, 1], seed=[0, 1], draws=2, results_dir=str(folder))
    (folder / "sweep").mkdir()
    rows.rows.to_csv(folder / "sweep" / "rows.csv", index=False)
    rows.guarantees.to_csv(folder / "sweep" / "guarantees.csv", index=False)
    with without_pictures():
        assert run(folder / "results", TINY) == 0
    return folder


def test_a_figure_is_as_asked_for(run_command, made) -> None:
    words = ["--x", "eps", "--y", "accuracy", "--where", "algo=capefm"]
    done = run_command("dpml", "plot", f"{made}/sweep", *words, "--width", "84mm", "-o", "f.svg")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("f.svg\nLines are means. Bands are ")
    picture = Path("f.svg").read_text()
    assert "nonpriv" not in picture
    assert "dpml" not in re.sub(r"<!--.*?-->", "", picture).replace("dpml-", "")  # no command
    (width,) = re.findall(r'<svg[^>]* width="([\d.]+)pt"', picture)
    assert float(width) == pytest.approx(84 / 25.4 * 72, rel=1e-3)
    again = run_command("dpml", "plot", f"{made}/sweep", *words, "--width", "84mm", "-o", "f.svg", "--force")
    assert (again.code, Path("f.svg").read_text()) == (0, picture)


@pytest.mark.parametrize(
    ("what", "kind"),
    [("sweep", "md"), ("results/mine", "csv"), ("results/mine/tiny", "tex"), ("results/mine/tiny.csv", "md")],
)
def test_a_table_of_anything(run_command, made, what, kind) -> None:
    done = run_command("dpml", "table", f"{made}/{what}", "-o", f"t.{kind}", "--where", "algo=capefm", "--y", "loss")
    assert (done.code, done.err) == (0, "")
    assert {"md": "training loss", "csv": "loss_interval", "tex": r"\num{"}[kind] in Path(f"t.{kind}").read_text()


def test_a_table_has_the_numbers_of_the_rows(run_command, made) -> None:
    assert run_command("dpml", "table", f"{made}/sweep", "-o", "t.csv").code == 0
    rows, table = pd.read_csv(made / "sweep" / "rows.csv"), pd.read_csv("t.csv")
    assert len(table) == 4
    for _, line in table.iterrows():
        own = rows[(rows["algo"] == line["algo"]) & (rows["eps"] == line["eps"]) & (rows["metric"] == "accuracy")]
        assert line["accuracy"] == pytest.approx(own["value"].mean(), rel=1e-12)
        assert line["proven_eps"] == own["proven_eps"].max()


MISTAKES = [
    ("--where algo=capfm", "did you mean 'capefm'", ["plot", "table"]),
    ("--where alga=fm", "did you mean 'algo'", ["plot", "table"]),
    ("--y acuracy", "did you mean 'accuracy'", ["plot", "table"]),
    ("-o t.doc", "-o t.doc", ["plot", "table"]),
    ("--width 3.3", "--width", ["plot"]),
    ("--x epsilon", "did you mean 'eps'", ["plot"]),
    ("--x M", "--x M", ["plot"]),
]


@pytest.mark.parametrize(("words", "named", "commands"), MISTAKES)
def test_a_mistake_is_one_sentence(run_command, made, words, named, commands) -> None:
    for command in commands:
        done = run_command("dpml", command, f"{made}/sweep", *words.split())
        assert (done.code, named in done.err, done.err.count("\n")) == (2, True, 1), done.err
    assert list(Path().iterdir()) == []


@pytest.mark.usefixtures("sketched")
def test_nothing_is_overwritten_silently(run_command, made) -> None:
    for command, name in (("plot", "figure.pdf"), ("table", "t.md")):
        Path(name).write_text("mine")
        words = [command, f"{made}/sweep", "-o", name]
        done = run_command("dpml", *words)
        assert done.code == 2
        assert f"{name} is there already: choose another name with -o, or add --force" in done.err
        assert Path(name).read_text() == "mine"
        assert run_command("dpml", *words, "--force").code == 0
        assert Path(name).read_bytes() != b"mine"


def test_every_paper_of_the_results_is_cited(run_command) -> None:
    root = Path(dpml.__file__).parents[1]
    papers = {path.parent.name for path in (root / "experiments").glob("*/card.yaml")} - {"frontier"}  # a study of ours
    assert set(citations()) == {"dpml", *papers}
    assert papers <= {path.name for path in (root / "results").iterdir()}
    for name, entry in citations().items():
        kind, body = re.fullmatch(r"@(\w+)\{\w+,\n(.*)\n\}", entry, re.DOTALL).groups()
        assert kind in ("software", "misc", "inproceedings", "article")
        fields = dict(re.findall(r"^  (\w+) = \{(.*)\},$", body, re.MULTILINE))
        assert len(fields) == body.count("\n") + 1
        assert {"author", "title", "year"} <= set(fields)
        assert body.count("{") == body.count("}")
        assert run_command("dpml", "cite", name).out == f"{entry}\n"


def test_a_table_and_rows_as_parquet_and_as_a_data_frame(run_command, tmp_path):
    pytest.importorskip("pyarrow")
    assert run_command("dpml-run", "algo=ssp", "eps=[0.5,1]", "draws=2", "M=1", "hydra.run.dir=out").code == 0
    assert run_command("dpml", "table", "out", "-o", "x.parquet").code == 0
    assert run_command("dpml", "table", "out", "-o", "x.csv").code == 0
    pd.testing.assert_frame_equal(pd.read_parquet("x.parquet"), pd.read_csv("x.csv"))
    pd.testing.assert_frame_equal(dpml.rows("out"), pd.read_csv(tmp_path / "out" / "rows.csv"))
