"""Rajkumar & Agarwal 2012: the claims, all about the mean test error in its two figures.

*Significant* is as everywhere (`judging`), with runs of one algorithm under two settings in pairs, and two algorithms
in pairs over data sets or folds. *Similar*, and *not affected*, is a difference of at most five in a hundred test rows:
by eye no more can be told apart in such a figure, and it is a tenth of what is between guessing and no error.

The paper does not say its lam. Two readings have the best of a fixed grid, for all three algorithms alike: `noisy`
where their noise is part of what is judged, `plain` where it is not, as one would choose without a thought of privacy.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from dpml.reporting.judging import Check, Claim, Evidence, Reading, Test, algorithm_below, below, both, holm

NEAR = 0.05
EPS = (0.1, 0.2)

ERROR = (Reading("noisy", "paper", "error"), Reading("plain", "paper", "error"))


def _parts(evidence: Evidence, reading: Reading, axes: Sequence[str]) -> dict[str, tuple[Evidence, str]]:
    """What the four panels of a reading show, by name: the rows of one eps, and the block, whose name ends in its x."""
    rows = evidence.rows
    return {
        f"eps = {eps:g}, {axis}": (replace(evidence, rows=rows[rows["eps"] == eps]), f"{reading.name}_{axis}")
        for eps in EPS
        for axis in axes
    }


def _in_order(columns: Sequence[object]) -> list[object]:
    """Numbers of parties upwards; shares of parties from equal to skewed, which is by their smallest, downwards."""
    shares = all("/" in str(column) for column in columns)
    return sorted(columns, key=lambda c: -min(map(float, str(c).split("/"))) if shares else float(str(c)))


def degrades(axis: str, algorithm: str) -> Test:
    """From the first to the last x the mean error rises significantly, and no step on the way falls significantly."""

    def test(evidence: Evidence, reading: Reading) -> Check | None:
        rises: dict[str, float] = {}
        drops: dict[str, float] = {}
        said = []
        for where, (rows, block) in _parts(evidence, reading, (axis,)).items():
            runs = rows.runs(block, algorithm, reading)
            if runs.shape[1] < 2:
                continue
            columns = _in_order(list(runs.columns))
            rises[where] = below(runs[columns[0]], runs[columns[-1]])
            for a, b in pairwise(columns):
                drops[f"{where} {a} to {b}"] = below(runs[b], runs[a])
            said.append(f"{where}: " + " ".join(f"{runs[column].mean():.3g}" for column in columns))
        if not said:
            return None
        no_rise = [key for key, significant in holm(rises).items() if not significant]
        fallen = [key for key, significant in holm(drops).items() if significant]
        text = f"{algorithm}, {'; '.join(said)}"
        text += f"; no significant rise at {', '.join(no_rise)}" if no_rise else ""
        text += f"; significant falls at {', '.join(fallen)}" if fallen else ""
        return not no_rise and not fallen, text

    return test


def similar(algorithm: str, other: str) -> Test:
    """At every x the mean errors of two algorithms differ by at most NEAR."""

    def test(evidence: Evidence, reading: Reading) -> Check | None:
        apart = {}
        for where, (rows, block) in _parts(evidence, reading, ("M", "partition")).items():
            ours, theirs = (rows.runs(block, name, reading).mean() for name in (algorithm, other))
            for x in ours.index.intersection(theirs.index):
                apart[f"{where} = {x}"] = ours[x] - theirs[x]
        if not apart:
            return None
        worst = max(apart, key=lambda key: abs(apart[key]))
        return abs(apart[worst]) <= NEAR, f"{algorithm} - {other} is at most {apart[worst]:+.3g}, at {worst}"

    return test


def unaffected(axis: str, algorithms: Sequence[str]) -> Test:
    """Over all x the mean error of each algorithm stays within NEAR."""

    def test(evidence: Evidence, reading: Reading) -> Check | None:
        spans = {}
        for where, (rows, block) in _parts(evidence, reading, (axis,)).items():
            for algo in algorithms:
                means = rows.runs(block, algo, reading).mean()
                if len(means) > 1:
                    spans[f"{algo}, {where}"] = means.max() - means.min()
        said = "; ".join(f"{key}: moves by {span:.2g}" for key, span in spans.items())
        return (max(spans.values()) <= NEAR, said) if spans else None

    return test


def wins_at(axis: str, x: object, algorithm: str, other: str) -> Test:
    """At one x the mean error of `algorithm` is significantly below the other's, at every eps."""

    def test(evidence: Evidence, reading: Reading) -> Check | None:
        values, said = {}, []
        for where, (rows, block) in _parts(evidence, reading, (axis,)).items():
            ours, theirs = (rows.runs(block, name, reading) for name in (algorithm, other))
            if x in ours and x in theirs:
                values[where] = algorithm_below(ours[x], theirs[x])
                said.append(f"{where} = {x}: {ours[x].mean():.3g} against {theirs[x].mean():.3g}")
        return (all(holm(values).values()), f"{algorithm} against {other}, {'; '.join(said)}") if values else None

    return test


def _claims(prefix: str, figure: str, where: str) -> tuple[Claim, ...]:
    return (
        Claim(
            f"{prefix}.1",
            figure,
            f"{where}, local aggregation degrades as the number of parties grows.",
            "la, at both eps: from M = 5 to 15 the mean test error rises significantly, no step falls significantly",
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
            "la, at both eps: from equal shares to the most skewed the mean test error rises significantly, no step "
            "falls significantly; psgd and gop: over the share vectors it stays within 0.05",
            both(degrades("partition", "la"), unaffected("partition", ("psgd", "gop"))),
            ERROR,
        ),
    )


CLAIMS = (
    *_claims("R1", "rajkumar2012/fig1", "On simulated data"),
    *_claims("R2", "rajkumar2012/fig2", "On the Wisconsin breast cancer data"),
)
