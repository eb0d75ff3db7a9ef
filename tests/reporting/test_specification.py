"""Claims under every reading as a picture: what is drawn is what the verdict rests on."""

import numpy as np
import pytest

from dpml.reporting import specification
from dpml.reporting.claims import Check, Verdict
from dpml.reporting.criteria import Comparison, Effect, scale

SHARE, SIZE = scale("accuracy"), scale("loss")


def check(holds, estimate, on=SHARE, error=0.01):
    return Check(holds, "", shown={"x": Comparison(holds, Effect(estimate, error, 9), on, slack=1.0)})


def verdict(checks):
    return Verdict("K1", "text", "criterion", "depends on an unstated choice", "", checks=checks)


@pytest.fixture
def drawn(monkeypatch):
    """The axes of the figure of some verdicts."""

    def axes(*verdicts):
        figures = []
        monkeypatch.setattr(specification, "save_as", lambda figure, path: figures.append(figure))
        specification.draw(verdicts, None)
        return figures[0].axes

    return axes


def test_effects_are_sorted_each_with_its_interval_and_the_colour_of_its_decision(drawn):
    checks = {"a, p": check(True, 0.3), "b, p": check(None, 0.1), "a, q": check(False, -0.2)}
    above, below = drawn(verdict(checks))
    intervals, points = above.lines[0:6:2], above.lines[1:6:2]
    assert [line.get_ydata()[0] for line in points] == [-0.2, 0.1, 0.3]
    assert [line.get_color() for line in points] == [specification._DECISIONS[kind][1] for kind in (False, None, True)]
    for line, estimate in zip(intervals, (-0.2, 0.1, 0.3), strict=True):
        np.testing.assert_allclose(line.get_ydata(), estimate + 2.262157 * 0.01 * np.array([-1, 1]), rtol=1e-6)
    assert [label.get_text() for label in below.get_yticklabels()] == ["a", "p", "b", "q"]
    assert [list(line.get_xdata()) for line in below.lines] == [[0, 2], [1, 2], [1], [0]]


def test_differences_and_factors_have_panels_of_their_own_and_choices_that_go_together_are_one(drawn):
    checks = {"accuracy, in rounds, eq. (2)": check(True, 0.3), "accuracy, once": check(True, 0.1)}
    checks |= {"gap, in rounds, eq. (2)": check(True, 1.0, SIZE), "gap, once": check(True, 2.0, SIZE)}
    axes = drawn(verdict(checks))
    assert [one.get_ylabel() for one in axes[::2]] == ["better by", "better by a factor"]
    assert axes[2].yaxis.get_major_formatter()(np.log(2), None) == "×2"
    assert [label.get_text() for label in axes[1].get_yticklabels()] == ["in rounds, eq. (2)", "once"]


def test_a_claim_of_one_reading_has_no_picture(tmp_path):
    path = tmp_path / "fig_readings.svg"
    assert specification.draw([verdict({"as stated": check(True, 0.3)}), verdict({})], path) == []
    two = verdict({"a": check(True, 0.3), "b": check(True, 0.3)})
    assert specification.draw([two], path) == [path]
    first = path.read_bytes()
    specification.draw([two], path)
    assert path.read_bytes() == first
    assert specification.draw([verdict({"a": check(True, 0.3)})], path) == []  # the claim has changed
    assert not path.exists()  # so that no page shows it
