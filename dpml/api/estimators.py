"""Provide differentially private linear models for scikit-learn: `PrivateClassifier` and `PrivateRegressor`.

All guarantees are proven for rows in the unit ball. To map a row into the ball, every feature is clipped to its range
and mapped to [-1, 1], a constant feature 1 is appended for the intercept, and the row is divided by its norm
(algo=regression: by the largest possible norm). With public ranges (`bounds`), neighbouring data sets stay neighbours.
"""

import hashlib
import math
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, softmax
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_consistent_length, check_is_fitted, validate_data

from dpml.algorithms import Algorithm
from dpml.algorithms.quadratic.regression import Regression
from dpml.api.rows import Bounds, checked_weights, class_weights, into_ball, owners, ranges_of, thinned
from dpml.api.settings import plain
from dpml.arrays import Array
from dpml.config.build import algorithm_of, budget
from dpml.config.compose import check_option
from dpml.data import Dataset, Range, Task, sha256
from dpml.data.csv.column_bounds import ColumnBounds
from dpml.data.partition import Equal, Parties, partition
from dpml.data.preprocess import to_both_sides
from dpml.errors import PrivacyWarning, UserError, nearest
from dpml.files import reserved
from dpml.optim.losses import for_task, scores
from dpml.options import convert
from dpml.privacy import Adversary, worst
from dpml.privacy.entropy import SystemGenerator
from dpml.privacy.guarantee import large_delta
from dpml.privacy.safe import written
from dpml.release.facts import Facts, exact_algorithm, facts_about, option_node, require_linear_model, statement
from dpml.release.ledger import Ledger, current
from dpml.release.model import Model
from dpml.running.cell import limit_blas
from dpml.running.environment import provenance
from dpml.seeds import generator

if TYPE_CHECKING:
    import pandas as pd

_E = TypeVar("_E", bound=BaseEstimator)


def _suggesting(cls: type[_E]) -> type[_E]:
    """Make the TypeError about an unknown parameter suggest the nearest known name, such as eps for epsilon."""
    init, known = cls.__init__, cls._get_param_names()

    @wraps(init)
    def checked(self: _E, *values: Any, **parameters: Any) -> None:
        for name in parameters.keys() - known:
            raise TypeError(f"{cls.__name__} has no parameter {name!r}: {nearest(name, known)}")
        init(self, *values, **parameters)

    cls.__init__ = checked
    return cls


@dataclass(eq=False, repr=False)
class _PrivateLinear(BaseEstimator):  # type: ignore[misc]
    __metadata_request__fit: ClassVar = {"party": True}  # with metadata routing, a pipeline passes `party` on

    algo: str = "wdgd"
    eps: float = 1.0
    delta: float | None = 1e-5
    parties: int = 1
    _: KW_ONLY
    bounds: Bounds | None = None
    fit_intercept: bool = True
    calibration: str | None = "tight"
    colluders: float | None = None
    algo_options: Mapping[str, Any] | None = None
    ledger: Ledger | str | Path | None = None
    random_state: int | None = None

    def __getstate__(self) -> Any:
        """Return the state for pickling; an estimator without a ledger gets the ledger of an open `with` block."""
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
        algorithm, asked = self._algorithm(task), budget(plain(self.eps, "eps"), plain(self.delta, "delta"))
        seed = int(np.random.SeedSequence().entropy)  # type: ignore[arg-type]
        if self.random_state is not None:
            seed = convert(plain(self.random_state, "random_state"), int, "random_state")
        fitted = self.bounds is None or getattr(self, "y_bounds", ()) is None
        effects = self.algo == Regression.name
        if effects and (weights or not self.fit_intercept):
            raise UserError(f"algo={self.algo} needs fit_intercept=True, without sample_weight or class_weight.")
        rows = thinned(into_ball(X, *bounds, self.fit_intercept, effects), weights, generator(seed, "weights"))
        with limit_blas():
            parties = self._dealt(Dataset("X", task, rows, y, rows[:0], y[:0]), party, seed)
            facts = facts_about(
                algorithm, parties.problem, asked, randomness="system" if self.random_state is None else "seed",
                ranges="fitted" if fitted else "stated", dealt="at random" if party is None else "natural",
                labels=task != "regression",
            )  # fmt: skip
            mechanism = algorithm.prepare(parties, generator(seed, "start"))
            holdings = None
            if party is not None:
                holdings = sha256(repr(X.shape).encode(), X.tobytes(), y.tobytes(), owners(party).tobytes())
            parameters = {key: value for key, value in self.get_params().items() if key != "ledger"}
            setting = f"{type(self).__name__}({', '.join(f'{key}={value!r}' for key, value in parameters.items())})"
            ledger = Ledger(Path(self.ledger)) if isinstance(self.ledger, str | Path) else self.ledger or current()
            self._warn(facts, ledger)
            entry = None if ledger is None else ledger.enter(setting, facts.held, parties=holdings)
            noise = generator(seed, "noise", algorithm.name, algorithm.variant)
            if self.random_state is None:
                noise = SystemGenerator()
            released = mechanism.release([asked], noise, 1)
        assert released.weights is not None  # of a linear algorithm
        counted = f"entry {entry.number} of a ledger" if entry else "in no ledger"
        if math.isinf(worst(facts.held).eps):
            counted = "not at all, as nothing is proven"
        self.setting_, self.facts_, self.guarantees_ = setting, facts, list(facts.guarantees)
        self.entry_, self.ledger_ = entry, ledger
        self.statement_ = (*statement(facts), f"Counted: {counted}.")
        self._moments = released.moments
        return np.array(released.weights[0, 0])

    def _warn(self, facts: Facts, ledger: Ledger | None) -> None:
        weakest = worst(facts.held)
        unproven = math.isinf(weakest.eps)
        why = "; and because ".join(facts.open) or f"algo={self.algo} proves none at eps={self.eps:g}"
        if ledger is not None and unproven:
            raise UserError(
                f"no eps is proven for this fit, because {why}, so a ledger cannot account for it: fit outside of the "
                "ledger's `with` block, or without ledger=."
            )
        message = large_delta(weakest.delta, facts.problem.N)
        if facts.open:
            advice = ["give public ranges as bounds, and y_bounds for a regressor"] * (facts.ranges == "fitted")
            advice += ["leave random_state out"] * (facts.randomness == "seed")
            message = f"nothing is proven of this model, because {why}."
            message += f" {'; '.join(advice).capitalize()}." if advice else ""
        elif weakest.eps > self.eps:
            message = (
                f"eps={self.eps:g} was requested, but the {'declared' if facts.author else 'proven'} guarantee of "
                f"algo={self.algo} in the view {weakest.view} is eps={written(weakest.eps)}: see guarantees_."
            )
        if message and self.eps != math.inf:
            warnings.warn(message, PrivacyWarning, stacklevel=4)
        if ledger is None and not unproven and hasattr(self, "facts_"):
            warnings.warn(
                "this estimator was fitted before, and this fit is in no ledger: if both fits used rows of the same "
                "people, they lose more privacy than guarantees_ says. To add up all fits, use ledger=PATH.",
                PrivacyWarning,
                stacklevel=4,
            )

    def _algorithm(self, task: Task) -> Algorithm:
        name = self.algo
        if not isinstance(name, str):
            raise UserError(f"algo must be the name of an algorithm, got {name!r}: for the budget, write eps={name!r}.")
        check_option("algo", name)
        chosen = {key: plain(value, f"algo.{key}") for key, value in (self.algo_options or {}).items()}
        node = {**option_node(name), **chosen}
        make = algorithm_of if self.eps == math.inf else exact_algorithm  # without noise nothing is rounded
        algorithm = make(node, for_task(task), convert(self.calibration, str | None, "calibration"))
        require_linear_model(algorithm)
        if algorithm.auxiliary:
            raise UserError(
                f"algo={name} needs a share of public rows, but an estimator keeps all rows private: set another algo."
            )
        return algorithm

    def _dealt(self, data: Dataset, party: ArrayLike | None, seed: int) -> Parties:
        adversary = Adversary(convert(plain(self.colluders, "colluders"), float | None, "colluders"))
        if party is None:
            M = convert(plain(self.parties, "parties"), int, "parties")
            return partition(data, Equal(), M, generator(seed, "partition"), adversary)
        numbers = owners(party)
        check_consistent_length(data.X, numbers)
        order = np.argsort(numbers, kind="stable")
        offsets = np.concatenate([[0], np.cumsum(np.bincount(numbers))])
        adversary.count(len(offsets) - 1)  # raises an error if no party is left to be protected
        return Parties(data, order, offsets, data.X[order], data.y[order], data.X[:0], adversary)

    def _scores(self, X: ArrayLike, classes: int = 1) -> Array:
        check_is_fitted(self)
        low, high = self.bounds_
        unscaled = validate_data(self, X, dtype=np.float64, reset=False)
        rows = into_ball(unscaled, low, high, self._constant, self._moments is not None)
        return scores(rows, self._weights.reshape(1, -1), classes)[:, 0]

    def save(self, path: str | Path, *, floating: bool = False, unsafe: bool = False, declared: bool = False) -> None:
        """Write the fitted model to a new file, from which `dpml predict` makes predictions.

        Args:
            path: the path of the file.
            floating: write also a model with floating-point noise; the file says that its proof is for real numbers.
            unsafe: write also a model that has no proven guarantee or is in no ledger; the file says so.
            declared: write also a model whose guarantee is declared by code from outside dpml; the file says so.
        """
        check_is_fitted(self)
        self._check_publishable(floating, unsafe, declared)
        text = self._model().text()
        with reserved(Path(path)) as write:
            write(text)
            if self.entry_ is not None and self.ledger_ is not None:
                self.ledger_.publish(self.entry_, hashlib.sha256(text.encode()).hexdigest())

    def summary(self, level: float = 0.95, per: Mapping[str, float] | None = None) -> "pd.DataFrame":
        """Return the table of coefficients, intervals and p-values that `dpml.read_table` returns (algo="regression").

        Args:
            level: the confidence level of the intervals.
            per: by feature name (without names: x0, x1, ...), the increase whose effect is shown (default: 1).
        """
        from dpml.release.inference import coefficient_table
        from dpml.reporting.coefficients import frame

        check_is_fitted(self)
        if self.facts_.ranges == "fitted":
            raise UserError("summary() needs public ranges: give bounds of features and, for a regressor, y_bounds.")
        model = self._model()
        return frame(coefficient_table(model, level, per), model.task == "binary")

    def _model(self) -> Model:
        names = getattr(self, "feature_names_in_", [f"x{number}" for number in range(self.n_features_in_)])
        columns = {str(name): Range(float(a), float(b)) for name, a, b in zip(names, *self.bounds_, strict=True)}
        classes = tuple(map(str, getattr(self, "classes_", ())))
        task: Task = "regression" if not classes else "binary" if len(classes) == 2 else "multiclass"
        last = ["constant", "max_norm"] if self._moments else [*["bias"] * self._constant, "sample_norm"]
        offset, scale, target = 0.0, 1.0, None
        if task == "regression":
            low, high = self.y_bounds_
            offset, scale, target = (low + high) / 2, (high - low) / 2, Range(low, high)
        return Model(
            task=task,
            loss=for_task(task).name,
            label="label",
            stated=ColumnBounds.of_columns(Path("model"), columns, classes, target),
            steps=("symmetric", *last),
            weights=self._weights,
            guarantees=self.facts_.guarantees if self.facts_.open else self.facts_.held,
            statement=self.statement_,
            setting=self.setting_,
            versions=provenance()["versions"],
            offset=offset,
            scale=scale,
            certificate=None if self.facts_.open else self.facts_.certificate,
            moments=self._moments,
        )

    def _check_publishable(self, floating: bool, unsafe: bool, declared: bool) -> None:
        facts = self.facts_
        if facts.ranges == "fitted":
            raise UserError(
                "a model's file needs public ranges, but this model's ranges were fitted to the rows: give bounds, and "
                "y_bounds for a regressor."
            )
        if not (floating or facts.exact or facts.noiseless):
            raise UserError(
                f"the noise of this model of algo={self.algo} is floating-point: its last bits can reveal rows. Fit "
                "a model with exact noise, such as algo='wdgd' with calibration='tight'. Or call save(path, "
                "floating=True): the file then says that the proof is for real numbers, not for floating-point numbers."
            )
        facts.require_messages()
        if facts.author and not declared:
            raise UserError(
                f"the guarantee of this model is declared by {facts.author}, which is not part of dpml, and dpml has "
                "not proven it: to write a file that states this, call save(path, declared=True)."
            )
        if not unsafe and (facts.open or self.entry_ is None):
            why = "this fit is in no ledger"
            if facts.open:
                why = f"nothing is proven of this model, because {facts.open[0]}"
            raise UserError(
                f"{why}: fit again with ledger=PATH, or call save(path, unsafe=True) to write a file with this warning."
            )

    def _keep(self, weights: Array) -> None:
        self._weights = self.coef_ = weights
        self.intercept_: Any = np.zeros(len(weights))
        self._constant = bool(self.fit_intercept)  # the parameter can change later
        if self._constant:
            self.coef_, self.intercept_ = weights[:, :-1], weights[:, -1]


@_suggesting
@dataclass(eq=False, repr=False)
class PrivateClassifier(ClassifierMixin, _PrivateLinear):  # type: ignore[misc]
    """A linear classifier with (eps, delta) differential privacy. Neighbouring data sets differ in one replaced row.

    >>> import numpy as np, dpml
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (5000, 2))
    >>> model = dpml.PrivateClassifier(eps=1.0, delta=1e-5, bounds=[-1, 1]).fit(X, X[:, 0] > X[:, 1])
    >>> model.score(X, X[:, 0] > X[:, 1]) > 0.9
    True
    >>> [(g.view, round(g.eps, 3), g.delta) for g in model.guarantees_ if g.basis == "proven"]
    [('release', 1.0, 1e-05)]

    The rows and labels are private: they are protected against an adversary who sees the fitted model or, with several
    parties, any view in `guarantees_`. All parameters, the numbers of rows and features, the labels (`classes_`), and
    the parties' number and sizes are public. Every `fit` spends its budget anew; a `ledger` adds fits up. A `score` on
    training rows is not private. Noise is exact integers if the algorithm supports them; otherwise, or with ``{"noise":
    "continuous"}`` in `algo_options`, floating-point numbers (Mironov 2012), with the basis `proven for real numbers`.

    Args:
        algo: an algorithm of `dpml-run`. The loss is logistic for two classes and softmax for more.
        eps: the budget; inf for no noise.
        delta: None means pure eps-DP, if the algorithm supports it.
        parties: the number of parties to which the rows are dealt, equally and at random.
        bounds: [low, high], each a number or one number per feature: public ranges. Values outside are clipped. None:
            the smallest and largest values of the training rows, which the budget does not cover.
        fit_intercept: whether rows get a constant feature.
        calibration: `tight`, the least noise that is proven to give (eps, delta) in the worst view; `published`, the
            noise of the algorithm's paper, for which the proven eps may be larger; None, the default of `dpml-run`.
        colluders: parties that pool their knowledge with the aggregator, a number or a share below 1; None:
            ``ceil(parties/3) - 1``.
        algo_options: further options of the algorithm, those under `algo` of `dpml-run`: ``{"lam": 0.01}``.
        ledger: the path of a ledger, or a `dpml.Ledger`, that records every fit before its noise is drawn. None: the
            ledger of the surrounding `with` block, if any.
        class_weight: public weights of classes, `{class: weight}`, relative to the largest. None: equal weights.
        random_state: None draws noise from the operating system's random numbers. A whole number is a seed, for tests
            only: anyone who knows the seed can subtract the noise, so nothing is proven.

    Attributes:
        guarantees_: the claimed and the proven guarantees in every view (of an observer), for rows in the unit ball.
        statement_: sentences that say what is proven, or why nothing is proven.
        entry_: the entry in the ledger, or None.
        classes_: the labels, in order.
        coef_: (1, p), or (K, p) with K > 2 classes: weights of the features in [-1, 1].
        intercept_: (1,) or (K,).
        bounds_: the ranges that were used. Fitted ranges reveal two values of private rows per feature.
    """

    _: KW_ONLY
    class_weight: Mapping[Any, float] | None = None

    def fit(
        self, X: ArrayLike, y: ArrayLike, party: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Fit and release one model from the private rows X (n, p) and labels y (n,).

        `party` (n,) gives the party of each row, and `parties` is then ignored; without it, rows are dealt at random.
        `sample_weight` (n,) is private, as the rows are. Each weight is in [0, 1] and depends on its own row only. A
        row is used with this probability, and otherwise replaced by zeros (`dpml.api.rows.thinned`).
        """
        rows, labels = validate_data(self, X, y, dtype=np.float64)
        weights = checked_weights(sample_weight, rows)
        check_classification_targets(labels)
        classes, codes = np.unique(labels, return_inverse=True)
        K = len(classes)
        if K < 2:
            raise ValueError(f"{type(self).__name__} needs labels of two classes, got one class: {classes[0]!r}.")
        self._algorithm("binary")  # other mistakes are reported first
        if K > 2 and not self.__sklearn_tags__().classifier_tags.multi_class:
            raise ValueError(
                f"Only binary classification is supported by algo={self.algo}. The type of the target is "
                f"{type_of_target(labels)}."
            )
        bounds = ranges_of(self.bounds, "bounds", rows)
        task: Task = "binary" if K == 2 else "multiclass"
        targets = (2 * codes - 1 if K == 2 else codes).astype(float)
        weights += class_weights(self.class_weight, classes, codes)
        model = self._released(rows, targets, task, bounds, party, weights)
        self.classes_, self.bounds_ = classes, bounds
        self._keep(model.reshape(1 if K == 2 else K, -1))
        return self

    def decision_function(self, X: ArrayLike) -> Array:
        """Return one score per row (scores >= 0 predict ``classes_[1]``) or, for K > 2 classes, K scores per row."""
        check_is_fitted(self)
        K = len(self.classes_)
        return self._scores(X, 1 if K == 2 else K)

    def predict(self, X: ArrayLike) -> Any:
        """Return the predicted label of every row, (n,)."""
        found = self.decision_function(X)
        return self.classes_[(found >= 0).astype(int) if found.ndim == 1 else np.argmax(found, axis=1)]

    def predict_proba(self, X: ArrayLike) -> Array:
        """Return the probability of every class for every row, (n, K): the sigmoid or softmax of the scores."""
        found = self.decision_function(X)
        return softmax(found, axis=1) if found.ndim == 2 else np.column_stack([expit(-found), expit(found)])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        with suppress(UserError, ValueError, TypeError):  # `fit` reports the error
            tags.classifier_tags.multi_class = bool(self._algorithm("multiclass"))
        tags.classifier_tags.poor_score = True
        return tags


@_suggesting
@dataclass(eq=False, repr=False)
class PrivateRegressor(RegressorMixin, _PrivateLinear):  # type: ignore[misc]
    """A linear least-squares regression with (eps, delta) differential privacy.

    >>> import numpy as np, dpml
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0, 10, (5000, 1))
    >>> y = 3 * X[:, 0] + rng.normal(0, 1, 5000)
    >>> model = dpml.PrivateRegressor("ssp", eps=1.0, bounds=[0, 10], y_bounds=[0, 30]).fit(X, y)
    >>> model.score(X, y) > 0.8
    True

    Other parameters, attributes, private data and neighbours are as for `PrivateClassifier`. A prediction is
    ``middle + half * x'w``, with the middle and half the width of `y_bounds`, and the row x in the unit ball. It is
    linear in the features for algo=regression; otherwise, rows are also divided by their norms.

    Args:
        algo: an algorithm that takes the squared loss.
        y_bounds: [low, high], a public range of the target; values outside are clipped. None: the smallest and largest
            training target, which the budget does not cover.
    """

    _: KW_ONLY
    y_bounds: Bounds | None = None

    def fit(
        self, X: ArrayLike, y: ArrayLike, party: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Fit and release one model from the private rows X (n, p) and targets y (n,).

        The other arguments are as for `PrivateClassifier`.
        """
        rows, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True)
        weights = checked_weights(sample_weight, rows)
        target = np.asarray(y, dtype=float)[:, None]
        bounds = ranges_of(self.bounds, "bounds", rows)
        low, high = ranges_of(self.y_bounds, "y_bounds", target)
        scaled = np.clip(to_both_sides(low, high)(np.clip(target, low, high))[:, 0], -1, 1)
        self._keep(self._released(rows, scaled, "regression", bounds, party, weights)[None])
        self.bounds_, self.y_bounds_ = bounds, (float(low[0]), float(high[0]))
        self.coef_, self.intercept_ = self.coef_[0], float(self.intercept_[0])
        return self

    def predict(self, X: ArrayLike) -> Array:
        """Return the predicted target of every row, (n,), in the unit of the training targets."""
        found = self._scores(X)
        low, high = self.y_bounds_
        return (low + high) / 2 + ((high - low) / 2 or 1.0) * found

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True
        return tags
