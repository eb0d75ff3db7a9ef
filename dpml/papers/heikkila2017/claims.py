"""Heikkilä et al. 2017 (DCA): the claims.

Of the paper's own text the abstract and the start of the introduction could be read. What it computes was read in the
authors' program, which says of its settings that they are the paper's: docs/privacy/heikkila2017.md. `dca` is their
algorithm, its variants what the program compares.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import pandas as pd

from dpml.papers.heikkila2017 import theorems
from dpml.reporting.claim_tests import failing, trend
from dpml.reporting.claims import Check, Claim, Evidence, NotComputedError, Reading, Test
from dpml.reporting.criteria import Comparison, better, scale, similar

_THEOREMS, _ATTACK, _EPS, _ROWS, _CLIENTS = (f"heikkila2017/{name}" for name in ("theorems", "attack", "eps", "rows", "clients"))
ERROR = "rmse"
_SETS = {"Abalone and wine": "uci", "drug sensitivity": "gdsc"}
_READINGS = {f"{name}, {words}": f"{block}/{part}" for name, block in _SETS.items() for words, part in {
    "proven sensitivity": "statistics", "printed sensitivity": "printed"}.items()}  # fmt: skip


def _readings(*names: str, metric: str = "") -> tuple[Reading, ...]:
    return tuple(Reading(name, "paper", metric) for name in names)


Pairs = Mapping[str, tuple[pd.Series, pd.Series]]


def compared(block: str, first: str, second: str, decide: Callable[[Pairs, Reading], Mapping[str, Comparison]]) -> Test:
    """The runs of two variants of dca at every x of a block."""

    def test(evidence: Evidence, reading: Reading) -> Check:
        both = [variant(evidence, block, name, reading) for name in (first, second)]
        shared = [x for x in both[0] if x in both[1]]
        if not shared or len(shared) < max(one.shape[1] for one in both):
            raise NotComputedError([f"{first} and {second} in {block} at the same x"])
        shown = decide({f"{first} against {second} at {x:g}": (both[0][x], both[1][x]) for x in shared}, reading)
        text = "; ".join(f"{n} {' '.join(f'{one[x].mean():.4g}' for x in shared)}" for n, one in zip((first, second), both))
        seeds = min(one.index.get_level_values("seed").nunique() for one in both)
        return replace(Check.of(text + failing("not so", shown), shown), seeds=seeds)

    return test


def variant(evidence: Evidence, block: str, name: str, reading: Reading) -> pd.DataFrame:
    """The runs of a variant of dca.

    Raises:
        NotComputedError: there are fewer than two.
    """
    runs = evidence.runs(block, "dca", replace(reading, variant=name))
    if len(runs) < 2:
        raise NotComputedError([f"dca, variant {name}, in {block}"])
    return runs


def first_better(pairs: Pairs, reading: Reading) -> Mapping[str, Comparison]:
    """The first of every pair is better."""
    return better(pairs, scale(reading.metric))


def near(pairs: Pairs, reading: Reading, within: float = 0.1) -> Mapping[str, Comparison]:
    """The errors of every pair are at most a tenth apart."""
    return {key: similar(a, b, scale(reading.metric), math.log1p(within)) for key, (a, b) in pairs.items()}


def at_the_end(pairs: Pairs, reading: Reading) -> Mapping[str, Comparison]:
    """Those of the last pair are."""
    last = list(pairs)[-1]
    return near({last: pairs[last]}, reading)


def falls(block: str, named: Mapping[str, str]) -> Test:
    """The variant of the reading gets better along a block."""

    def test(evidence: Evidence, reading: Reading) -> Check:
        runs = variant(evidence, block, named[reading.name], reading)
        if runs.shape[1] < 2:
            raise NotComputedError([f"a second x of {block}"])
        check = trend({named[reading.name]: (runs.abs(), list(runs.columns))}, scale(reading.metric), better_at_the_end=True)
        return replace(check, seeds=runs.index.get_level_values("seed").nunique())

    return test


_BOTH: Sequence[str] = ("projected", "not projected")
_NAMED = {"projected": "paper", "not projected": "unprojected"}
_SMALL = "the exact delta of the noise is at most the claimed one, at every eps of the experiments"
CLAIMS = (
    Claim(
        "HK.1", _THEOREMS, "Program: X'X and X'y of clipped rows have the total L2 sensitivity that it computes.",
        "they move by at most that, for equal bounds and every d tried", theorems.moves("bound"), _readings("as stated"),
    ),
    Claim(
        "HK.2", _THEOREMS, "Program: rows that are not clipped, in columns scaled to length 10, have a fixed sensitivity: that of 5.",
        "the move of two such rows is at most that", theorems.moves("moved", named=True), _readings("even", "one-sided"),
    ),
    Claim(
        "HK.3", _THEOREMS, "Program: individual noise with the factor n/(n - 1) stands for that of a trusted aggregator.",
        "to whoever sees the sum and knows the noise of these clients at least a trusted aggregator's noise is left",
        theorems.left, _readings("one client", "two clients", "a tenth of the clients"),
    ),
    Claim(
        "HK.4", _THEOREMS, "Program: the standard deviations for the bounds cost 0.3 of eps and of delta.", _SMALL,
        theorems.kept("bounds", 1, _SETS), _readings(*_SETS),
    ),
    Claim(
        "HK.5", _THEOREMS, "Program: X'X and X'y cost the other 0.7, with sqrt(2 log(1.25/delta)) at every eps up to 31.6.", _SMALL,
        theorems.kept("statistics", 1, _READINGS), _readings(*_READINGS),
    ),
    Claim(
        "HK.6", _THEOREMS, "The release is (eps, delta)-private: data holders add Gaussian noise and a secure sum aggregates.",
        f"of the sums of squares, X'X and X'y together, for one pair of rows: {_SMALL}", theorems.kept("whole", 1, _SETS),
        _readings(*_SETS),
    ),
    Claim(
        "HK.7", _ATTACK, "The Gaussian mechanism makes the total computation differentially private.",
        "an attack on the sums of squares alone reaches no eps above that of the whole release, with 95 % confidence",
        theorems.reached, _readings("as stated"),
    ),
    Claim(
        "HK.8", _EPS, "Without a trusted party, standard algorithms add prohibitive amounts of noise.",
        "at every eps unprojected is better than input", compared("eps", "unprojected", "input", first_better),
        _readings("as stated", metric=ERROR),
    ),
    Claim(
        "HK.9", _EPS, "Distributed noise has little extra cost over a trusted aggregator's.",
        "at every eps paper is within a tenth of curator, or unprojected of curator_unprojected",
        lambda e, r: compared("eps", _NAMED[r.name], {"paper": "curator"}.get(_NAMED[r.name], "curator_unprojected"), near)(e, r),
        _readings(*_BOTH, metric=ERROR),
    ),
    Claim(
        "HK.10", _EPS, "Clipping rows to estimated bounds (projection) improves predictions.",
        "at every eps paper is better than unprojected", compared("eps", "paper", "unprojected", first_better),
        _readings("as stated", metric=ERROR),
    ),
    Claim(
        "HK.11", _EPS, "Predictions get better with eps.", "the error falls from the first to the last eps, and rises at no step",
        falls("eps", _NAMED), _readings(*_BOTH, metric=ERROR),
    ),
    Claim(
        "HK.12", _ROWS, "The method is asymptotically optimal: with ever more rows it comes down to the model without privacy.",
        "at 30,000 rows the error is within a tenth of that of none",
        lambda e, r: compared("rows", _NAMED[r.name], "none", at_the_end)(e, r), _readings(*_BOTH, metric=ERROR),
    ),
    Claim(
        "HK.13", _ROWS, "So it is consistent: the gap to the best model closes.", "the optimality gap falls from 300 to 30,000 rows, and rises at no step",
        falls("rows", _NAMED), _readings(*_BOTH, metric="optimality_gap"),
    ),
    Claim(
        "HK.14", _CLIENTS, "The extra cost diminishes rapidly with the number of data holders.",
        "from 10 clients on unprojected is within a tenth of curator_unprojected", compared("clients", "unprojected", "curator_unprojected", near),
        _readings("as stated", metric=ERROR),
    ),
)  # fmt: skip
