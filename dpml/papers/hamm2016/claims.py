"""Hamm, Cao & Belkin 2016: the claims.

*About*, *around* and *nearly* are within 0.05 of accuracy, half of the first digit that the text gives; *roughly
between* allows 0.01 beyond either end. A figure's small 1/eps are 0 and the smallest positive one of our grid, its
large 1/eps the largest. Blocks run over eps: 1/eps = 0 is eps = inf.
"""

import math
from collections.abc import Mapping, Sequence

import pandas as pd

from dpml.reporting.criteria import both, checks_of, on_runs, together
from dpml.reporting.judging import NEAR, Check, Claim, Evidence, NotComputedError, Reading, Runs, Test
from dpml.reporting.statistics import LEVEL, algorithm_below, holm, per_seed

ROUGHLY = 0.01

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
    """Without noise the mean accuracy of every algorithm is within NEAR of the value that the text gives."""

    def decide(runs: Runs, _: Reading) -> Check:
        means = {algorithm: _at(runs, block, algorithm, math.inf).mean() for algorithm in values}
        holds = all(abs(mean - values[algorithm]) <= NEAR for algorithm, mean in means.items())
        texts = (f"{algorithm} {mean:.3f} (published {values[algorithm]})" for algorithm, mean in means.items())
        return Check(holds, ", ".join(texts))

    return on_runs(lambda _: {block: tuple(values)}, decide)


def useless(block: str, algorithm: str, eps: float) -> Test:
    """At this eps `algorithm` is not significantly above indiv."""

    def decide(runs: Runs, _: Reading) -> Check:
        ours, alone = (_at(runs, block, name, eps) for name in (algorithm, "indiv"))
        text = f"at 1/eps = {1 / eps:g} {algorithm} {ours.mean():.3f}, indiv {alone.mean():.3f}"
        return Check(algorithm_below(alone, ours) > LEVEL, text)

    return on_runs(lambda _: {block: (algorithm, "indiv")}, decide)


def better(block: str, algorithms: Sequence[str], eps: float) -> Test:
    """From 1/eps = 0 to that of `eps` every algorithm is significantly above indiv, wherever the grid has a point."""

    def decide(runs: Runs, _: Reading) -> Check:
        alone = runs[block, "indiv"]
        grid = _down_to(runs, block, "indiv", eps)
        wins = holm({(a, x): algorithm_below(alone[x], runs[block, a][x]) for a in algorithms for x in grid})
        texts = [f"{a} {_until(_kept({x: wins[a, x] for x in grid}))}" for a in algorithms]
        return Check(all(wins.values()), f"better than indiv ({alone[math.inf].mean():.3f}): {', '.join(texts)}")

    return on_runs(lambda _: {block: (*algorithms, "indiv")}, decide)


def between(blocks: Sequence[str], algorithms: Sequence[str]) -> Test:
    """At small 1/eps roughly between indiv and batch, at the largest significantly below indiv."""

    def decide(runs: Runs, _: Reading) -> Check:
        below: dict[tuple[str, str], float] = {}
        outside, texts = [], []
        for block in blocks:
            low, high = runs[block, "indiv"], runs[block, "batch"]
            last, smallest, none = _three(runs, block)
            for algorithm in algorithms:
                values = runs[block, algorithm]
                for x in (none, smallest):
                    mean = values[x].mean()
                    if not low[x].mean() - ROUGHLY <= mean <= high[x].mean() + ROUGHLY:
                        outside.append(f"{algorithm} {block} at 1/eps = {1 / x:g}")
                below[algorithm, block] = algorithm_below(values[last], low[last])
                texts.append(f"{algorithm} {block} {values[none].mean():.3f} to {values[last].mean():.3f}")
        text = ", ".join(texts)
        text += f"; not between: {', '.join(outside)}" if outside else ""
        never = [f"{algorithm} {block}" for (algorithm, block), falls in holm(below).items() if not falls]
        text += f"; not below indiv in the end: {', '.join(never)}" if never else ""
        return Check(not outside and not never, text)

    return on_runs(lambda _: dict.fromkeys(blocks, ("indiv", "batch", *algorithms)), decide)


def holds_longer(many: str, few: str, algorithms: Sequence[str]) -> Test:
    """With more parties every algorithm is significantly above at some 1/eps > 0, significantly below at none."""

    def decide(runs: Runs, _: Reading) -> Check:
        above: dict[tuple[str, float], float] = {}
        below: dict[tuple[str, float], float] = {}
        for algorithm in algorithms:
            ours, theirs = runs[many, algorithm], runs[few, algorithm]
            if _grid(ours) != _grid(theirs):
                raise NotComputedError([f"{algorithm} at the same eps in {many} and {few}"])
            for x in filter(math.isfinite, _grid(ours)):
                above[algorithm, x] = algorithm_below(theirs[x], ours[x])
                below[algorithm, x] = algorithm_below(ours[x], theirs[x])
        wins, losses = holm(above), holm(below)
        holds, texts = True, []
        for algorithm in algorithms:
            keys = [key for key in above if key[0] == algorithm]
            won, lost = sum(wins[key] for key in keys), sum(losses[key] for key in keys)
            holds &= won > 0 and lost == 0
            texts.append(f"{algorithm}: higher at {won}, lower at {lost} of {len(keys)}")
        return Check(holds, ", ".join(texts))

    return on_runs(lambda _: dict.fromkeys((many, few), algorithms), decide)


def nearly_batch(block: str, algorithm: str, eps: float) -> Test:
    """From 1/eps = 0 to that of `eps` the mean of `algorithm` is within NEAR of batch's."""

    def decide(runs: Runs, _: Reading) -> Check:
        ours, target = runs[block, algorithm].mean(), _at(runs, block, "batch", math.inf).mean()
        grid = _down_to(runs, block, algorithm, eps)
        last = min(grid)
        kept = _kept({x: ours[x] >= target - NEAR for x in grid})
        text = f"{algorithm} {_until(kept)} ({ours[last]:.3f} at 1/eps = {1 / last:g}, batch {target:.3f})"
        return Check(kept == last, text)

    return on_runs(lambda _: {block: (algorithm, "batch")}, decide)


def wider_gap(pairs: Mapping[str, str], algorithms: Sequence[str]) -> Test:
    """Without noise every algorithm lies significantly further below batch in each block than in its counterpart."""

    def decide(runs: Runs, _: Reading) -> Check:
        wider: dict[tuple[str, str], float] = {}
        texts = []
        for block, other in pairs.items():
            for algorithm in algorithms:
                here, there = (_gap(runs, where, algorithm) for where in (block, other))
                wider[algorithm, block] = algorithm_below(there, here)
                texts.append(f"{algorithm} {block} {here.mean():.3f} and {other} {there.mean():.3f}")
        return Check(all(holm(wider).values()), ", ".join(texts))

    return on_runs(lambda _: dict.fromkeys((*pairs, *pairs.values()), ("batch", *algorithms)), decide)


def either(tests: Mapping[str, Test]) -> Test:
    """At least one of the named tests holds."""

    def test(evidence: Evidence, reading: Reading) -> Check:
        checks = dict(zip(tests, checks_of(tests.values(), evidence, reading), strict=True))
        named = [Check(check.holds, f"{name}: {check.numbers}", check.seeds) for name, check in checks.items()]
        return together(named, any(check.holds for check in named))

    return test


def _grid(values: pd.DataFrame) -> list[float]:
    """The eps of some runs, from the smallest."""
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


def _three(runs: Runs, block: str) -> tuple[float, float, float]:
    """The smallest eps of the grid, the largest that is finite, and inf."""
    grid = _grid(runs[block, "indiv"])
    finite = [x for x in grid if math.isfinite(x)]
    if len(finite) < 2 or math.inf not in grid:
        raise NotComputedError([f"{block} without noise and at two eps"])
    return min(finite), max(finite), math.inf


def _gap(runs: Runs, block: str, algorithm: str) -> pd.Series:
    """What the algorithm lacks of batch's accuracy without noise, a value for every seed."""
    best, ours = (per_seed(_at(runs, block, name, math.inf)) for name in ("batch", algorithm))
    gaps = (best - ours).dropna()
    if len(gaps) < 2:
        raise NotComputedError([f"a second seed of batch and {algorithm} in {block}"])
    return gaps


def _kept(good: Mapping[float, bool]) -> float | None:
    """The smallest eps of the grid down to which all is `good` without a break; None when it never is."""
    kept = None
    for x in sorted(good, reverse=True):
        if not good[x]:
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
        "both mean accuracies are within 0.05 of these",
        near("har_eps", {"batch": 0.90, "indiv": 0.47}),
        STATED,
    ),
    Claim(
        "H2.2",
        _FIG2,
        _WITHOUT,
        "all three mean accuracies are within 0.05 of these",
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
        "all three mean accuracies are within 0.05 of these",
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
