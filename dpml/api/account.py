"""What the fits of a process have spent on the same rows, where they are entered into no ledger."""

import math
import threading
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpml.arrays import Array
from dpml.errors import PrivacyWarning, UserError
from dpml.privacy import Guarantee, worst
from dpml.privacy.accountant import Accountant
from dpml.privacy.safe import written
from dpml.release.facts import Facts
from dpml.release.ledger import Ledger, current
from dpml.release.statement import statement

Marks = NDArray[np.uint64]

_DELTA = 1e-5  # at which fits are added up that have none


@dataclass
class Account:
    """Fits are told apart by marks of their rows: two with a row in common may be about the same person."""

    _secret: np.random.Generator = field(default_factory=np.random.default_rng)
    _factors: Marks = field(default_factory=lambda: np.zeros(0, np.uint64))
    _fits: list[tuple[Marks, Guarantee]] = field(default_factory=list)
    _warned: bool = False
    _one_at_a_time: threading.Lock = field(default_factory=threading.Lock)

    def count(self, X: Array, guarantees: Sequence[Guarantee], delta: float) -> tuple[int, float]:
        """Count a fit of rows X (n, p): how many fits share rows with it, with it, and their eps at `delta`.

        The second one warns, once in a process.
        """
        guarantee = worst(guarantees)
        with self._one_at_a_time:  # or fits in several threads would not know of each other
            marks = self._marks(X)
            alike = [known for found, known in self._fits if np.isin(marks, found, assume_unique=True).any()]
            again = (found for found, _ in self._fits if np.array_equal(found, marks))  # the same rows are kept once
            self._fits.append((next(again, marks), guarantee))
        total = Accountant()
        for each in (*alike, guarantee):
            total = total.add(each)
        eps = total.eps(delta)
        if alike and not self._warned:
            self._warned = True
            warnings.warn(
                f"these rows, or some of them, were fitted before in this process: {len(alike) + 1} fits, each with a "
                f"budget of its own, for which eps = {written(eps)} at delta = {delta:g} is proven together; further "
                "ones are counted in counted_. Enter them with dpml.Ledger(path, cap=...), which refuses too many.",
                PrivacyWarning,
                stacklevel=5,
            )
        return len(alike) + 1, eps

    def clear(self) -> None:
        """Forget all fits: for programs that are about other people from here on."""
        self._fits.clear()
        self._warned = False

    def _marks(self, X: Array) -> Marks:
        """Sorted marks of rows, equal for equal rows: secret random sums of their bits, (k,)."""
        rows = np.ascontiguousarray(X, dtype=float) + 0.0  # -0 is 0
        missing = rows.shape[1] - len(self._factors)
        if missing > 0:
            more = self._secret.integers(0, 1 << 64, missing, dtype=np.uint64, endpoint=False) | np.uint64(1)
            self._factors = np.concatenate([self._factors, more])
        bits = rows.view(np.uint64)
        bits = (bits ^ (bits >> np.uint64(31))) * self._factors[: rows.shape[1]]
        sums = (bits ^ (bits >> np.uint64(29))).sum(axis=1, dtype=np.uint64)
        return np.unique(sums)


account = Account()
"""That of this process."""


def count(estimator: Any, X: Array, facts: Facts, holdings: str | None) -> None:
    """Enter a fit whose noise is not drawn yet into the ledger, or count it; warn of what is not proven.

    It sets the attributes that say what is proven. `holdings` is the `parties` of `Ledger.enter`.

    Raises:
        UserError: the ledger refuses it.
    """
    ledger, entry, more = estimator.ledger or current(), None, "not at all, as nothing is proven."
    if not isinstance(ledger, Ledger | None):
        raise UserError(f"ledger must be a dpml.Ledger(PATH, cap=...) or None, got {ledger!r}.")
    together = None
    weakest = worst(facts.held)
    if ledger is not None and math.isinf(weakest.eps):
        why = "; and because ".join(facts.open) or f"that of algo={estimator.algo} at eps={estimator.eps:g} is infinite"
        raise UserError(
            f"no eps is proven of this fit, because {why}: a ledger that let it pass would tell a total that does not "
            "hold. Fit it outside of the ledger's block, or without ledger=."
        )
    if estimator.eps != math.inf:
        _warn(estimator, facts, weakest)
    if math.isfinite(weakest.eps):
        if ledger is not None:
            entry = ledger.enter(setting_of(estimator), facts.held, parties=holdings)
            more = f"entry {entry.number} of a ledger."
        else:
            delta, more = estimator.delta or _DELTA, "in no ledger."
            together = (*account.count(X, facts.held, delta), delta)
    estimator.setting_, estimator.counted_ = setting_of(estimator), together
    estimator.facts_, estimator.guarantees_ = facts, list(facts.guarantees)
    estimator.entry_, estimator.ledger_ = entry, ledger
    estimator.statement_ = (*statement(facts), f"Counted: {more}")


def _warn(estimator: Any, facts: Facts, weakest: Guarantee) -> None:
    """Warn where less is proven than was asked for."""
    if facts.open:
        advice = ["give bounds (and y_bounds), ranges known without a look"] if facts.ranges == "fitted" else []
        advice += ["leave random_state out"] if facts.randomness == "seed" else []
        why = f"nothing is proven of this model, because {'; and because '.join(facts.open)}."
        said = f"{why} {'; '.join(advice).capitalize()}." if advice else why
    elif weakest.eps > estimator.eps:
        said = (
            f"eps={estimator.eps:g} was asked for, but what is {'declared' if facts.author else 'proven'} of "
            f"algo={estimator.algo} in the view {weakest.view} is eps={written(weakest.eps)}: see guarantees_."
        )
    elif weakest.delta * facts.problem.N >= 1:
        said = (
            f"delta={weakest.delta:g} is 1/N or more, so that the model may show a record of the N={facts.problem.N:,} "
            "as it is: choose a smaller delta."
        )
    else:
        return
    warnings.warn(said, PrivacyWarning, stacklevel=5)


def setting_of(estimator: Any) -> str:
    """An estimator's parameters, without the path of its ledger."""
    given = {key: value for key, value in estimator.get_params().items() if key != "ledger"}
    return f"{type(estimator).__name__}({', '.join(f'{key}={value!r}' for key, value in given.items())})"
