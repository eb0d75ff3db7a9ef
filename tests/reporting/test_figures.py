"""Axes, bands and looks of figures, on made-up rows."""

import re
from dataclasses import replace

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from harness import made_rows

from dpml.errors import UserError
from dpml.reporting.charts import read_published, shown
from dpml.reporting.figures import figure_of, paper_figure, plot, plot_experiment, save_as
from dpml.reporting.panels import Chart, with_axis
from dpml.reporting.statistics import summarise
from dpml.reporting.style import base_look, looks
from dpml.reporting.words import ALGORITHMS
from dpml.running.spec import Panel


def rows():
    rng = np.random.default_rng(0)
    runs = [(algo, eps) for algo in ("batch", "indiv", "soft") for eps in (np.inf, 1000.0, 10.0, 0.1)]
    values = 0.5 + 0.1 * rng.standard_normal((len(runs), 1, 5))
    about = {"delta": np.nan, "metric": "accuracy", "claimed_eps": 1.0, "proven_eps": 1.0}
    parts = (made_rows(own, algo=algo, **about | {"eps": eps}) for own, (algo, eps) in zip(values, runs, strict=True))
    return pd.concat(parts, ignore_index=True)


def drawn(*charts, columns=1):
    given = [c if isinstance(c, Chart) else Chart(c, with_axis(summarise(rows()), c.x)) for c in charts]
    figure, figure.caption = figure_of(given, columns)
    return figure


def summary(*lines, metric="loss"):
    """A summary with one line per dict: its settings, and `mean`."""
    (about,) = summarise(made_rows([range(10)], metric=metric, calibration="published")).to_dict("records")
    about |= {"delta": np.nan, "proven_view": "release", "std": 0.1, "interval": 0.1}
    return pd.DataFrame([about | line for line in lines])


def lines_of(axes):
    return {label: line for line in axes.lines if not (label := str(line.get_label())).startswith("_")}


def test_no_noise_has_a_place_on_the_axis_of_1_over_eps():
    (axes,) = drawn(Panel("a", "inverse_eps", "accuracy")).axes
    lines = lines_of(axes)
    assert set(lines) == {"batch", "indiv", "soft"}  # eps is the axis, and no line is split by it
    np.testing.assert_allclose(lines["soft"].get_xdata(), [0, 0.001, 0.1, 10])
    assert [label.get_text() for label in axes.get_xticklabels()] == ["0", "0.1", "10"]


def test_bands_are_what_the_footer_says():
    table = summarise(rows()).set_index(["algo", "eps"])
    for band, half in (("sd", "std"), ("interval", "interval")):
        (axes,) = drawn(Panel("a", "eps", "accuracy", band=band, xscale="log")).axes
        heights = [np.ptp(path.vertices[:, 1]) for c in axes.collections for path in c.get_paths()]
        top, low = (table["mean"] + sign * table[half] for sign in (1, -1))
        expected = [top[a].max() - low[a].min() for a in ("batch", "indiv", "soft")]
        assert sorted(heights) == pytest.approx(sorted(expected), rel=1e-6)


def test_a_band_of_a_share_stays_between_0_and_1():
    """Half an interval of few seeds may be wider than what is left up to 1."""
    points = ({"algo": "a", "eps": eps, "mean": mean, "interval": 0.3} for eps, mean in ((1, 0.1), (2, 0.5), (3, 0.9)))
    table = summary(*points)
    for metric, ends in (("accuracy", (0.0, 1.0)), ("rmse", (-0.2, 1.2))):
        chart = Chart(Panel("", "eps", metric), table)
        points = chart.lines({}, log=False)
        assert (points["low"].min(), points["high"].max()) == pytest.approx(ends)


def test_a_curve_is_told_by_what_varies_and_only_by_that():
    table = summary(
        *({"algo": "capefm", "algo.lam": k, "eps": eps, "mean": k + eps} for k in (0.0, 1.0, 10) for eps in (1, 2)),
        *({"algo": "conv", "algo.rounds": 5, "eps": eps, "mean": eps} for eps in (1, 2)),
    )
    figure = drawn(Chart(Panel("", "eps", "loss"), table))
    lines = lines_of(figure.axes[0])
    assert set(lines) == {"capefm algo.lam=0", "capefm algo.lam=1", "capefm algo.lam=10", "conv"}
    np.testing.assert_allclose(lines["capefm algo.lam=10"].get_ydata(), [11, 12])
    looks_of = {(line.get_color(), line.get_linestyle()) for line in lines.values()}
    assert len(looks_of) == 4
    assert "T = 5 for independent noise" in figure.caption  # what does not vary is said once
    assert "λ" not in figure.caption


ACCURACY, LOSS = Panel("", "eps", "accuracy"), Panel("", "eps", "loss")
CUT = replace(ACCURACY, ylim=(0.03, 0.7))


@pytest.mark.parametrize(
    ("panel", "algo", "means", "reason"),
    [
        (ACCURACY, "fm", {1: 0.5, 10: np.nan}, "values of the test accuracy are NaN: Gaussian FM"),
        (ACCURACY, "nonpriv", {1: 0.9, np.inf: 0.9}, "ε is infinite: no privacy"),
        (CUT, "fm", {1: 0.9, 10: 0.9}, "the test accuracy is outside the axis: Gaussian FM"),
        (LOSS, "nonpriv", {1: 1e-16, 10: 0.0}, "the training loss is 0 to machine precision: no privacy"),
    ],
)
def test_the_caption_names_once_what_is_not_drawn(panel, algo, means, reason):
    points = [("conv", 1, 0.6), ("conv", 10, 0.06), *((algo, eps, mean) for eps, mean in means.items())]
    lines = ({"algo": a, "eps": eps, "mean": mean, "missing": int(np.isnan(mean))} for a, eps, mean in points)
    figure = drawn(*[Chart(panel, summary(*lines, metric=panel.y))] * 2, columns=2)
    assert re.findall("not shown because (.*?)[.]", figure.caption) == [reason]
    assert figure.axes[0].get_ylim() == CUT.ylim or panel is not CUT


def test_what_moves_along_the_axis_splits_no_curve_and_is_said():
    table = summary(*({"algo": "soft", "M": M, "N": 22 * M, "mean": 1 / M} for M in (10, 20, 40)))
    figure = drawn(Chart(Panel("", "M", "loss"), table))
    assert set(lines_of(figure.axes[0])) == {"soft"}
    assert "(parties M), the value of N also changes." in figure.caption


def test_a_band_never_falls_off_a_log_axis_as_a_block():
    lines = ((1, 1.0, 0.2), (10, 0.1, 0.09), (100, 0.01, 0.02), (1000, 0.01, 0.015))
    table = summary(*({"algo": "conv", "eps": e, "mean": m, "interval": h} for e, m, h in lines))
    figure = drawn(Chart(Panel("", "eps", "loss"), table))
    (axes,) = figure.axes
    low, high = axes.get_ylim()
    (band,) = axes.collections
    (path,) = band.get_paths()
    places = [path.vertices[path.vertices[:, 0] == e][:, 1] for e, *_ in lines]
    for (_, mean, half), ends in zip(lines, places, strict=True):
        assert min(ends) == pytest.approx(mean * np.exp(-half / mean))
        assert max(ends) == pytest.approx(mean * np.exp(half / mean))
        assert low < min(ends) < max(ends) < high


def test_a_size_whose_sign_is_not_known_has_no_band():
    table = summary(
        *({"algo": "conv", "eps": e, "mean": m, "interval": 0.5} for e, m in ((1, -9.0), (10, 1.0), (100, 0.1))),
        metric="noisy_objective",
    )
    figure = drawn(Chart(Panel("", "eps", "noisy_objective"), table))
    (band,) = figure.axes[0].collections
    assert {x for path in band.get_paths() for x in path.vertices[:, 0]} == {1, 10}


def test_a_proven_eps_of_zero_has_no_place_on_a_log_axis():
    table = summary(*({"algo": "conv", "eps": e, "proven_eps": e, "mean": e} for e in (0.0, 1.0, 10.0)))
    (axes,) = drawn(Chart(Panel("", "proven_eps", "loss"), table)).axes
    np.testing.assert_allclose(lines_of(axes)["conv"].get_xdata(), [1, 10])


def test_every_algorithm_has_a_look_of_its_own():
    pairs = [base_look(name) for name in ALGORITHMS if base_look(name)[1]]
    assert len(set(pairs)) == len(pairs)
    others = looks({f"mine{n}": [f"mine{n}"] for n in range(12)}).values()
    assert len({(look.colour, str(look.dashes)) for look in others}) == 12


def test_what_lacks_the_setting_of_the_axis_is_a_level_line():
    rounds = [1, 10, 100]
    table = summary(
        *({"algo": "psgd", "algo.rounds": T, "mean": 1 / T} for T in rounds),
        {"algo": "constant", "algo.rounds": None, "mean": 0.5},
    ).assign(block="a")
    panel = Panel("a", "algo.rounds", "loss", xscale="log")
    found = shown(table.astype({"algo.rounds": object}), panel)
    (axes,) = drawn(Chart(panel, found)).axes
    assert axes.get_xscale() == "log"
    level = next(line for label, line in lines_of(axes).items() if "constant" in label)
    assert list(level.get_xdata()) == rounds
    assert set(level.get_ydata()) == {0.5}


def test_of_programs_of_others_the_best_private_one_is_shown():
    table = summary(*[{"algo": "fm", "eps": eps, "mean": 0.8} for eps in (0.1, 1.0)], metric="accuracy")
    columns = ["series", "x", "algo", "metric", "mean", "std", "n", "peer"]
    means = {("one", 0.1): 0.1, ("two", 0.1): 0.7, ("one", 1.0): 0.8, ("two", 1.0): 0.6, ("x (not private)", 1.0): 0.9}
    points = [["a", x, algo, "accuracy", mean, 0.0, 5, True] for (algo, x), mean in means.items()]
    chart = Chart(Panel("", "eps", "accuracy"), table, pd.DataFrame(points, columns=columns))
    figure = drawn(chart)
    (hollow,) = (line for line in figure.axes[0].lines if line.get_markerfacecolor() == "none")
    assert hollow.get_xydata().tolist() == [[0.1, 0.7], [1.0, 0.8]]
    errors = replace(chart, panel=Panel("", "eps", "rmse")).lines({}, log=False)
    errors = errors[errors["kind"] == "published"]
    assert errors.set_index("x")["mean"].to_dict() == {0.1: 0.1, 1.0: 0.6}


def test_points_of_papers_and_of_others_are_told_apart(tmp_path):
    (tmp_path / "p").mkdir()
    text = "# where it is from\nseries,x,algo,metric,mean,std,n\na,1,fm,loss,0.5,,\n"
    for name in ("published.csv", "peers.csv"):
        (tmp_path / "p" / name).write_text(text)
    assert read_published([tmp_path], "p")["peer"].tolist() == [False, True]
    assert len(read_published([tmp_path], "q")) == 0
    for point in ("a,1,fm,loss,,,", "a,x,fm,loss,1,,", "a,1,fm,loss,1,-2,5", "a,1,fm,loss,1,two,5"):
        (tmp_path / "p" / "published.csv").write_text(f"{text}{point}\n")
        with pytest.raises(UserError, match="must be numbers"):
            read_published([tmp_path], "p")


@pytest.mark.slow
def test_what_the_user_has_set_for_matplotlib_changes_no_byte(tmp_path) -> None:
    lines = summary(*({"algo": "conv", "eps": eps, "mean": 0.4} for eps in (1.0, 2.0)))
    chart = Chart(Panel("a", "eps", "loss"), lines)
    own = {"font.size": 30, "savefig.bbox": "tight", "pdf.fonttype": 3, "axes.prop_cycle": mpl.cycler(color="r")}

    def drawn(name):
        paths = plot_experiment([chart], 1, tmp_path / name)[0] + plot(rows(), tmp_path)
        pdf = tmp_path / f"{name}.pdf"
        save_as(paper_figure([chart], 3.3)[0], pdf)
        return [path.read_bytes() for path in (*paths, pdf)]

    usual = drawn("usual")
    with mpl.rc_context(own):
        assert drawn("other") == usual
    assert b"/Type3" not in usual[-1]  # journals refuse fonts of this type
    assert b"/FontFile2" in usual[-1]  # TrueType


def test_the_footer_rounds_a_proven_eps_up():
    """By hand: 10.3442 is 10.3 in three digits, which is not proven."""
    table = summary(*({"algo": "conv", "eps": e, "mean": 1.0, "proven_eps": 10.3442} for e in (1, 2)))
    footer = drawn(Chart(Panel("", "eps", "loss"), table)).caption
    assert "a proven ε of 10.4 and a claimed ε of 1." in footer
