"""Hamm, Cao & Belkin 2016: the claims.

What their words mean is defined in `criteria`: *about* is similar, *nearly as good* is at most 0.05 of accuracy worse,
and *roughly between* allows 0.01, what matters, beyond either end. Blocks run over eps: 1/eps = 0 is eps = inf.

The text leaves two things open, and each gives readings. The first is how far *small 1/eps* extends. The second is the
definition of its noise, its objective, its lam and the scaling of rows. There is one reading as stated, one for each of
these read otherwise, and one with two of them read otherwise at once where both bring the accuracy nearer to the
paper's.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from dpml.papers.hamm2016 import auxiliary, law
from dpml.reporting.claim_tests import both, failing, on_runs, wins
from dpml.reporting.claims import Check, Claim, NotComputedError, Reading, Runs, Test, every, some
from dpml.reporting.criteria import Comparison, better, scale, similar
from dpml.reporting.statistics import per_seed

ACCURACY = scale("accuracy")

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
    """Without noise the mean accuracy of every algorithm is similar to the value in the text."""

    def decide(runs: Runs, reading: Reading) -> Check:
        shown, texts = {}, []
        for algorithm, value in values.items():
            ours = _at(runs, _block(blocks, reading), algorithm, math.inf)
            shown[algorithm] = similar(ours, ours * 0 + value, ACCURACY)
            texts.append(f"{algorithm} {ours.mean():.3f} (published {value})")
        return _all(shown, ", ".join(texts))

    return on_runs(lambda reading: {_block(blocks, reading): tuple(values)}, decide)


def useless(block: str, algorithm: str, eps: float) -> Test:
    """At this eps `algorithm` is not better than indiv."""

    def decide(runs: Runs, _: Reading) -> Check:
        ours, alone = (_at(runs, block, name, eps) for name in (algorithm, "indiv"))
        text = f"at 1/eps = {1 / eps:g} {algorithm} {ours.mean():.3f}, indiv {alone.mean():.3f}"
        above = better({f"{algorithm} above indiv": (ours, alone)}, ACCURACY)
        return Check.of(text, above, lambda known: every(None if one is None else not one for one in known.values()))

    return on_runs(lambda _: {block: (algorithm, "indiv")}, decide)


def better_than_alone(blocks: Blocks, algorithms: Sequence[str], eps: float) -> Test:
    """From 1/eps = 0 to that of `eps` every algorithm is better than indiv at every point."""

    def decide(runs: Runs, reading: Reading) -> Check:
        block = _block(blocks, reading)
        alone = runs[block, "indiv"]
        grid = _down_to(runs, block, "indiv", eps)
        shown = better({(a, x): (runs[block, a][x], alone[x]) for a in algorithms for x in grid}, ACCURACY)
        texts = [f"{a} {_until(_kept({x: shown[a, x] for x in grid}))}" for a in algorithms]
        return _all(shown, f"better than indiv ({alone[math.inf].mean():.3f}): {', '.join(texts)}")

    return on_runs(lambda reading: {_block(blocks, reading): (*algorithms, "indiv")}, decide)


def between(blocks: Sequence[str], algorithms: Sequence[str]) -> Test:
    """At every small 1/eps roughly between indiv and batch, at the largest below indiv. The reading defines "small".

    For every algorithm that fails before the end of the range, the numbers say how far the statement holds.
    """

    def decide(runs: Runs, reading: Reading) -> Check:
        shown: dict[Any, Comparison] = {}
        below: dict[Any, tuple[pd.Series, pd.Series]] = {}
        for block in blocks:
            low, high = runs[block, "indiv"], runs[block, "batch"]
            grid, last = _small(runs, block, SMALL[reading.name])
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
        text = f"between indiv and batch until 1/eps = {SMALL[reading.name]:g}{text}"
        return Check.of(text + failing("not so", falls), shown | falls)

    return on_runs(lambda _: dict.fromkeys(blocks, ("indiv", "batch", *algorithms)), decide)


def _roughly_above(a: pd.Series, b: pd.Series) -> Comparison:
    """Whether a is at most what matters below b."""
    return similar(a, b, ACCURACY, ACCURACY.matters, better_too=True)


def holds_longer(many: str, few: str, algorithms: Sequence[str]) -> Test:
    """With more parties every algorithm is better at some 1/eps > 0, and worse at none."""

    def decide(runs: Runs, _: Reading) -> Check:
        pairs: dict[tuple[str, float], tuple[pd.Series, pd.Series]] = {}
        for algorithm in algorithms:
            ours, theirs = runs[many, algorithm], runs[few, algorithm]
            if _grid(ours) != _grid(theirs):
                raise NotComputedError([f"{algorithm} at the same eps in {many} and {few}"])
            for x in filter(math.isfinite, _grid(ours)):
                pairs[algorithm, x] = ours[x], theirs[x]
        return wins(pairs, ACCURACY, some)

    return on_runs(lambda _: dict.fromkeys((many, few), algorithms), decide)


def nearly_batch(block: str, algorithm: str, eps: float) -> Test:
    """From 1/eps = 0 to that of `eps` `algorithm` is at most 0.05 worse than batch."""

    def decide(runs: Runs, _: Reading) -> Check:
        ours, target = runs[block, algorithm], _at(runs, block, "batch", math.inf)
        grid = _down_to(runs, block, algorithm, eps)
        last = min(grid)
        shown = {x: similar(ours[x], target, ACCURACY, better_too=True) for x in grid}
        text = f"{algorithm} {_until(_kept(shown))} "
        text += f"({ours[last].mean():.3f} at 1/eps = {1 / last:g}, batch {target.mean():.3f})"
        return _all(shown, text)

    return on_runs(lambda _: {block: (algorithm, "batch")}, decide)


def wider_gap(pairs: Mapping[str, str], algorithms: Sequence[str]) -> Test:
    """Without noise every algorithm is further below batch in each block than in its counterpart."""

    def decide(runs: Runs, _: Reading) -> Check:
        wider: dict[tuple[str, str], tuple[pd.Series, pd.Series]] = {}
        texts = []
        for block, other in pairs.items():
            for algorithm in algorithms:
                here, there = (_gap(runs, where, algorithm) for where in (block, other))
                wider[algorithm, block] = here, there
                texts.append(f"{algorithm} {block} {here.mean():.3f} and {other} {there.mean():.3f}")
        shown = better(wider, ACCURACY)
        return Check.of(", ".join(texts) + failing("not wider", shown), shown)

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


_PRIVATE = ("soft", "avg", "vote")
_FIG2, _FIG3, _FIG4, _READINGS = (f"hamm2016/{name}" for name in ("fig2", "fig3", "fig4", "readings"))
_KDD, _URL = (tuple(f"{data}{M}_eps" for M in (5000, 10000, 20000)) for data in ("kdd", "url"))
_WHERE = {reading.name: block for reading, block in HAR.items()}

_BETTER = "soft and avg are better than indiv at every 1/eps <= 1 of the grid"
_NEARLY = "at every 1/eps <= 10 of the grid soft is at most 0.05 worse than batch"
_BETWEEN = (
    "for every M, soft, avg and vote are at most 0.01 below indiv and above batch at every small 1/eps of the grid, "
    "and worse than indiv at the largest; small is read as at most 0, 0.001, 0.1 and 1"
)
_LONGER = "soft and avg are better for M = 20,000 than for M = 5,000 at some 1/eps > 0, and worse at none"
_WITHOUT = "HAR: at 1/eps = 0 vote has 0.79, soft 0.76 and avg 0.67."
_PUBLISHED = {"vote": 0.79, "soft": 0.76, "avg": 0.67}
_ALL_NEAR = "all three mean accuracies are similar to these"
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
        "both mean accuracies are similar to these",
        near("har_eps", {"batch": 0.90, "indiv": 0.47}),
        STATED,
    ),
    Claim("H2.2", _FIG2, _stated(_WITHOUT, "H2.2r"), _ALL_NEAR, near("har_eps", _PUBLISHED), STATED),
    Claim(
        "H2.3",
        _FIG2,
        "HAR: vote is useless already at 1/eps = 0.1.",
        "at 1/eps = 0.1 vote is not better than indiv: a difference of 0.01 is ruled out",
        useless("har_eps", "vote", 10.0),
        STATED,
    ),
    Claim(
        "H2.4", _FIG2, _stated(_UNTIL_ONE, "H2.4r"), _BETTER, better_than_alone("har_eps", ("soft", "avg"), 1.0), STATED
    ),
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
        "for every M, at 1/eps = 0, soft, avg, vote and indiv are further below batch than on KDD-99, by 0.01 at least",
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
    Claim(
        "H2.4r",
        _READINGS,
        f"{_UNTIL_ONE} [by reading]",
        _BETTER,
        better_than_alone(_WHERE, ("soft", "avg"), 1.0),
        tuple(HAR),
    ),
    Claim("H3.3r", _READINGS, f"{_UNTIL_TEN} [by reading]", _NEARLY, nearly_batch("kdd20000_eps", "soft", 0.1), KDD),
    *auxiliary.CLAIMS,
    *law.CLAIMS,
)
