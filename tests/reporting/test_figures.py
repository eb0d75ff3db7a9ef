"""Axes, bands and looks of figures, on made-up rows."""

import numpy as np
import pandas as pd
import pytest

from dpml.reporting import figures
from dpml.reporting.figures import AXES, Chart, look, plot, plot_experiment, with_axis
from dpml.reporting.statistics import summarise
from dpml.running.rows import COLUMNS
from dpml.running.spec import Panel


def rows():
    about = dict.fromkeys(COLUMNS, "x") | {"delta": np.nan, "M": 2, "N": 10, "d": 3, "metric": "accuracy"}
    about |= {"claimed_eps": 1.0, "proven_eps": 1.0, "calibration": "published", "variant": "paper"}
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        [
            about | {"algo": algo, "eps": eps, "seed": 0, "draw": draw, "value": 0.5 + 0.1 * rng.standard_normal()}
            for algo in ("batch", "indiv", "soft")
            for eps in (np.inf, 1000.0, 10.0, 0.1)
            for draw in range(5)
        ],
        columns=COLUMNS,
    )


def drawn(monkeypatch, panel):
    """The axes that plot_experiment makes of the rows."""
    kept = []
    monkeypatch.setattr(figures, "_save", lambda figure, base: kept.append(figure) or [])
    plot_experiment([Chart(panel, with_axis(summarise(rows()), panel.x))], "Title", 1, "command", None)
    return kept[0]


def test_no_noise_has_a_place_on_the_axis_of_1_over_eps(monkeypatch):
    figure = drawn(monkeypatch, Panel("a", "inverse_eps", "accuracy", band="sd"))
    (axes,) = figure.axes
    assert axes.get_xlabel() == "1/ε"
    lines = {line.get_label(): line for line in axes.lines}
    assert set(lines) == {"batch", "indiv", "soft"}  # eps is the axis, and no line is split by it
    np.testing.assert_allclose(lines["soft"].get_xdata(), [0, 0.001, 0.1, 10])
    assert [label.get_text() for label in axes.get_xticklabels()] == ["0", "0.001", "0.01", "0.1", "1", "10"]
    places = axes.transData.transform([[x, 0] for x in (0, 0.001, 0.01, 0.1, 1, 10)])[:, 0]
    steps = np.diff(places)
    assert np.allclose(steps[1:], steps[1])
    assert 0.3 < steps[0] / steps[1] < 0.7
    assert (lines["batch"].get_linestyle(), lines["indiv"].get_linestyle()) == ("-", "--")
    assert "one s.d. either way of the mean over 5 runs" in figure._supxlabel.get_text()


def test_bands_are_what_the_footer_says(monkeypatch):
    table = summarise(rows()).set_index(["algo", "eps"])
    for band, half in (("sd", "std"), ("interval", "interval")):
        (axes,) = drawn(monkeypatch, Panel("a", "eps", "accuracy", band=band, xscale="log")).axes
        heights = [np.ptp(path.vertices[:, 1]) for c in axes.collections for path in c.get_paths()]
        top, low = (table["mean"] + sign * table[half] for sign in (1, -1))
        expected = [top[a].max() - low[a].min() for a in ("batch", "indiv", "soft")]
        assert sorted(heights) == pytest.approx(sorted(expected), rel=1e-6)


def test_a_sweep_is_drawn_against_1_over_eps_when_asked(tmp_path):
    paths = plot(rows(), tmp_path, "command", x="inverse_eps", metrics=["accuracy"])
    assert all(path.stat().st_size > 1000 for path in paths)
    assert "inverse_eps" in AXES


def test_every_algorithm_has_a_look_of_its_own():
    looks = [look(name) for name in figures._LOOKS if look(name)[1]]
    assert len(set(looks)) == len(looks)
    # the network's runs and CAPE's curves have the colour of the scheme that they use
    own = [name for name in figures._LOOKS if look(name)[1] and not name.startswith("nn_") and name != "cape"]
    assert len({look(name)[0] for name in own}) == len(own)
