"""Imtiaz et al. 2019: the claims.

What the paper plots as a loss is not the loss, so that most of its claims can be read in two ways: `plotted` is the
noisy objective at its own minimiser as its authors computed it, in absolute value; `true` is the loss of the released
model with the algorithms as the text defines them. *Agrees* is within a factor of two, the width that the published
optimiser's own lack of convergence has. capefm *reaches* the non-private value at 95 % of the way there from its value
at the smallest eps of the grid.
"""

from collections.abc import Sequence

import numpy as np

from dpml.claims.judging import (
    Check,
    Claim,
    Evidence,
    Reading,
    Test,
    agrees,
    beats,
    below,
    both,
    falls,
    holm,
    weak,
)

REACH = 0.05

PRIVATE = ("capefm", "conv", "local", "dpfm", "objpert")
OURS = ("capefm", "conv", "local")
OTHERS = ("dpfm", "objpert", "conv", "local")

PLOTTED, TRUE = Reading("plotted", "authors", "noisy_objective"), Reading("true", "paper", "loss")
LOSS = (PLOTTED, TRUE)
DISTANCE = (Reading("authors", "authors", "err_w"), Reading("text", "paper", "err_w"))


def reaches(blocks: Sequence[str]) -> Test:
    """At some eps of the grid capefm has come 95 % of the way from its value at the smallest eps to nonpriv's."""

    def test(evidence: Evidence, reading: Reading) -> Check | None:
        found = {block: _reached(evidence, block, reading) for block in blocks}
        known = {block: eps for block, eps in found.items() if eps is not None}
        if not known:
            return None
        said = [f"{block}: {'never' if eps == np.inf else f'at eps = {eps:g}'}" for block, eps in known.items()]
        return bool(np.isfinite(list(known.values())).all()), ", ".join(said)

    return test


def reaches_sooner(low: str, high: str) -> Test:
    """The smallest eps at which capefm reaches nonpriv is smaller in the block `low` than in `high`."""

    def test(evidence: Evidence, reading: Reading) -> Check | None:
        first, second = (_reached(evidence, block, reading) for block in (low, high))
        if first is None or second is None or (first == second == np.inf):
            return None
        return bool(first < second), f"reached at eps = {first:g} ({low}) and {second:g} ({high})"

    return test


def depends_on_delta(block: str, yes: Sequence[str] = OURS, no: Sequence[str] = ("dpfm", "objpert")) -> Test:
    """The smallest delta is significantly worse than the largest for `yes`; for `no` neither is significantly worse."""

    def test(evidence: Evidence, reading: Reading) -> Check | None:
        worse: dict[str, float] = {}
        changed: dict[str, float] = {}
        said = []
        for algo in (*yes, *no):
            runs = evidence.runs(block, algo, reading)
            if runs.shape[1] < 2:
                continue
            first, last = runs.iloc[:, 0], runs.iloc[:, -1]
            (worse if algo in yes else changed)[algo] = below(last, first)
            if algo in no:
                changed[f"{algo} "] = below(first, last)
            said.append(f"{algo} {first.mean():.3g} to {last.mean():.3g}")
        if not said:
            return None
        good = all(holm(worse).values()) and not any(holm(changed).values())
        return good, f"{block}, smallest to largest: {', '.join(said)}"

    return test


def _reached(evidence: Evidence, block: str, reading: Reading) -> float | None:
    """The smallest eps from which on capefm is within REACH of nonpriv; inf when there is none, None without rows."""
    ours, best = (evidence.runs(block, algo, reading).mean() for algo in ("capefm", "nonpriv"))
    if len(ours) < 2 or len(best) == 0:
        return None
    gap = (ours - best).abs()
    near = gap <= REACH * gap.iloc[0]
    far = np.flatnonzero(~near)
    first = far[-1] + 1 if len(far) else 0
    return float(ours.index[first]) if first < len(ours) else float("inf")


_FALLS = (
    "capefm, conv and local: from the smallest to the largest eps, and N, the mean falls significantly, and no step in "
    "between rises significantly"
)
_BEATS = (
    "against each of the others capefm is significantly below at more than half of the eps and N, and significantly "
    "above at none; and it reaches nonpriv at some eps of the grid"
)
_SOONER = "capefm reaches nonpriv at a smaller eps for d = 20 than for d = 50"
_DEPENDS = (
    "capefm, conv and local are significantly worse at the smallest N (and get significantly worse at no step to the "
    "largest), and at the smallest delta, than at the largest; "
    "dpfm and objpert do not change significantly between the smallest and the largest delta"
)
_AGREES = "for each private algorithm at least nine in ten published points lie within a factor of two of our mean"

_SYNTHETIC = {"d20_eps": "synth20_eps", "d20_N": "synth20_N", "d20_delta": "synth20_delta"}
_REAL = {f"{name}_{x}": f"{name}_{x}" for name in ("crime", "twitter") for x in ("eps", "N", "delta")}

_EPS_AND_N = ["d20_eps", "d50_eps", "d20_N", "d50_N"]
_REAL_EPS_AND_N = [block for block in _REAL if not block.endswith("delta")]
_HURT = both(falls(["d20_N", "d50_N"], OURS), both(depends_on_delta("d20_delta"), depends_on_delta("d50_delta")))
_STORED = "The values that the authors stored are what their recipe gives."

_FIG3, _FIG4, _FIG7 = "imtiaz2019/fig3", "imtiaz2019/fig4", "imtiaz2019/fig7"

CLAIMS = (
    Claim(
        "I3.1",
        _FIG3,
        "The loss falls as eps grows and as there are more samples.",
        _FALLS,
        falls(_EPS_AND_N, OURS),
        LOSS,
    ),
    Claim(
        "I3.2",
        _FIG3,
        "capefm has a lower loss than dpfm, objpert, conv and local, and comes down to the non-private loss.",
        _BEATS,
        both(beats(_EPS_AND_N, "capefm", OTHERS), reaches(["d20_eps", "d50_eps"])),
        LOSS,
    ),
    Claim(
        "I3.3",
        _FIG3,
        "With fewer features capefm comes down to the non-private loss at a smaller eps.",
        _SOONER,
        reaches_sooner("d20_eps", "d50_eps"),
        LOSS,
    ),
    Claim(
        "I3.4",
        _FIG3,
        "Few samples or a small delta hurt capefm, conv and local; dpfm and objpert do not depend on delta.",
        _DEPENDS,
        _HURT,
        LOSS,
    ),
    Claim("I3.P", _FIG3, _STORED, _AGREES, agrees(_SYNTHETIC, PRIVATE), (PLOTTED,)),
    Claim(
        "I4.1",
        _FIG4,
        "On real data the loss falls as eps grows and as there are more samples.",
        _FALLS,
        falls(_REAL_EPS_AND_N, OURS),
        LOSS,
    ),
    Claim(
        "I4.2",
        _FIG4,
        "On real data capefm has a lower loss than dpfm, objpert, conv and local, and comes down to the "
        "non-private loss.",
        _BEATS,
        both(beats(_REAL_EPS_AND_N, "capefm", OTHERS), reaches(["crime_eps", "twitter_eps"])),
        LOSS,
    ),
    Claim(
        "I4.3",
        _FIG4,
        "On real data the loss depends only weakly on delta.",
        "capefm, conv and local: over the delta grid the mean changes by less than a factor of two",
        weak(["crime_delta", "twitter_delta"], OURS),
        LOSS,
    ),
    Claim("I4.P", _FIG4, _STORED, _AGREES, agrees(_REAL, PRIVATE), (PLOTTED,)),
    Claim(
        "I7.1",
        _FIG7,
        "The distance to the true weights falls as eps grows and as there are more samples.",
        _FALLS,
        falls(_EPS_AND_N, OURS),
        DISTANCE,
    ),
    Claim(
        "I7.2",
        _FIG7,
        "capefm comes closer to the true weights than dpfm, objpert, conv and local, and as close as without privacy.",
        _BEATS,
        both(beats(_EPS_AND_N, "capefm", OTHERS), reaches(["d20_eps", "d50_eps"])),
        DISTANCE,
    ),
    Claim(
        "I7.3",
        _FIG7,
        "With fewer features capefm comes as close as without privacy at a smaller eps.",
        _SOONER,
        reaches_sooner("d20_eps", "d50_eps"),
        DISTANCE,
    ),
    Claim(
        "I7.4",
        _FIG7,
        "Few samples or a small delta hurt capefm, conv and local; dpfm and objpert do not depend on delta.",
        _DEPENDS,
        _HURT,
        DISTANCE,
    ),
    Claim(
        "I7.P",
        _FIG7,
        _STORED,
        _AGREES,
        agrees(_SYNTHETIC | {"d20n5000_eps": "synth20n5000_eps"}, PRIVATE),
        DISTANCE[:1],
    ),
)
