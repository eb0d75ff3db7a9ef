"""Hamm, Cao & Belkin 2016: the claims.

*About*, *around* and *nearly* are within 0.05 of accuracy, half of the first digit that the text gives; *roughly
between* allows 0.01 beyond either end. A figure's small 1/eps are 0 and the smallest positive one of our grid, its
large 1/eps the largest. Blocks run over eps: 1/eps = 0 is eps = inf.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import pandas as pd

from dpml.reporting.judging import LEVEL, Check, Claim, Evidence, Reading, Test, algorithm_below, both, holm

ABOUT, ROUGHLY = 0.05, 0.01

STATED = (Reading("as stated", "paper", "accuracy"),)
NOISE = tuple(
    Reading(name, variant, "accuracy")
    for name, variant in (
        ("as stated", "paper"),
        ("binary sensitivity for K classes", "binary"),
        ("Laplace noise on every coordinate", "per_coordinate"),
        ("sum of losses", "sum"),
        ("exponential length", "radial"),
    )
)


def near(block: str, values: Mapping[str, float]) -> Test:
    """Without noise the mean accuracy of every algorithm is within ABOUT of the value that the text gives."""

    def test(evidence: Evidence, reading: Reading) -> Check | None:
        found = {algo: _at(evidence, block, algo, reading, math.inf) for algo in values}
        means = {algo: runs.mean() for algo, runs in found.items() if runs is not None}
        said = ", ".join(f"{algo} {mean:.3f} (published {values[algo]})" for algo, mean in means.items())
        return (all(abs(mean - values[algo]) <= ABOUT for algo, mean in means.items()), said) if means else None

    return test


def useless(block: str, algo: str, eps: float) -> Test:
    """At this eps `algo` is not significantly above indiv."""

    def test(evidence: Evidence, reading: Reading) -> Check | None:
        ours, alone = (_at(evidence, block, name, reading, eps) for name in (algo, "indiv"))
        if ours is None or alone is None:
            return None
        good = algorithm_below(alone, ours) > LEVEL
        return good, f"at 1/eps = {1 / eps:g} {algo} {ours.mean():.3f}, indiv {alone.mean():.3f}"

    return test


def better(block: str, algorithms: Sequence[str], eps: float) -> Test:
    """From 1/eps = 0 to that of `eps` every algorithm is significantly above indiv, wherever the grid has a point."""

    def test(evidence: Evidence, reading: Reading) -> Check | None:
        alone = evidence.runs(block, "indiv", reading)
        above: dict[tuple[str, float], float] = {}
        means = {}
        for algo in algorithms:
            runs = evidence.runs(block, algo, reading)
            for x in _grid(runs, alone):
                if x >= eps:
                    above[algo, x] = algorithm_below(alone[x], runs[x])
                    means[algo] = runs[x].mean()
        if not above:
            return None
        wins = holm(above)
        said = []
        for algo in dict.fromkeys(key[0] for key in above):
            kept = _held([x for name, x in above if name == algo], partial(_won, wins, algo))
            said.append(f"{algo} {_until(kept)}")
        return all(wins.values()), f"better than indiv ({alone[math.inf].mean():.3f}): {', '.join(said)}"

    return test


def between(blocks: Sequence[str], algorithms: Sequence[str]) -> Test:
    """At small 1/eps roughly between indiv and batch, at the largest significantly below indiv."""

    def test(evidence: Evidence, reading: Reading) -> Check | None:
        below: dict[tuple[str, str], float] = {}
        outside, said = [], []
        for block in blocks:
            low, high = (evidence.runs(block, name, reading) for name in ("indiv", "batch"))
            for algo in algorithms:
                runs = evidence.runs(block, algo, reading)
                if runs.empty or low.empty or high.empty:
                    continue
                last, *_, smallest, none = _grid(runs, low, high)
                for x in (none, smallest):
                    mean = runs[x].mean()
                    if not low[x].mean() - ROUGHLY <= mean <= high[x].mean() + ROUGHLY:
                        outside.append(f"{algo} {block} at 1/eps = {1 / x:g}")
                below[algo, block] = algorithm_below(runs[last], low[last])
                said.append(f"{algo} {block} {runs[none].mean():.3f} to {runs[last].mean():.3f}")
        if not below:
            return None
        falls = holm(below)
        text = ", ".join(said)
        text += f"; not between: {', '.join(outside)}" if outside else ""
        never = [f"{algo} {block}" for (algo, block), falling in falls.items() if not falling]
        text += f"; not below indiv in the end: {', '.join(never)}" if never else ""
        return not outside and not never, text

    return test


def holds_longer(many: str, few: str, algorithms: Sequence[str]) -> Test:
    """With more parties every algorithm is significantly above at some 1/eps > 0, significantly below at none."""

    def test(evidence: Evidence, reading: Reading) -> Check | None:
        above: dict[tuple[str, float], float] = {}
        below: dict[tuple[str, float], float] = {}
        for algo in algorithms:
            ours, theirs = (evidence.runs(block, algo, reading) for block in (many, few))
            for x in _grid(ours, theirs):
                if math.isfinite(x):
                    above[algo, x] = algorithm_below(theirs[x], ours[x])
                    below[algo, x] = algorithm_below(ours[x], theirs[x])
        if not above:
            return None
        wins, losses = holm(above), holm(below)
        good, said = True, []
        for algo in dict.fromkeys(key[0] for key in above):
            keys = [key for key in above if key[0] == algo]
            won, lost = sum(wins[key] for key in keys), sum(losses[key] for key in keys)
            good &= won > 0 and lost == 0
            said.append(f"{algo}: higher at {won}, lower at {lost} of {len(keys)}")
        return good, ", ".join(said)

    return test


def nearly_batch(block: str, algo: str, eps: float) -> Test:
    """From 1/eps = 0 to that of `eps` the mean of `algo` is within ABOUT of batch's."""

    def test(evidence: Evidence, reading: Reading) -> Check | None:
        ours, best = (evidence.runs(block, name, reading) for name in (algo, "batch"))
        if ours.empty or best.empty:
            return None
        target = best[math.inf].mean()
        found = [x for x in _grid(ours) if x >= eps]
        kept = _held(found, lambda x: ours[x].mean() >= target - ABOUT)
        last = min(found)
        said = f"{algo} {_until(kept)} ({ours[last].mean():.3f} at 1/eps = {1 / last:g}, batch {target:.3f})"
        return kept == last, said

    return test


def wider_gap(pairs: Mapping[str, str], algorithms: Sequence[str]) -> Test:
    """Without noise every algorithm lies significantly further below batch in each block than in its counterpart."""

    def test(evidence: Evidence, reading: Reading) -> Check | None:
        wider: dict[tuple[str, str], float] = {}
        said = []
        for block, other in pairs.items():
            for algo in algorithms:
                gaps = [_gap(evidence, where, algo, reading) for where in (block, other)]
                if gaps[0] is None or gaps[1] is None:
                    continue
                wider[algo, block] = algorithm_below(gaps[1], gaps[0])
                said.append(f"{algo} {block} {gaps[0].mean():.3f} and {other} {gaps[1].mean():.3f}")
        return (all(holm(wider).values()), ", ".join(said)) if wider else None

    return test


def either(tests: Mapping[str, Test]) -> Test:
    """At least one of the named tests holds."""

    def test(evidence: Evidence, reading: Reading) -> Check | None:
        checks = {name: test(evidence, reading) for name, test in tests.items()}
        found = {name: check for name, check in checks.items() if check is not None}
        if not found:
            return None
        said = "; ".join(f"{name}: {check[1]}" for name, check in found.items())
        return any(check[0] for check in found.values()), said

    return test


def _grid(*tables: pd.DataFrame) -> list[float]:
    """The eps that all tables have, from the smallest."""
    return sorted(set.intersection(*({float(x) for x in table.columns} for table in tables)))


def _at(evidence: Evidence, block: str, algo: str, reading: Reading, eps: float) -> pd.Series | None:
    runs = evidence.runs(block, algo, reading)
    return runs[eps] if eps in runs.columns else None


def _gap(evidence: Evidence, block: str, algo: str, reading: Reading) -> pd.Series | None:
    """What the algorithm lacks of batch's accuracy without noise, a value for every seed."""
    best, ours = (_at(evidence, block, name, reading, math.inf) for name in ("batch", algo))
    if best is None or ours is None:
        return None
    return best.groupby(level="seed").mean() - ours.groupby(level="seed").mean()


def _won(wins: Mapping[tuple[str, float], bool], algo: str, x: float) -> bool:
    return wins[algo, x]


def _held(grid: Sequence[float], good: Callable[[float], bool]) -> float | None:
    """The smallest eps of the grid down to which `good` holds without a break; None when it never does."""
    kept = None
    for x in sorted(grid, reverse=True):
        if not good(x):
            break
        kept = x
    return kept


def _until(eps: float | None) -> str:
    return "never" if eps is None else f"until 1/eps = {1 / eps:g}"


_PRIVATE = ("soft", "avg", "vote")
_FIG2, _FIG3, _FIG4, _READINGS = (f"hamm2016/{name}" for name in ("fig2", "fig3", "fig4", "readings"))
_KDD, _URL = (tuple(f"{data}{M}_eps" for M in (5000, 10000, 20000)) for data in ("kdd", "url"))
_LAMS = {f"lam = {lam}": f"har_lam{lam}_eps" for lam in ("1e-6", "1e-3", "1e-2", "1e-1")}
_OTHER = _LAMS | {"rows of length 1": "har_unit_eps"}

_BETTER = "soft and avg are significantly above indiv at every 1/eps <= 1 of the grid"
_NEARLY = "at every 1/eps <= 10 of the grid soft is within 0.05 of batch"
_BETWEEN = (
    "for every M, soft, avg and vote lie between indiv - 0.01 and batch + 0.01 at 1/eps = 0 and 0.001, and "
    "significantly below indiv at 1/eps = 10"
)
_LONGER = "soft and avg are significantly higher for M = 20,000 at some 1/eps > 0, and significantly lower at none"
_WITHOUT = "HAR: at 1/eps = 0 vote has 0.79, soft 0.76 and avg 0.67."
_PUBLISHED = {"vote": 0.79, "soft": 0.76, "avg": 0.67}
_UNTIL_ONE = "HAR: soft and avg are better than indiv until 1/eps = 1."
_UNTIL_TEN = "KDD-99, M = 20,000: soft is nearly as good as batch until around 1/eps = 10."

CLAIMS = (
    Claim(
        "H2.1",
        _FIG2,
        "HAR: batch has an accuracy of about 0.90, indiv of about 0.47.",
        "both means within 0.05",
        near("har_eps", {"batch": 0.90, "indiv": 0.47}),
        STATED,
    ),
    Claim(
        "H2.2",
        _FIG2,
        _WITHOUT,
        "all three means within 0.05",
        near("har_eps", _PUBLISHED),
        STATED,
    ),
    Claim(
        "H2.3",
        _FIG2,
        "HAR: vote is useless already at 1/eps = 0.1.",
        "at 1/eps = 0.1 vote is not significantly above indiv",
        useless("har_eps", "vote", 10.0),
        STATED,
    ),
    Claim("H2.4", _FIG2, _UNTIL_ONE, _BETTER, better("har_eps", ("soft", "avg"), 1.0), STATED),
    Claim(
        "H3.1",
        _FIG3,
        "KDD-99: for small 1/eps the private algorithms lie roughly between batch and indiv; they fall below indiv as "
        "1/eps grows.",
        _BETWEEN,
        between(_KDD, _PRIVATE),
        STATED,
    ),
    Claim(
        "H3.2",
        _FIG3,
        "KDD-99: soft and avg hold their accuracy longer for M = 20,000 than for M = 5,000.",
        _LONGER,
        holds_longer(_KDD[2], _KDD[0], ("soft", "avg")),
        STATED,
    ),
    Claim("H3.3", _FIG3, _UNTIL_TEN, _NEARLY, nearly_batch(_KDD[2], "soft", 0.1), STATED),
    Claim(
        "H4.1",
        _FIG4,
        "URL: the gap between batch and the others is larger than on KDD-99.",
        "for every M, at 1/eps = 0, soft, avg, vote and indiv lie significantly further below batch than on KDD-99",
        wider_gap(dict(zip(_URL, _KDD, strict=True)), (*_PRIVATE, "indiv")),
        STATED,
    ),
    Claim(
        "H4.2",
        _FIG4,
        "URL: the overall tendency is that of KDD-99.",
        f"the tests of H3.1 and H3.2: {_BETWEEN}; {_LONGER}",
        both(between(_URL, _PRIVATE), holds_longer(_URL[2], _URL[0], ("soft", "avg"))),
        STATED,
    ),
    Claim(
        "H2.2u",
        _READINGS,
        f"{_WITHOUT} [every row scaled to length 1]",
        "all three means within 0.05",
        near("har_unit_eps", _PUBLISHED),
        STATED,
    ),
    Claim(
        "H2.4n",
        _READINGS,
        f"{_UNTIL_ONE} [by reading of the noise]",
        _BETTER,
        better("har_eps", ("soft", "avg"), 1.0),
        NOISE,
    ),
    Claim(
        "H2.4l",
        _READINGS,
        f"{_UNTIL_ONE} [with another lam, or rows of length 1]",
        f"with some other lam, or with rows scaled to length 1, {_BETTER}",
        either({name: better(block, ("soft", "avg"), 1.0) for name, block in _OTHER.items()}),
        STATED,
    ),
    Claim(
        "H3.3n",
        _READINGS,
        f"{_UNTIL_TEN} [by reading of the noise]",
        _NEARLY,
        nearly_batch("kdd20000_eps", "soft", 0.1),
        tuple(reading for reading in NOISE if reading.variant in ("paper", "per_coordinate", "radial")),
    ),
)
