"""The papers' claims as data: what is said, in our words, and the test that decides it from rows.

A verdict is computed, never typed in. Tolerances and tests follow from the claim's wording and were chosen before any
result was looked at:

- *significant*: a one-sided t-test at 5 %, Holm-corrected over all comparisons of one reading of the claim. Runs of one
  algorithm under two settings are compared in pairs (they share data and noise directions); two algorithms in pairs
  over seeds, or by Welch's test over draws when there is one seed.
- *reaches* the non-private value: 95 % of the way there from the value at the smallest eps of the grid.
- *agrees*, *weak*: within a factor of two, the width that the published optimiser's own lack of convergence has.

Most claims about a loss can be read in two ways, because what the paper plots is not the loss: `plotted` is the noisy
objective at its own minimiser as its authors computed it, in absolute value; `true` is the loss of the released model
with the algorithms as the text defines them. When the readings disagree, that is the verdict.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, TypeVar

import numpy as np
import pandas as pd
from scipy import stats

from dpml.arrays import Array

Decision = Literal["reproduced", "not reproduced", "cannot be tested here", "depends on an unstated choice"]

FACTOR = 2.0
REACH = 0.05
LEVEL = 0.05

PRIVATE = ("capefm", "conv", "local", "dpfm", "objpert")
OURS = ("capefm", "conv", "local")


@dataclass(frozen=True)
class Reading:
    """One way to read what a figure shows: a metric of one variant of the algorithms."""

    name: str
    variant: str
    metric: str


PLOTTED, TRUE = Reading("plotted", "authors", "noisy_objective"), Reading("true", "paper", "loss")
DISTANCE = (Reading("authors", "authors", "err_w"), Reading("text", "paper", "err_w"))


@dataclass(frozen=True)
class Verdict:
    """A decision and the numbers that made it."""

    decision: Decision
    numbers: str


@dataclass(frozen=True)
class Evidence:
    """Rows of the published calibration, and the published points, that a claim may look at."""

    rows: pd.DataFrame
    published: pd.DataFrame

    def runs(self, block: str, algo: str, reading: Reading) -> pd.DataFrame:
        """Values, a line per run (seed, draw), a column per x; empty when nothing was computed.

        Where they are compared they are compared in absolute size, as they are drawn.
        """
        return self.signed(block, algo, reading).abs()

    def signed(self, block: str, algo: str, reading: Reading) -> pd.DataFrame:
        """The same with their signs: the published points are means of these, in absolute size."""
        rows = self.rows
        rows = rows[
            (rows["block"] == block)
            & (rows["algo"] == algo)
            & (rows["variant"] == reading.variant)
            & (rows["metric"] == reading.metric)
        ]
        return rows.pivot_table(index=["seed", "draw"], columns=block.split("_")[-1], values="value", dropna=False)


Check = tuple[bool, str]
Test = Callable[[Evidence, Reading], Check | None]


@dataclass(frozen=True)
class Claim:
    """A statement of a paper. `criterion` says in words what `test` computes, for every one of the `readings`."""

    id: str
    figure: str
    text: str
    criterion: str
    test: Test
    readings: Sequence[Reading] = (PLOTTED, TRUE)

    def judge(self, evidence: Evidence) -> Verdict:
        """Apply the test to every reading."""
        checks = {reading.name: self.test(evidence, reading) for reading in self.readings}
        found = {name: check for name, check in checks.items() if check is not None}
        missing = [name for name in checks if name not in found]
        numbers = "; ".join(f"[{name}] {check[1]}" for name, check in found.items())
        if not found:
            return Verdict("cannot be tested here", "none of the cells that it needs has been computed")
        if missing:
            numbers += f"; [{', '.join(missing)}] not computed"
        outcomes = {check[0] for check in found.values()}
        if len(outcomes) == 2:
            holds = [name for name, check in found.items() if check[0]]
            return Verdict("depends on an unstated choice", f"holds only if read as {', '.join(holds)}: {numbers}")
        return Verdict("reproduced" if outcomes == {True} else "not reproduced", numbers)


# ---- tests


def falls(blocks: Sequence[str], algorithms: Sequence[str] = OURS) -> Test:
    """From the first to the last x the mean falls significantly, and no step on the way rises significantly."""

    def test(evidence: Evidence, reading: Reading) -> Check | None:
        drops: dict[str, float] = {}
        rises: dict[str, float] = {}
        said = []
        for block in blocks:
            for algo in algorithms:
                runs = evidence.runs(block, algo, reading)
                if runs.shape[1] < 2:
                    continue
                columns = list(runs.columns)
                where = f"{algo} {block}"
                drops[where] = _below(runs[columns[-1]], runs[columns[0]])
                for a, b in pairwise(columns):
                    rises[f"{where} {a:g}-{b:g}"] = _below(runs[a], runs[b])
                said.append(f"{where} {runs[columns[0]].mean():.3g} to {runs[columns[-1]].mean():.3g}")
        if not drops:
            return None
        no_drop = [key for key, significant in _holm(drops).items() if not significant]
        risen = [key for key, significant in _holm(rises).items() if significant]
        text = ", ".join(said)
        text += f"; no significant fall: {', '.join(no_drop)}" if no_drop else ""
        text += f"; significant rises: {', '.join(risen)}" if risen else ""
        return not no_drop and not risen, text

    return test


def beats(blocks: Sequence[str], others: Sequence[str] = ("dpfm", "objpert", "conv", "local")) -> Test:
    """capefm is significantly below each other at more than half of the x, and significantly above at none."""

    def test(evidence: Evidence, reading: Reading) -> Check | None:
        below: dict[tuple[str, str, Any], float] = {}
        above: dict[tuple[str, str, Any], float] = {}
        for block in blocks:
            ours = evidence.runs(block, "capefm", reading)
            for other in others:
                theirs = evidence.runs(block, other, reading)
                for x in ours.columns.intersection(theirs.columns):
                    below[block, other, x] = _algorithm_below(ours[x], theirs[x])
                    above[block, other, x] = _algorithm_below(theirs[x], ours[x])
        if not below:
            return None
        wins, losses = _holm(below), _holm(above)
        good, said = True, []
        for block, other in dict.fromkeys(key[:2] for key in below):
            keys = [key for key in below if key[:2] == (block, other)]
            won, lost = sum(wins[key] for key in keys), sum(losses[key] for key in keys)
            good &= won > len(keys) / 2 and lost == 0
            said.append(f"{block}: {won} won, {lost} lost of {len(keys)} against {other}")
        return good, ", ".join(said)

    return test


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


def both(first: Test, second: Test) -> Test:
    """Both tests hold."""

    def test(evidence: Evidence, reading: Reading) -> Check | None:
        checks = [check for check in (first(evidence, reading), second(evidence, reading)) if check is not None]
        return (all(good for good, _ in checks), "; ".join(text for _, text in checks)) if checks else None

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
            (worse if algo in yes else changed)[algo] = _below(last, first)
            if algo in no:
                changed[f"{algo} "] = _below(first, last)
            said.append(f"{algo} {first.mean():.3g} to {last.mean():.3g}")
        if not said:
            return None
        good = all(_holm(worse).values()) and not any(_holm(changed).values())
        return good, f"{block}, smallest to largest: {', '.join(said)}"

    return test


def weak(blocks: Sequence[str], algorithms: Sequence[str] = OURS) -> Test:
    """Over the whole grid the mean changes by less than a factor of two."""

    def test(evidence: Evidence, reading: Reading) -> Check | None:
        ratios = {}
        for block in blocks:
            for algo in algorithms:
                means = evidence.runs(block, algo, reading).mean()
                if len(means) > 1:
                    ratios[f"{algo} {block}"] = means.max() / means.min()
        said = ", ".join(f"{key} x{ratio:.3g}" for key, ratio in ratios.items())
        return (max(ratios.values()) < FACTOR, said) if ratios else None

    return test


def agrees(series: Mapping[str, str]) -> Test:
    """For every algorithm at least nine in ten published points lie within a factor of two of our mean."""

    def test(evidence: Evidence, reading: Reading) -> Check | None:
        near: dict[str, list[bool]] = {}
        for block, name in series.items():
            points = evidence.published
            points = points[(points["series"] == name) & (points["metric"] == reading.metric)]
            for algo in PRIVATE:
                means = evidence.signed(block, algo, reading).mean().abs()
                theirs = points[points["algo"] == algo].set_index("x")["mean"].abs()
                for x in means.index:
                    close = np.isclose(theirs.index.to_numpy(dtype=float), x)
                    if close.any():
                        ratio = means[x] / theirs[close].iloc[0]
                        near.setdefault(algo, []).append(bool(1 / FACTOR <= ratio <= FACTOR))
        said = ", ".join(f"{algo} {sum(found)} of {len(found)}" for algo, found in near.items())
        return (all(np.mean(found) >= 0.9 for found in near.values()), said) if near else None

    return test


# ---- statistics

K = TypeVar("K")


def _below(a: pd.Series, b: pd.Series) -> float:
    """p-value of "the mean of a is below that of b", runs in pairs."""
    difference = (a - b).dropna().to_numpy(dtype=float)
    return _one_sided(difference)


def _algorithm_below(a: pd.Series, b: pd.Series) -> float:
    """The same for two algorithms: in pairs over seeds; over draws when there is one seed."""
    ours, theirs = (runs.groupby(level="seed").mean() for runs in (a, b))
    if len(ours) > 1:
        return _one_sided((ours - theirs).dropna().to_numpy(dtype=float))
    if a.std() == 0 and b.std() == 0:
        return 0.0 if a.mean() < b.mean() else 1.0
    return float(stats.ttest_ind(a, b, equal_var=False, alternative="less").pvalue)


def _one_sided(difference: Array) -> float:
    if len(difference) < 2 or np.ptp(difference) == 0:  # no spread: the sign decides
        return 0.0 if len(difference) and difference[0] < 0 else 1.0
    return float(stats.ttest_1samp(difference, 0.0, alternative="less").pvalue)


def _holm(values: Mapping[K, float]) -> dict[K, bool]:
    """Which of several p-values are significant when all are looked at together."""
    left, found = len(values), dict.fromkeys(values, False)
    for key in sorted(values, key=lambda key: values[key]):
        if values[key] > LEVEL / left:
            break
        found[key] = True
        left -= 1
    return found


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


# ---- the ledger

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
_HURT = both(falls(["d20_N", "d50_N"]), both(depends_on_delta("d20_delta"), depends_on_delta("d50_delta")))
_STORED = "The values that the authors stored are what their recipe gives."

_FIG3, _FIG4, _FIG7 = "imtiaz2019/fig3", "imtiaz2019/fig4", "imtiaz2019/fig7"

CLAIMS = {
    claim.id: claim
    for claim in (
        Claim(
            "I3.1",
            _FIG3,
            "The loss falls as eps grows and as there are more samples.",
            _FALLS,
            falls(_EPS_AND_N),
        ),
        Claim(
            "I3.2",
            _FIG3,
            "capefm has a lower loss than dpfm, objpert, conv and local, and comes down to the non-private loss.",
            _BEATS,
            both(beats(_EPS_AND_N), reaches(["d20_eps", "d50_eps"])),
        ),
        Claim(
            "I3.3",
            _FIG3,
            "With fewer features capefm comes down to the non-private loss at a smaller eps.",
            _SOONER,
            reaches_sooner("d20_eps", "d50_eps"),
        ),
        Claim(
            "I3.4",
            _FIG3,
            "Few samples or a small delta hurt capefm, conv and local; dpfm and objpert do not depend on delta.",
            _DEPENDS,
            _HURT,
        ),
        Claim("I3.P", _FIG3, _STORED, _AGREES, agrees(_SYNTHETIC), (PLOTTED,)),
        Claim(
            "I4.1",
            _FIG4,
            "On real data the loss falls as eps grows and as there are more samples.",
            _FALLS,
            falls(_REAL_EPS_AND_N),
        ),
        Claim(
            "I4.2",
            _FIG4,
            "On real data capefm has a lower loss than dpfm, objpert, conv and local, and comes down to the "
            "non-private loss.",
            _BEATS,
            both(beats(_REAL_EPS_AND_N), reaches(["crime_eps", "twitter_eps"])),
        ),
        Claim(
            "I4.3",
            _FIG4,
            "On real data the loss depends only weakly on delta.",
            "capefm, conv and local: over the delta grid the mean changes by less than a factor of two",
            weak(["crime_delta", "twitter_delta"]),
        ),
        Claim("I4.P", _FIG4, _STORED, _AGREES, agrees(_REAL), (PLOTTED,)),
        Claim(
            "I7.1",
            _FIG7,
            "The distance to the true weights falls as eps grows and as there are more samples.",
            _FALLS,
            falls(_EPS_AND_N),
            DISTANCE,
        ),
        Claim(
            "I7.2",
            _FIG7,
            "capefm comes closer to the true weights than dpfm, objpert, conv and local, and as close as without "
            "privacy.",
            _BEATS,
            both(beats(_EPS_AND_N), reaches(["d20_eps", "d50_eps"])),
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
        Claim("I7.P", _FIG7, _STORED, _AGREES, agrees(_SYNTHETIC | {"d20n5000_eps": "synth20n5000_eps"}), DISTANCE[:1]),
    )
}
