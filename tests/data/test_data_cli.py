"""`dpml data` and `dpml-run` as a user meets them."""

import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from dpml import cli
from dpml.config import catalogue
from dpml.data import Files

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def dpml(monkeypatch, capsys):
    """Run `dpml` in this process: (exit code, stdout, stderr)."""

    def run(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["dpml", *words])
        try:
            cli.dpml()
        except SystemExit as error:
            code = int(error.code or 0)
        else:
            code = 0
        out, err = capsys.readouterr()
        return code, out, err

    return run


def test_list_names_every_set_and_its_state(dpml):
    code, out, _ = dpml("data", "list")
    assert code == 0
    for name, source in catalogue.sources().items():
        line = next(line for line in out.splitlines() if line.startswith(f"│ {name} "))
        assert source.info.task in line
        assert ("missing" if source.info.files else "ready") in line
    assert "3,231,961 -> 50" in out
    assert "CC BY 4.0" in out


def test_states_follow_the_files(dpml, raw, tmp_path):
    def state(name: str) -> str:
        _, out, _ = dpml("data", "list")
        return next(line for line in out.splitlines() if line.startswith(f"│ {name} ")).split("│")[5].strip()

    folder = Files().root / "adult"
    folder.mkdir(parents=True)
    assert state("adult") == "missing"
    for name, then in (("adult.data", "incomplete"), ("adult.test", "raw only")):
        (folder / name).write_bytes((raw / "adult" / name).read_bytes())
        assert state("adult") == then
    assert dpml("data", "get", "adult", "--offline") == (
        0,
        "adult: ready, 45,222 rows x 14 columns as parsed, verified\n",
        "",
    )
    assert state("adult") == "ready"


def test_get_all_says_what_could_not_be_had(dpml, raw, server):
    server.folder.rmdir()
    server.folder.symlink_to(raw)
    for name in ("kddcup99/kddcup.data_10_percent.gz", "kddcup99/corrected.gz"):
        server.fails(f"/{name}", "404", "404")  # too slow for this test
    code, out, err = dpml("data", "get", "all", "--mirror", server.url)
    assert code == 2
    for name in ("adult", "bank", "breast_cancer", "crime", "creditcard_subset", "har_73of561", "twitter_authors"):
        assert f"{name}: ready" in out
    failed = "creditcard, har, kddcup99, kddcup99_70k, twitter_buzz, url"
    assert err.splitlines()[-1] == f"dpml: error: not all data sets could be had: {failed} (see above)."
    assert "cannot fetch train/X_train.txt, test/X_test.txt of dataset=har" in err
    code, out, err = dpml("data", "check", "adult", "crime", "har")
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "adult: adult.data: ok",
        "adult: adult.test: ok",
        "crime: communities.data: ok",
        "har: train/y_train.txt: ok",
        "har: test/y_test.txt: ok",
        "har: train/X_train.txt, test/X_test.txt: missing",
    ]


def test_check_finds_a_changed_file(dpml, server):
    folder = Files().root / "crime"
    folder.mkdir(parents=True)
    (folder / "communities.data").write_text("not the data\n")
    code, out, err = dpml("data", "check", "crime")
    assert code == 2
    assert out.startswith("crime: communities.data: WRONG, its sha256 is ")
    assert "1 of the files are not what they should be: move them away" in err


def test_check_remembers_a_checksum_that_nobody_published(dpml):
    folder = Files().root / "url"
    folder.mkdir(parents=True)
    day = folder / "Day1.svm"
    day.write_text("+1 1:1\n" * 20_000)
    _, out, _ = dpml("data", "check", "url")
    assert "url: Day1.svm: ok (no published sha256" in out
    day.write_text("-1 1:1\n" * 20_000)
    code, out, _ = dpml("data", "check", "url")
    assert code == 2
    assert "url: Day1.svm: WRONG, it has changed since its sha256" in out


def test_path(dpml):
    code, out, _ = dpml("data", "path")
    assert code == 0
    assert str(Files().root) in out
    assert dpml("data", "path", "crime")[1] == f"missing: {Files().root / 'crime' / 'communities.data'}\n"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("get", "wdb"), "unknown data set 'wdb': did you mean 'wdbc'?"),
        (("get", "crime", "--mirror", "http://127.0.0.1:9"), "no network connection to 127.0.0.1:9"),
        (("get", "crime", "--offline"), "Offline mode forbids fetching it"),
        (("get", "creditcard_subset"), "It is not published: use dataset=creditcard, whose file is."),
    ],
)
def test_mistakes_are_one_sentence(dpml, words, told):
    code, out, err = dpml("data", *words)
    assert (code, out) == (2, "")
    assert told in err
    assert err.count("\n") == 1


def test_a_run_fetches_what_it_needs(raw, server, tmp_path):
    server.folder.rmdir()
    server.folder.symlink_to(raw)
    command = [
        sys.executable,
        "-c",
        "from dpml.cli import dpml_run; dpml_run()",
        "dataset=breast_cancer",
        "algo=nonpriv",
    ]
    command += [f"mirror={server.url}", f"hydra.run.dir={tmp_path / 'out'}"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
    assert "Fetching http://127.0.0.1" in done.stderr
    rows = pd.read_csv(tmp_path / "out" / "rows.csv")
    assert set(rows["private_preprocessing"]) == {"impute,min_max,max_norm fitted on training rows"}
    assert list(rows.columns)[-1] == "private_preprocessing"
    refused = subprocess.run(
        [*command[:-2], "offline=true", f"hydra.run.dir={tmp_path / 'out2'}", f"data_dir={tmp_path / 'empty'}"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert refused.returncode == 2
    assert "Offline mode forbids fetching it" in refused.stderr
    assert "Traceback" not in refused.stderr
    assert not (tmp_path / "out2").exists()


def test_the_pages_are_up_to_date():
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / "data_pages.py", "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
