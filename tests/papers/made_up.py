"""Made-up rows whose verdicts are known."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from scipy.stats import norm

from dpml.reporting.cards import claims_of
from dpml.reporting.claims import Claim, Evidence, Verdict
from dpml.reporting.criteria import is_share

PAPERS = ("hamm2016", "heikkila2017", "imtiaz2019", "jayaraman2018", "kang2019", "rajkumar2012", "wei2020")
CLAIMS = {name: claim for paper in PAPERS for name, claim in claims_of(paper).items()}
NO_POINTS = pd.DataFrame(columns=["series", "x", "algo", "metric", "mean", "std", "n"])


def made_up(
    blocks: Mapping[str, Mapping[str, Sequence[float]]],
    grids: Mapping[str, Sequence[object]],
    metric: str = "loss",
    variant: str = "paper",
    shape: tuple[int, int] = (5, 4),
    noise: float = 1e-4,
    hard: float = 0.0,
    room: float = 0.5,
) -> Evidence:
    """Evidence whose means are given by block and algorithm, one for every x of the block.

    The end of a block's name is its axis in `grids`; `shape` is (seeds, draws). `noise` of a run and `hard`, of all
    runs of a seed, are relative to the mean. Of a share, `constant` has 0 and the model without privacy `room`.
    """
    rng = np.random.default_rng(1)
    seeds = 1 + hard * rng.standard_normal(shape[0])
    tables, axes = [], {}
    seed, draw = (number.ravel() for number in np.indices(shape))
    for block, curves in blocks.items():
        x = axes[block] = block.rpartition("_")[2]
        places = [(algo, at, mean) for algo, means in curves.items() for at, mean in zip(grids[x], means, strict=True)]
        algos, ats, means = zip(*places, strict=True)
        spread = seeds[:, None] + noise * rng.standard_normal((len(places), *shape))
        about = {"block": block, "algo": np.repeat(algos, len(seed)), "variant": variant, "metric": metric}
        about |= {x: np.repeat(ats, len(seed)), "seed": np.tile(seed, len(places)), "draw": np.tile(draw, len(places))}
        tables.append(pd.DataFrame(about | {"value": (np.array(means)[:, None, None] * spread).ravel()}))
        if is_share(metric):
            ends = [(name, value) for name, value in (("constant", 0.0), ("nonpriv", room)) if name not in curves]
            run = {"block": block, "variant": variant, "metric": metric, x: grids[x][0], "seed": 0, "draw": 0}
            tables.append(pd.DataFrame(ends, columns=["algo", "value"]).assign(**run))
    return Evidence(pd.concat(tables, ignore_index=True), NO_POINTS, axes)


def holding(verdict: Verdict) -> list[str]:
    return [one["name"] for one in verdict.readings if one["outcome"] == "holds"]


def lacking(verdict: Verdict) -> str:
    return "; ".join(text for one in verdict.readings for text in one["lacks"])


def joined(*evidence: Evidence) -> Evidence:
    axes = {block: x for one in evidence for block, x in one.axes.items()}
    return Evidence(pd.concat([one.rows for one in evidence], ignore_index=True), evidence[0].published, axes)


def delta_of(mu: float, eps: float) -> float:
    """The delta of a Gaussian release, by its definition."""
    return float(norm.cdf(mu / 2 - eps / mu) - np.exp(eps) * norm.cdf(-mu / 2 - eps / mu))


def decide(name: str, found: Evidence | pd.DataFrame) -> str:
    evidence = Evidence(found, NO_POINTS) if isinstance(found, pd.DataFrame) else found
    return CLAIMS[name].judge(evidence).decision


def without(evidence: Evidence, **values: object) -> Evidence:
    gone = np.logical_and.reduce([evidence.rows[key] == value for key, value in values.items()])
    return Evidence(evidence.rows[~gone], evidence.published, evidence.axes)


def check_that_nothing_is_judged_without_what_it_needs(claims: Mapping[str, Claim], evidence: Evidence) -> None:
    """Every claim is decided; less a block, or an algorithm in one, it is decided alike, or it cannot be tested."""
    complete = {name: claim.judge(evidence).decision for name, claim in claims.items()}
    assert "cannot be tested here" not in complete.values(), complete
    needed = dict.fromkeys(claims, 0)
    blocks = [{"block": block} for block in evidence.rows["block"].unique()]
    pairs = evidence.rows[["block", "algo"]].drop_duplicates("algo").to_dict("records")
    for gone in (*blocks, *pairs):
        less = without(evidence, **gone)
        for name, claim in claims.items():
            verdict = claim.judge(less)
            assert verdict.decision in (complete[name], "cannot be tested here"), (name, gone)
            if verdict.decision == "cannot be tested here":
                needed[name] += 1
                assert gone["block"] in lacking(verdict)
    assert min(needed.values()) > 0, needed
