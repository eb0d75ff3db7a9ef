"""Check a training recipe's claimed eps by proofs and attacks (docs/privacy.md, "Views of a training recipe")."""

import json
import math
from dataclasses import dataclass, replace
from typing import Any

from dpml.errors import UserError
from dpml.files import seal_object
from dpml.privacy import View, gdp
from dpml.privacy.safe import written
from dpml.privacy.sampled import SampledGaussian, Sampling
from dpml.recipes.recipe import RowWay, TrainingRecipe
from dpml.release.verify import CERTIFICATE

_LEAST = 1e-8  # the least noise per clip for which privacy losses do not overflow
SEES = {
    "release": "whoever sees the final model",
    "aggregate": "whoever sees every round's model",
    "client": "whoever sees one client's messages",
    "transcript": "the server",
    "colluders": "the server and {C} clients",
}
_NEIGHBOURS = {"replace": "replace one", "add_remove": "add or remove one", "zero_out": "zero out one"}


@dataclass(frozen=True)
class Judged:
    """The eps of a training recipe against one observer (`view`): claimed, proven, and reached by an attack.

    Attributes:
        delta: the delta of every eps.
        claimed: the claimed eps; None: nothing is claimed.
        proven: the eps that is proven if the training follows the recipe; inf: nothing is proven.
        attacked: an eps that an attack reaches; None: no attack is computed.
        source: the proof, or the reason why nothing is proven.
        pair: the parameters of the noisy sums that the observer sees; None: nothing is proven.
    """

    view: View
    unit: str
    delta: float
    claimed: float | None
    proven: float
    attacked: float | None
    source: str
    pair: SampledGaussian | None = None

    @property
    def verdict(self) -> str:
        """Return the verdict on the claimed eps: `holds`, `false`, `not proven`, or `-` if nothing is claimed."""
        if self.claimed is None:
            return "-"
        if self.proven <= self.claimed:
            return "holds"
        return "false" if self.attacked is not None and self.attacked > self.claimed else "not proven"

    @property
    def shown(self) -> dict[str, Any]:
        return {key: value for key, value in vars(self).items() if key != "pair"} | {"verdict": self.verdict}


def judge(recipe: TrainingRecipe) -> list[Judged]:
    """Return the privacy of a recipe against every observer, from the weakest observer to the strongest."""
    views: list[View] = ["release", "aggregate"]
    if recipe.clients > 1 or recipe.noise_by != "server":  # otherwise one curator has all records
        views += [] if recipe.secure_sum else ["client"]
        views += ["transcript", "colluders"] if recipe.colluders else ["transcript"]
    return [_judged(recipe, view) for view in views]


def _judged(recipe: TrainingRecipe, view: View) -> Judged:
    claimed, unit, delta = claimed_eps(recipe), recipe.unit, recipe.delta
    if recipe.unproven is not None:
        return Judged(view, unit, delta, claimed, math.inf, None, recipe.unproven)
    noise = _noise(recipe, view)
    if noise == 0:
        why = "with noise_by=server, messages have no noise" if recipe.noise else "there is no noise"
        return Judged(view, unit, delta, claimed, math.inf, math.inf, why)
    why_not = _open(recipe, view) or (f"noise {noise:g} per clip is too little to count" if noise < _LEAST else None)
    if why_not:
        return Judged(view, unit, delta, claimed, math.inf, None, f"not proven: {why_not}")
    pair = _pair(recipe, noise)
    shuffled = "shuffled" in (recipe.row_sampling, recipe.client_sampling)
    source = "Gaussian differential privacy" if pair.mu is not None else "privacy loss distributions"
    source = "random allocation (Feldman & Shenfeld 2026)" if pair.sampling == "random_allocation" else source
    sums = "" if pair.steps == 1 else f" of {pair.steps} steps"
    source += f", {pair.rounds} round{'s' if pair.rounds > 1 else ''}{sums}, noise {pair.noise:.6g} per clip"
    source += "; no amplification is proven for shuffling" if shuffled else ""
    source += f"; taking part, {pair.present:g}, is seen" if pair.present < 1 else ""
    reached = None if shuffled or not _attained(recipe, view) else pair.reached(delta)
    return Judged(view, unit, delta, claimed, pair.eps(delta), reached, source, pair)


def _noise(recipe: TrainingRecipe, view: View) -> float:
    """Return noise_std / clip of the part of every sum's noise that the observer does not know."""
    if recipe.noise_by == "server":
        return recipe.noise if view in ("release", "aggregate") else 0.0
    n, shared = recipe.in_round, recipe.noise_by == "shared"
    if _alone(recipe) or view == "client" or (view in ("transcript", "colluders") and not recipe.secure_sum):
        return recipe.noise / math.sqrt(recipe.most_in_round) if shared else recipe.noise
    own = recipe.noise / math.sqrt(n) if shared else recipe.noise  # n is the fewest clients, as the result grows with n
    return own * math.sqrt(n - recipe.dropouts - (recipe.colluders if view == "colluders" else 0))


def _alone(recipe: TrainingRecipe) -> bool:
    """Return whether, in the worst case, only the client with the protected data adds noise to a sum."""
    several = recipe.unit == "record" and recipe.local_steps > 1
    return several or recipe.client_sampling == "poisson" or recipe.weight != 1


def _open(recipe: TrainingRecipe, view: View) -> str | None:
    came = recipe.neighbours == "add_remove"
    hidden = recipe.noise_by == "server"
    way = recipe.row_sampling if recipe.unit == "record" else recipe.client_sampling
    if recipe.tuning == "private":
        return "the settings were chosen on private data, which is not accounted for (tuning=private)"
    if recipe.noise_by == "shared" and recipe.client_sampling == "poisson":
        return "the number of clients that share the noise is random (noise_by=shared, client_sampling=poisson)"
    if hidden and recipe.weight is None:
        return "the weights of the clients are unknown: set weight, which is 1 if all clients have as many records"
    if came and recipe.weight != 1:
        return "an added unit changes the weights of all others (weight): use neighbours=replace or zero_out"
    uneven = recipe.most_in_round != recipe.in_round or recipe.clients % recipe.in_round
    if not hidden and recipe.client_sampling == "shuffled" and uneven:
        return "the last batch of an epoch has fewer clients and less noise: use a client_rate with equal batches"
    if recipe.unit == "record" and recipe.local_steps > 1 and hidden and recipe.clients > 1:
        return "a record changes later local steps, too, by more than clip: use unit=client or noise_by=clients"
    if came and way in ("fixed", "shuffled"):
        return f"with {way} batches, an added unit changes how all others are sampled: use neighbours=replace"
    if came and recipe.unit == "client" and not hidden:
        return "a removed client removes its noise, too, and it is seen who takes part: use neighbours=zero_out"
    if recipe.unit == "record" and way == "random_allocation":
        if recipe.neighbours == "replace":
            return "random_allocation is proven for neighbours=add_remove or zero_out"
        if recipe.clients > 1 or recipe.client_sampling != "none" or recipe.local_steps > 1:
            return "random_allocation is proven for clients=1 and local_steps=1"
    return None


def _pair(recipe: TrainingRecipe, noise: float) -> SampledGaussian:
    rounds, steps, present = recipe.rounds, 1, _client_rate(recipe)
    if recipe.client_sampling == "shuffled":
        rounds, present = _epochs(rounds, present), 1.0
    way: RowWay = "none"
    rate = 1.0
    if recipe.unit == "record":
        way, rate, steps = recipe.row_sampling, recipe.row_rate, recipe.local_steps
        if way == "random_allocation" and rate < 1:
            rounds, steps = _epochs(rounds, rate), _batches(rate)
        elif way == "shuffled":
            alone = steps == 1 and recipe.clients == 1  # else, clients may shuffle records anew in every round
            rounds = _epochs(recipe.rounds, rate) if alone else recipe.rounds * _epochs(steps, rate)
            steps, rate, present = 1, 1.0, 1.0
    elif recipe.noise_by == "server":  # who takes part is hidden, so sampling amplifies privacy
        way, rate, present = recipe.client_sampling, present, 1.0
    sampling: Sampling = "none" if way == "shuffled" or rate == 1 else way
    if sampling == "none" and present == 1:
        rounds, steps = rounds * steps, 1
    return SampledGaussian(noise, rounds * recipe.runs, recipe.neighbours, sampling, rate, present, steps)


def _client_rate(recipe: TrainingRecipe) -> float:
    if recipe.client_sampling not in ("fixed", "shuffled"):
        return recipe.client_rate
    return min(recipe.most_in_round / recipe.clients, 1.0)


def _epochs(batches: int, rate: float) -> int:
    """Return the number of epochs in `batches` batches, rounded up; an epoch uses each record (or client) once."""
    return math.ceil(batches / _batches(rate))


def _batches(rate: float) -> int:
    return math.floor(1 / rate * (1 + 1e-12))


def _attained(recipe: TrainingRecipe, view: View) -> bool:
    """Return whether training can be as bad as the proof assumes, so that an attack reaches the recipe's proven eps.

    A weight may multiply a client's contribution alone, or its noise, too; the proof holds for both.
    """
    if recipe.row_sampling == "random_allocation" and recipe.rounds % _batches(recipe.row_rate):
        return False  # the proof counts the incomplete last epoch as complete
    if recipe.noise_by == "server":
        return True
    alone = _alone(recipe)
    return recipe.weight in (None, 1) and not (alone and (view in ("release", "aggregate") or recipe.secure_sum))


def claimed_eps(recipe: TrainingRecipe) -> float | None:
    """Return the eps that a recipe claims by a number or by a formula; None if the recipe claims no eps."""
    if recipe.claimed_eps is not None or recipe.formula is None or recipe.noise == 0:
        return recipe.claimed_eps
    sensitivity = 2 if recipe.neighbours == "replace" else 1
    rounds = recipe.rounds * recipe.local_steps
    each = sensitivity / recipe.noise * math.sqrt(2 * math.log(1.25 / recipe.delta))
    if recipe.formula == "clt":
        rate = recipe.row_rate if recipe.unit == "record" else recipe.client_rate
        if recipe.noise**2 * 600 < 1:
            raise UserError("formula=clt cannot be computed for so little noise: choose more noise or another formula.")
        return gdp.eps_of(rate * math.sqrt(rounds * math.expm1(1 / recipe.noise**2)), recipe.delta)
    return each if recipe.formula == "textbook" else each * rounds


def sentence(recipe: TrainingRecipe, found: list[Judged]) -> str:
    """Return a sentence that states the guarantees of a recipe, for the privacy section of a paper."""
    by_eps: dict[str, list[str]] = {}
    for each in found:
        key = "" if math.isinf(each.proven) else written(each.proven)
        by_eps.setdefault(key, []).append(SEES[each.view].format(C=recipe.colluders))
    held = [f"{eps} against {' and '.join(who)}" for eps, who in by_eps.items() if eps]
    none = f"nothing is proven against {' and '.join(by_eps[''])}" if "" in by_eps else ""
    if not held:
        return f"For this training, {none}."
    what = f"({_NEIGHBOURS[recipe.neighbours]} {recipe.unit}, delta = {written(recipe.delta)})"
    return (
        "If it is done as described, with noise of real numbers, this training is differentially private "
        f"{what} with eps = {', and '.join(held)}{'; ' + none if none else ''}."
    )


def certificate_of(recipe: TrainingRecipe, found: list[Judged]) -> str:
    """Return a certificate for `dpml verify`; it omits observers without a proof or whose proof uses subsampling."""
    views = {}
    for each in found:
        if each.pair is not None and each.pair.mu is not None:
            pair = each.pair
            sensitivity = replace(pair, noise=1.0).ratio
            message = {"law": "gaussian", "times": pair.rounds * pair.steps, "sensitivity": sensitivity}
            views[each.view] = {"eps": each.proven, "messages": [message | {"deviation": pair.noise}]}
    if not views:
        raise UserError("a certificate needs Gaussian noise and no sampling of records or clients: omit --certificate.")
    content: dict[str, Any] = {
        "format": CERTIFICATE,
        "unit": "party" if recipe.unit == "client" else "sample",
        "neighbours": _NEIGHBOURS[recipe.neighbours],
        "delta": recipe.delta,
        "noise": {"by": "curator"},
        "messages": [],
        "views": views,
    }
    return json.dumps(seal_object(content), indent=1) + "\n"
