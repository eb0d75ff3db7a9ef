"""Specification curves (Simonsohn, Simmons & Nelson 2020): the effect of a claim under every reading of its text.

Above, for every reading, the effect that its decision hangs on with the 95 % interval, sorted, in the colour of the
decision; below, the choices that the reading makes. Choices that always go together are one line.
"""

import re
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator

from dpml.reporting.claims import Check, Verdict
from dpml.reporting.criteria import Comparison
from dpml.reporting.figures import COLUMN, save_as
from dpml.reporting.statistics import LEVEL
from dpml.reporting.style import PAPER, in_style

_DECISIONS = {True: ("holds", "#009E73", "o"), False: ("does not hold", "#D55E00", "X"), None: ("open", "#7F7F7F", "D")}
_LINE = 0.115  # height of a choice, in inches


def draw(verdicts: Sequence[Verdict], path: Path) -> list[Path]:
    """Draw a panel per claim and kind of effect, differences or factors; no file where no claim has two readings."""
    panels = [(verdict, effects) for verdict in verdicts for effects in _by_kind(verdict.checks) if len(effects) > 1]
    if not panels:
        path.unlink(missing_ok=True)  # of earlier claims: pages link to it if it is there
        return []
    choices = [_choices(list(effects)) for _, effects in panels]
    heights = [height for lines in choices for height in (0.95, _LINE * sum(map(_size, lines)))]
    with in_style(PAPER):
        figure = Figure(figsize=(COLUMN, sum(heights) + 0.3 * len(panels) + 0.3), layout="constrained")
        axes = figure.subplots(len(heights), 1, height_ratios=heights, squeeze=False)[:, 0]
        for number, ((verdict, effects), lines) in enumerate(zip(panels, choices, strict=True)):
            order = sorted(effects, key=lambda name: _estimate(effects[name][1]))
            above, below = axes[2 * number : 2 * number + 2]
            _draw_effects(above, [effects[name] for name in order])
            _draw_choices(below, order, lines)
            above.set_title(f"{verdict.id}: {verdict.kind}", loc="right")
        marks = [Line2D([], [], linestyle="", color=c, marker=m, label=word) for word, c, m in _DECISIONS.values()]
        figure.legend(handles=marks, loc="outside lower center", ncols=len(marks))
        save_as(figure, path)
    return [path]


def _by_kind(checks: Mapping[str, Check]) -> list[dict[str, tuple[bool | None, Comparison]]]:
    """By reading the decision and the comparison that it hangs on: of differences, and of factors."""
    kinds: dict[bool, dict[str, tuple[bool | None, Comparison]]] = {False: {}, True: {}}
    for name, check in checks.items():
        found = check.decisive
        if found and found[1].effect and found[1].scale and np.isfinite(found[1].effect.estimate):
            kinds[found[1].scale.log][name] = check.holds, found[1]
    return [*kinds.values()]


def _estimate(one: Comparison) -> float:
    assert one.effect is not None
    return one.effect.estimate


def _draw_effects(axes: Axes, effects: Sequence[tuple[bool | None, Comparison]]) -> None:
    for place, (holds, one) in enumerate(effects):
        assert one.effect is not None
        ends = np.nan_to_num(one.effect.interval(1 - LEVEL), nan=0.0, posinf=np.nan, neginf=np.nan)
        _, colour, marker = _DECISIONS[holds]
        axes.plot([place, place], ends, color=colour, linewidth=0.8)
        axes.plot(place, one.effect.estimate, color=colour, marker=marker, markersize=2.8)
    log = effects[0][1].scale is not None and effects[0][1].scale.log
    axes.axhline(0, color="#000000", linewidth=0.6, linestyle=":")
    axes.yaxis.set_major_locator(MaxNLocator(4))
    if log:
        axes.yaxis.set_major_formatter(FuncFormatter(lambda effect, _: f"×{np.exp(effect):.2g}"))
    axes.set(ylabel="better by a factor" if log else "better by", xticks=[], xlim=(-0.7, len(effects) - 0.3))
    axes.grid(visible=False, axis="x")


def _draw_choices(axes: Axes, order: Sequence[str], lines: Mapping[str, frozenset[str]]) -> None:
    sizes = np.array([_size(name) for name in lines])
    middles = np.cumsum(sizes) - sizes / 2
    for middle, readings in zip(middles, lines.values(), strict=True):
        places = [place for place, name in enumerate(order) if name in readings]
        axes.plot(places, [middle] * len(places), linestyle="", marker="s", markersize=2.4, color="#444444")
    axes.set_yticks(middles, list(lines), fontsize=6, linespacing=0.9)
    axes.set(xticks=[], xlim=(-0.7, len(order) - 0.3), ylim=(sizes.sum(), 0))
    axes.spines[["left", "bottom"]].set_visible(False)
    axes.tick_params(length=0)
    axes.grid(visible=False)


def _size(label: str) -> int:
    """How many lines of text it has."""
    return label.count("\n") + 1


def _choices(readings: Sequence[str]) -> dict[str, frozenset[str]]:
    """By choice, a part of the readings' names, the readings that make it; what all have in common is none."""
    parts = {name: re.split(", | and ", name) for name in readings}
    makers: dict[frozenset[str], list[str]] = {}
    for choice in dict.fromkeys(part for own in parts.values() for part in own):
        makers.setdefault(frozenset(name for name in readings if choice in parts[name]), []).append(choice)
    return {textwrap.fill(", ".join(words), 40): who for who, words in makers.items() if len(who) < len(readings)}
