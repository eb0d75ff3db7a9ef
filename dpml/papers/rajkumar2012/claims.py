"""Rajkumar & Agarwal 2012: the claims, all about the mean test error in its two figures.

The paper does not state its lam. Two readings use the best of a fixed grid, the same for all three algorithms: `noisy`
chooses it with their noise, `plain` without, as one would choose without accounting for noise.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from dpml.papers.rajkumar2012 import need_of_rho
from dpml.papers.rajkumar2012.bounds import TAIL
from dpml.reporting.claim_tests import both, failing, fewest_seeds, several, steady, trend
from dpml.reporting.claims import Check, Claim, Evidence, NotComputedError, Reading, Runs, Test
from dpml.reporting.criteria import better, cells_of, covers, scale, similar

EPS = (0.1, 0.2)
ERRORS = scale("error")

ERROR = (Reading("noisy", "paper", "error"), Reading("plain", "paper", "error"))


def _on_panels(axes: Sequence[str], algorithms: Sequence[str], decide: Callable[[Runs], Check]) -> Test:
    """A test on the panels of a reading, one for every eps and axis, whose names stand for blocks in the runs."""

    def test(evidence: Evidence, reading: Reading) -> Check:
        runs: dict[tuple[str, str], Any] = {}
        missing: list[str] = []
        for eps in EPS:
            rows = evidence.where("eps", eps)
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
    """Numbers of parties, ascending; shares of parties from equal to skewed, by the smallest share, descending."""
    shares = all("/" in str(column) for column in columns)
    return sorted(columns, key=lambda c: -min(map(float, str(c).split("/"))) if shares else float(str(c)))


def degrades(axis: str, algorithm: str) -> Test:
    """From the first to the last x the algorithm gets worse, and better at no step on the way."""

    def decide(runs: Runs) -> Check:
        curves = {
            f"{algorithm}, {panel}": (values, _in_order(several(values, panel))) for (panel, _), values in runs.items()
        }
        return trend(curves, ERRORS, better_at_the_end=False)

    return _on_panels((axis,), (algorithm,), decide)


def alike(algorithm: str, other: str) -> Test:
    """At every x the two algorithms are similar."""

    def decide(runs: Runs) -> Check:
        panels = dict.fromkeys(panel for panel, _ in runs)
        pairs = {
            f"{panel} = {x}": (runs[panel, algorithm][x], runs[panel, other][x])
            for panel in panels
            for x in runs[panel, other]
        }
        shown = {key: similar(*pair, ERRORS) for key, pair in pairs.items()}
        apart = {key: a.mean() - b.mean() for key, (a, b) in pairs.items()}
        worst = max(apart, key=lambda key: abs(apart[key]))
        text = f"{algorithm} - {other} is at most {apart[worst]:+.3g}, at {worst}{failing('not similar', shown)}"
        return Check.of(text, shown)

    return _on_panels(("M", "partition"), (algorithm, other), decide)


def unaffected(axis: str, algorithms: Sequence[str]) -> Test:
    """At every x each algorithm is similar to what it is at the first."""

    def decide(runs: Runs) -> Check:
        curves = {f"{a}, {panel}": (values, _in_order(several(values, panel))) for (panel, a), values in runs.items()}
        return steady(curves, ERRORS)

    return _on_panels((axis,), algorithms, decide)


def wins_at(places: Sequence[tuple[str, Any]], algorithm: str, other: str) -> Test:
    """At these x, given by axis, `algorithm` is better than the other at every eps."""

    def decide(runs: Runs) -> Check:
        shown = better(_pairs(runs, places, algorithm, other), ERRORS)
        return Check.of(_means(runs, places, algorithm, other) + failing("not better", shown), shown)

    return _on_panels([axis for axis, _ in places], (algorithm, other), decide)


def comparable(places: Sequence[tuple[str, Any]], algorithm: str, other: str) -> Test:
    """At these x the two are similar at every eps."""

    def decide(runs: Runs) -> Check:
        shown = {key: similar(*pair, ERRORS) for key, pair in _pairs(runs, places, algorithm, other).items()}
        return Check.of(_means(runs, places, algorithm, other) + failing("not similar", shown), shown)

    return _on_panels([axis for axis, _ in places], (algorithm, other), decide)


def _pairs(runs: Runs, places: Sequence[tuple[str, Any]], algorithm: str, other: str) -> dict[Any, tuple[Any, Any]]:
    """The runs of two algorithms at some x, where `FIRST` and `LAST` are those of the axis."""
    return {
        f"{panel} = {x}": (runs[panel, algorithm][x], runs[panel, other][x])
        for panel in dict.fromkeys(panel for panel, _ in runs)
        for axis, place in places
        if panel.endswith(f", {axis}")
        for x in [_place(runs, panel, other, place)]
    }


def _means(runs: Runs, places: Sequence[tuple[str, Any]], algorithm: str, other: str) -> str:
    means = {key: (a.mean(), b.mean()) for key, (a, b) in _pairs(runs, places, algorithm, other).items()}
    texts = [f"{key}: {ours:.3g} against {theirs:.3g}" for key, (ours, theirs) in means.items()]
    return f"{algorithm} against {other}, {'; '.join(texts)}"


FIRST, LAST = "first", "last"


def _place(runs: Runs, panel: str, algorithm: str, place: Any) -> Any:
    grid = _in_order(several(runs[panel, algorithm], panel))
    x = {FIRST: grid[0], LAST: grid[-1]}.get(place, place)
    if x not in grid:
        raise NotComputedError([f"{panel} = {x}"])
    return x


_ENDS = ("M", LAST), ("partition", LAST)


def _claims(prefix: str, figure: str, where: str) -> tuple[Claim, ...]:
    texts = {
        "1": (
            "local aggregation degrades as the number of parties grows.",
            "at both eps la is worse at M = 15 than at M = 5, and gets better at no step",
            degrades("M", "la"),
        ),
        "2": (
            "psgd performs like gop.",
            "at every M, every share vector and both eps psgd is similar to gop",
            alike("psgd", "gop"),
        ),
        "3": (
            "psgd is better than local aggregation even with few parties.",
            "at M = 5 (shares drawn from the simplex) and both eps psgd is better than la",
            wins_at((("M", 5),), "psgd", "la"),
        ),
        "4": (
            "local aggregation degrades as the smallest party gets smaller; psgd and gop are not affected.",
            "at both eps la is worse for the most skewed shares than for equal ones, and gets better at no step; psgd "
            "and gop are similar to what they are for equal shares",
            both(degrades("partition", "la"), unaffected("partition", ("psgd", "gop"))),
        ),
        "5": (
            "psgd is comparable to local aggregation in general, and better where the smallest party is small or there "
            "are many parties (the paper's conclusion).",
            "at both eps psgd is similar to la for equal shares, and better for the most skewed ones and at M = 15",
            both(comparable((("partition", FIRST),), "psgd", "la"), wins_at(_ENDS, "psgd", "la")),
        ),
    }  # fmt: skip
    figures = (
        Claim(f"{prefix}.{number}", figure, f"{where}, {text}", criterion, test, ERROR)
        for number, (text, criterion, test) in texts.items()
    )
    bound = Claim(
        f"{prefix}.B",
        figure,
        f"{where}, Theorem 5.1: with probability 0.95 the objective of gop is at most a bound above its minimum.",
        "for every eps and lam the 95 % bound (Clopper & Pearson) on the share of draws that keep the bound is at "
        "least 0.95; not so if the upper one is below",
        gap_bounded(("noisy_M", "plain_M")),
        (Reading("as stated", "paper", "optimality_gap"),),
    )
    return (*figures, bound)


HALVING = Reading("as stated", "halving", "error")
SPENT = (0.1, 0.2, 1.0, 10.0)
EXCESS = Reading("as stated", "paper", "excess_loss")
SHARE = 0.9  # 1 - 2 delta' of Theorem 5.3


def guesses(block: str) -> Test:
    """At every eps, after the most rounds, halving budgets are similar to a guess, and plain psgd is better."""

    def test(evidence: Evidence, reading: Reading) -> Check:
        pairs, half, texts = {}, {}, []
        for eps in SPENT:
            rows = evidence.where("eps", eps)
            runs = [rows.all_runs({block: ("psgd",)}, replace(reading, variant=v)) for v in (reading.variant, "paper")]
            ours, paper = (tables[block, "psgd"] for tables in runs)
            last = max(several(ours, block))
            if last not in paper:
                raise NotComputedError([f"psgd in {block} after {last:g} rounds"])
            half[f"guess at eps = {eps:g}"] = similar(ours[last], 0 * ours[last] + 0.5, ERRORS)
            pairs[f"psgd better at eps = {eps:g}"] = paper[last], ours[last]
            texts.append(
                f"eps = {eps:g}: {ours[last].mean():.3g} after {last:g} rounds, {ours.mean().min():.3g} after "
                f"{ours.mean().idxmin():g}, psgd {paper[last].mean():.3g}"
            )
        shown = half | better(pairs, ERRORS)
        seeds = evidence.rows.loc[evidence.rows["block"] == block, "seed"].nunique()
        return replace(Check.of("; ".join(texts) + failing("not so", shown), shown), seeds=seeds)

    return test


def bounded(block: str, bound: str) -> Test:
    """At every N the excess loss of every draw is at most the bound in at least `SHARE` of the seeds."""

    def test(evidence: Evidence, reading: Reading) -> Check:
        runs = evidence.all_runs({block: ("gop",)}, reading)[block, "gop"]
        bounds = evidence.runs(bound, "gop", replace(reading, metric="bound"))
        if bounds.empty or set(runs) - set(bounds):
            raise NotComputedError([f"the bound at every N of {block}"])
        limit = {N: float(bounds[N].iloc[0]) for N in runs}
        kept = {N: (runs[N] <= limit[N]).groupby(level="seed").all() for N in runs}
        shown = {f"N = {N}": covers(int(one.sum()), len(one), SHARE, cells_of(runs[N])) for N, one in kept.items()}
        texts = [f"N = {N}: {runs[N].mean():.3g}, bound {limit[N]:.3g}, {shown[f'N = {N}'].words}" for N in runs]
        return replace(Check.of("; ".join(texts), shown), seeds=runs.index.get_level_values("seed").nunique())

    return test


def gap_bounded(blocks: Sequence[str]) -> Test:
    """In every block and at every eps enough draws of gop keep the bound on its optimality gap.

    gop does not depend on the parties, so that its rows at one M are all of them. Its draws are independent, and the
    theorem holds for any rows: the draws of all seeds count.
    """

    def test(evidence: Evidence, reading: Reading) -> Check:
        shown, texts, seeds = {}, [], []
        for block in blocks:
            for eps in EPS:
                rows = evidence.where("eps", eps)
                one = replace(reading, metric="gap_bound")
                gap, bound = (rows.all_runs({block: ("gop",)}, metric)[block, "gop"] for metric in (reading, one))
                first = several(gap, block)[0]
                kept = gap[first].dropna() <= bound[first].dropna()
                key = f"{block.partition('_')[0]} lam, eps = {eps:g}"
                shown[key] = covers(int(kept.sum()), len(kept), 1 - TAIL)
                texts.append(f"{key}: {gap[first].mean():.3g}, bound {bound[first].mean():.3g}, {shown[key].words}")
                seeds.append(kept.index.get_level_values("seed").nunique())
        return replace(Check.of("; ".join(texts), shown), seeds=min(seeds))

    return test


CLAIMS = (
    *_claims("R1", "rajkumar2012/fig1", "On simulated data"),
    *_claims("R2", "rajkumar2012/fig2", "On the Wisconsin breast cancer data"),
    Claim(
        "R3.2",
        "rajkumar2012/halving",
        "With budgets of eps/2^t the gradients are so noisy after many rounds that the classifier is unlikely to "
        "generalise.",
        "at eps = 0.1, 0.2, 1 and 10 its test error after the most rounds is similar to 1/2, and psgd after as many is "
        "better",
        guesses("rounds"),
        (HALVING,),
    ),
    Claim(
        "R5.3",
        "rajkumar2012/theorem53",
        "Theorem 5.3: with probability 1 - 2 delta' the expected loss of gop is at most a bound above that of w_0.",
        "at every N the 95 % bound (Clopper & Pearson) on the share of seeds all of whose draws keep the bound, with "
        "the constants of the proof, is at least 0.9; not so if the upper one is below",
        bounded("excess_N", "bound_N"),
        (EXCESS,),
    ),
    *need_of_rho.CLAIMS,
)
