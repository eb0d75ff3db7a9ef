"""Rankings: at every eps the best algorithm with a proven guarantee, those not distinguished from it, and an oracle.

A curve competes in a panel if it protects the same unit, if the eps proven for its worst view is no larger than the
requested eps, and, with several parties, if no single place is trusted with all rows: one of its guarantees must hold
against colluders. The best algorithm has the best mean. It is not distinguished from the algorithms that are not
significantly worse, by one-sided t-tests paired over seeds, Holm-corrected over all competing curves.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from dpml.reporting.charts import points_of, shown
from dpml.reporting.criteria import better, scale
from dpml.reporting.curves import Curve, assignment, curves, label, named, text
from dpml.reporting.replicates import same_rows
from dpml.reporting.statistics import per_seed, summarise
from dpml.reporting.tables import Texts, short, texts, value
from dpml.reporting.words import REFERENCES, metric
from dpml.running.plan import Results
from dpml.running.spec import Oracle, Panel

_TOLERANCE = 1 + 1e-6  # of the search for the noise that gives an eps
_SHOWN = 4  # algorithms listed as not distinguished


@dataclass(frozen=True)
class _Candidate:
    """A competing curve; `sums` is the number of secure sums of a release, None for one trusted place."""

    label: str
    curve: Curve
    sums: int | None

    def runs(self, eps: float) -> pd.Series | None:
        """Its values at an eps by seed and draw; None if it has none, or if no such eps is proven."""
        rows = self.curve.rows[self.curve.rows["eps"] == eps]
        if not len(rows) or rows["value"].isna().any() or not rows["proven_eps"].max() <= eps * _TOLERANCE:
            return None
        return _indexed(rows)


def rankings(results: Results) -> list[dict[str, Any]]:
    """The ranking of every panel that shows a metric of the experiment's `rank_by` against eps, as plain values."""
    experiment = results.experiment
    found = []
    for panel in experiment.panels:
        if panel.x == "eps" and panel.y.rpartition(".")[2] in experiment.rank_by:
            runs = shown(results.rows, panel)
            if len(runs):
                found.append(_ranking(panel, runs, results))
    return found


def _ranking(panel: Panel, runs: pd.DataFrame, results: Results) -> dict[str, Any]:
    own = curves(runs, panel.x, panel.curve)
    keys = named(own, panel.curve)
    references = {curve.algo: curve for curve in own if curve.algo in REFERENCES}
    guarantees = results.guarantees[results.guarantees["block"] == panel.block]
    unit = "party" if "party" in set(runs["unit"]) else "sample"
    competing = [
        _Candidate(label(curve, keys), curve, _sums(given))
        for curve in own
        if curve.algo not in REFERENCES
        and set(curve.rows["unit"]) == {unit}
        and len(given := _given(guarantees, curve))
        and (curve.rows["M"].max() == 1 or "colluders" in set(given["view"]))
    ]
    points = points_of(results.published, panel)
    choices = [
        choice | {"peers": peers(points, eps)}
        for eps in sorted(runs["eps"].unique())
        if (choice := _choice(float(eps), panel.y.rpartition(".")[2], competing, references))
    ]
    return {
        "title": panel.title,
        "metric": panel.y.rpartition(".")[2],
        "unit": unit,
        "M": sorted(map(int, runs["M"].unique())),
        "delta": sorted(map(float, runs["delta"].dropna().unique())),
        "same_rows": bool(same_rows(runs).all()),
        "competing": {one.label: one.sums for one in competing},
        "choices": choices,
    }


def _given(guarantees: pd.DataFrame, curve: Curve) -> pd.DataFrame:
    """The proven guarantees of a curve, a line per view and budget."""
    given = guarantees[(guarantees["algo"] == curve.algo) & (guarantees["basis"] == "proven")]
    for key, wanted in curve.settings.items():
        if key in given and key not in ("eps", "delta", "N", "d"):
            given = given[given[key].map(text) == text(wanted)]
    return given


def _sums(given: pd.DataFrame) -> int | None:
    known = given["secure_sums"].dropna() if "secure_sums" in given else given["eps"].iloc[:0]
    return int(known.max()) if len(known) else None


def _choice(
    eps: float, metric: str, competing: Sequence[_Candidate], references: Mapping[str, Curve]
) -> dict[str, Any] | None:
    """The best algorithm at one eps; None if nothing competes."""
    up = scale(metric).up
    at = {one.label: runs for one in competing if (runs := one.runs(eps)) is not None}
    if not at:
        return None
    sums = {one.label: one.sums for one in competing}
    means = {name: float(per_seed(runs).mean()) for name, runs in at.items()}
    order = sorted(means, key=lambda name: -means[name] if up else means[name])
    best = order[0]
    comparisons = better({name: (at[best], at[name]) for name in order[1:]}, dict.fromkeys(order, scale(metric)))
    row = next(one.curve.rows for one in competing if one.label == best)
    single = next((name for name in order if sums[name] == 1), None)
    floor = _reference_mean(references, "constant", eps)
    return {
        "eps": eps,
        "best": best,
        "means": means,
        "value": means[best],
        "interval": _plain(float(summarise(row[row["eps"] == eps])["interval"].iloc[0])),
        "sums": sums[best],
        "alike": [[name, means[name]] for name in order[1:] if not comparisons[name].significant],
        "single": [single, means[single]] if single else None,
        "floor": _plain(floor),
        "ceiling": _plain(_reference_mean(references, "ceiling", eps)),
        "above_floor": _above_floor(at[best], references, eps, metric),
    }


def _above_floor(best: pd.Series, references: Mapping[str, Curve], eps: float, metric: str) -> bool:
    """Whether the best is significantly better than the algorithm without features; True if that was not run."""
    if "constant" not in references:
        return True
    rows = references["constant"].rows
    floor = _indexed(rows[rows["eps"] == eps])
    return better({"floor": (best, floor)}, {"floor": scale(metric)})["floor"].significant


def _indexed(rows: pd.DataFrame) -> pd.Series:
    return rows.set_index(["seed", "draw"])["value"]


def _reference_mean(references: Mapping[str, Curve], algo: str, eps: float) -> float:
    if algo not in references:
        return float("nan")
    rows = references[algo].rows
    return float(rows.loc[rows["eps"] == eps, "value"].mean())


def peers(points: pd.DataFrame | None, eps: float) -> dict[str, float]:
    """The results of other programs at this eps."""
    if points is None:
        return {}
    here = points[points["peer"] & np.isclose(points["x"].astype(float), eps)]
    return {str(algo): float(mean) for algo, mean in zip(here["algo"], here["mean"], strict=True)}


def _plain(number: float) -> float | None:
    """A number for JSON."""
    return number if np.isfinite(number) else None


# ---- its tables

READING = (
    "We compute these tables from the rows of the experiments named below. An algorithm competes if the ε that is "
    "proven for its worst view is at most the ε asked for; with several parties this includes the view of colluding "
    "parties. Every algorithm has one rule for its hyper-parameters, which reads no private row. *best* is the best "
    "mean over seeds, ± half its 95 % interval. Algorithms that are *not significantly worse* than it are listed "
    "beside it: one-sided t-tests in pairs over seeds, at 5 %, Holm-corrected over all that compete. We correct "
    "neither for choosing the best on the same seeds nor for the number of tables. Where seeds only split one table "
    "anew, the result holds for this table. *secure sums* is the number of vectors that the parties of a release have "
    "to sum; `-` means that the algorithm needs one trusted place, or other messages. A best in (parentheses) is not "
    "significantly better than the constant baseline. How all this was made: docs/frontier.md."
)
"""How to read the tables of a ranking."""


def premises(rankings: Sequence[Mapping[str, Any]]) -> str:
    """The protected unit, the number of parties and delta, in a sentence."""
    units = {"sample": "one record", "party": "all records of one party"}
    protected = ", ".join(dict.fromkeys(units[ranking["unit"]] for ranking in rankings))
    parties = ", ".join(str(M) for M in sorted({M for ranking in rankings for M in ranking["M"]}))
    delta = ", ".join(f"{delta:g}" for delta in sorted({delta for ranking in rankings for delta in ranking["delta"]}))
    text = f"Protected: {protected} (replace one). M = {parties}, δ = {delta}."
    same = [titled(one) for one in rankings if one.get("same_rows")]
    return f"{text} Every seed has the same training and test rows in {', '.join(same)}." if same else text


def titled(ranking: Mapping[str, Any]) -> str:
    """A panel and its metric."""
    return f"{ranking['title']}: {metric(ranking['metric'])}"


def matrix(rankings: Sequence[Mapping[str, Any]]) -> Texts:
    """The best algorithm of every panel at every eps."""
    places = sorted({choice["eps"] for ranking in rankings for choice in ranking["choices"]})
    lines = []
    for ranking in rankings:
        best = {choice["eps"]: _named(choice) for choice in ranking["choices"]}
        lines.append({"": titled(ranking)} | {f"ε = {eps:g}": best.get(eps, "") for eps in places})
    return texts(pd.DataFrame(lines), "Best at each ε")


def _named(choice: Mapping[str, Any]) -> str:
    return choice["best"] if choice["above_floor"] else f"({choice['best']})"


def tally(rankings: Sequence[Mapping[str, Any]]) -> Texts:
    """How often every algorithm is best or not distinguished from the best, where the best is above the floor.

    Curves of one algorithm count as one: its hyper-parameters can differ between panels. So can its secure sums.
    """
    choices = [choice for ranking in rankings for choice in ranking["choices"] if choice["above_floor"]]
    first = Counter(_algorithm(choice["best"]) for choice in choices)
    among = Counter(name for choice in choices for name in _alike(choice))
    sums: dict[str, set[int | None]] = {}
    for ranking in rankings:
        for curve, number in ranking["competing"].items():
            sums.setdefault(_algorithm(curve), set()).add(number)
    head = f"best or not significantly worse, of {len(choices)}"
    lines = [
        {"algorithm": name, head: among[name], "best": first[name], "secure sums": _range(sums[name])}
        for name in sorted(sums, key=lambda name: (-among[name], -first[name], name))
    ]
    return texts(pd.DataFrame(lines), "How often each algorithm is best")


def beside(rankings: Sequence[Mapping[str, Any]], own: str) -> Texts:
    """On how many panels the mean of the algorithm `own` is better than that of every program of others, by eps."""
    counts: dict[str, dict[float, list[bool]]] = {}
    for ranking in rankings:
        up = scale(ranking["metric"]).up
        for choice in ranking["choices"]:
            for peer, mean in choice["peers"].items() if own in choice["means"] else ():
                above = (choice["means"][own] > mean) == up and choice["means"][own] != mean
                counts.setdefault(peer, {}).setdefault(choice["eps"], []).append(above)
    places = sorted({eps for found in counts.values() for eps in found})
    lines = [
        {"program": peer}
        | {f"ε = {eps:g}": f"{sum(found[eps])} of {len(found[eps])}" if eps in found else "" for eps in places}
        for peer, found in counts.items()
    ]
    return texts(pd.DataFrame(lines), f"Panels on which the mean of {own} is better")


def details(ranking: Mapping[str, Any]) -> Texts:
    """The best algorithm of a panel at every eps, those not distinguished from it, and the values to compare with."""
    lines = []
    for choice in ranking["choices"]:
        single = choice["single"]
        alike = [f"{name} {short(mean)}" for name, mean in choice["alike"]]
        more = [f"{len(alike) - _SHOWN} more"] if len(alike) > _SHOWN else []
        lines.append(
            {
                "ε": f"{choice['eps']:g}",
                "best": _named(choice),
                metric(ranking["metric"]): value(choice | {"mean": choice["value"]}),
                "secure sums": _range([choice["sums"]]),
                "not significantly worse": ", ".join([*alike[:_SHOWN], *more]),
                "best of one secure sum": f"{single[0]} {short(single[1])}" if single else "",
                "constant baseline": "" if choice["floor"] is None else short(choice["floor"]),
                "no privacy": short(choice["ceiling"]) if choice.get("ceiling") else "",
            }
            | {algo: short(mean) for algo, mean in choice["peers"].items()}
        )
    return texts(pd.DataFrame(lines), titled(ranking))


def _algorithm(curve: str) -> str:
    """The algorithm of a curve, whose label begins with it."""
    return curve.split()[0].rstrip(",")


def _alike(choice: Mapping[str, Any]) -> set[str]:
    """The best algorithm and those that are not significantly worse."""
    return {_algorithm(curve) for curve in (choice["best"], *(other for other, _ in choice["alike"]))}


def _range(sums: Collection[int | None]) -> str:
    """Numbers of secure sums: "-" for none, "100 to 300" if they differ."""
    known = sorted(number for number in sums if number is not None)
    ends = " to ".join(map(str, dict.fromkeys((known[0], known[-1])))) if known else ""
    return " or ".join([*filter(None, [ends]), *(["-"] if None in sums else [])])


# ---- an oracle


def oracle_table(oracle: Oracle, summary: pd.DataFrame) -> pd.DataFrame:
    """A rule's result beside the best of a grid, which is chosen on the test rows that score it: not private.

    There is a line for every eps and every algorithm of the oracle's block `rule` that is also in its block `grid`.
    """
    rows = summary[summary["metric"] == oracle.metric.rpartition(".")[2]]
    rule, grid = (rows[rows["block"] == block] for block in (oracle.rule, oracle.grid))
    up = scale(oracle.metric).up
    own = [curve for curve in curves(rule, "eps") if curve.algo in set(grid["algo"])]
    keys = named(own)
    lines = []
    for curve in own:
        tried = grid[grid["algo"] == curve.algo]
        varied = [key for key in map(str, tried) if key.startswith("algo.") and tried[key].nunique(dropna=False) > 1]
        for by_rule in curve.rows.sort_values("eps").to_dict("records"):
            here = pd.concat([curve.rows, tried]).reset_index(drop=True)
            here = here[here["eps"] == by_rule["eps"]]
            best = here.loc[here["mean"].idxmax() if up else here["mean"].idxmin()]
            chosen = " ".join(assignment(key, best[key]) for key in varied if text(best[key]))
            lines.append(
                {
                    "algorithm": label(curve, keys),
                    "ε": f"{by_rule['eps']:g}",
                    "by rule": value(by_rule),
                    "by an oracle (not private)": short(best["mean"]),
                    "worth": short(abs(best["mean"] - by_rule["mean"])),
                    "the oracle's choice": chosen if best["block"] == oracle.grid else "the rule",
                    "of": len(here),
                }
            )
    return pd.DataFrame(lines)
