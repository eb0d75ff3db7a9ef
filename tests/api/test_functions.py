"""The functions of the package: the same numbers as the commands, and the same sentences for mistakes."""

import io
import json
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hydra.core.global_hydra import GlobalHydra

import dpml
from dpml.api import jobs
from dpml.api.settings import settings_of
from dpml.data import Files
from dpml.data.sets.wdbc import WDBC
from dpml.seeds import generator


def as_read(table):
    return pd.read_csv(io.StringIO(table.to_csv(index=False)))


def test_every_public_name_is_there_and_documented():
    for name in dpml.__all__:
        assert getattr(dpml, name).__doc__, name
    assert dir(dpml) == sorted([*dpml.__all__, "__version__"])
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        dpml.nothing  # noqa: B018


@pytest.mark.usefixtures("undrawn")
def test_a_sweep_has_the_tables_and_the_cells_of_the_command(run_command):
    words = ["dataset=wdbc", "M=1", "eps=[0.1,1]", "draws=2", "seed=[0,1]"]
    run_command("dpml-run", "-m", "algo=fm,gop", *words, "algo.lam=0.1", "hydra.sweep.dir=out")
    result = dpml.run("dataset=wdbc", algo=["fm", "gop"], M=1, eps=[0.1, 1], draws=2, seed=(0, 1),
                      **{"algo.lam": np.array([0.1])})  # fmt: skip
    assert len(result.rows) > 50
    pd.testing.assert_frame_equal(as_read(result.rows), pd.read_csv("out/rows.csv"))
    pd.testing.assert_frame_equal(as_read(result.guarantees), pd.read_csv("out/guarantees.csv"))


def test_a_result_is_read_as_a_table_and_a_figure(folder):
    result = dpml.run(algo="fm", loss=["logistic", "squared"], M=1, draws=2)
    table = result.table(["loss", "accuracy"])  # a setting and a metric have the same name
    assert list(table["loss"]) == ["logistic", "squared"]
    assert all(" ± " in text for text in table["training loss"])
    assert repr(result).splitlines()[0].split()[:3] == ["loss", "test", "accuracy"]
    (axes,) = result.plot(x="M", metrics=["accuracy"]).axes
    assert axes.lines


def test_ctrl_c_is_raised_and_the_call_goes_on_later(folder, monkeypatch, capsys):
    def interrupted(*arguments):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(jobs, "carry_out", interrupted)
        with pytest.raises(KeyboardInterrupt):
            dpml.run(algo=["fm", "conv"], draws=1)
    assert "resume with: the same call" in capsys.readouterr().err
    assert len(dpml.run(algo=["fm", "conv"], draws=1).rows)


def test_a_cell_that_fails_is_an_exception_and_the_others_are_kept(folder, monkeypatch):
    (folder / "broken_metric.py").write_text(
        "def broken(weights, parties, loss, lam):\n    raise RuntimeError('dead')\n"
    )
    monkeypatch.syspath_prepend(folder)
    with pytest.raises(jobs.CellsFailedError, match=r"RuntimeError: dead .traceback in"):
        dpml.run(algo="fm", M=1, draws=1, metrics=["broken_metric.broken"])


def test_budgets_without_noise_are_left_out_with_a_warning(folder):
    with pytest.warns(UserWarning, match=r"left out: eps=1 delta=None: algo=gop adds Gaussian noise"):
        result = dpml.run(algo="gop", M=1, draws=1, delta=[None, 1e-5])
    assert set(result.rows["delta"]) == {1e-5}


def test_a_program_that_uses_hydra_itself_finds_it_as_it_was(folder):
    theirs = object()
    GlobalHydra.instance().hydra = theirs
    try:
        dpml.guarantee(algo="fm", M=1)
        with pytest.raises(dpml.UserError):
            dpml.guarantee(algo="no")
        assert GlobalHydra.instance().hydra is theirs
    finally:
        GlobalHydra.instance().clear()


@pytest.mark.parametrize(
    "value",
    [
        None, True, False, 0, -3, 0.1, 1e-05, 1e30, math.inf, "capefm", "a b", "it's", "x,y", "[a]", "null", "1",
        "True", "", "ü/ä.csv", "it\\'s", "back\\slash", "C:\\data\\", "a=b", "$x",
    ],
)  # fmt: skip
def test_values_are_kept_as_they_were_given(value):
    settings = settings_of([], {"mirror": value}, None)
    found = settings.composed().values["mirror"]
    assert found == value
    assert type(found) is type(value)


def test_numbers_and_paths_of_libraries_are_values():
    settings = settings_of([], {"eps": np.float64(0.1), "M": np.arange(2), "data_dir": Path("some/where")}, None)
    assert settings.given == {"eps": 0.1, "M": [0, 1], "data_dir": "some/where"}
    assert not settings.lists


def test_lists_are_lists_where_keys_take_them_and_sweeps_elsewhere():
    keys = {"eps": [0.1, 1], "algo": ["fm", "conv"], "algo.steps": [[1, 2], [3]]}
    settings = settings_of(["loss=logistic,squared"], keys, None).swept()
    assert settings.lists == {"loss": ["logistic", "squared"], "algo": ["fm", "conv"], "algo.steps": [[1, 2], [3]]}
    assert settings.given == {"eps": [0.1, 1]}


def test_guarantees_are_those_of_the_command(run_command):
    words = ("algo=capefm", "eps=0.1", "delta=1e-5", "M=10", "N=5000", "d=30")
    printed = json.loads(run_command("dpml", "guarantee", *words, "--json").out)["views"]
    found = dpml.guarantee("algo=capefm", eps=0.1, delta=1e-5, M=10, N=5000, d=30)
    assert [(each.view, each.basis, each.eps, each.source) for each in found] == [
        (each["view"], each["basis"], each["eps"], each["source"]) for each in printed
    ]


def test_data_are_those_that_a_run_has(folder):
    data = dpml.load("wdbc", "dataset.test_fraction=0.5", N=50, seed=3)
    same = WDBC(test_fraction=0.5).load(Files(), 50, generator(3, "data"))
    for key in ("X", "y", "X_test", "y_test"):
        assert np.array_equal(getattr(data, key), getattr(same, key))
    assert data.X.shape == (50, 30)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: dpml.run(algo=object), "algo"),
        (lambda: dpml.run(experiment="imtiaz2019/fig5"), "experiment"),
        (lambda: dpml.guarantee(algo=["fm", "gop"]), "algo=fm,gop"),
        (lambda: dpml.attack(algo="constant", draws=10), "an audit needs at least 100 draws"),
        (lambda: dpml.load("wdbc", algo="fm"), "algo"),
    ],
)
def test_a_mistake_is_one_sentence(folder, call, sentence):
    with pytest.raises(dpml.UserError, match=sentence):
        call()
    assert list(folder.iterdir()) == []
