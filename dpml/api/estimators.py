"""Private linear models for scikit-learn: `PrivateClassifier` and `PrivateRegressor`.

All guarantees are proven for rows in the unit ball. To map a row into it, every feature is clipped to its range and the
range is mapped to [-1, 1], a constant feature 1 is appended for the intercept, and the row is divided by its length.
With public ranges (`bounds`) each row is mapped independently of the others, so neighbours stay neighbours and nothing
is fitted.
"""

import math
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from omegaconf import OmegaConf
from scipy.special import expit, softmax
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_consistent_length, check_is_fitted, validate_data

from dpml.algorithms import Algorithm
from dpml.api.files import load, save
from dpml.api.rows import Bounds, checked_ranges, checked_weights, class_weights, into_ball, thinned, whose
from dpml.api.settings import plain
from dpml.arrays import Array
from dpml.config.build import algorithm_of, budget, epsilon
from dpml.config.compose import options
from dpml.data import Dataset, Task, sha256
from dpml.data.partition import Equal, Parties, partition
from dpml.data.preprocess import to_both_sides
from dpml.errors import PrivacyWarning, UserError, nearest
from dpml.optim.losses import for_task, scores
from dpml.options import convert
from dpml.privacy import Adversary, Guarantee, worst
from dpml.privacy.entropy import SystemGenerator
from dpml.privacy.guarantee import large_delta
from dpml.privacy.safe import written
from dpml.release.facts import Facts, exact_algorithm, facts_about, option_node, require_linear_model, statement
from dpml.release.ledger import Ledger, LedgerEntry, current
from dpml.running.cell import limit_blas
from dpml.seeds import generator


class _PrivateLinear(BaseEstimator):  # type: ignore[misc]
    """The base of both estimators. Subclasses encode the target and interpret the scores."""

    bounds_: tuple[Array, Array]
    coef_: Array
    intercept_: Any
    entry_: LedgerEntry | None
    ledger_: Ledger | None
    facts_: Facts
    guarantees_: list[Guarantee]
    statement_: tuple[str, ...]
    setting_: str
    _constant: bool  # `fit_intercept` at the fit; the parameter can change later
    _loss: str

    def __init__(  # noqa: PLR0913 - those of scikit-learn's estimators are their whole configuration
        self,
        algo: str = "wdgd",
        eps: float = 1.0,
        delta: float | None = 1e-5,
        parties: int = 1,
        *,
        bounds: Bounds | None = None,
        fit_intercept: bool = True,
        calibration: str | None = "tight",
        colluders: float | None = None,
        algo_options: Mapping[str, Any] | None = None,
        ledger: Ledger | None = None,
        class_weight: Mapping[Any, float] | None = None,
        random_state: int | None = None,
    ) -> None:
        self.algo = algo
        self.eps = eps
        self.delta = delta
        self.parties = parties
        self.bounds = bounds
        self.fit_intercept = fit_intercept
        self.calibration = calibration
        self.colluders = colluders
        self.algo_options = algo_options
        self.ledger = ledger
        self.class_weight = class_weight
        self.random_state = random_state

    def __getstate__(self) -> Any:
        """Return the state for a copy or another process, with the ledger of the surrounding `with` block."""
        state = dict(super().__getstate__())
        if state.get("ledger") is None:
            state["ledger"] = current()
        return state

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "coef_")

    def _released(
        self,
        X: Array,
        y: Array,
        task: Task,
        bounds: tuple[Array, Array],
        party: ArrayLike | None,
        weights: Sequence[Array],
    ) -> Array:
        """Release a model, (d,) or (K d,), of rows (n, p), targets and weights, each (n,); set `guarantees_`."""
        asked = budget(epsilon(plain(self.eps, "eps"), "eps"), plain(self.delta, "delta"))
        algorithm = self._algorithm(task)
        seed = self._seed()
        rows = thinned(into_ball(X, *bounds, self.fit_intercept), weights, generator(seed, "weights"))
        with limit_blas():
            parties = self._dealt(Dataset("X", task, rows, y, rows[:0], y[:0]), party, seed)
            facts = facts_about(
                algorithm, parties.problem, asked, randomness="system" if self.random_state is None else "seed",
                ranges="stated" if self._stated else "fitted", dealt="at random" if party is None else "natural",
                labels=task != "regression",
            )  # fmt: skip
            mechanism = algorithm.prepare(parties, generator(seed, "start"))
            holdings = None
            if party is not None:
                holdings = sha256(repr(X.shape).encode(), X.tobytes(), y.tobytes(), whose(party).tobytes())
            setting, entry = self._enter(facts, holdings)
            noise = generator(seed, "noise", algorithm.name, algorithm.variant)
            if self.random_state is None:
                noise = SystemGenerator()
            found = mechanism.release([asked], noise, 1).weights
        assert found is not None  # of a linear algorithm
        counted = f"entry {entry.number} of a ledger" if entry else "in no ledger"
        if math.isinf(worst(facts.held).eps):
            counted = "not at all, as nothing is proven"
        self.setting_, self.facts_, self.guarantees_ = setting, facts, list(facts.guarantees)
        self.entry_, self.ledger_ = entry, self.ledger or current()
        self.statement_ = (*statement(facts), f"Counted: {counted}.")
        return np.array(found[0, 0])

    def _enter(self, facts: Facts, holdings: str | None) -> tuple[str, LedgerEntry | None]:
        """Enter a fit whose noise is not drawn yet into the ledger, and warn of what is not proven.

        `holdings` is the `parties` of `Ledger.enter`. Returns the setting, and the entry.
        """
        ledger, weakest = self.ledger or current(), worst(facts.held)
        if ledger is not None and math.isinf(weakest.eps):
            why = "; and because ".join(facts.open) or f"that of algo={self.algo} at eps={self.eps:g} is infinite"
            raise UserError(
                f"no eps is proven of this fit, because {why}: a ledger that let it pass would tell a total that does "
                "not hold. Fit it outside of the ledger's block, or without ledger=."
            )
        if self.eps != math.inf:
            self._warn(facts, weakest)
        parameters = {key: value for key, value in self.get_params().items() if key != "ledger"}
        setting = f"{type(self).__name__}({', '.join(f'{key}={value!r}' for key, value in parameters.items())})"
        if ledger is not None:
            return setting, ledger.enter(setting, facts.held, parties=holdings)
        if math.isfinite(weakest.eps) and hasattr(self, "facts_"):
            warnings.warn(
                "this estimator was fitted before, and this fit is in no ledger: if rows of the same people were in "
                "both, more privacy is lost than guarantees_ says. dpml.Ledger(path, cap=...) adds fits up.",
                PrivacyWarning,
                stacklevel=4,
            )
        return setting, None

    def _warn(self, facts: Facts, weakest: Guarantee) -> None:
        """Warn where less is proven than was asked for."""
        message = large_delta(weakest.delta, facts.problem.N)
        if facts.open:
            advice = ["give bounds (and y_bounds), ranges known without a look"] if facts.ranges == "fitted" else []
            advice += ["leave random_state out"] if facts.randomness == "seed" else []
            message = f"nothing is proven of this model, because {'; and because '.join(facts.open)}."
            message += f" {'; '.join(advice).capitalize()}." if advice else ""
        elif weakest.eps > self.eps:
            message = (
                f"eps={self.eps:g} was asked for, but what is {'declared' if facts.author else 'proven'} of "
                f"algo={self.algo} in the view {weakest.view} is eps={written(weakest.eps)}: see guarantees_."
            )
        if message:
            warnings.warn(message, PrivacyWarning, stacklevel=5)

    def _algorithm(self, task: Task) -> Algorithm:
        name = convert(self.algo, str, "algo")
        known = options("algo")
        if name not in known:
            raise UserError(f"unknown algo {name!r}: {nearest(name, known)}")
        chosen = {key: plain(value, f"algo.{key}") for key, value in (self.algo_options or {}).items()}
        node = {**option_node(name), **chosen}
        make = algorithm_of if self.eps == math.inf else exact_algorithm  # without noise nothing is rounded
        algorithm = make(OmegaConf.create(node), for_task(task), convert(self.calibration, str | None, "calibration"))
        require_linear_model(algorithm)
        if algorithm.auxiliary:
            raise UserError(f"algo={name} publishes a share of the rows, which an estimator does not: choose another.")
        return algorithm

    def _dealt(self, data: Dataset, party: ArrayLike | None, seed: int) -> Parties:
        """Deal the rows by the parties' ids if there are any, otherwise in equal numbers and at random."""
        adversary = Adversary(convert(plain(self.colluders, "colluders"), float | None, "colluders"))
        if party is None:
            M = convert(plain(self.parties, "parties"), int, "parties")
            return partition(data, Equal(), M, generator(seed, "partition"), adversary)
        owners = whose(party)
        check_consistent_length(data.X, owners)
        order = np.argsort(owners, kind="stable")
        offsets = np.concatenate([[0], np.cumsum(np.bincount(owners))])
        adversary.count(len(offsets) - 1)  # refuses an adversary that leaves no party to protect
        return Parties(data, order, offsets, data.X[order], data.y[order], data.X[:0], adversary)

    def _seed(self) -> int:
        """Return the seed of the random streams: `random_state`, or 128 bits from the operating system."""
        if self.random_state is None:
            return int(np.random.SeedSequence().entropy)  # type: ignore[arg-type]
        seed = convert(plain(self.random_state, "random_state"), int, "random_state")
        if seed < 0:
            raise UserError(f"random_state must be None or a whole number >= 0, got {seed}.")
        return seed

    @property
    def _stated(self) -> bool:
        return self.bounds is not None and getattr(self, "y_bounds", ()) is not None

    def _ranges(self, given: Bounds | None, key: str, values: Array) -> tuple[Array, Array]:
        """Return the ends of the ranges of `values` (n, p), each (p,): public ones, or those of the values."""
        if given is None:
            return values.min(axis=0), values.max(axis=0)
        return checked_ranges(given, key, values.shape[1])

    def _scores(self, X: ArrayLike, classes: int = 1) -> Array:
        """Compute the scores x'w of rows (n, p), mapped into the unit ball: (n,), or (n, K) with K > 2 classes."""
        check_is_fitted(self)
        rows = into_ball(validate_data(self, X, dtype=np.float64, reset=False), *self.bounds_, self._constant)
        return scores(rows, self._weights.reshape(1, -1), classes)[:, 0]

    @property
    def _weights(self) -> Array:
        """Return the weights for rows in the unit ball, (K, d)."""
        weights = np.atleast_2d(self.coef_)
        return np.column_stack([weights, np.atleast_1d(self.intercept_)]) if self._constant else weights

    def save(self, path: str | Path, *, floating: bool = False, unsafe: bool = False, declared: bool = False) -> None:
        """Write the model to a file that `dpml predict` reads too, at an unused `path`.

        Args:
            path: of the file.
            floating: also with floating-point noise: the file says that it is proven for real numbers only.
            unsafe: also if nothing is proven of the model, or it is in no ledger: the file says so.
            declared: also if its guarantee is the word of code that is not part of dpml: the file says so.
        """
        check_is_fitted(self)
        save(self, Path(path), floating=floating, unsafe=unsafe, declared=declared)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read the estimator in a model file. Its classes are strings, and its parameters are defaults."""
        return load(cls(), Path(path))

    def _keep(self, weights: Array) -> None:
        """Split weights (K, d) for rows in the unit ball into `coef_` (K, p) and `intercept_` (K,)."""
        self.coef_ = weights
        self.intercept_ = np.zeros(len(weights))
        self._constant, self._loss = bool(self.fit_intercept), "logistic"  # softmax for more classes
        if self._constant:
            self.coef_, self.intercept_ = weights[:, :-1], weights[:, -1]


class PrivateClassifier(ClassifierMixin, _PrivateLinear):  # type: ignore[misc]
    """A linear classifier under (eps, delta) differential privacy; adjacency is *replace one row*.

    >>> import numpy as np, dpml
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (5000, 2))
    >>> model = dpml.PrivateClassifier(eps=1.0, delta=1e-5, bounds=(-1, 1)).fit(X, X[:, 0] > X[:, 1])
    >>> model.score(X, X[:, 0] > X[:, 1]) > 0.9
    True
    >>> [(g.view, round(g.eps, 3), g.delta) for g in model.guarantees_ if g.basis == "proven"]
    [('release', 1.0, 1e-05)]

    Private: the rows and labels, against an adversary who sees the fitted model or, with several parties, any view of
    `guarantees_`. Public: the number of rows and features, the set of labels (`classes_`), the parties' number and
    sizes, and all parameters. Every `fit` spends its budget anew; so does every fold of a cross-validation, every point
    of a grid search and every class of `OneVsRestClassifier` on the same rows (`ledger` adds them up).
    `score` on training rows is not private. Noise is exact integers where the algorithm has such noise; else, or with
    ``{"noise": "continuous"}`` in `algo_options`, it is floating-point numbers (Mironov 2012), and the basis in
    `guarantees_` is `proven for real numbers`.

    Args:
        algo: an algorithm of `dpml-run`. The loss is logistic for two classes and softmax for more (only some
            algorithms).
        eps: the budget; inf for no noise.
        delta: None for pure eps-DP, where the algorithm has it.
        parties: the number of parties to which the rows are dealt, equally and at random.
        bounds: (low, high), each a number or one number per feature: public ranges, known without looking at the rows.
            Values outside are clipped. None: the smallest and largest values of the training rows, which the budget
            does not cover.
        fit_intercept: whether rows get a constant feature.
        calibration: `tight`, the least noise that is proven to give (eps, delta) in the worst view; `published`, the
            noise of the algorithm's paper, for which the proven eps may be larger; None, the default of `dpml-run`.
        colluders: parties that pool their knowledge with the aggregator, a number or a share below 1; None:
            ``ceil(parties/3) - 1``.
        algo_options: further options of the algorithm, those under `algo` of `dpml-run`: ``{"lam": 0.01}``.
        ledger: a `dpml.Ledger` in which every fit is entered before its noise is drawn; None: that of the `with` block
            around it, or else none, and a second fit of the same estimator warns.
        class_weight: public weights of classes, `{class: weight}`, relative to the largest. None: all alike.
            `balanced` would count private labels, and is refused.
        random_state: None: noise from the operating system's random numbers. A whole number is for tests only: anyone
            who knows it can subtract the noise, so nothing is proven.

    Attributes:
        guarantees_: the claimed and the proven guarantees, per view; for rows mapped into the unit ball.
        statement_: what is proven, or why nothing is, in words.
        setting_: the parameters of the fit, as its ledger and its file have them.
        facts_: what both are computed from.
        entry_: the entry in the ledger, or None.
        classes_: the labels, in order.
        coef_: (1, p), or (K, p) with K > 2 classes: weights of the features in [-1, 1].
        intercept_: (1,) or (K,).
        bounds_: the ranges that were used. If they are fitted, they are two values of private rows per feature.
        n_features_in_: p.

    Raises:
        ValueError: X or y are not valid input for scikit-learn's estimators.
    """

    def fit(
        self, X: ArrayLike, y: ArrayLike, party: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Release one model of rows X (n, p) and labels y (n,).

        `party` (n,) gives the party of each row, and `parties` is then ignored; None: rows are dealt. `sample_weight`
        (n,), each in [0, 1] and from its own row alone, is private as the rows are: a row is used with this
        probability, and is zeros otherwise (cost-proportionate rejection sampling, `dpml.api.rows.thinned`).
        """
        rows, labels = validate_data(self, X, y, dtype=np.float64)
        weights = checked_weights(sample_weight, rows)
        check_classification_targets(labels)
        classes, codes = np.unique(labels, return_inverse=True)
        K = len(classes)
        if K < 2:
            raise ValueError(f"{type(self).__name__} needs labels of two classes, got one class: {classes[0]!r}.")
        if K > 2:
            self._check_multiclass(labels)
        bounds = self._ranges(self.bounds, "bounds", rows)
        task: Task = "binary" if K == 2 else "multiclass"
        targets = (2 * codes - 1 if K == 2 else codes).astype(float)
        by_class = class_weights(self.class_weight, classes, codes)
        chances = [one for one in (weights, by_class) if one is not None]
        model = self._released(rows, targets, task, bounds, party, chances)
        self.classes_, self.bounds_ = classes, bounds
        self._keep(model.reshape(1 if K == 2 else K, -1))
        return self

    def decision_function(self, X: ArrayLike) -> Array:
        """Return the scores x'w, (n,): at least 0 for ``classes_[1]``; or (n, K) for K > 2 classes."""
        check_is_fitted(self)
        K = len(self.classes_)
        return self._scores(X, 1 if K == 2 else K)

    def predict(self, X: ArrayLike) -> Any:
        """Return the label of every row, (n,)."""
        found = self.decision_function(X)
        return self.classes_[(found >= 0).astype(int) if found.ndim == 1 else np.argmax(found, axis=1)]

    def predict_proba(self, X: ArrayLike) -> Array:
        """Return the probability of every class, (n, K): the sigmoid or softmax of the scores."""
        found = self.decision_function(X)
        if self._loss not in ("logistic", "softmax"):
            raise UserError(f"a model by loss={self._loss} gives no probabilities: use predict or decision_function.")
        if found.ndim == 2:
            return softmax(found, axis=1)
        return np.column_stack([expit(-found), expit(found)])

    def _check_multiclass(self, y: Any) -> None:
        """Raise ValueError unless the algorithm takes more than two classes."""
        self._algorithm("binary")  # other mistakes are reported first
        try:
            self._algorithm("multiclass")
        except UserError as error:
            raise ValueError(
                f"Only binary classification is supported by algo={self.algo}. The type of the target is "
                f"{type_of_target(y)}. ({error})"
            ) from None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        with suppress(UserError, ValueError, TypeError):  # `fit` says what is wrong
            tags.classifier_tags.multi_class = bool(self._algorithm("multiclass"))
        tags.classifier_tags.poor_score = True
        return tags


class PrivateRegressor(RegressorMixin, _PrivateLinear):  # type: ignore[misc]
    """A linear regression by least squares under (eps, delta) differential privacy; adjacency is *replace one row*.

    >>> import numpy as np, dpml
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0, 10, (5000, 1))
    >>> y = 3 * X[:, 0] + rng.normal(0, 1, 5000)
    >>> model = dpml.PrivateRegressor("ssp", eps=1.0, bounds=(0, 10), y_bounds=(0, 30)).fit(X, y)
    >>> model.score(X, y) > 0.8
    True

    Rows, parameters and attributes are those of `PrivateClassifier`, and the same data are private. A prediction is
    ``middle + half * x'w`` with x the row in the unit ball; it is linear in the features except for the division by the
    row's length.

    Args:
        algo: an algorithm that takes the squared loss.
        y_bounds: (low, high), a public range of the target; values outside are clipped. None: the smallest and largest
            training target, which the budget does not cover.
    """

    def __init__(  # noqa: PLR0913 - those of scikit-learn's estimators are their whole configuration
        self,
        algo: str = "wdgd",
        eps: float = 1.0,
        delta: float | None = 1e-5,
        parties: int = 1,
        *,
        bounds: Bounds | None = None,
        y_bounds: Bounds | None = None,
        fit_intercept: bool = True,
        calibration: str | None = "tight",
        colluders: float | None = None,
        algo_options: Mapping[str, Any] | None = None,
        ledger: Ledger | None = None,
        random_state: int | None = None,
    ) -> None:
        super().__init__(
            algo, eps, delta, parties, bounds=bounds, fit_intercept=fit_intercept, calibration=calibration,
            colluders=colluders, algo_options=algo_options, ledger=ledger, random_state=random_state,
        )  # fmt: skip
        self.y_bounds = y_bounds

    def fit(
        self, X: ArrayLike, y: ArrayLike, party: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Release one model of rows X (n, p) and targets y (n,); the others are as for `PrivateClassifier`."""
        rows, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True)
        weights = checked_weights(sample_weight, rows)
        target = np.asarray(y, dtype=float)[:, None]
        bounds = self._ranges(self.bounds, "bounds", rows)
        low, high = self._ranges(self.y_bounds, "y_bounds", target)
        scaled = np.clip(to_both_sides(low, high, 1)(np.clip(target, low, high))[:, 0], -1, 1)
        chances = [] if weights is None else [weights]
        self._keep(self._released(rows, scaled, "regression", bounds, party, chances)[None])
        self.bounds_, self.y_bounds_ = bounds, (float(low[0]), float(high[0]))
        self.coef_, self.intercept_ = self.coef_[0], float(self.intercept_[0])
        return self

    def predict(self, X: ArrayLike) -> Array:
        """Return the target of every row, (n,), in its original unit."""
        found = self._scores(X)
        low, high = self.y_bounds_
        return (low + high) / 2 + ((high - low) / 2 or 1.0) * found

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True
        return tags
