"""`dpml data` and `dpml-run` as a user meets them."""

import re
from functools import partial

import pandas as pd
import pytest

from dpml.config import catalogue
from dpml.data import Files
from dpml.data.sets.packaged import PACKED


@pytest.fixture
def dpml(monkeypatch, run_command):
    """Run `dpml` at 80 columns, with a network."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("DPML_OFFLINE")
    return partial(run_command, "dpml")


def test_states_follow_the_files(dpml, raw, tmp_path):
    def state(name: str) -> str:
        _, out, _ = dpml("data", "list")
        row = next(line for line in out.splitlines() if line.split()[:1] == [name])
        return re.split(r"  +", row.strip())[4]

    folder = Files().target / "adult"
    folder.mkdir(parents=True)
    assert state("adult") == "missing"
    for name, then in (("adult.data", "incomplete"), ("adult.test", "raw only")):
        (folder / name).write_bytes((raw / "adult" / name).read_bytes())
        assert state("adult") == then
    assert dpml("data", "get", "adult") == (0, "adult: ready, 45,222 rows x 14 columns, verified\n", "")
    assert state("adult") == "ready"


def test_get_all_says_what_could_not_be_had(dpml, raw, server, monkeypatch):
    monkeypatch.setenv("DPML_MIRROR", server.url)
    for name in ("adult", "bank", "breast_cancer_wisconsin", "crime", "imtiaz_authors"):  # the others would be slow
        (server.folder / name).symlink_to(raw / name)
    code, out, err = dpml("data", "get", "all")
    assert code == 2
    for name in ("adult", "bank", "breast_cancer", "crime", "twitter_authors"):
        assert f"{name}: ready" in out
    absent = "creditcard creditcard_subset har har_73of561 kddcup99 kddcup99_70k twitter_buzz url"
    failed = ", ".join(sorted([*PACKED, *absent.split()]))
    assert err.splitlines()[-1] == f"dpml: error: failed to fetch {failed}: the lines above say why."
    assert "cannot fetch train/X_train.txt of dataset=har" in err
    monkeypatch.delenv("DPML_MIRROR")
    assert "subset is not published: use dataset=creditcard" in dpml("data", "get", "creditcard_subset")[2]
    code, out, err = dpml("data", "check", "adult", "crime")
    assert (code, err) == (0, "")
    assert out.splitlines() == ["adult: adult.data: ok", "adult: adult.test: ok", "crime: communities.data: ok"]


def test_a_run_fetches_what_it_needs(raw, server, tmp_path, run_command, monkeypatch):
    monkeypatch.delenv("DPML_OFFLINE")
    server.folder.rmdir()
    server.folder.symlink_to(raw)
    words = ["dataset=breast_cancer", "algo=nonpriv", f"mirror={server.url}"]
    done = run_command("dpml-run", *words, "hydra.run.dir=out")
    assert done.code == 0, done.err
    assert "Fetching breast-cancer-wisconsin.data of dataset=breast_cancer" in done.err
    rows = pd.read_csv(tmp_path / "out" / "rows.csv")
    assert set(rows["private_preprocessing"]) == {"impute,min_max,max_norm fitted on training rows"}
    assert list(rows.columns)[-1] == "private_preprocessing"
    monkeypatch.setenv("DPML_CACHE", "empty")
    refused = run_command("dpml-run", *words[:-1], "offline=true", "hydra.run.dir=out2")
    assert refused.code == 2
    assert "Offline mode forbids" in refused.err
    assert "Traceback" not in refused.err
    assert not (tmp_path / "out2").exists()


def test_an_own_data_set_works_like_a_built_in_one(dpml, own):
    config = "--config-dir", str(own)
    code, out, _ = dpml("data", "list", *config)
    assert code == 0
    assert re.search(r"cubes +regression +9 +2 +raw only", out)
    assert re.search(r"\n *wdbc +binary +569 +30 +ready", out)
    file = Files().target / "cubes" / "cubes.csv"
    assert dpml("data", "get", *config, "cubes") == (0, "cubes: ready, 9 rows x 2 columns, verified\n", "")
    assert re.search(r"cubes +regression +9 +2 +ready", dpml("data", "list", *config)[1])
    code, out, _ = dpml("data", "check", *config, "cubes", "synthetic")
    assert code == 0
    assert out.splitlines()[0] == "cubes: cubes.csv: ok (no published sha256: size, and the sha256 recorded here)"
    file.write_text(file.read_text().replace("512", "513"))
    code, out, _ = dpml("data", "check", "-cd", str(own), "cubes")
    assert code == 2
    assert "cubes: cubes.csv: WRONG, it has changed since its sha256" in out
    source = catalogue.source("cubes", own)
    assert source.size(None) == (5, 2)  # half of nine for testing, as its file has it
    assert source.steps == ("max_norm",)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("_target_: my_cubes.Cubes\ntest_fractoin: 0.5\n", "test_fractoin': did you mean 'dataset.test_fraction'?"),
        ("_target_: my_cubes.Cubes\nsteps: clip\n", "dataset.steps must be a list"),
        ("steps: [clip]\n", "has no _target_"),
    ],
)
def test_an_own_data_set_gets_the_checks_of_a_run(dpml, own, content, told):
    (own / "dataset" / "cubes.yaml").write_text(content)
    code, _, err = dpml("data", "check", "--config-dir", str(own), "cubes")
    assert code == 2
    assert "data set 'cubes'" in err
    assert told in err
    assert err.count("\n") == 1


def test_the_rows_of_an_own_data_set_are_those_of_the_folder(run_command, own, tmp_path):
    """Also in one process, which remembers what it has loaded."""
    losses = []
    for power in (1, 3, 1):
        folder = tmp_path / f"power {power}" / "cubes"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "cubes.csv").write_text("".join(f"{i},{-i},{i**power}\n" for i in range(9)))
        words = ["--config-dir", str(own), "dataset=cubes", "algo=constant", "draws=1", "M=1", "eps=1"]
        done = run_command("dpml-run", *words, f"data_dir={folder.parent}", "hydra.run.dir=out")
        assert done.code == 0, done.err
        losses.append(pd.read_csv(tmp_path / "out" / "rows.csv").set_index("metric").loc["loss", "value"])
    assert losses[0] == losses[2] != losses[1]
