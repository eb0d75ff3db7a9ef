"""Hamm, Cao & Belkin 2016: the claims.

*About*, *around* and *nearly* mean within 0.05 of accuracy, half of the first digit that the text gives; *roughly
between* allows 0.01 beyond either end. A difference that is not significant makes a claim false only if a difference
of 0.01 of accuracy is ruled out (`claims`). Blocks run over eps: 1/eps = 0 is eps = inf.

The text leaves two things open, and each gives readings. The first is how far *small 1/eps* extends. The second is the
definition of its noise, its objective, its lam and the scaling of rows. There is one reading as stated, one for each of
these read otherwise, and one with two of them read otherwise at once where both bring the accuracy nearer to the
paper's.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from dpml.reporting.claim_tests import both, failing, on_runs
from dpml.reporting.claims import NEAR, Check, Claim, NotComputedError, Reading, Runs, Test, every, some
from dpml.reporting.statistics import Comparison, algorithm_below, alike, matters, per_seed, shows, worse

ROUGHLY = 0.01
ACCURACY = matters("accuracy")

STATED = (Reading("as stated", "paper", "accuracy"),)

_NOISE = {"": "", "per_coordinate": "Laplace noise on every coordinate", "radial": "exponential length"}
_LAMS = ("1e-6", "1e-3", "1e-2", "1e-1")
_FITS = {"": "har_eps"} | {f"lam = {lam}": f"har_lam{lam}_eps" for lam in _LAMS} | {"rows of length 1": "har_unit_eps"}

Blocks = str | Mapping[str, str]
"""One block, or a block for every reading."""


def _read(*parts: str) -> str:
    """The name of the reading that reads these parts of the text otherwise."""
    return " and ".join(filter(None, parts)) or "as stated"


def _readings() -> dict[Reading, str]:
    """The readings of the figure of HAR, with their blocks."""
    found = {}
    for fit, block in _FITS.items():
        for variant, noise in _NOISE.items():
            found[Reading(_read(fit, noise), variant or "paper", "accuracy")] = block
    for variant, noise in _NOISE.items():
        name = _read("sum of losses", noise)
        found[Reading(name, "_".join(filter(None, ("sum", variant))), "accuracy")] = "har_eps"
    found[Reading("binary sensitivity for K classes", "binary", "accuracy")] = "har_eps"
    return found


HAR = _readings()
KDD = tuple(reading for reading, block in HAR.items() if block == "har_eps" and reading.variant != "binary")
MODELS = tuple(reading for reading in HAR if reading.variant in ("paper", "sum"))  # others differ in noise only
SMALL = {f"small 1/eps: at most {x:g}": x for x in (0.0, 0.001, 0.1, 1.0)}


def _block(blocks: Blocks, reading: Reading) -> str:
    return blocks if isinstance(blocks, str) else blocks[reading.name]


def near(blocks: Blocks, values: Mapping[str, float]) -> Test:
    """Without noise the mean accuracy of every algorithm is within NEAR of the value in the text."""

    def decide(runs: Runs, reading: Reading) -> Check:
        shown, texts = {}, []
        for algorithm, value in values.items():
            ours = _at(runs, _block(blocks, reading), algorithm, math.inf)
            shown[algorithm] = alike(ours, ours * 0 + value, lambda a, b: NEAR)
            texts.append(f"{algorithm} {ours.mean():.3f} (published {value})")
        return _all(shown, ", ".join(texts))

    return on_runs(lambda reading: {_block(blocks, reading): tuple(values)}, decide)


def useless(block: str, algorithm: str, eps: float) -> Test:
    """At this eps the mean accuracy of `algorithm` is not above that of indiv."""

    def decide(runs: Runs, _: Reading) -> Check:
        ours, alone = (_at(runs, block, name, eps) for name in (algorithm, "indiv"))
        text = f"at 1/eps = {1 / eps:g} {algorithm} {ours.mean():.3f}, indiv {alone.mean():.3f}"
        above = shows({algorithm: (alone, ours)}, ACCURACY, algorithm_below)[algorithm]
        return Check.of(None if above.holds is None else not above.holds, text, [above])

    return on_runs(lambda _: {block: (algorithm, "indiv")}, decide)


def better(blocks: Blocks, algorithms: Sequence[str], eps: float) -> Test:
    """From 1/eps = 0 to that of `eps` every algorithm is above indiv at every point of the grid."""

    def decide(runs: Runs, reading: Reading) -> Check:
        block = _block(blocks, reading)
        alone = runs[block, "indiv"]
        grid = _down_to(runs, block, "indiv", eps)
        pairs = {(a, x): (alone[x], runs[block, a][x]) for a in algorithms for x in grid}
        shown = shows(pairs, ACCURACY, algorithm_below)
        texts = [f"{a} {_until(_kept({x: shown[a, x] for x in grid}))}" for a in algorithms]
        return _all(shown, f"better than indiv ({alone[math.inf].mean():.3f}): {', '.join(texts)}")

    return on_runs(lambda reading: {_block(blocks, reading): (*algorithms, "indiv")}, decide)


def between(blocks: Sequence[str], algorithms: Sequence[str]) -> Test:
    """At every small 1/eps roughly between indiv and batch, at the largest below indiv. The reading defines "small".

    For every algorithm that fails before the end of the range, the numbers say how far the statement holds.
    """

    def decide(runs: Runs, reading: Reading) -> Check:
        inside: dict[tuple[str, str, float], tuple[pd.Series, pd.Series]] = {}
        below: dict[tuple[str, str], tuple[pd.Series, pd.Series]] = {}
        for block in blocks:
            low, high = runs[block, "indiv"], runs[block, "batch"]
            grid, last = _small(runs, block, SMALL[reading.name])
            for algorithm in algorithms:
                values = runs[block, algorithm]
                for x in grid:
                    inside[f"{algorithm} above indiv", block, x] = low[x] - ROUGHLY, values[x]
                    inside[f"{algorithm} below batch", block, x] = values[x], high[x] + ROUGHLY
                below[algorithm, block] = values[last], low[last]
        shown, falls = (shows(pairs, ACCURACY, algorithm_below) for pairs in (inside, below))
        texts = []
        for what, block in dict.fromkeys(key[:2] for key in shown):
            curve = {x: one for (*key, x), one in shown.items() if key == [what, block]}
            if not all(one.holds for one in curve.values()):
                texts.append(f"{what} {block} {_until(_kept(curve))}")
        text = f"; but {', '.join(texts)}" if texts else "; all of them do"
        text = f"between indiv and batch until 1/eps = {SMALL[reading.name]:g}{text}"
        all_shown = (*shown.values(), *falls.values())
        text += failing("not below indiv in the end", falls)
        return Check.of(every(one.holds for one in all_shown), text, all_shown)

    return on_runs(lambda _: dict.fromkeys(blocks, ("indiv", "batch", *algorithms)), decide)


def holds_longer(many: str, few: str, algorithms: Sequence[str]) -> Test:
    """With more parties every algorithm is above at some 1/eps > 0, and significantly below at none."""

    def decide(runs: Runs, _: Reading) -> Check:
        above: dict[tuple[str, float], tuple[pd.Series, pd.Series]] = {}
        below: dict[tuple[str, float], tuple[pd.Series, pd.Series]] = {}
        for algorithm in algorithms:
            ours, theirs = runs[many, algorithm], runs[few, algorithm]
            if _grid(ours) != _grid(theirs):
                raise NotComputedError([f"{algorithm} at the same eps in {many} and {few}"])
            for x in filter(math.isfinite, _grid(ours)):
                above[algorithm, x] = theirs[x], ours[x]
                below[algorithm, x] = ours[x], theirs[x]
        shown, losses = shows(above, ACCURACY, algorithm_below), worse(below, ACCURACY, algorithm_below)
        holds, texts = [], []
        for algorithm in algorithms:
            keys = [key for key in above if key[0] == algorithm]
            won, lost = sum(shown[key].holds is True for key in keys), sum(key in losses for key in keys)
            holds += [some(shown[key].holds for key in keys), not lost]
            texts.append(f"{algorithm}: higher at {won}, lower at {lost} of {len(keys)}")
        return Check.of(every(holds), ", ".join(texts), shown.values())

    return on_runs(lambda _: dict.fromkeys((many, few), algorithms), decide)


def nearly_batch(block: str, algorithm: str, eps: float) -> Test:
    """From 1/eps = 0 to that of `eps` the mean of `algorithm` is above that of batch, less NEAR."""

    def decide(runs: Runs, _: Reading) -> Check:
        ours, target = runs[block, algorithm], _at(runs, block, "batch", math.inf)
        grid = _down_to(runs, block, algorithm, eps)
        last = min(grid)
        shown = shows({x: (target - NEAR, ours[x]) for x in grid}, ACCURACY, algorithm_below)
        text = f"{algorithm} {_until(_kept(shown))} "
        text += f"({ours[last].mean():.3f} at 1/eps = {1 / last:g}, batch {target.mean():.3f})"
        return _all(shown, text)

    return on_runs(lambda _: {block: (algorithm, "batch")}, decide)


def wider_gap(pairs: Mapping[str, str], algorithms: Sequence[str]) -> Test:
    """Without noise every algorithm lies further below batch in each block than in its counterpart."""

    def decide(runs: Runs, _: Reading) -> Check:
        wider: dict[tuple[str, str], tuple[pd.Series, pd.Series]] = {}
        texts = []
        for block, other in pairs.items():
            for algorithm in algorithms:
                here, there = (_gap(runs, where, algorithm) for where in (block, other))
                wider[algorithm, block] = there, here
                texts.append(f"{algorithm} {block} {here.mean():.3f} and {other} {there.mean():.3f}")
        shown = shows(wider, ACCURACY, algorithm_below)
        text = ", ".join(texts) + failing("not wider", shown)
        return Check.of(every(one.holds for one in shown.values()), text, shown.values())

    return on_runs(lambda _: dict.fromkeys((*pairs, *pairs.values()), ("batch", *algorithms)), decide)


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
    return gaps


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
        keys = [key if isinstance(key, tuple) else (key,) for key, one in shown.items() if one.holds is None]
        words = [" ".join(part if isinstance(part, str) else f"1/eps = {1 / part:g}" for part in key) for key in keys]
        text += f"; undecided: {', '.join(words)}"
    return Check.of(holds, text, shown.values())


_PRIVATE = ("soft", "avg", "vote")
_FIG2, _FIG3, _FIG4, _READINGS = (f"hamm2016/{name}" for name in ("fig2", "fig3", "fig4", "readings"))
_KDD, _URL = (tuple(f"{data}{M}_eps" for M in (5000, 10000, 20000)) for data in ("kdd", "url"))
_WHERE = {reading.name: block for reading, block in HAR.items()}

_BETTER = (
    "soft and avg are significantly above indiv at every 1/eps <= 1 of the grid; they are not where a difference of "
    "0.01 is ruled out"
)
_NEARLY = "at every 1/eps <= 10 of the grid soft is significantly above batch - 0.05"
_BETWEEN = (
    "for every M, soft, avg and vote are significantly above indiv - 0.01 and below batch + 0.01 at every small 1/eps "
    "of the grid, and significantly below indiv at the largest; small is read as at most 0, 0.001, 0.1 and 1"
)
_LONGER = "soft and avg are significantly higher for M = 20,000 at some 1/eps > 0, and significantly lower at none"
_WITHOUT = "HAR: at 1/eps = 0 vote has 0.79, soft 0.76 and avg 0.67."
_PUBLISHED = {"vote": 0.79, "soft": 0.76, "avg": 0.67}
_ALL_NEAR = "all three mean accuracies are within 0.05 of these, and so are their 95 % bounds"
_UNTIL_ONE = "HAR: soft and avg are better than indiv until 1/eps = 1."
_UNTIL_TEN = "KDD-99, M = 20,000: soft is nearly as good as batch until around 1/eps = 10."


def _stated(text: str, id: str) -> str:
    """The text of a claim with several readings, for a figure that is judged by one of them."""
    return f"{text} [as stated; by reading: {id}]"


_SMALL = tuple(Reading(name, "paper", "accuracy") for name in SMALL)

CLAIMS = (
    Claim(
        "H2.1",
        _FIG2,
        "HAR: batch has an accuracy of about 0.90, indiv of about 0.47.",
        "both mean accuracies are within 0.05 of these, and so are their 95 % bounds",
        near("har_eps", {"batch": 0.90, "indiv": 0.47}),
        STATED,
    ),
    Claim("H2.2", _FIG2, _stated(_WITHOUT, "H2.2r"), _ALL_NEAR, near("har_eps", _PUBLISHED), STATED),
    Claim(
        "H2.3",
        _FIG2,
        "HAR: vote is useless already at 1/eps = 0.1.",
        "at 1/eps = 0.1 vote is not significantly above indiv, and less than 0.01 above it by its 95 % bound",
        useless("har_eps", "vote", 10.0),
        STATED,
    ),
    Claim("H2.4", _FIG2, _stated(_UNTIL_ONE, "H2.4r"), _BETTER, better("har_eps", ("soft", "avg"), 1.0), STATED),
    Claim(
        "H3.1",
        _FIG3,
        "KDD-99: for small 1/eps the private algorithms lie roughly between batch and indiv; they fall below indiv as "
        "1/eps grows.",
        _BETWEEN,
        between(_KDD, _PRIVATE),
        _SMALL,
    ),
    Claim(
        "H3.2",
        _FIG3,
        "KDD-99: soft and avg hold their accuracy longer for M = 20,000 than for M = 5,000.",
        _LONGER,
        holds_longer(_KDD[2], _KDD[0], ("soft", "avg")),
        STATED,
    ),
    Claim("H3.3", _FIG3, _stated(_UNTIL_TEN, "H3.3r"), _NEARLY, nearly_batch(_KDD[2], "soft", 0.1), STATED),
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
        _SMALL,
    ),
    Claim("H2.2r", _READINGS, f"{_WITHOUT} [by reading]", _ALL_NEAR, near(_WHERE, _PUBLISHED), MODELS),
    Claim("H2.4r", _READINGS, f"{_UNTIL_ONE} [by reading]", _BETTER, better(_WHERE, ("soft", "avg"), 1.0), tuple(HAR)),
    Claim("H3.3r", _READINGS, f"{_UNTIL_TEN} [by reading]", _NEARLY, nearly_batch("kdd20000_eps", "soft", 0.1), KDD),
)
