"""Rajkumar & Agarwal 2012: the claims, all about the mean test error in its two figures.

*Significant* is as everywhere (`judging`), in pairs over data sets or folds, which are the seeds. *Similar*, and *not
affected*, is a difference of at most five in a hundred test rows: by eye no more can be told apart in such a figure,
and it is a tenth of what is between guessing and no error.

The paper does not say its lam. Two readings have the best of a fixed grid, for all three algorithms alike: `noisy`
where their noise is part of what is judged, `plain` where it is not, as one would choose without accounting for noise.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from dpml.reporting.criteria import both, fewest_seeds, several
from dpml.reporting.judging import NEAR, Check, Claim, Evidence, NotComputedError, Reading, Runs, Test
from dpml.reporting.statistics import algorithm_below, below, holm

EPS = (0.1, 0.2)

ERROR = (Reading("noisy", "paper", "error"), Reading("plain", "paper", "error"))


def _on_panels(axes: Sequence[str], algorithms: Sequence[str], decide: Callable[[Runs], Check]) -> Test:
    """A test on the panels of a reading, one for every eps and axis, whose names stand for blocks in the runs."""

    def test(evidence: Evidence, reading: Reading) -> Check:
        runs: dict[tuple[str, str], Any] = {}
        missing: list[str] = []
        for eps in EPS:
            rows = replace(evidence, rows=evidence.rows[evidence.rows["eps"] == eps])
            for axis in axes:
                block = f"{reading.name}_{axis}"
                try:
                    panel = rows.all_runs({block: algorithms}, reading)
                except NotComputedError as error:
                    missing += [f"{name} at eps = {eps:g}" for name in error.missing]
                else:
                    runs |= {(f"eps = {eps:g}, {axis}", algorithm): values for (_, algorithm), values in panel.items()}
        if missing:
            raise NotComputedError(missing)
        return replace(decide(runs), seeds=fewest_seeds(runs))

    return test


def _in_order(columns: Sequence[object]) -> list[Any]:
    """Numbers of parties upwards; shares of parties from equal to skewed, which is by their smallest, downwards."""
    shares = all("/" in str(column) for column in columns)
    return sorted(columns, key=lambda c: -min(map(float, str(c).split("/"))) if shares else float(str(c)))


def degrades(axis: str, algorithm: str) -> Test:
    """From the first to the last x the mean error rises significantly, and no step on the way falls significantly."""

    def decide(runs: Runs) -> Check:
        rises: dict[str, float] = {}
        drops: dict[str, float] = {}
        texts = []
        for (panel, _), values in runs.items():
            columns = _in_order(several(values, panel))
            rises[panel] = below(values[columns[0]], values[columns[-1]])
            for a, b in pairwise(columns):
                drops[f"{panel} {a} to {b}"] = below(values[b], values[a])
            texts.append(f"{panel}: " + " ".join(f"{values[column].mean():.3g}" for column in columns))
        no_rise = [key for key, significant in holm(rises).items() if not significant]
        fallen = [key for key, significant in holm(drops).items() if significant]
        text = f"{algorithm}, {'; '.join(texts)}"
        text += f"; no significant rise at {', '.join(no_rise)}" if no_rise else ""
        text += f"; significant falls at {', '.join(fallen)}" if fallen else ""
        return Check(not no_rise and not fallen, text)

    return _on_panels((axis,), (algorithm,), decide)


def similar(algorithm: str, other: str) -> Test:
    """At every x the mean errors of two algorithms differ by at most NEAR."""

    def decide(runs: Runs) -> Check:
        apart: dict[str, float] = {}
        for panel in dict.fromkeys(panel for panel, _ in runs):
            gaps = runs[panel, algorithm].mean() - runs[panel, other].mean()
            apart |= {f"{panel} = {x}": gap for x, gap in gaps.items()}
        worst = max(apart, key=lambda key: abs(apart[key]))
        return Check(abs(apart[worst]) <= NEAR, f"{algorithm} - {other} is at most {apart[worst]:+.3g}, at {worst}")

    return _on_panels(("M", "partition"), (algorithm, other), decide)


def unaffected(axis: str, algorithms: Sequence[str]) -> Test:
    """Over all x the mean error of each algorithm stays within NEAR."""

    def decide(runs: Runs) -> Check:
        spans = {}
        for (panel, algorithm), values in runs.items():
            means = values[several(values, panel)].mean()
            spans[f"{algorithm}, {panel}"] = means.max() - means.min()
        return Check(
            max(spans.values()) <= NEAR, "; ".join(f"{key}: moves by {span:.2g}" for key, span in spans.items())
        )

    return _on_panels((axis,), algorithms, decide)


def wins_at(axis: str, x: object, algorithm: str, other: str) -> Test:
    """At one x the mean error of `algorithm` is significantly below the other's, at every eps."""

    def decide(runs: Runs) -> Check:
        values, texts = {}, []
        for panel in dict.fromkeys(panel for panel, _ in runs):
            ours, theirs = runs[panel, algorithm], runs[panel, other]
            if x not in ours:
                raise NotComputedError([f"{panel} = {x}"])
            values[panel] = algorithm_below(ours[x], theirs[x])
            texts.append(f"{panel} = {x}: {ours[x].mean():.3g} against {theirs[x].mean():.3g}")
        return Check(all(holm(values).values()), f"{algorithm} against {other}, {'; '.join(texts)}")

    return _on_panels((axis,), (algorithm, other), decide)


def _claims(prefix: str, figure: str, where: str) -> tuple[Claim, ...]:
    return (
        Claim(
            f"{prefix}.1",
            figure,
            f"{where}, local aggregation degrades as the number of parties grows.",
            "at both eps the mean test error of la rises significantly from M = 5 to 15, and falls significantly at no "
            "step",
            degrades("M", "la"),
            ERROR,
        ),
        Claim(
            f"{prefix}.2",
            figure,
            f"{where}, psgd performs like gop.",
            "at every M, every share vector and both eps the mean test errors differ by at most 0.05",
            similar("psgd", "gop"),
            ERROR,
        ),
        Claim(
            f"{prefix}.3",
            figure,
            f"{where}, psgd is better than local aggregation even with few parties.",
            "at M = 5 and both eps the mean test error of psgd is significantly below that of la",
            wins_at("M", 5, "psgd", "la"),
            ERROR,
        ),
        Claim(
            f"{prefix}.4",
            figure,
            f"{where}, local aggregation degrades as the smallest party gets smaller; psgd and gop are not affected.",
            "at both eps the mean test error of la rises significantly from equal shares to the most skewed, and falls "
            "significantly at no step; those of psgd and gop stay within 0.05 over the share vectors",
            both(degrades("partition", "la"), unaffected("partition", ("psgd", "gop"))),
            ERROR,
        ),
    )


CLAIMS = (
    *_claims("R1", "rajkumar2012/fig1", "On simulated data"),
    *_claims("R2", "rajkumar2012/fig2", "On the Wisconsin breast cancer data"),
)
