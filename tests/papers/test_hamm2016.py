"""The experiments hamm2016/*: what they need of the engine, and fig4 end to end on files in the official format."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from harness import without_pictures

from dpml.data.sets.official import URL


def write_days(folder, rows):
    """Days 0 to 19 of the URL data in their format: sparse features, of which a few tell the labels."""
    folder.mkdir(parents=True)
    numbers = np.random.default_rng(3)
    for day in range(20):
        with (folder / f"Day{day}.svm").open("w") as file:
            for label in numbers.choice([-1, 1], rows):
                told = np.flatnonzero(numbers.random(8) < (0.7 if label > 0 else 0.3)) + 1
                rare = np.unique((3_231_961 * numbers.random(20) ** 4).astype(int) + 9)
                ids = [*told, *rare[rare <= 3_231_961]]
                file.write(f"{label:+d} " + " ".join(f"{i}:1" for i in ids) + "\n")


@pytest.mark.slow
def test_fig4_end_to_end_on_generated_days(tmp_path, monkeypatch, run_command):
    write_days(tmp_path / "data" / "url", 20)
    files = tuple(replace(raw, lines=20) for raw in URL.info.files)
    monkeypatch.setattr(URL, "info", replace(URL.info, files=files, rows=400, train_rows=200))
    words = [
        "block=url5000_eps",
        "M=12",
        "draws=3",
        "seed=[0,1]",
        "dataset.steps=[[pca:4,max_norm]]",
        "partition.auxiliary=0.2",
    ]
    with without_pictures():
        done = run_command("dpml-run", "experiment=hamm2016/fig4", *words, f"data_dir={tmp_path / 'data'}")
    assert done.code == 0, done.err
    (table_path,) = (tmp_path / "results" / "trials" / "hamm2016" / "fig4").glob("*/fig4.csv")
    folder = table_path.parent
    table = pd.read_csv(table_path)
    assert set(table["block"]) == {"url5000_eps"}
    assert set(table["algo"]) == {"batch", "indiv", "constant", "soft", "avg", "vote"}
    counts = table.groupby("algo")["count"].unique().map(list)
    assert counts["batch"] == [6]  # draws=3 was asked for by hand, for all
    assert counts["soft"] == [6]
    best = table[(table["algo"] == "batch") & (table["metric"] == "accuracy")]["mean"]
    assert best.min() > 0.65  # there is something to learn
    twin = pd.read_csv(folder / "fig4_tight.csv")
    assert set(twin["algo"]) == set(table["algo"])  # the references, which no calibration changes, are in both
    tight = twin[twin["algo"].isin(["soft", "avg", "vote"]) & np.isfinite(twin["eps"])]
    np.testing.assert_allclose(tight["proven_eps"], tight["eps"])
    page = (folder / "fig4.md").read_text()
    assert page.startswith("# URL Reputation: test accuracy against 1/ε")
    assert "per party" in page
    assert "not computed" in page  # KDD-99 is not here
    assert "nan" not in page


def test_without_the_files_fig4_says_so_and_computes_nothing(tmp_path, run_command):
    done = run_command("dpml-run", "experiment=hamm2016/fig4")
    assert done.code == 2
    assert done.err.count("\n") == 1
    assert "nothing of experiment=hamm2016/fig4 can be computed here: dataset=url needs the file" in done.err
    assert not list(tmp_path.glob("results/.cells/*"))
