"""Write and read the JSON file of a published model, which has everything that predictions need.

Only `weights`, `errors` and `moments` are computed from private rows.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import expit, softmax

from dpml.algorithms.quadratic.moments import Moments, NewtonMoments, moments_of, plain
from dpml.arrays import Array
from dpml.data.csv.column_bounds import ColumnBounds, bounds_from
from dpml.data.info import Task
from dpml.data.preprocess import apply_steps
from dpml.errors import UserError
from dpml.files import seal_object
from dpml.optim.losses import scores
from dpml.privacy import Guarantee
from dpml.release import verify

PROBABILITY = "probability_"
"""The prefix of the columns with the probabilities of the classes."""


@dataclass(frozen=True)
class Model:
    """A published linear model, which predicts a label from preprocessed rows."""

    task: Task
    loss: str
    label: str  # the name of the predicted column
    stated: ColumnBounds  # the public statements about the features, by name and in order, and about the label
    steps: tuple[str, ...]  # preprocessing steps, which are not fitted to rows
    weights: Array  # one row (1, d), or (K, d) for K classes
    guarantees: tuple[Guarantee, ...]  # proven against every observer
    statement: tuple[str, ...]  # the guarantees in words
    setting: str  # the requested setting, without file paths
    versions: Mapping[str, str]  # versions of the software that made the model
    offset: float = 0.0  # for regression: prediction = offset + scale * score, in the label's unit
    scale: float = 1.0  # offset + scale * score predicts log(1 + label) if the label's range is on a log scale
    certificate: Mapping[str, Any] | None = None  # for `dpml verify`; None: nothing is proven
    errors: Mapping[str, Any] | None = None  # the noisy error on the training rows; None: it was not computed
    moments: Moments | NewtonMoments | None = None  # the noisy sums of algo=regression, for its table of coefficients

    def text(self) -> str:
        """Return the text of the model's file, JSON that ends with a checksum of everything before it."""
        content = {"format": verify.MODEL} | vars(self)
        content["stated"] = self.stated.content()
        content["weights"] = self.weights.tolist()  # JSON keeps all bits of a float
        content["guarantees"] = [_plain(guarantee) for guarantee in self.guarantees]
        content["moments"] = plain(self.moments)
        for key in ("errors", "moments"):
            if content[key] is None:
                del content[key]
        return json.dumps(seal_object(content), indent=1, ensure_ascii=False, allow_nan=False) + "\n"

    def scores(self, X: Array) -> Array:
        """Return the model's scores x'w, (n,) or (n, K), for rows (n, p) before preprocessing."""
        rows, _, _ = apply_steps(self.steps, X, X[:0], self.stated.columns)
        K = len(self.weights)
        return scores(rows, self.weights.reshape(1, -1), K)[:, 0]

    def predictions(self, X: Array) -> dict[str, Any]:
        """Return the columns of a table of predictions for rows X (n, p), with the probabilities of the classes."""
        found = self.scores(X)
        if self.task == "regression":
            target = self.offset + self.scale * found
            on_log_scale = self.stated.target is not None and self.stated.target.log
            return {"prediction": np.expm1(target) if on_log_scale else target}
        names = np.array(self.stated.classes, dtype=object)
        chosen = (found >= 0).astype(int) if found.ndim == 1 else found.argmax(axis=1)
        likely: list[Array] = []
        if self.loss == "logistic":
            likely = [expit(-found), expit(found)]
        elif self.loss == "softmax":
            likely = list(softmax(found, axis=1).T)
        named = {f"{PROBABILITY}{name}": of for name, of in zip(names, likely, strict=False)}
        return {"prediction": names[chosen]} | named


def _plain(guarantee: Guarantee) -> dict[str, Any]:
    infinite = {"eps": None, "mu": None} if math.isinf(guarantee.eps) else {}  # JSON has no infinity
    return asdict(guarantee) | infinite


def _guarantee(content: Mapping[str, Any]) -> Guarantee:
    return Guarantee(**{**content, "eps": math.inf if content["eps"] is None else content["eps"]})


def read_model(path: Path) -> Model:
    """Read a model's file, and return the model; raise UserError if the file is not a valid model."""
    try:
        content = verify.read(path)
        del content["format"]
        content["stated"] = bounds_from(path, content["stated"])
        content["weights"] = np.array(content["weights"], dtype=float)
        content["guarantees"] = tuple(map(_guarantee, content["guarantees"]))
        if "moments" in content:
            content["moments"] = moments_of(content["moments"])
        model = Model(**content | {key: tuple(content[key]) for key in ("steps", "statement")})
        model.scores(np.zeros((1, len(model.stated.columns))))
    except (verify.RejectedError, LookupError, TypeError, ValueError, ArithmeticError, AttributeError) as error:
        raise UserError(f"{path} is not a valid model file: {str(error)[:200]}.") from None
    return model
