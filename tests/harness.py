"""Experiments without a command line: the same jobs, plans and files."""

import hashlib
import json
import re
import tempfile
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pandas as pd
import pytest

from dpml.api.jobs import ask, compute, results_of_run, write_experiment
from dpml.api.settings import Settings
from dpml.config import experiments
from dpml.config.build import build_algorithm, instantiate
from dpml.config.compose import compose, option, options
from dpml.running.rows import COLUMNS

TINY = {
    "title": "Tiny",
    "source": "nobody, 2000",
    "settings": {"dataset": "synthetic", "dataset.d": 3, "algo": ["nonpriv", "capefm", "conv"], "M": 2, "draws": 3},
    "grid": {
        "a_eps": {"N": 200, "eps": [0.1, 1, 10], "seed": [0, 1]},
        "a_N": {"N": [100, 200], "eps": 1.0, "calibration": ["published", "tight"], "seed": [0, 1]},
    },
    "panels": [
        {"block": "a_eps", "x": "eps", "y": "loss", "title": "N = 200"},
        {"block": "a_N", "x": "N", "y": "err_w"},
    ],
}
CELLS, CONV = 30, 10  # 3 x 2 and 3 x 2 x 2 x 2


MADE = dict.fromkeys(COLUMNS, "x") | {"block": "a", "delta": 1e-5, "M": 2, "N": 10, "d": 3, "metric": "loss"}
MADE |= {"not_proven": None, "conditional_eps": float("nan"), "tuned": "fixed", "unit": "sample", "variant": "paper"}


def made_rows(values, eps=1.0, **columns):
    """Made-up rows of a run whose values, (seeds, draws), are given."""
    about = MADE | {"eps": eps, "claimed_eps": eps, "proven_eps": eps, "n_min": 5, "n_max": 5} | columns
    places = [(seed, draw, value) for seed, draws in enumerate(values) for draw, value in enumerate(draws)]
    return pd.DataFrame([about | {"seed": seed, "draw": draw, "value": value} for seed, draw, value in places])


def tables(words, results):
    """Return the rows and guarantees of `dpml-run WORDS`."""
    asked = ask(Settings([*words, f"results_dir='{results}'"]))
    compute(asked, "dpml-run")
    found = results_of_run(asked.plans[0])
    return found.rows, found.guarantees


@cache
def algorithms():
    """Every algorithm with its own defaults, by name."""
    config = compose([]).values
    dataset = instantiate(config["dataset"], "dataset")
    chosen = {name: {"loss": "squared"} for name in ("adassp", "regression")}
    return {
        name: build_algorithm({**config, "algo": option("algo", name), **chosen.get(name, {})}, dataset)
        for name in options("algo")
    }


def asked(results, content=TINY, words=(), name="mine/tiny"):
    """What `dpml-run experiment=mine/tiny WORDS` would ask for, of an experiment that is no file."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        path = Path(folder) / f"{name}.yaml"
        path.parent.mkdir()
        path.write_text(json.dumps(content))
        known = experiments.files()
        patch.setattr(experiments, "files", lambda config_dir=None: {**known, name: path})
        return ask(Settings([f"experiment={name}", f"results_dir='{results}'", *words]))


def run(results, content=TINY, words=(), name="mine/tiny", **options):
    """Compute and write an experiment that is no file: the exit status."""
    made = asked(results, content, [*words, *(f"run.{key}={value}" for key, value in options.items())], name)
    status = compute(made, "dpml-run")
    if status or options.get("dry"):
        return status
    write_experiment(made.plans[0], results)
    return int(any(point.status == "failed" for point in made.plans[0].points))


def own_experiment(folder, content, name="mine/tiny"):
    """Write an experiment into a folder of options: the words of the command line that name the folder."""
    path = folder / "own" / "experiment" / f"{name}.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("# @package experiment\n" + json.dumps(content))
    return ["--config-dir", str(folder / "own")]


@contextmanager
def without_pictures():
    """Experiments are written without their figures: drawing them takes as long as all else."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dpml.reporting.artifacts.plot_experiment", lambda *arguments: ([], ""))
        yield


@contextmanager
def drawn(*kinds):
    """Figures are drawn in files of these kinds; others, which take as long again, hold the name of their kind."""
    from matplotlib.figure import Figure  # which most tests do not load

    with pytest.MonkeyPatch.context() as patch:
        savefig = Figure.savefig

        def save(figure, file, *, format, **options):
            if format in kinds:
                savefig(figure, file, format=format, **options)
            else:
                file.write(100 * format.encode())

        patch.setattr(Figure, "savefig", save)
        yield


def plan(results, content=TINY, words=(), name="mine/tiny"):
    """The plan of an experiment that is no file."""
    (plan,) = asked(results, content, words, name).plans
    return plan


def digests(results):
    """The outputs of mine/..., apart from what says how the cells were come by."""
    files = [path for path in (results / "mine").iterdir() if not path.name.endswith(("_plan.csv", ".json"))]
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def written_from_page(page, folder):
    """Write the files that a page of the documentation shows into a folder."""
    shown = r"`([\w/]+\.(?:py|yaml|csv))`[^`]*:\n\n```\w+\n(.*?)^```"
    text = (Path(__file__).parents[1] / "docs" / page).read_text(encoding="utf-8")
    for name, body in re.findall(shown, text, flags=re.DOTALL | re.MULTILINE):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(body, encoding="utf-8")


# libraries that most commands do not need
RARE = ["sklearn", "scipy.stats", "scipy.io", "matplotlib", "requests", "cryptography", "joblib", "distributed"]


def imported(said):
    """The modules that a process with PYTHONPROFILEIMPORTTIME=1 has imported; it said nothing else on stderr."""
    lines = said.splitlines()
    assert all(line.startswith("import time:") for line in lines), said
    return {line.rpartition("|")[2].strip() for line in lines}
