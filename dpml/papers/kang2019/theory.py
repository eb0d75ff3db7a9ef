"""Kang, Liu & Wang 2019: the claims about Theorems 2 and 3, Remark 1, and the factors of Table 1."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from dpml.reporting.claim_tests import failing
from dpml.reporting.claims import Check, Claim, Evidence, NotComputedError, Reading, Test, every
from dpml.reporting.criteria import Comparison, scale, similar

EXACT = 0.01  # relative


def below_bound(blocks: Sequence[str]) -> Test:
    """In every block, for both variants, every lam and every eps the mean excess risk is at most that of the bound."""

    def test(evidence: Evidence, reading: Reading) -> Check:
        rows, ratios, seeds, missing = evidence.rows, [], [], []
        shown: dict[Any, Comparison] = {}
        for block in blocks:
            own = rows[rows["block"] == block]
            for variant, lam in own[["variant", "algo.lam"]].drop_duplicates().itertuples(index=False):
                part = replace(evidence, rows=own[own["algo.lam"] == lam])
                name = f"{block}, {variant}, lam = {lam:g}"
                risk, bound = (
                    part.runs(block, "wddp", Reading("", variant, m)) for m in ("excess_risk", reading.metric)
                )
                if risk.empty or bound.empty:
                    missing.append(name)
                    continue
                on = scale("excess_risk")
                shown |= {(name, x): similar(risk[x], bound[x], on, 0.0, better_too=True) for x in risk}
                ratios += [float(bound[x].mean() / risk[x].mean()) for x in risk]
                seeds.append(risk.index.get_level_values("seed").nunique())
            if not len(own):
                missing.append(block)
        if missing or not shown:
            raise NotComputedError(missing)
        below = sum(one.holds is True for one in shown.values())
        text = f"below at {below} of {len(shown)}; the bound is {min(ratios):.3g}"
        text += f" to {max(ratios):.3g} times the excess risk{failing('above', shown)}"
        return replace(Check.of(text, shown), seeds=min(seeds))

    return test


def factor(metric: str, least: bool = False) -> Test:
    """In every setting the ratio of two bounds is the factor that the text states; with `least` it is at least that."""

    def test(evidence: Evidence, reading: Reading) -> Check:
        rows = evidence.rows
        if "reading" not in rows or not (rows["metric"] == metric).any():
            raise NotComputedError([metric])
        rows = rows[rows["metric"] == metric]
        found = {(reads, name): value for reads, name, value in rows[["reading", "setting", "value"]].to_numpy()}
        pairs = {
            name: (value, found["stated", name]) for (reads, name), value in found.items() if reads == reading.name
        }
        if not pairs:
            raise NotComputedError([f"{metric} [{reading.name}]"])
        holds = [ours >= s * (1 - EXACT) and (least or ours <= s * (1 + EXACT)) for ours, s in pairs.values()]
        return Check(every(holds), ", ".join(f"{name}: {v:.3g}, stated {s:.3g}" for name, (v, s) in pairs.items()))

    return test


_TABLE1, _THEOREMS = "kang2019/table1", "kang2019/theorems"
_PRINTED, _WITHOUT = (Reading(name, "paper", "") for name in ("as printed", "without the regulariser"))
_BELOW = "at every eps and lam the mean excess risk is significantly below the bound, with the noise that there is"

CLAIMS = (
    Claim(
        "K5.2",
        _THEOREMS,
        "Theorem 2: the expected excess risk is at most that of inequality (11), for a convex loss.",
        _BELOW,
        below_bound(("adult_logistic", "breast_logistic")),
        (Reading("measured", "", "theorem2_bound"),),
    ),
    Claim(
        "K5.3",
        _THEOREMS,
        "Theorem 3: so it is for a loss that is not convex and meets the Polyak-Lojasiewicz condition.",
        f"{_BELOW}, and the largest constant that the models on the way allow",
        below_bound(("adult_sigmoid", "breast_sigmoid")),
        (Reading("measured", "", "theorem3_bound"),),
    ),
    Claim(
        "K5.R",
        _TABLE1,
        "Remark 1: inequality (11) is tighter than that of Wang et al., by a factor of log(n).",
        "the noise's term of (12) over that of (11) is at least log(n), less 1 %: with the T of the proof, at which "
        "the start's term is 1/n^2, and with that of the figures",
        factor("remark1", least=True),
        tuple(Reading(name, "paper", "") for name in ("T of the proof", "T of the figures")),
    ),
    Claim(
        "K5.T",
        _TABLE1,
        "Table 1: the noise bound is better than Jayaraman et al.'s by a factor of (m n_1)^2/n^2.",
        "the ratio of the two orders, as printed, is that factor to 1 %",
        factor("noise_ratio"),
        (_PRINTED,),
    ),
    Claim(
        "K5.E",
        _TABLE1,
        "Table 1: the bound on the excess risk is better than theirs by a factor of (m n_1)^2 log(n)/(log(m n_1) n)^2.",
        "the ratio of the two orders is that factor to 1 %: as printed, and without the regulariser and L, as the text "
        "has it",
        factor("risk_ratio"),
        (_PRINTED, _WITHOUT),
    ),
)
