"""Jayaraman, Wang, Evans & Gu 2018: the claims.

Two readings of Theorem 3.1's noise, and of that of its rivals: a Laplace number in every coordinate, as Table 1 and the
authors' program have it, or the density of the proof. Figure 1 is read at its last round, and where the text says so at
others; a run stopped at round t has the noise of all 1,500.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from dpml.papers.jayaraman2018 import theorems
from dpml.reporting.claim_tests import fewest_seeds, steady, trend
from dpml.reporting.claims import Check, Claim, Evidence, NotComputedError, Reading, Runs, Test
from dpml.reporting.criteria import Comparison, better, scale, similar

OURS = ("jayaraman", "mpc_output")
RIVALS = ("pathak", "local_output", "local_objective", "local_gradient")
ORDER_GAP, ORDER_SHARE = 10**-2.5, 10**-3.5  # the ends of "in the order of" 1e-3 and 1e-4

LAWS = {"in every coordinate": "table", "density exp(-||z||)": "proof"}
GAP, SHARE = "optimality_gap", "accuracy"


def _readings(metrics: Sequence[str], laws: bool = True) -> tuple[Reading, ...]:
    words = {GAP: "gap", SHARE: "accuracy"}
    names = [(m, f"{words[m]}, {law}" if laws else words[m]) for m in metrics for law in (LAWS if laws else ("",))]
    return tuple(Reading(name, "paper", metric) for metric, name in names)


def _runs(evidence: Evidence, reading: Reading, block: str, names: Sequence[str]) -> Runs:
    """The runs of some algorithms in a block, whose name ends in the law of the reading's noise if it has one."""
    law = LAWS.get(reading.name.partition(", ")[2])
    block = f"{block}_{law}" if law else block
    known = replace(evidence, rows=evidence.rows.assign(variant="paper"))  # a block has one variant of each
    found = {("", name): known.runs(block, name, reading).abs() for name in names}
    missing = [f"{name} in {block}" for (_, name), runs in found.items() if len(runs) < 2]
    if missing:
        raise NotComputedError(missing)
    return found


def _at(runs: Runs, name: str, x: object) -> pd.Series:
    if x not in runs["", name]:
        raise NotComputedError([f"{name} at {x}"])
    return runs["", name][x]


def _tested(block: str, names: Sequence[str], compare: Callable[[Runs, str], Mapping[Any, Comparison]], x: Any) -> Test:
    """The comparisons of some algorithms at one x must all hold."""

    def test(evidence: Evidence, reading: Reading) -> Check:
        runs = _runs(evidence, reading, block, names)
        means = ", ".join(f"{name} {_at(runs, name, x).mean():.3g}" for name in names)
        return replace(Check.of(means, compare(runs, reading.metric)), seeds=fewest_seeds(runs))

    return test


def _beats(block: str, M: int, times: float = 1.0) -> Test:
    """Each of our methods is better than each rival's value over `times`."""

    def compare(runs: Runs, metric: str) -> Mapping[Any, Comparison]:
        pairs = {(f"{a} against {b}", M): (_at(runs, a, M), _at(runs, b, M) / times) for a in OURS for b in RIVALS}
        return better(pairs, scale(metric))

    return _tested(block, (*OURS, *RIVALS), compare, M)


def _in_the_order(block: str, name: str, x: int) -> Test:
    """The gap is below `ORDER_GAP`; the accuracy is within `ORDER_SHARE` of that without privacy."""

    def compare(runs: Runs, metric: str) -> Mapping[Any, Comparison]:
        ours = _at(runs, name, x)
        if metric == GAP:
            return better({(name, x): (ours, 0 * ours + ORDER_GAP)}, scale(metric))
        return {(name, x): similar(ours, runs["", "nonpriv"].iloc[:, 0], scale(metric), ORDER_SHARE)}

    def test(evidence: Evidence, reading: Reading) -> Check:
        names = (name,) if reading.metric == GAP else (name, "nonpriv")
        runs = _runs(evidence, reading, block, names)
        means = ", ".join(
            f"{one} {(_at(runs, one, x) if one == name else runs['', one].iloc[:, 0]).mean():.4g}" for one in names
        )
        return replace(Check.of(means, compare(runs, reading.metric)), seeds=fewest_seeds(runs))

    return test


def _alike(runs: Runs, metric: str) -> Mapping[Any, Comparison]:
    return {
        ("psgd against jayaraman", 1000): similar(_at(runs, "psgd", 1000), _at(runs, "jayaraman", 1000), scale(metric))
    }


def _over_parties(block: str, name: str, worse: bool) -> Test:
    """As M grows an algorithm gets worse, at no step better; or it stays similar to what it is at the first M."""

    def test(evidence: Evidence, reading: Reading) -> Check:
        runs = _runs(evidence, reading, block, (name,))
        curves = {name: (runs["", name], list(runs["", name].columns))}
        if len(curves[name][1]) < 2:
            raise NotComputedError([f"a second M of {name}"])
        on = scale(reading.metric)
        check = trend(curves, on, better_at_the_end=False) if worse else steady(curves, on)
        return replace(check, seeds=fewest_seeds(runs))

    return test


_FIG1, _PARTIES, _ADULT = "jayaraman2018/fig1", "jayaraman2018/parties", "jayaraman2018/adult"
_THEOREMS, _TABLE1 = "jayaraman2018/theorems", "jayaraman2018/table1"
_BETTER = (
    "each of jayaraman and mpc_output is better than each of pathak, local_output, local_objective and local_gradient"
)
_BOTH = tuple(Reading(name, "paper", "loss") for name in LAWS)[::-1]
_EXACT = (Reading("exact", "paper", "log10_excess"),)
_NUMBERS = (Reading("as printed", "paper", "generated"),)

CLAIMS = (
    Claim(
        "J1.1", _FIG1,
        "MPC Grad P and MPC Out P do better than the baselines, in optimality gap and in accuracy (m = 1,000).",
        f"at M = 1000 {_BETTER}", _beats("all", 1000), _readings((GAP, SHARE)),
    ),
    Claim(
        "J1.2", _FIG1,
        "They perform orders of magnitude better than the other baselines.",
        f"{_BETTER}: its gap is less than a tenth", _beats("all", 1000, 10.0), _readings((GAP,)),
    ),
    Claim(
        "J1.3", _FIG1,
        "MPC Grad P has a gap in the order of 1e-3 in 500 iterations.",
        "at round 500 of 1500 the gap is below 10^-2.5", _in_the_order("rounds", "jayaraman", 500),
        _readings((GAP,), laws=False),
    ),
    Claim(
        "J1.4", _FIG1,
        "MPC Grad P has a relative accuracy loss in the order of 1e-4 within 200 iterations.",
        "at round 200 of 1500 its accuracy is within 10^-3.5 of that of nonpriv",
        _in_the_order("rounds", "jayaraman", 200), _readings((SHARE,), laws=False),
    ),
    Claim(
        "J1.5", _FIG1,
        "MPC Out P achieves values in the same range.",
        "at M = 1000 its gap is below 10^-2.5; its accuracy is within 10^-3.5 of that of nonpriv",
        _in_the_order("all", "mpc_output", 1000), _readings((GAP, SHARE)),
    ),
    Claim(
        "J1.6", _FIG1,
        "Rajkumar & Agarwal's method, with eps in every iteration, performs close to MPC Grad P.",
        "at M = 1000 psgd is similar to jayaraman",
        _tested("all_table", ("psgd", "jayaraman"), _alike, 1000), _readings((GAP, SHARE), laws=False),
    ),
    Claim(
        "J2.1", _PARTIES,
        "The accuracy of model aggregation (MPC Out P) decreases when there are many parties for the data.",
        "mpc_output is worse at the largest M than at the smallest, and better at no step on the way",
        _over_parties("all", "mpc_output", worse=True), _readings((GAP, SHARE)),
    ),
    Claim(
        "J2.2", _PARTIES,
        "Gradient perturbation (MPC Grad P) maintains its accuracy regardless of how the data is partitioned.",
        "at every M jayaraman is similar to what it is at the smallest",
        _over_parties("all_table", "jayaraman", worse=False), _readings((GAP, SHARE), laws=False),
    ),
    Claim(
        "J2.3", _FIG1,
        "The gap of Local Obj P increases as the parties' data sets get smaller.",
        "local_objective is worse at M = 1000 than at M = 100",
        _over_parties("all_table", "local_objective", worse=True), _readings((GAP,), laws=False),
    ),
    Claim(
        "J3.1", _THEOREMS,
        "Theorem 3.1: the mean of the parties' models plus Laplace noise of scale 2G/(m n lam eps) is eps-private.",
        "the exact largest privacy loss between two neighbours of each kind is at most eps", theorems.private, _BOTH,
    ),
    Claim(
        "J3.4", _THEOREMS,
        "Theorem 3.4: T rounds with noise of variance 8 G^2 T log(1/delta)/(m n eps)^2 are (eps, delta)-private.",
        "the exact delta of a loss with constant gradients is at most the claimed one, for every eps and delta tried",
        theorems.kept(), _EXACT,
    ),
    Claim(
        "J3.5", _THEOREMS,
        "Corollary 3.5: the model after t of T rounds is (sqrt(t/T) eps, delta)-private.",
        "as for Theorem 3.4, after shares of the rounds", theorems.kept(partly=True), _EXACT,
    ),
    Claim(
        "J3.6", _THEOREMS,
        "In the figures MPC Grad P consumes a total privacy budget of eps = 0.5, at delta = 1e-3.",
        "there the exact delta of Theorem 3.4's noise is at most the claimed one", theorems.kept(eps=0.5, delta=1e-3),
        _EXACT,
    ),
    Claim(
        "JT.1", _TABLE1,
        "Table 1: the standard deviations over 1,000 samples are those of the bounds beside them.",
        "each is within three standard errors of that of the printed law", theorems.generated, _NUMBERS,
    ),
    Claim(
        "JT.2", _TABLE1,
        "Table 1: that is the noise which each method needs to preserve differential privacy.",
        "of the two gradient methods, it is at least that of Theorem 3.4 at delta = 1e-3, less three standard errors",
        theorems.enough, _NUMBERS,
    ),
    Claim(
        "JA.1", _ADULT,
        "Adult yields similar results.",
        f"the criterion of J1.1 on Adult: at M = 1000 {_BETTER}", _beats("all", 1000), _readings((GAP, SHARE)),
    ),
)  # fmt: skip
