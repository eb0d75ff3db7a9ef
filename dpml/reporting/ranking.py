"""At every eps, rank algorithms with a proven guarantee; compare rules for hyper-parameters with tuning on test rows.

A curve (an algorithm with its settings) competes in a panel if it protects the same unit, and if the largest eps proven
in any view is at most the requested eps. With several parties, the curve needs a proven guarantee against colluders.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from dpml.reporting.charts import points_of, shown
from dpml.reporting.criteria import MetricScale, Pair, effect, holm, scale
from dpml.reporting.curves import Curve, curves, label, named, text
from dpml.reporting.statistics import LEVEL, per_seed, same_rows, summarise
from dpml.reporting.tables import Texts, short, texts, value
from dpml.reporting.words import REFERENCES, algorithm, metric
from dpml.running.plan import Results
from dpml.running.spec import Oracle, Panel

_TOLERANCE = 1 + 1e-6  # the relative error of the search for the noise that gives an eps
_SHOWN = 4  # the most algorithms that are listed as not significantly worse

Competing = Mapping[str, tuple[pd.DataFrame, int | None]]
"""By label, the rows of a curve and its number of secure sums per release; None if it needs a trusted server."""


def rankings(results: Results) -> list[dict[str, Any]]:
    """Return a ranking for every panel with eps on the x axis and with one of the experiment's `rank_by` metrics."""
    ranked = results.experiment.rank_by
    panels = [one for one in results.experiment.panels if one.x == "eps" and one.y.rpartition(".")[2] in ranked]
    found = [(panel, shown(results.rows, panel)) for panel in panels]
    return [_ranking(panel, runs, results) for panel, runs in found if len(runs)]


def _ranking(panel: Panel, runs: pd.DataFrame, results: Results) -> dict[str, Any]:
    own = curves(runs, panel.x, panel.curve)
    keys = named(own, panel.curve)
    guarantees = results.guarantees[results.guarantees["block"] == panel.block]
    unit = "party" if "party" in set(runs["unit"]) else "sample"
    competing = {}
    for curve in own:
        given = _given(guarantees, curve)
        trusted = curve.rows["M"].max() == 1 or "colluders" in set(given["view"])
        if curve.algo not in REFERENCES and set(curve.rows["unit"]) == {unit} and len(given) and trusted:
            sums = given["secure_sums"].max() if "secure_sums" in given else np.nan
            competing[label(curve, keys)] = curve.rows, None if pd.isna(sums) else int(sums)
    references = {curve.algo: curve.rows for curve in own if curve.algo in REFERENCES}
    name = panel.y.rpartition(".")[2]
    choices = [_choice(float(eps), name, competing, references) for eps in sorted(runs["eps"].unique())]
    points = points_of(results.published, panel)
    return {
        "title": panel.title,
        "metric": name,
        "unit": unit,
        "M": sorted(map(int, runs["M"].unique())),
        "delta": sorted(map(float, runs["delta"].dropna().unique())),
        "same_rows": bool(same_rows(runs).all()),
        "competing": {label: sums for label, (_, sums) in competing.items()},
        "choices": [choice | {"peers": peers(points, choice["eps"])} for choice in choices if choice],
    }


def _given(guarantees: pd.DataFrame, curve: Curve) -> pd.DataFrame:
    given = guarantees[(guarantees["algo"] == curve.algo) & (guarantees["basis"] == "proven")]
    for key, wanted in curve.settings.items():
        if key in given and key not in ("eps", "delta", "N", "d"):
            given = given[given[key].map(text) == text(wanted)]
    return given


def _choice(
    eps: float, metric: str, competing: Competing, references: Mapping[str, pd.DataFrame]
) -> dict[str, Any] | None:
    on = scale(metric)
    here = {name: rows[rows["eps"] == eps] for name, (rows, _) in competing.items()}
    at = {
        name: _indexed(rows)
        for name, rows in here.items()
        if len(rows) and rows["value"].notna().all() and rows["proven_eps"].max() <= eps * _TOLERANCE
    }
    if not at:
        return None
    means = {name: float(per_seed(runs).mean()) for name, runs in at.items()}
    order = sorted(means, key=lambda name: means[name], reverse=on.up)
    best = order[0]
    worse = holm({name: _p_better(at[best], at[name], on) for name in order[1:]})
    ends = {name: _indexed(rows[rows["eps"] == eps]) for name, rows in references.items()}
    floor, ceiling = (float(ends[name].mean()) if name in ends else np.nan for name in ("constant", "ceiling"))
    above = "constant" not in ends or _p_better(at[best], ends["constant"], on) <= LEVEL
    return {
        "eps": eps,
        "best": best,
        "means": means,
        "value": means[best],
        "interval": _plain(float(summarise(here[best])["interval"].iloc[0])),
        "sums": competing[best][1],
        "alike": [[name, means[name]] for name in order[1:] if not worse[name]],
        "floor": _plain(floor),
        "ceiling": _plain(ceiling),
        "above_floor": above,
    }


def _p_better(ours: pd.Series, theirs: pd.Series, on: MetricScale) -> float:
    return effect(Pair("", "ours", "theirs", "", ours, theirs, on)).p_above()


def _indexed(rows: pd.DataFrame) -> pd.Series:
    return rows.set_index(["seed", "draw"])["value"]


def peers(points: pd.DataFrame | None, eps: float) -> dict[str, float]:
    """Return the published results of other programs at one eps, by the names of the programs."""
    if points is None:
        return {}
    here = points[points["peer"] & np.isclose(points["x"].astype(float), eps)]
    return {str(algo): float(mean) for algo, mean in zip(here["algo"], here["mean"], strict=True)}


def _plain(number: float) -> float | None:
    return number if np.isfinite(number) else None


def premises(rankings: Sequence[Mapping[str, Any]]) -> str:
    """Return sentences that state the protected unit, the number of parties, and delta."""
    units = {"sample": "one record", "party": "all records of one party"}
    protected = ", ".join(dict.fromkeys(units[ranking["unit"]] for ranking in rankings))
    numbers = ({n for one in rankings for n in one[key]} for key in ("M", "delta"))
    parties, delta = (", ".join(f"{n:g}" for n in sorted(own)) for own in numbers)
    same = "; ".join(titled(one) for one in rankings if one.get("same_rows"))
    text = f"The guarantee is for the replacement of {protected}. M = {parties} (number of parties), δ = {delta}."
    return f"{text} All seeds have the same training and test rows in these tables: {same}." if same else text


def titled(ranking: Mapping[str, Any]) -> str:
    """Return the title of a ranking, which consists of its panel and its metric."""
    return f"{ranking['title']}: {metric(ranking['metric'])}"


def _by_eps(cells: Iterable[tuple[str, float, str]], head: str = "", title: str = "") -> Texts:
    """Arrange triples (name, eps, text) as a table of texts, with a table line per name and a column per eps."""
    table = pd.DataFrame(cells, columns=[head, "eps", "cell"])
    wide = table.pivot(index=head, columns="eps", values="cell").reindex(table[head].unique())
    return texts(wide.rename(columns="ε = {:g}".format).reset_index(), title)


def matrix(rankings: Sequence[Mapping[str, Any]]) -> Texts:
    """Return a table of the best algorithm of every panel at every eps."""
    return _by_eps((titled(one), choice["eps"], _named(choice)) for one in rankings for choice in one["choices"])


def _named(choice: Mapping[str, Any]) -> str:
    return choice["best"] if choice["above_floor"] else f"({choice['best']})"


def tally(rankings: Sequence[Mapping[str, Any]]) -> Texts:
    """Return a table that counts how often each algorithm is the best, or not significantly worse than the best."""
    choices = [choice for ranking in rankings for choice in ranking["choices"] if choice["above_floor"]]
    first = Counter(_algorithm(choice["best"]) for choice in choices)
    among = _among_the_best(choices)
    sums: dict[str, set[int | None]] = {}
    for curve, number in (pair for ranking in rankings for pair in ranking["competing"].items()):
        sums.setdefault(_algorithm(curve), set()).add(number)
    names = sorted(sums, key=lambda name: (-among[name], -first[name], name))
    columns = ["algorithm", f"best or not significantly worse, of {len(choices)}", "best", "secure sums"]
    lines = [(name, among[name], first[name], _range(sums[name])) for name in names]
    return texts(pd.DataFrame(lines, columns=columns))


def best_at(rankings: Sequence[Mapping[str, Any]], eps: float) -> str:
    """At one eps, name the algorithm that is best, or not significantly worse than the best, in the most panels."""
    choices = [choice for one in rankings for choice in one["choices"] if choice["eps"] == eps]
    counted = _among_the_best([choice for choice in choices if choice["above_floor"]])
    most = max(counted.values(), default=0)
    names = " or ".join(f"**{algorithm(name)}**" for name in counted if counted[name] == most)
    return f"{names} (on {most} of {len(choices)} panels)" if names else ""


def _among_the_best(choices: Iterable[Mapping[str, Any]]) -> Counter[str]:
    alike = [[choice["best"], *(other for other, _ in choice["alike"])] for choice in choices]
    return Counter(name for curves in alike for name in dict.fromkeys(map(_algorithm, curves)))


def beside(rankings: Sequence[Mapping[str, Any]], own: str) -> Texts:
    """Return a table: by external program and eps, on how many panels our algorithm `own` beats the program."""
    wins: dict[tuple[str, float], list[bool]] = {}
    for up, choice in ((scale(ranking["metric"]).up, choice) for ranking in rankings for choice in ranking["choices"]):
        for peer, mean in choice["peers"].items() if own in choice["means"] else ():
            better = choice["means"][own] > mean if up else choice["means"][own] < mean
            wins.setdefault((peer, choice["eps"]), []).append(better)
    cells = ((peer, eps, f"{sum(won)} of {len(won)}") for (peer, eps), won in wins.items())
    return _by_eps(
        cells,
        "program",
        f"Number of panels on which the mean of {algorithm(own)} is better than the mean of the other program",
    )


def details(ranking: Mapping[str, Any]) -> Texts:
    """Return a panel's table: the best algorithm at every eps, algorithms not significantly worse, and baselines."""
    lines = []
    for choice in ranking["choices"]:
        alike = [f"{name} {short(mean)}" for name, mean in choice["alike"]]
        more = [f"{len(alike) - _SHOWN} more"] if len(alike) > _SHOWN else []
        line = {
            "ε": f"{choice['eps']:g}",
            "best": _named(choice),
            metric(ranking["metric"]): value(choice | {"mean": choice["value"]}),
            "secure sums": _range([choice["sums"]]),
            "not significantly worse": ", ".join([*alike[:_SHOWN], *more]),
            "constant": "" if choice["floor"] is None else short(choice["floor"]),
            "no privacy": short(choice["ceiling"]) if choice.get("ceiling") else "",
        }
        lines.append(line | {algo: short(mean) for algo, mean in choice["peers"].items()})
    return texts(pd.DataFrame(lines), titled(ranking))


def _algorithm(curve: str) -> str:
    return curve.split()[0].rstrip(",")


def _range(sums: Collection[int | None]) -> str:
    known = sorted(number for number in sums if number is not None)
    ends = [" to ".join(map(str, dict.fromkeys((known[0], known[-1]))))] if known else []
    return " or ".join([*ends, *(["-"] if None in sums else [])])


def oracle_table(oracle: Oracle, summary: pd.DataFrame) -> pd.DataFrame:
    """Return a table that compares a rule for hyper-parameters with an oracle, which tunes on the test rows."""
    rows = summary[summary["metric"] == oracle.metric.rpartition(".")[2]]
    rule, grid = (rows[rows["block"] == block] for block in (oracle.rule, oracle.grid))
    own = [curve for curve in curves(rule, "eps") if curve.algo in set(grid["algo"])]
    keys = named(own)
    lines = []
    for curve, by_rule in [(one, line) for one in own for line in one.rows.sort_values("eps").to_dict("records")]:
        tried = grid[grid["algo"] == curve.algo]
        varied = [key for key in map(str, tried) if key.startswith("algo.") and tried[key].nunique(dropna=False) > 1]
        here = pd.concat([curve.rows, tried]).reset_index(drop=True)
        here = here[here["eps"] == by_rule["eps"]]
        best = here.loc[here["mean"].idxmax() if scale(oracle.metric).up else here["mean"].idxmin()]
        chosen = " ".join(f"{key}={text(best[key])}" for key in varied if text(best[key]))
        line = {
            "algorithm": label(curve, keys),
            "ε": f"{by_rule['eps']:g}",
            "by rule": value(by_rule),
            "by an oracle (not private)": short(best["mean"]),
            "worth": short(abs(best["mean"] - by_rule["mean"])),
            "the oracle's choice": chosen if best["block"] == oracle.grid else "the rule",
            "of": len(here),
        }
        lines.append(line)
    return pd.DataFrame(lines)
