"""Experiments without a command line: the same jobs, plans and files."""

import hashlib
import pickle
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import hydra
import pytest
from hydra.core.global_hydra import GlobalHydra
from omegaconf import OmegaConf, open_dict

from dpml.api.jobs import compute_jobs, experiment_jobs, failures, options_of, run_job, write_jobs
from dpml.api.settings import Settings, parsed
from dpml.config.build import build_algorithm, check_keys, completed, instantiate
from dpml.config.compose import compose, initialise, options
from dpml.files import shipped_folder
from dpml.running import expansion
from dpml.running.plan import Options, make_plan
from dpml.running.store import Store

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


def composed(words):
    """What Hydra composes of some words, without Hydra, which takes much longer than a small run.

    The words are options and keys that are there, with one value each.
    """
    config = pickle.loads(_default())
    for word in sorted(parsed(words), key=lambda word: "." in word.key_or_group):  # options before their keys
        option = shipped_folder("conf") / word.key_or_group / f"{word.value()}.yaml"
        named = "." not in word.key_or_group and option.is_file()
        value = pickle.loads(_option(option)) if named else word.value()
        OmegaConf.update(config, word.key_or_group, value, merge=False)
    return config


@cache
def _default():
    """What Hydra composes of no word; a pickle is copied six times as fast as a configuration."""
    return pickle.dumps(compose([]))


@cache
def _option(file):
    """What the file of an option says."""
    return pickle.dumps(completed(OmegaConf.load(file)))


def tables(words, results):
    """Return the rows and guarantees of `dpml-run WORDS`, composed as above."""
    config = composed(words)
    check_keys(config)
    options = options_of(config)
    job = run_job(config, Settings(words), Path("nowhere"))
    made, _ = compute_jobs([job], options, results, "dpml-run")
    job.check(made)
    return job.tables(made)[:2]


_OPTIONS = {}  # of dpml's own groups, whose files stay as they are while tests run


@contextmanager
def with_options():
    """Hydra, with the options that it has composed for other tests."""
    with initialise():
        expansion._composed[GlobalHydra.instance().hydra] = _OPTIONS
        yield


@cache
def algorithms():
    """Every algorithm with its own defaults, by name: Hydra composes one as long as all of them."""
    names = options("algo")
    config = compose([f"+algo@all.{name}={name}" for name in names])
    dataset, nodes = instantiate(config.dataset, "dataset"), OmegaConf.to_container(config["all"], resolve=True)
    others = {"loss": None, "calibration": config.calibration}
    chosen = {"adassp": {"loss": "squared"}}
    return {name: build_algorithm({"algo": nodes[name], **others, **chosen.get(name, {})}, dataset) for name in names}


def jobs(results, content=TINY, words=(), name="mine/tiny"):
    """The job of an experiment that is no file, as `dpml-run experiment=mine/tiny WORDS` would have it."""
    with with_options():
        folders = [word for word in words if word.startswith(("data_dir=", "metrics=", "block="))]
        config = composed([f"results_dir='{results}'", *folders])
        with open_dict(config):
            config.experiment = content
        return experiment_jobs(config, [f"experiment={name}", *words], [])


def shipped(name, words=()):
    """The job of an experiment that comes with dpml, as `dpml-run experiment=NAME WORDS` would have it."""
    words = [f"experiment={name}", *words]
    with with_options():
        (job,) = experiment_jobs(hydra.compose("config", words), words, [shipped_folder("experiments")])
    return job


def run(results, content=TINY, words=(), name="mine/tiny", **options):
    """Compute and write an experiment that is no file: the exit status."""
    work = jobs(results, content, words, name)
    plan, status = compute_jobs(work, Options(**options), results, "dpml-run")
    if options.get("dry"):
        return status
    for written in write_jobs(plan, work, stopped=bool(status)):
        if written.error is not None:
            raise written.error
    return status or failures(plan, "dpml-run")


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


def plan(results, content=TINY, words=(), **options):
    """The plan of an experiment that is no file."""
    tasks = [job.task for job in jobs(results, content, words)]
    return make_plan(tasks, Store(results / ".cells"), Options(**options))


def digests(results):
    """The outputs of mine/..., apart from what says how the cells were come by."""
    files = [path for path in (results / "mine").iterdir() if not path.name.endswith(("_plan.csv", ".json"))]
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


# libraries that most commands do not need
RARE = ["sklearn", "scipy.stats", "scipy.io", "matplotlib", "requests", "cryptography", "joblib", "distributed"]


def imported(said):
    """The modules that a process has imported: Python itself said so on stderr, and it said nothing else.

    The process had PYTHONPROFILEIMPORTTIME=1 in its environment.
    """
    lines = said.splitlines()
    assert all(line.startswith("import time:") for line in lines), said
    return {line.rpartition("|")[2].strip() for line in lines}
