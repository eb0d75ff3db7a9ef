"""Wei et al. 2020 (NbAFL): the claims.

The paper's own text could be read up to its abstract. Its definitions, theorems and settings were read as others print
them, which agree: docs/privacy/wei2020.md says where. `nbafl` is its algorithm.
"""

from dpml.papers.wei2020 import theorems
from dpml.reporting.claim_tests import improves, on_runs
from dpml.reporting.claims import Check, Claim, Reading, Runs
from dpml.reporting.criteria import better, scale

FIGURES = (6.0, 8.0, 10.0, 50.0, 60.0, 100.0)
GRIDS = {"eps below 1": (0.1, 0.2, 0.5, 0.9), "the eps of the figures": FIGURES}
LOSS = (Reading("mean loss of the clients", "paper", "loss"),)
_THEOREMS, _ATTACK, _EPS, _CLIENTS, _ROUNDS, _CHOSEN = (
    f"wei2020/{name}" for name in ("theorems", "attack", "eps", "clients", "rounds", "chosen")
)


def _readings(*names: str) -> tuple[Reading, ...]:
    return tuple(Reading(name, "paper", "") for name in names)


def peaks(runs: Runs, reading: Reading) -> Check:
    """On every curve the x inside with the least mean is better than both ends, or where there is only one, than the last."""
    pairs, texts = {}, []
    for (block, _), values in runs.items():
        first, *inner, last = values.columns
        best = min(inner, key=lambda x: values[x].mean())
        pairs |= {(block, end): (values[best], values[end]) for end in (first, last)}
        texts.append(f"{block}: {' '.join(f'{values[x].mean():.4g}' for x in values)}, least inside at {best:g}")
    return Check.of("; ".join(texts), better(pairs, scale(reading.metric), same_noise=True))


def fewer(runs: Runs, reading: Reading) -> Check:
    """On every curve some x before the last is better than the last."""
    pairs, texts = {}, []
    for (block, _), values in runs.items():
        best = min(values.columns[:-1], key=lambda x: values[x].mean())
        pairs[block] = values[best], values[values.columns[-1]]
        texts.append(f"{block}: {' '.join(f'{values[x].mean():.4g}' for x in values)}, least at {best:g}")
    return Check.of("; ".join(texts), better(pairs, scale(reading.metric)))


def _blocks(name: str) -> dict[str, tuple[str, ...]]:
    return {f"{name}_{eps}": ("nbafl",) for eps in (50, 60, 100)}


_KEPT = "the exact delta is at most the claimed one, for every eps and L tried, if a row moves an upload by 2C/m"
CLAIMS = (
    Claim(
        "WE.1", _THEOREMS, "The sensitivity of a local model, clipped to C, of a client of m rows is 2C/m.",
        "the largest exact move is at most 2C/m", theorems.moved,
        _readings("minimiser", "proximal", "mean of one-row minimisers"),
    ),
    Claim(
        "WE.2", _THEOREMS, "With noise of c L 2C/(m eps) in an upload, L exposed uploads of a client are (eps, delta)-private.",
        _KEPT, theorems.kept("uplink", GRIDS), _readings(*GRIDS),
    ),
    Claim(
        "WE.3", _THEOREMS, "The noise in the uploads protects a client from the server.",
        f"the server has the uploads of all 25 rounds: {_KEPT}", theorems.kept("server", GRIDS), _readings(*GRIDS),
    ),
    Claim(
        "WE.4", _THEOREMS, "Theorem 1: with the server's noise the broadcasts of T rounds are (eps, delta)-private.",
        _KEPT, theorems.kept("downlink", GRIDS), _readings(*GRIDS),
    ),
    Claim(
        "WE.5", _THEOREMS, "So they are for a client, which has them and its own noise.", _KEPT,
        theorems.kept("downlink, to a client", GRIDS), _readings(*GRIDS),
    ),
    Claim(
        "WE.6", _THEOREMS, "With K random clients in a round, the broadcasts with the noise for K are (eps, delta)-private.",
        f"it shows who took part: {_KEPT}", theorems.kept("scheduled", GRIDS), _readings(*GRIDS),
    ),
    Claim(
        "WE.7", _ATTACK, "NbAFL satisfies differential privacy under distinct protection levels by adapting its noise.",
        "an attack on one upload reaches no eps above the claimed one, with 95 % confidence", theorems.reached,
        _readings("as stated"),
    ),
    Claim(
        "WE.8", _THEOREMS, "Theorem 2: the expected gap after T rounds is at most P^T Theta + (k1 T/eps + k0 T^2/eps^2)(1 - P^T).",
        "the exact expectation for a quadratic loss is at most the bound, at every eps and T of the figures",
        theorems.bounded, _readings("one parameter", "the parameters of the MLP"),
    ),
    Claim(
        "WE.9", _THEOREMS, "The bound has an optimal number of rounds for a given protection level.",
        "at every eps it is least strictly between 1 and 30 rounds", theorems.interior, _readings("as stated"),
    ),
    Claim(
        "WE.10", _EPS, "A better convergence performance leads to a lower protection level (eps = 50, 60, 100).",
        "the loss falls from the smallest to the largest eps, and rises at no step", improves(["large_eps"], ["nbafl"]), LOSS,
    ),
    Claim(
        "WE.11", _EPS, "The same at eps = 6, 8, 10 with 512 rows in every client.", "as WE.10",
        improves(["small_eps"], ["nbafl"]), LOSS,
    ),
    Claim(
        "WE.12", _EPS, "The same with K = 20 random clients in a round.", "as WE.10", improves(["chosen_eps"], ["nbafl"]), LOSS,
    ),
    Claim(
        "WE.13", _CLIENTS, "At a fixed privacy level more clients improve the convergence (N = 50, 60, 80, 100; eps = 60).",
        "the loss falls from 50 to 100 clients, and rises at no step", improves(["clients_M"], ["nbafl"]), LOSS,
    ),
    Claim(
        "WE.14", _ROUNDS, "There is an optimal number of aggregations for a given protection level (eps = 50, 60, 100).",
        "at every eps some T between 5 and 30 has a lower loss than both", on_runs(lambda _: _blocks("rounds"), peaks), LOSS,
    ),
    Claim(
        "WE.15", _CHOSEN, "There is an optimal K < N at a fixed privacy level (N = 50; eps = 50, 60, 100).",
        "at every eps some K below 50 has a lower loss than K = 50", on_runs(lambda _: _blocks("chosen"), fewer), LOSS,
    ),
)  # fmt: skip
