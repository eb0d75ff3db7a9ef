"""Jayaraman, Wang, Evans & Gu 2018: the claims.

Two readings of the noise in a model: a Laplace number in every coordinate, as Table 1 and the authors' program have it,
or the density of the proof of Theorem 3.1. Figure 1 is read at its last round, and where the text says so at others; a
run stopped at round t has the noise of all 1,500. `la` is MPC Out P, `jayaraman` MPC Grad P, `wddp` Local Grad P.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import pandas as pd

from dpml.papers.jayaraman2018 import theorems
from dpml.reporting.claim_tests import failing
from dpml.reporting.claims import Check, Claim, Evidence, NotComputedError, Reading, Test
from dpml.reporting.criteria import Comparison, MetricScale, better, scale, similar

GAP, SHARE = "optimality_gap", "accuracy"
ORDER = {GAP: 10**-2.5, SHARE: 10**-3.5}  # the upper ends of "in the order of" 1e-3 and 1e-4
LAWS = {"in every coordinate": "table", "density exp(-||z||)": "proof"}

Place = tuple[str, float | None]
"""An algorithm, and the x at which it is; None: it has one value for all."""

Pairs = Mapping[str, tuple[pd.Series, pd.Series]]


def near(pairs: Pairs, on: MetricScale) -> dict[str, Comparison]:
    """Both of a pair are similar."""
    return {key: similar(a, b, on) for key, (a, b) in pairs.items()}


def far_better(pairs: Pairs, on: MetricScale) -> dict[str, Comparison]:
    """The gap of the first is less than a tenth of the second's."""
    return better({key: (a, b / 10) for key, (a, b) in pairs.items()}, on)


def in_the_order(pairs: Pairs, on: MetricScale) -> dict[str, Comparison]:
    """The gap of the first is less than 10^-2.5; its accuracy is within 10^-3.5 of the second's."""
    if on.log:
        return better({key: (a, 0 * a + ORDER[GAP]) for key, (a, b) in pairs.items()}, on)
    return {key: similar(a, b, on, ORDER[SHARE]) for key, (a, b) in pairs.items()}


def compared(
    block: str,
    places: Sequence[tuple[Place, Place]],
    how: Callable[[Pairs, MetricScale], Mapping[Any, Comparison]] = better,
) -> Test:
    """All pairs of places in a block, whose name has the law of the reading's noise, if it is about one."""

    def test(evidence: Evidence, reading: Reading) -> Check:
        law = LAWS.get(reading.name.partition(", ")[2])
        where = block.format(law=law or "table")
        known = replace(evidence, rows=evidence.rows.assign(variant="paper"))  # a block has one variant of each

        def runs(place: Place) -> pd.Series:
            name, x = place
            found = known.runs(where, name, reading).abs()
            if len(found) < 2 or (x is not None and x not in found):
                raise NotComputedError([f"{name} in {where}" + (f" at {x:g}" if x is not None else "")])
            return found.iloc[:, 0] if x is None else found[x]

        values = {place: runs(place) for pair in places for place in pair}
        shown = how({f"{_at(a)} against {_at(b)}": (values[a], values[b]) for a, b in places}, scale(reading.metric))
        seeds = min(one.index.get_level_values("seed").nunique() for one in values.values())
        means = ", ".join(f"{_at(place)}: {one.mean():.4g}" for place, one in values.items())
        return replace(Check.of(means + failing("not so", shown), shown), seeds=seeds)

    return test


def _at(place: Place) -> str:
    name, x = place
    return name if x is None else f"{name} at {x:g}"


def _readings(*metrics: str, laws: bool = True) -> tuple[Reading, ...]:
    words = {GAP: "gap", SHARE: "accuracy"}
    return tuple(
        Reading(f"{words[metric]}, {law}" if law else words[metric], "paper", metric)
        for metric in metrics
        for law in (LAWS if laws else ("",))
    )


def _computed(*names: str) -> tuple[Reading, ...]:
    return tuple(Reading(name, "paper", "") for name in names)


_FIG1, _PARTIES, _THEOREMS, _TABLE1 = (f"jayaraman2018/{name}" for name in ("fig1", "parties", "theorems", "table1"))
_ALL, _ROUNDS = "all_{law}", "rounds"
_RIVALS = ("pathak", "local_output", "local_objective", "wddp")
_WINS = [((ours, 1000.0), (theirs, 1000.0)) for ours, theirs in product(("jayaraman", "la"), _RIVALS)]
_MANY = (100.0, 1000.0, 5000.0, 50000.0)
_BETTER = "at M = 1000 each of jayaraman and la is better than each of pathak, local_output, local_objective and wddp"
_ORDER = "the gap is below 10^-2.5; the accuracy is within 10^-3.5 of that of nonpriv"

CLAIMS = (
    Claim(
        "J1.1", _FIG1,
        "MPC Grad P and MPC Out P do better than the baselines, in optimality gap and in accuracy (m = 1,000).",
        _BETTER, compared(_ALL, _WINS), _readings(GAP, SHARE),
    ),
    Claim(
        "J1.2", _FIG1, "They perform orders of magnitude better than the other baselines.",
        f"{_BETTER}: its gap is less than a tenth", compared(_ALL, _WINS, far_better), _readings(GAP),
    ),
    Claim(
        "J1.3", _FIG1, "MPC Grad P has a gap in the order of 1e-3 in 500 iterations.", f"at round 500 {_ORDER}",
        compared(_ROUNDS, [(("jayaraman", 500.0), ("nonpriv", None))], in_the_order), _readings(GAP, laws=False),
    ),
    Claim(
        "J1.4", _FIG1, "MPC Grad P has a relative accuracy loss in the order of 1e-4 within 200 iterations.",
        f"at round 200 {_ORDER}", compared(_ROUNDS, [(("jayaraman", 200.0), ("nonpriv", None))], in_the_order),
        _readings(SHARE, laws=False),
    ),
    Claim(
        "J1.5", _FIG1, "MPC Out P achieves values in the same range.", f"at M = 1000 {_ORDER}",
        compared(_ALL, [(("la", 1000.0), ("nonpriv", 1000.0))], in_the_order), _readings(GAP, SHARE),
    ),
    Claim(
        "J1.6", _FIG1, "Rajkumar & Agarwal's method, with eps in every iteration, performs close to MPC Grad P.",
        "at M = 1000 psgd is similar to jayaraman",
        compared(_ALL, [(("psgd", 1000.0), ("jayaraman", 1000.0))], near), _readings(GAP, SHARE, laws=False),
    ),
    Claim(
        "J1.7", _FIG1, "The gap of Local Obj P increases as the parties' data sets get smaller.",
        "local_objective is better at M = 100 than at M = 1000",
        compared(_ALL, [(("local_objective", 100.0), ("local_objective", 1000.0))]), _readings(GAP, laws=False),
    ),
    Claim(
        "J2.1", _PARTIES, "The accuracy of MPC Out P decreases when there are many parties for the data.",
        "la is better at M = 100 than at M = 50,000, parties of one row",
        compared(_ALL, [(("la", _MANY[0]), ("la", _MANY[-1]))]), _readings(GAP, SHARE),
    ),
    Claim(
        "J2.2", _PARTIES, "MPC Grad P maintains its accuracy regardless of how the data is partitioned.",
        "at every M jayaraman is similar to what it is at M = 100",
        compared(_ALL, [(("jayaraman", M), ("jayaraman", _MANY[0])) for M in _MANY[1:]], near),
        _readings(GAP, SHARE, laws=False),
    ),
    Claim(
        "J3.1", _THEOREMS,
        "Theorem 3.1: the mean of the parties' models plus Laplace noise of scale 2G/(m n lam eps) is eps-private.",
        "the exact largest privacy loss between two neighbours of each kind is at most eps",
        theorems.private, _computed(*LAWS),
    ),
    Claim(
        "J3.4", _THEOREMS,
        "Theorem 3.4: T rounds with noise of variance 8 G^2 T log(1/delta)/(m n eps)^2 are (eps, delta)-private.",
        "the exact delta of a loss with constant gradients is at most the claimed one, for every eps and delta tried",
        theorems.kept(), _computed("exact"),
    ),
    Claim(
        "J3.5", _THEOREMS, "Corollary 3.5: the model after t of T rounds is (sqrt(t/T) eps, delta)-private.",
        "as for Theorem 3.4, after shares of the rounds", theorems.kept(partly=True), _computed("exact"),
    ),
    Claim(
        "J3.6", _THEOREMS, "In the figures MPC Grad P consumes a total privacy budget of eps = 0.5 (delta = 1e-3).",
        "there the exact delta of Theorem 3.4's noise is at most the claimed one", theorems.kept(eps=0.5, delta=1e-3),
        _computed("exact"),
    ),
    Claim(
        "JT.1", _TABLE1, "Table 1: the standard deviations over 1,000 samples are those of the bounds beside them.",
        "each is within three standard errors of that of the printed law", theorems.generated, _computed("as printed"),
    ),
    Claim(
        "JT.2", _TABLE1, "Table 1: that is the noise which each method needs to preserve differential privacy.",
        "of the two gradient methods, it is at least that of Theorem 3.4 at delta = 1e-3, less three standard errors",
        theorems.enough, _computed("as printed"),
    ),
    Claim(
        "JA.1", "jayaraman2018/adult", "Adult yields similar results.", f"that of J1.1 on Adult: {_BETTER}",
        compared(_ALL, _WINS), _readings(GAP, SHARE),
    ),
)  # fmt: skip
