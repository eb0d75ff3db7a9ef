"""Hamm, Cao & Belkin 2016: tests of claims about 1/eps. Blocks run over eps: 1/eps = 0 is eps = inf.

*About* is similar, *nearly as good* is at most 0.05 of accuracy worse, and *roughly between* allows 0.01, what matters,
beyond either end.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from dpml.reporting.claim_tests import failing, on_runs, wins
from dpml.reporting.claims import Check, NotComputedError, Runs, Test, every, some
from dpml.reporting.criteria import Comparison, MetricScale, better, scale, similar
from dpml.reporting.statistics import per_seed

ACCURACY = scale("accuracy")


def near(block: str, values: Mapping[str, float]) -> Test:
    """Without noise the mean accuracy of every algorithm is similar to the value in the text."""

    def decide(runs: Runs, _: MetricScale) -> Check:
        shown, texts = {}, []
        for algorithm, value in values.items():
            ours = _at(runs, block, algorithm, math.inf)
            stated = pd.Series(value, ours.index)  # of these very test rows: no other ones are in question
            shown[algorithm] = similar(ours, stated, ACCURACY)
            texts.append(f"{algorithm} {ours.mean():.3f} (published {value})")
        return _all(shown, ", ".join(texts))

    return on_runs({block: tuple(values)}, decide)


def useless(block: str, algorithm: str, eps: float) -> Test:
    """At this eps `algorithm` is not better than indiv."""

    def decide(runs: Runs, _: MetricScale) -> Check:
        ours, alone = (_at(runs, block, name, eps) for name in (algorithm, "indiv"))
        text = f"at 1/eps = {1 / eps:g} {algorithm} {ours.mean():.3f}, indiv {alone.mean():.3f}"
        above = better({f"{algorithm} above indiv": (ours, alone)}, ACCURACY)
        return Check.of(text, above, lambda known: every(None if one is None else not one for one in known.values()))

    return on_runs({block: (algorithm, "indiv")}, decide)


def better_than_alone(block: str, algorithms: Sequence[str], eps: float) -> Test:
    """From 1/eps = 0 to that of `eps` every algorithm is better than indiv at every point."""

    def decide(runs: Runs, _: MetricScale) -> Check:
        alone = runs[block, "indiv"]
        grid = _down_to(runs, block, "indiv", eps)
        shown = better({(a, x): (runs[block, a][x], alone[x]) for a in algorithms for x in grid}, ACCURACY)
        texts = [f"{a} {_until(_kept({x: shown[a, x] for x in grid}))}" for a in algorithms]
        return _all(shown, f"better than indiv ({alone[math.inf].mean():.3f}): {', '.join(texts)}")

    return on_runs({block: (*algorithms, "indiv")}, decide)


def between(blocks: Sequence[str], algorithms: Sequence[str], small: float) -> Test:
    """At every small 1/eps roughly between indiv and batch, at the largest below indiv. `small` is the last of them.

    For every algorithm that fails before the end of the range, the numbers say how far the statement holds.
    """

    def decide(runs: Runs, _: MetricScale) -> Check:
        shown: dict[Any, Comparison] = {}
        below: dict[Any, tuple[pd.Series, pd.Series]] = {}
        for block in blocks:
            low, high = runs[block, "indiv"], runs[block, "batch"]
            grid, last = _small(runs, block, small)
            for algorithm in algorithms:
                values = runs[block, algorithm]
                for x in grid:
                    shown[f"{algorithm} above indiv", block, x] = _roughly_above(values[x], low[x])
                    shown[f"{algorithm} below batch", block, x] = _roughly_above(high[x], values[x])
                below[f"{algorithm} below indiv in the end", block] = low[last], values[last]
        falls = better(below, ACCURACY)
        texts = []
        for what, block in dict.fromkeys(key[:2] for key in shown):
            curve = {x: one for (*key, x), one in shown.items() if key == [what, block]}
            if not all(one.holds for one in curve.values()):
                texts.append(f"{what} {block} {_until(_kept(curve))}")
        text = f"; but {', '.join(texts)}" if texts else "; all of them do"
        text = f"between indiv and batch until 1/eps = {small:g}{text}"
        return Check.of(text + failing("not so", falls), shown | falls)

    return on_runs(dict.fromkeys(blocks, ("indiv", "batch", *algorithms)), decide)


def _roughly_above(a: pd.Series, b: pd.Series) -> Comparison:
    """Whether a is at most what matters below b."""
    return similar(a, b, ACCURACY, ACCURACY.matters, better_too=True)


def holds_longer(many: str, few: str, algorithms: Sequence[str]) -> Test:
    """With more parties every algorithm is better at some 1/eps > 0, and worse at none."""

    def decide(runs: Runs, _: MetricScale) -> Check:
        pairs: dict[tuple[str, float], tuple[pd.Series, pd.Series]] = {}
        for algorithm in algorithms:
            ours, theirs = runs[many, algorithm], runs[few, algorithm]
            if _grid(ours) != _grid(theirs):
                raise NotComputedError([f"{algorithm} at the same eps in {many} and {few}"])
            for x in filter(math.isfinite, _grid(ours)):
                pairs[algorithm, x] = ours[x], theirs[x]
        return wins(pairs, ACCURACY, some)

    return on_runs(dict.fromkeys((many, few), algorithms), decide)


def nearly_batch(block: str, algorithm: str, eps: float) -> Test:
    """From 1/eps = 0 to that of `eps` `algorithm` is at most 0.05 worse than batch."""

    def decide(runs: Runs, _: MetricScale) -> Check:
        ours, target = runs[block, algorithm], _at(runs, block, "batch", math.inf)
        grid = _down_to(runs, block, algorithm, eps)
        last = min(grid)
        shown = {x: similar(ours[x], target, ACCURACY, better_too=True) for x in grid}
        text = f"{algorithm} {_until(_kept(shown))} "
        text += f"({ours[last].mean():.3f} at 1/eps = {1 / last:g}, batch {target.mean():.3f})"
        return _all(shown, text)

    return on_runs({block: (algorithm, "batch")}, decide)


def wider_gap(pairs: Mapping[str, str], algorithms: Sequence[str]) -> Test:
    """Without noise every algorithm is further below batch in each block than in its counterpart."""

    def decide(runs: Runs, _: MetricScale) -> Check:
        wider: dict[tuple[str, str], tuple[pd.Series, pd.Series]] = {}
        texts = []
        for block, other in pairs.items():
            for algorithm in algorithms:
                here, there = (_gap(runs, where, algorithm) for where in (block, other))
                wider[algorithm, block] = here, there
                texts.append(f"{algorithm} {block} {here.mean():.3f} and {other} {there.mean():.3f}")
        shown = better(wider, ACCURACY)
        return Check.of(", ".join(texts) + failing("not wider", shown), shown)

    return on_runs(dict.fromkeys((*pairs, *pairs.values()), ("batch", *algorithms)), decide)


def _grid(values: pd.DataFrame) -> list[float]:
    """The values of eps of some runs, in ascending order."""
    return sorted(map(float, values.columns))


def _at(runs: Runs, block: str, algorithm: str, eps: float) -> pd.Series:
    values = runs[block, algorithm]
    if eps not in values.columns:
        raise NotComputedError([f"{block} at 1/eps = {1 / eps:g}"])
    return values[eps]


def _down_to(runs: Runs, block: str, algorithm: str, eps: float) -> list[float]:
    """The grid from eps = inf down to this `eps`."""
    for end in (math.inf, eps):
        _at(runs, block, algorithm, end)
    return [x for x in _grid(runs[block, algorithm]) if x >= eps]


def _small(runs: Runs, block: str, most: float) -> tuple[list[float], float]:
    """The grid from eps = inf down to 1/eps = `most`, and the smallest eps of the whole grid."""
    grid = _down_to(runs, block, "indiv", 1 / most if most else math.inf)
    last = min(_grid(runs[block, "indiv"]))
    if last in grid:
        raise NotComputedError([f"{block} at a 1/eps above {most:g}"])
    return grid, last


def _gap(runs: Runs, block: str, algorithm: str) -> pd.Series:
    """The accuracy of batch minus that of the algorithm without noise, a value for every seed."""
    best, ours = (per_seed(_at(runs, block, name, math.inf)) for name in ("batch", algorithm))
    gaps = (best - ours).dropna()
    if len(gaps) < 2:
        raise NotComputedError([f"a second seed of batch and {algorithm} in {block}"])
    return pd.concat({0: gaps}, names=["draw"]).swaplevel()


def _kept(shown: Mapping[float, Comparison]) -> float | None:
    """The smallest eps down to which every point of the grid is shown to hold; None if the first one is not."""
    kept = None
    for x in sorted(shown, reverse=True):
        if not shown[x].holds:
            break
        kept = x
    return kept


def _until(eps: float | None) -> str:
    return "never" if eps is None else f"until 1/eps = {1 / eps:g}"


def _all(shown: Mapping[Any, Comparison], text: str) -> Check:
    """Whether all comparisons, with keys of names and eps, hold; names those that are undecided if none fails."""
    holds = every(one.holds for one in shown.values())
    if holds is None:
        text += f"; undecided: {', '.join(_place(key) for key, one in shown.items() if one.holds is None)}"
    return Check.of(text, {_place(key): one for key, one in shown.items()})


def _place(key: Any) -> str:
    parts = key if isinstance(key, tuple) else (key,)
    return " ".join(part if isinstance(part, str) else f"1/eps = {1 / part:g}" for part in parts)
