"""Formulas: what the converter is asked to do, what is mended after it, and what is refused."""

import pytest
from dpml_docs.mathml import mathml


@pytest.mark.parametrize(
    ("latex", "part"),
    [
        (r"\varepsilon \le \sqrt{2}", "<mi>ε</mi><mo>≤</mo><msqrt>"),
        ("[-1, 1]", '<mo form="prefix">−</mo><mn>1</mn>'),
        ("a-1", "<mi>a</mi><mo>−</mo><mn>1</mn>"),
        ("(a)-1", '<mo stretchy="false">)</mo><mo>−</mo>'),
        ("e^{-x}", '<mo form="prefix">−</mo><mi>x</mi>'),
        (r"\eta \sim N", "<mo>∼</mo>"),
        ("x < y", "<mo>&lt;</mo>"),
        ("a/b", '<mo lspace="0" rspace="0">/</mo>'),
        (r"\lVert w\rVert^2", '<mo stretchy="false">‖</mo><mi>w</mi>'),
        (r"\left| w\right|", '<mo stretchy="true"'),
    ],
)
def test_a_formula(latex, part):
    assert part in mathml(latex, "inline")


def test_equations_are_numbered_by_sphinx_only():
    assert "<mtext>(1)" not in mathml(r"\begin{align} a &= b \label{eq:a}\end{align}", "block")


@pytest.mark.parametrize("latex", [r"\unknowncommand x", r"\frac{a}", r"\begin{aligned} a", r"\left( a"])
def test_what_is_no_formula_is_refused(latex):
    with pytest.raises(ValueError, match=r"\w"):
        mathml(latex, "inline")
