"""Write the certificate of a release, from which `verify.py` computes the eps of the release without dpml.

If `verify.py` cannot derive a guarantee, the certificate has the proven mu or eps as a message marked `stated`.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from dpml.algorithms import Algorithm
from dpml.mechanism import discrete
from dpml.mechanism.guarantees import author
from dpml.mechanism.message import Sum, eps_of
from dpml.mechanism.objectives import Perturbed, PerturbedObjective
from dpml.mechanism.program import Program
from dpml.mechanism.sharing import CapeNoise, IndependentNoise, SecureSumNoise, Sharing, TrustedCurator
from dpml.privacy import Budget, Guarantee, Problem, worst
from dpml.privacy.safe import round_up
from dpml.release.verify import CERTIFICATE

Message = dict[str, Any]


def certificate(
    algorithm: Algorithm, budget: Budget, problem: Problem, guarantees: Sequence[Guarantee], away: int = 0
) -> dict[str, Any]:
    """Return the certificate of a release, with the proven or declared guarantee against every observer (view).

    `away` parties, and their noise, may be missing from a sum; the colluders of `problem` include these parties.
    """
    noise, messages = described(algorithm, budget, problem, guarantees)
    who = author(algorithm)
    if away:
        guarantees = same_for_all(guarantees)
    if noise["by"] != "curator":
        noise |= {"parties": problem.M, "colluders": problem.colluders - away, "away": away}
    return {
        "format": CERTIFICATE,
        **({"declared": who} if who else {}),
        "unit": guarantees[0].unit,
        "neighbours": "replace one",
        "delta": guarantees[0].delta,
        "noise": noise,
        "messages": messages,
        "views": {g.view: {"eps": g.eps} | ({} if messages else {"messages": stated(g)}) for g in guarantees},
    }


def same_for_all(guarantees: Sequence[Guarantee]) -> list[Guarantee]:
    """Give every observer the weakest guarantee; the stronger guarantees assume that no party's noise is missing."""
    most = worst(guarantees)
    return [replace(g, eps=most.eps, mu=most.mu, source=most.source, curve=most.curve) for g in guarantees]


def described(
    algorithm: Algorithm, budget: Budget, problem: Problem, guarantees: Sequence[Guarantee]
) -> tuple[dict[str, Any], list[Message]]:
    """Describe a release's noise and messages; return no messages if `verify.py` cannot derive the guarantees.

    Only known classes of messages and noise are described, but not derived classes, which may weaken a guarantee.
    """
    nothing = {"by": "curator"}, list[Message]()
    if not isinstance(algorithm, Program):
        return nothing
    said = {g.view: g.eps for g in guarantees}
    sharing, sent = algorithm.sharing(problem), algorithm.messages(budget, problem)
    noise, plain = _drawn_by(sharing), type(algorithm).proven in (Program.proven, Perturbed.proven)
    if not plain and algorithm.pure(budget, problem):  # the algorithm has its own proof
        worst = max(said.values())
        return nothing[0], [{"law": "laplace", "times": 1, "sensitivity": worst, "scale": 1, "stated": True}]
    if noise is None or not plain or said != {v: p.eps for v, p in algorithm.proven(budget, problem).items()}:
        return nothing
    used = [message for message in sent if getattr(message, "joined", None) != 0]  # the others cost no privacy
    parts = [_described(message, problem, sharing, algorithm) for message in used]
    return nothing if None in parts else (noise, parts)  # type: ignore[return-value]


def stated(guarantee: Guarantee) -> list[Message]:
    """Return a list with one noisy message whose mu or privacy curve is that of `guarantee`, or [] if there is none."""
    if guarantee.mu is not None:
        return [{"law": "gaussian", "times": 1, "sensitivity": guarantee.mu, "deviation": 1, "stated": True}]
    if guarantee.curve is not None and guarantee.curve[2] == 0:
        deviation, ridge, _ = guarantee.curve
        return [{"law": "gaussian objective", "times": 1, "deviation": deviation, "ridge": ridge, "stated": True}]
    return []


def _drawn_by(sharing: Sharing) -> dict[str, Any] | None:
    if type(sharing) is CapeNoise:
        return {"by": "cape", "spread": sharing.spread}
    known = {TrustedCurator: "curator", IndependentNoise: "open", SecureSumNoise: "parties"}
    return {"by": known[type(sharing)]} if type(sharing) in known else None


def _described(message: Any, problem: Problem, sharing: Sharing, algorithm: Program) -> Message | None:
    if type(message) is PerturbedObjective:
        return _objective(message)
    if type(message) is not Sum or message.law == "radial":  # radial noise has no eps in more than one dimension
        return None
    times = message.times if message.joined is None else message.joined
    common = {"times": times, "sensitivity": message.sensitivity}
    if message.law != "gaussian":
        eps = eps_of((replace(message, times=1),), problem, algorithm.noise == "discrete")
        if len(message.units) > 1:  # a certificate cannot state a joint sensitivity of several blocks
            law = "discrete laplace" if algorithm.noise == "discrete" else "laplace"
            return {"law": law, "times": times, "sensitivity": eps, "scale": 1, "stated": True}
        sensitivity = eps * (1 - 2.0**-46) * message.noise  # so that the verifier's eps is at most the proven one
        law = "l2 laplace" if message.law == "l2_laplace" else "laplace"
        return {"law": law, "times": times, "sensitivity": sensitivity, "scale": message.noise}
    if algorithm.noise != "discrete":
        sensitivity = round_up(message.sensitivity * (1 + algorithm.imprecision(problem, message.of)))
        return {"law": "gaussian", **common, "sensitivity": sensitivity, "deviation": message.noise}
    of, drawing = message.of, problem if sharing.secure else replace(problem, M=1, sizes=(), colluders=0)
    grid = discrete.grid(message, drawing)
    rounding = of.rounding(message.block_widths(), grid.resolution, drawing)
    blocks = [
        {"numbers": size, "variance": str(variance), "step": abs(step) / (unit * deviation)}
        for size, variance, step, unit, deviation in zip(
            of.lengths(problem.d), grid.variances, grid.steps, message.units, of.deviations(problem.d), strict=True
        )
        if size
    ]
    return {"law": "discrete gaussian", **common, "rounding": rounding, "blocks": blocks}


def _objective(message: PerturbedObjective) -> Message:
    common: Message = {"times": 1, "deviation": message.scale, "ridge": message.ridge}
    if message.law == "gaussian":
        return {"law": "gaussian objective", **common}
    logistic = {"slope": 1, "curvature": 0.25}
    loss = logistic if message.slope is None else {"slope": message.slope, "curvature": message.curvature}
    return {"law": "laplace objective", **common, **loss}
