"""Define noisy gradient descent at one curator (`wang`), in a multiparty computation (`jayaraman`), or at M clients.

The proofs: docs/privacy/kang2019.md, Theorems 1 to 3.
"""

import math
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Annotated, Literal

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from dpml.algorithms.defaults import LARGEST_STEP, LOGISTIC_DISTANCE, SLOPE_CLIP, SQUARED_DISTANCE
from dpml.algorithms.descent.in_step import Trial, released
from dpml.algorithms.descent.layouts import Clients, Layout, MeanGradients, Pooled, sensitivity
from dpml.arrays import Array
from dpml.data.partition import Parties
from dpml.errors import UserError
from dpml.mechanism.guarantees import Proof, gaussian_proof
from dpml.mechanism.sharing import Sharing
from dpml.optim.losses import Slopes, mean_loss
from dpml.options import POSITIVE, check_choice
from dpml.privacy import gdp
from dpml.privacy.proofs.last_iterate import last_iterate_mu
from dpml.program import SIMULATED, Budget, Carrier, Clip, Problem, Program, Release, Rounds, Sum, View

StepSelection = Literal["rule", "oracle", "validated", "fixed"]
UNCOUNTED: dict[StepSelection, str] = {
    "oracle": "selection by the private objective is not counted",
    "validated": "selection by private rows held out is not counted",
}
"""The values of `step_selection` that read private rows, which no budget accounts for."""

HELD_OUT = 0.2
"""The share of every client's rows that is held out of training for validation."""


def ruled_step(slopes: Slopes, lam: float, scale: float, d: int, rounds: int) -> float:
    """Return a step size computed from public numbers only; `scale` is the noise_std of the mean gradient."""
    most = 1 / (slopes.smoothness + lam)
    if slopes.bend:
        forgets = 1 / (lam * rounds) if lam else math.inf
        most = max(most, min(LARGEST_STEP / slopes.smoothness, forgets))
    regression = slopes.loss.task == "regression"
    distance = SQUARED_DISTANCE if regression else LOGISTIC_DISTANCE * (1 + slopes.bend)
    length = scale * math.sqrt(d * rounds)
    return min(most, distance / length) if length else most


def held_out(parties: Parties) -> tuple[Parties, Array, Array]:
    """Hold out a random fifth of each party's rows; return the other rows, and the held-out X and y."""
    aside = (HELD_OUT * parties.sizes).astype(np.intp)
    if not aside.any():
        raise UserError(
            "algo.step_selection=validated holds out a fifth of every client's rows, but no client has five rows: set "
            "algo.step_selection=rule."
        )
    out = np.concatenate([np.arange(size) >= size - few for size, few in zip(parties.sizes, aside, strict=True)])
    offsets = np.concatenate([[0], np.cumsum(parties.sizes - aside)])
    kept = replace(parties, order=parties.order[~out], offsets=offsets, X=parties.X[~out], y=parties.y[~out])
    return kept, parties.X[out], parties.y[out]


Sites = Literal["curator", "mpc", "clients"]


@dataclass(frozen=True)
class _Kind:
    """The properties of noisy descent that depend on `sites`: who has the rows and who adds noise."""

    name: str
    claim: str
    targets: tuple[View, ...]  # the values of calibrate_for, the default first
    variants: tuple[str, ...] = ("paper",)


KINDS: dict[Sites, _Kind] = {
    "curator": _Kind("wang", "Wang, Ye & Xu 2017, as in Kang et al. 2019, Table 1", ("release", "aggregate")),
    "mpc": _Kind("jayaraman", "Jayaraman et al. 2018, as in Kang et al. 2019, Table 1", ("aggregate", "release")),
    "clients": _Kind(
        "wddp", "Kang et al. 2019, Thm 1", ("aggregate", "colluders", "client"), ("paper", "synchronous", "once")
    ),
}

_ROUNDS = "Theorems 1 and 3, docs/privacy/kang2019.md: all T rounds"
_LAST = "Theorems 2 and 3, docs/privacy/kang2019.md: the last of T rounds, each {:.9g}-Lipschitz{}"


@lru_cache(maxsize=1 << 12)
def _last_of_rounds(contraction: float, rounds: int, last: float) -> float:
    """Return the final model's mu for rounds of sensitivity 1 whose noise_std is 1, but `last` in the last round."""
    noises = np.append(np.ones(rounds - 1), last)
    return last_iterate_mu(np.full(rounds, contraction), np.ones(rounds), noises)


@dataclass(frozen=True)
class NoisyDescent(
    Program, losses=("logistic", "sigmoid", "squared"), calibrations=("published", "tight"), lam=0.0,
    variants=("paper", "synchronous", "once"), **SIMULATED,
):  # fmt: skip
    """Gradient descent with Gaussian noise in every round, at one curator, in an MPC, or at M clients.

    In `wang`, a trusted curator adds noise to the mean gradient (Wang, Ye & Xu 2017). In `jayaraman`, a multiparty
    computation (MPC) adds noise that nobody knows to the mean of the parties' mean gradients (Jayaraman et al. 2018).
    In `wddp`, clients descend alone with their own noise, and a server averages their last models (Kang et al. 2019,
    Alg. 1).

    Args:
        loss: `logistic`; `sigmoid`, which is not convex; or `squared`, whose slopes are unbounded, so that it needs
            `tight` noise with a clip.
        calibration: `published` uses the paper's noise; `tight` uses the least noise that is proven to protect against
            the observer `calibrate_for`.
        sites: Where the rows are and who adds noise: one trusted `curator`, an `mpc`, or the `clients`.
        variant: With `paper`, clients run all rounds alone, as the paper's text says. With `synchronous`, or `tight`
            noise for `aggregate` or `colluders`, all continue from the average of their models after every round. With
            `once`, as in eq. (4) of the paper, noise that no client knows is added once to every round's sum.
        rounds: The number of rounds T.
        noise_constant: The constant c of the published noise ``G sqrt(c T ln(1/delta)) / (N eps)``. The paper says
            "some constant"; the inequalities of its proof need 16.
        step_selection: How the step size is chosen. `rule` computes it from public numbers (`ruled_step`); `fixed` uses
            `step`. `oracle` takes the step size in `steps` with the least training objective. `validated` trains with
            each of `steps` on four fifths of every client's rows, and takes the step size with the least objective on
            the other fifth. No budget accounts for the private rows that `oracle` and `validated` read.
        step: The fixed step size; None: 1/(smoothness of the loss + lam). With a number, `rule` becomes `fixed`.
        steps: The step sizes that `oracle` and `validated` try.
        calibrate_for: The observer against whom `tight` noise gives (eps, delta). `release` sees only the last model.
            `aggregate` sees the secure sum of every round, to which all clients contribute equal shares of the noise.
            `colluders` see these sums and know their own shares of the noise, so the honest clients' shares must
            suffice. `client` sees one client's messages, so that client's noise alone must suffice. None: `release` for
            a curator, else `aggregate`.
        clip: The bound G on a row's slope, for `tight` noise only, because the papers do not clip. None: 0.3,
            or no clip for the sigmoid loss.
    """

    sites: Sites = "curator"
    rounds: Rounds = 1000
    noise_constant: Annotated[float, POSITIVE] = 16.0
    step_selection: StepSelection = "rule"
    step: Annotated[float | None, POSITIVE] = None
    steps: tuple[Annotated[float, POSITIVE], ...] = (0.01, 0.05, 0.1, 0.5, 1.0)
    calibrate_for: View | None = None
    clip: Clip | None = None
    ruled: tuple[str, ...] = field(init=False, default=())
    """The hyper-parameters that a rule has set."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("algo.variant", self.variant, self.kind.variants)
        if self.calibrate_for is None:
            object.__setattr__(self, "calibrate_for", self.kind.targets[0])
        check_choice("algo.calibrate_for", self.target, self.kind.targets)
        self._set_clip()
        if self.step is not None:
            if self.step_selection in UNCOUNTED:
                raise UserError(
                    f"algo.step has no effect with algo.step_selection={self.step_selection}: set algo.step=null."
                )
            object.__setattr__(self, "step_selection", "fixed")
        if self.variant == "once" and self.tight and self.target == "client":
            raise UserError(
                "algo.calibrate_for=client needs noise from each client: set algo.variant=paper or synchronous."
            )

    def _set_clip(self) -> None:
        if self.clip is not None:
            if self.calibration == "published":
                raise UserError(f"algo.clip of algo={self.name} needs calibration=tight.")
            if not self.loss.convex:
                raise UserError(f"algo.clip needs loss=logistic or loss=squared, not loss={self.loss.name}.")
        elif self.tight and self.loss.convex:
            object.__setattr__(self, "clip", SLOPE_CLIP)
            object.__setattr__(self, "ruled", ("clip",))
        elif self.loss.lipschitz is None:
            raise UserError(
                f"the gradients of loss={self.loss.name} have no bound, so algo={self.name} must clip them, "
                "which it does only with tight noise: set calibration=tight."
            )

    @property
    def kind(self) -> _Kind:
        return KINDS[self.sites]

    @property
    def name(self) -> str:  # type: ignore[override]
        return self.kind.name

    @property
    def tuned(self) -> str:
        return self.step_selection

    @property
    def target(self) -> View:
        assert self.calibrate_for is not None  # __post_init__ sets it
        return self.calibrate_for

    def secure_sums(self, budget: Budget, problem: Problem) -> int | None:
        if self.sites != "clients":
            return None
        return self.rounds if self.layout.secure else 0

    @property
    def layout(self) -> Layout:
        if self.sites == "clients" and self.variant != "once":
            secure = self.tight and self.target != "client"
            synchronous = secure or self.variant == "synchronous"
            return Clients(self.lipschitz, self.calibration == "published", self.target, synchronous, secure)
        visible: tuple[View, ...] = ("release", "aggregate", *(("colluders",) if self.sites != "curator" else ()))
        if self.sites != "clients" and self.tight and self.target == "release":
            visible = ("release",)
        return Pooled(self.lipschitz, visible, by_party=self.sites == "mpc")

    @property
    def slopes(self) -> Slopes:
        return Slopes(self.loss, self.clip)

    @property
    def lipschitz(self) -> float:
        """The Lipschitz constant G of the loss after clipping its slopes."""
        return self.slopes.lipschitz

    @property
    def largest(self) -> float:
        return 1 / (self.slopes.smoothness + self.lam)

    def contraction(self, step: float) -> float:
        """Return the Lipschitz constant of the map from a model to the next round's model, for the step size `step`."""
        least = self.lam if self.loss.convex else self.lam - self.slopes.smoothness
        return max(abs(1 - step * least), abs(1 - step / self.largest))

    def unit_mus(self, step: float, problem: Problem) -> dict[View, float]:
        """For one step size, return each observer's Gaussian-DP mu if the mean gradient of n rows has noise_std 1/n.

        If an observer sees only the last model, its mu depends on `step`; a step size of 0 gives the mu of all rounds.
        """
        mus = {view: math.sqrt(self.rounds) * mu for view, mu in self.layout.round_mus(problem).items()}
        for view, (mu, last) in self.layout.last_iterates(problem).items():
            if view in mus:
                mus[view] = mu * min(_last_of_rounds(self.contraction(step), self.rounds, last), math.sqrt(self.rounds))
        return mus

    def per_row(self, budget: Budget, problem: Problem, step: float) -> float:
        """Return c such that, under `budget`, the mean gradient of n rows needs Gaussian noise of noise_std c/n."""
        if math.isinf(budget.eps):
            return 0.0
        delta = budget.require_delta(f"algo={self.name}")
        if self.tight:
            return self.unit_mus(step, problem)[self.target] / gdp.mu_of(budget.eps, delta)
        return self.lipschitz * math.sqrt(self.noise_constant * self.rounds * math.log(1 / delta)) / budget.eps

    def tried(self, budget: Budget, problem: Problem) -> Array:
        if self.step_selection in UNCOUNTED:
            return np.array(self.steps)
        if self.step_selection == "fixed":
            return np.array([self.largest if self.step is None else self.step])
        scale = self.per_row(budget, problem, 0.0) * self.layout.sum_std(problem)
        return np.array([ruled_step(self.slopes, self.lam, scale, problem.d, self.rounds)])

    def per_rows(self, budget: Budget, problem: Problem) -> Array:
        return np.array([self.per_row(budget, problem, step) for step in self.tried(budget, problem)])

    def mus(self, budget: Budget, problem: Problem) -> dict[View, float]:
        """Return each observer's mu: the largest mu over all step sizes that the release tries."""
        runs = [
            {view: mu / noise if noise else math.inf for view, mu in self.unit_mus(step, problem).items()}
            for step, noise in zip(self.tried(budget, problem), self.per_rows(budget, problem), strict=True)
        ]
        return {view: max(run[view] for run in runs) for view in runs[0]}

    def proven(self, budget: Budget, problem: Problem) -> dict[View, Proof]:
        delta, last = budget.require_delta(f"algo={self.name}"), self.layout.last_iterates(problem)
        contraction = max(self.contraction(step) for step in self.tried(budget, problem))
        why = "a step is above 2/(L + lam)" if self.loss.convex else f"loss={self.loss.name} is not convex"
        source = _LAST.format(contraction, f": {why}" if contraction > 1 else "")
        return {
            view: gaussian_proof(mu, delta, source if view in last else _ROUNDS)
            for view, mu in self.mus(budget, problem).items()
        }

    def claimed(self, view: View) -> str | None:
        return self.kind.claim if self.calibration == "published" else None

    def uncounted(self) -> str | None:
        return UNCOUNTED.get(self.step_selection)

    def pure(self, budget: Budget, problem: Problem) -> bool:
        return False

    def sharing(self, problem: Problem) -> Sharing:
        return self.layout.sharing(problem)

    def messages(self, budget: Budget, problem: Problem) -> tuple[Sum, ...]:
        """Return one noisy `Sum` for each step size. A descent with this step size releases the sum in every round."""
        layout = self.layout
        units, apart, wide = layout.round(problem)
        of = MeanGradients(self.slopes, self.sites == "mpc", 0 if layout.synchronous else problem.M)
        return tuple(
            Sum(of, apart, float(each) * wide, units, times=self.rounds) for each in self.per_rows(budget, problem)
        )

    def begin(self, parties: Parties, rng: Generator) -> Array:
        return initial_model(rng, parties.X.shape[1])

    @property
    def in_step(self) -> bool:
        """Whether the gradient descents of several releases may be computed at the same time.

        Releases with `tight` noise may not: together, they would add rows in another order than their proofs assume.
        """
        own_noise_in_a_sum = isinstance(self.layout, Clients) and self.layout.synchronous
        return self.calibration == "published" and not own_noise_in_a_sum

    def run(self, carrier: Carrier) -> Release:
        return released([carrier], lambda trials: [self.trained(trial) for trial in trials])[0]

    def validation(self, trial: Trial) -> Trial:
        """Return a copy of `trial` that trains only on the rows that are not held out, with a single noise draw."""
        carrier = trial.carrier
        training = replace(carrier.mechanism, parties=held_out(carrier.mechanism.parties)[0])
        return Trial(Carrier(training, carrier.budgets, carrier.rng, 1, None), trial.numbers)

    def best_on_held_out(self, trial: Trial, models: Array) -> NDArray[np.intp]:
        """For each budget, return the index of the step size with the best model on held-out rows, (budgets, 1)."""
        _, X, y = held_out(trial.carrier.mechanism.parties)
        losses = mean_loss(self.loss, X, y, models.reshape(-1, X.shape[1])).reshape(trial.numbers.shape)
        return np.argmin(losses + self.ridge(models[:, :, 0]), axis=1)[:, None]

    def selected(self, trial: Trial, models: Array) -> Release:
        """Select a step size per budget and draw and release its model, given `models` (budgets, S sizes, draws, d)."""
        best = np.zeros((len(models), models.shape[2]), dtype=np.intp)
        if self.step_selection == "oracle":
            best = np.argmin(self.objective(trial.carrier.mechanism.parties, models), axis=1)
        weights = np.take_along_axis(models, best[:, None, :, None], axis=1)[:, 0]
        if self.step_selection == "fixed":
            return Release(weights)
        return Release(weights, {"step": np.take_along_axis(trial.steps, best, axis=1)})

    def trained(self, trial: Trial) -> Array:
        """Train a model (d,) for every budget, each of S step sizes, and every noise draw: (budgets, S, draws, d)."""
        carrier, d = trial.carrier, trial.carrier.problem.d
        models = np.empty((*trial.numbers.shape, carrier.draws, d))
        weights = self.layout.model_weights(carrier.problem)
        for number, own in self.one_by_one(carrier, trial.numbers):
            last = self.descend(own, number).reshape(-1, carrier.draws, len(weights), d)
            models[trial.numbers == number] = np.einsum("g,edgj->edj", weights, last)
        return models

    def one_by_one(self, carrier: Carrier, numbers: NDArray[np.intp]) -> Iterator[tuple[int, Carrier]]:
        """Yield each step size's index, and a `Carrier`, which computes sums for budgets that try this step size."""
        rng, every = carrier.rng, np.unique(numbers)
        for number in every:
            alike, own = np.flatnonzero((numbers == number).any(axis=1)), carrier
            if len(alike) < len(numbers):
                budgets = [carrier.budgets[i] for i in alike]
                own = Carrier(carrier.mechanism, budgets, rng, carrier.draws, carrier.observer)
            own.rng = rng if number == every[-1] else deepcopy(rng)
            yield int(number), own

    def descend(self, carrier: Carrier, number: int) -> Array:
        """Return the last models of B descents: (B, d), or (B, M d) if each of M clients trains its own model."""
        tried = [self.tried(budget, carrier.problem)[number] for budget in carrier.budgets]
        steps = carrier.per_run(tried)[:, None]
        w = np.tile(carrier.start, (len(steps), 1 if self.layout.synchronous else carrier.problem.M))
        for _ in range(self.rounds):
            w = (1 - self.lam * steps) * w - steps * carrier.ask(number, w)
        return w

    def ridge(self, weights: Array) -> Array:
        return self.lam / 2 * np.einsum("...j,...j->...", weights, weights)

    def objective(self, parties: Parties, weights: Array) -> Array:
        """Return the mean loss + lam/2 ||w||^2 on the private rows for each model w in `weights` (..., d)."""
        X, y, counts = parties.folded
        value = mean_loss(self.loss, X, y, weights.reshape(-1, weights.shape[-1]), counts)
        return value.reshape(weights.shape[:-1]) + self.ridge(weights)


def initial_model(rng: Generator, d: int) -> Array:
    """Draw a random Gaussian model (d,) of norm about 1."""
    return rng.standard_normal((d,)) / np.sqrt(d)


@dataclass(frozen=True)
class PlainMean(Clients):
    """Clients whose last models have equal weights in the average.

    Each client adds the noise for a mean over M n rows, where n is the number of rows of the smallest client.
    """

    def client_noise(self, problem: Problem, rows: Array) -> Array:
        return np.full(len(rows), 1 / (problem.M * problem.smallest))

    def sum_std(self, problem: Problem, honest: bool = False) -> float:
        return math.sqrt(problem.honest if honest else problem.M) / (problem.M**2 * problem.smallest)

    def round_mus(self, problem: Problem) -> Mapping[View, float]:
        client = self.of_client(problem)
        summed = sensitivity(self.lipschitz, problem) / (problem.M * problem.smallest * self.sum_std(problem))
        return {"release": summed, "aggregate": summed, "colluders": client, "client": client}

    def last_iterates(self, problem: Problem) -> Mapping[View, tuple[float, float]]:
        client = self.of_client(problem)
        average = (client, math.sqrt(problem.M))
        return {"release": average, "aggregate": average, "colluders": (client, 1.0), "client": (client, 1.0)}

    def model_weights(self, problem: Problem) -> Array:
        return np.full(problem.M, 1 / problem.M)


@dataclass(frozen=True)
class LocalRounds(NoisyDescent):
    """`jayaraman_local`: clients run noisy gradient descent alone, and a server averages the clients' last models.

    This is eq. (2) of Kang et al. 2019, who attribute the method to Jayaraman et al. 2018.
    """

    sites: Sites = "clients"

    def __post_init__(self) -> None:
        if self.tight:
            raise UserError(
                f"algo={self.name} needs calibration=published: for calibration=tight, set algo=jayaraman or algo=wddp."
            )
        super().__post_init__()

    @property
    def kind(self) -> _Kind:
        claim = "Jayaraman et al. 2018, as in Kang et al. 2019, eq. (2)"
        return replace(KINDS["clients"], name="jayaraman_local", claim=claim, variants=("paper",))

    @property
    def layout(self) -> Layout:
        return PlainMean(self.lipschitz, True, self.target, False, False)
