"""Axes, bands and looks of figures, on made-up rows."""

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

from dpml.errors import UserError
from dpml.reporting import figures, style
from dpml.reporting.figures import plot, plot_experiment
from dpml.reporting.panels import Chart, with_axis
from dpml.reporting.statistics import replication, summarise
from dpml.reporting.style import AXES, base_look, looks
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


def drawn(monkeypatch, *charts, columns=1):
    """The figure that plot_experiment makes of charts, or of one panel of the rows."""
    kept = []
    monkeypatch.setattr(figures, "save", lambda figure, base: kept.append(figure) or [])
    given = [c if isinstance(c, Chart) else Chart(c, with_axis(summarise(rows()), c.x)) for c in charts]
    plot_experiment(given, "Title", columns, "command", None)
    return kept[0]


def summary(*lines, metric="loss"):
    """A summary with one line per dict: its settings, and `mean`."""
    about = dict.fromkeys(COLUMNS[:11], "x") | {"delta": np.nan, "eps": 1.0, "M": 2, "N": 10, "d": 3, "metric": metric}
    about |= {"calibration": "published", "variant": "paper", "unit": "sample", "claimed_eps": 1.0, "proven_eps": 1.0}
    about |= {
        "proven_view": "release",
        "not_proven": None,
        "conditional_eps": np.nan,
        "tuned": "fixed",
        "std": 0.1,
        "count": 10,
        "interval": 0.1,
        "seeds": 1,
    }
    about |= {"replicates": "draws"}
    return pd.DataFrame([about | line for line in lines])


def lines_of(axes):
    return {line.get_label(): line for line in axes.lines}


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
    over = replication(summarise(rows()))
    assert f"one s.d. either way of the mean over {over}" in figure._supxlabel.get_text().replace("\n", " ")


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


def test_a_curve_is_told_by_what_varies_and_only_by_that(monkeypatch):
    table = summary(
        *(
            {"algo": "capefm", "algo.lam": lam, "eps": eps, "mean": lam + eps}
            for lam in (0.0, 1.0, 10)
            for eps in (1, 2)
        ),
        *({"algo": "conv", "algo.rounds": 5, "eps": eps, "mean": eps} for eps in (1, 2)),
    )
    figure = drawn(monkeypatch, Chart(Panel("", "eps", "loss"), table))
    lines = lines_of(figure.axes[0])
    assert set(lines) == {"capefm algo.lam=0", "capefm algo.lam=1", "capefm algo.lam=10", "conv"}
    np.testing.assert_allclose(lines["capefm algo.lam=10"].get_ydata(), [11, 12])
    looks_of = {(line.get_color(), line.get_linestyle()) for line in lines.values()}
    assert len(looks_of) == 4
    assert "algo.rounds=5" in figure._supxlabel.get_text()  # what does not vary is said once
    assert "algo.lam" not in figure._supxlabel.get_text()


def test_algorithms_with_other_values_of_one_setting_say_so(monkeypatch):
    table = summary(
        *({"algo": algo, "M": M, "eps": eps, "mean": eps} for algo, M in (("wang", 1), ("wddp", 32)) for eps in (1, 2))
    )
    (axes,) = drawn(monkeypatch, Chart(Panel("", "eps", "loss"), table)).axes
    assert set(lines_of(axes)) == {"wang M=1", "wddp M=32"}


def test_what_moves_along_the_axis_splits_no_curve_and_is_said(monkeypatch):
    table = summary(*({"algo": "soft", "M": M, "N": 22 * M, "mean": 1 / M} for M in (10, 20, 40)))
    figure = drawn(monkeypatch, Chart(Panel("", "M", "loss"), table))
    assert set(lines_of(figure.axes[0])) == {"soft"}
    assert "N as given by M" in figure._supxlabel.get_text()


def test_an_axis_can_be_a_setting_of_the_command_line(monkeypatch):
    table = summary(
        *({"algo": "wddp", "partition.u": u, "algo.steps": '["pca:50", "norm"]', "mean": u} for u in (1, 3, 9))
    )
    figure = drawn(monkeypatch, Chart(Panel("", "partition.u", "loss"), table))
    (axes,) = figure.axes
    np.testing.assert_allclose(lines_of(axes)["wddp"].get_xdata(), [1, 3, 9])
    assert "u" in axes.get_xlabel()
    assert "algo.steps=[pca:50, norm]" in figure._supxlabel.get_text()
    other = table.rename(columns={"partition.u": "algo.depth"})
    (axes,) = drawn(monkeypatch, Chart(Panel("", "algo.depth", "loss"), other)).axes
    assert axes.get_xlabel() == "algo.depth"


def test_panels_of_a_figure_share_labels_looks_and_scales(monkeypatch):
    both = summary(
        *({"algo": "nn", "variant": v, "eps": e, "mean": e} for v in ("paper", "authors") for e in (1, 2)), metric="gap"
    )
    wide = summary(*({"algo": "nn", "eps": e, "mean": e} for e in (1, 100)), metric="gap")
    figure = drawn(monkeypatch, *(Chart(Panel("", "eps", "gap"), table) for table in (both, wide)), columns=2)
    left, right = figure.axes
    assert set(lines_of(right)) == {"nn variant=paper"}  # the same name as beside it, or the legend would have it twice
    assert lines_of(left)["nn variant=paper"].get_color() == lines_of(right)["nn variant=paper"].get_color()
    assert left.get_yscale() == right.get_yscale() == "log"
    (legend,) = figure.legends
    names = [entry.get_text() for entry in legend.get_texts()]
    assert sorted(names) == ["nn variant=authors", "nn variant=paper"]


def test_a_curve_under_another_one_is_seen(monkeypatch):
    table = summary(*({"algo": a, "eps": e, "mean": e} for a in ("wang", "jayaraman") for e in (1.0, 2.0, 4.0, 8.0)))
    (axes,) = drawn(monkeypatch, Chart(Panel("", "eps", "loss"), table)).axes
    below, above = axes.lines
    assert below.get_linewidth() > 2 * above.get_linewidth()
    marked = [set(range(*line.get_markevery()[:1], 4, line.get_markevery()[1])) for line in (below, above)]
    assert marked[0] | marked[1] == {0, 1, 2, 3}
    assert not marked[0] & marked[1]


def test_a_band_that_goes_on_below_a_log_axis_is_pale_there(monkeypatch):
    table = summary(*({"algo": "conv", "eps": e, "mean": m} for e, m in ((1, 100.0), (10, 10.0), (100, 0.01))))
    figure = drawn(monkeypatch, Chart(Panel("", "eps", "loss"), table))
    (axes,) = figure.axes
    solid, pale = axes.collections
    assert pale.get_alpha() < solid.get_alpha() / 2
    assert max(path.vertices[:, 0].max() for path in solid.get_paths()) == 10
    low = min(path.vertices[:, 1].min() for path in pale.get_paths())
    assert low == pytest.approx(axes.get_ylim()[0])
    assert "pale" in figure._supxlabel.get_text()


def test_what_is_zero_is_said_below_the_axis_and_not_over_a_curve(monkeypatch):
    table = summary(
        *({"algo": a, "eps": e, "mean": m * e} for a, m in (("nonpriv", 1e-16), ("conv", 1.0)) for e in (1, 10))
    )
    (axes,) = drawn(monkeypatch, Chart(Panel("", "eps", "loss"), table)).axes
    assert axes.get_xlabel() == "ε\n(nonpriv: 0 to machine precision)"
    assert not axes.texts


def test_legends_are_read_line_by_line_in_the_order_of_the_curves(monkeypatch):
    names = [f"algorithm-number-{number}" for number in range(5)]
    table = summary(*({"algo": a, "eps": e, "mean": 9.0 - i} for i, a in enumerate(names) for e in (1, 2)))
    figure = drawn(monkeypatch, Chart(Panel("", "eps", "loss"), table))
    figure.draw_without_rendering()
    places = [(-entry.get_window_extent().y0, entry.get_window_extent().x0) for entry in figure.legends[0].get_texts()]
    texts = [entry.get_text() for entry in figure.legends[0].get_texts()]
    assert [name for _, name in sorted(zip(places, texts, strict=True))] == names
    assert len({round(y) for y, _ in places}) > 1


def test_an_unknown_axis_is_one_sentence(tmp_path):
    with pytest.raises(UserError, match=r"no setting 'algo\.lamb'"):
        plot(rows().assign(**{"algo.lam": 1.0}), tmp_path, "command", x="algo.lamb")


def test_every_algorithm_has_a_look_of_its_own():
    known = style._ALGORITHMS
    pairs = [base_look(name) for name in known if base_look(name)[1]]
    assert len(set(pairs)) == len(pairs)
    # the network's runs and CAPE's curves have the colour of the scheme that they use
    own = [name for name in known if base_look(name)[1] and not name.startswith("nn_") and name != "cape"]
    assert len({base_look(name)[0] for name in own}) == len(own)


def test_unknown_algorithms_that_share_a_spare_look_differ():
    found = [(look.colour, str(look.dashes)) for look in looks({f"mine{n}": [f"mine{n}"] for n in range(12)}).values()]
    assert len(set(found)) == 12
    assert looks({"mine1": ["mine1"]}) == looks({"mine1": ["mine1"]})


def test_many_curves_of_one_algorithm_are_told_apart_by_lightness():
    def lightness(look):
        red, green, blue = (int(look.colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    levels = [lightness(look) for look in looks({"cape": ["a", "b", "c", "d"]}).values()]
    assert all(higher - lower > 0.1 for higher, lower in pairwise(levels))
