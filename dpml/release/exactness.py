"""Which algorithms are published: those whose noise is exact integers, and others only where somebody says so.

Floating-point noise has gaps, which depend on what it is added to, and so has what a solver returns: the last bits of a
published number can tell neighbours apart for certain (Mironov 2012). Its proof is about real numbers. A release with
such noise has to be asked for, and its guarantees then carry the basis `REAL`, in the model, the statement and the
ledger.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from omegaconf import OmegaConf

from dpml import packs, paths
from dpml.algorithms import Algorithm
from dpml.config.build import algorithm_of
from dpml.errors import UserError
from dpml.optim.losses import Loss
from dpml.privacy.guarantee import REAL, Guarantee

_SUGGESTED = ("wdgd", "dpgd")  # what has exact noise, for any loss that a linear model has


NOT_THESE_BITS = "proven for real numbers, not for these bits"


def has_exact_noise(algorithm: Algorithm) -> bool:
    """Whether an algorithm's noise is discrete, so that the guarantee does not depend on floating-point arithmetic."""
    return getattr(algorithm, "noise", "continuous") == "discrete"


def require_linear_model(algorithm: Algorithm) -> None:
    """Raise UserError unless an algorithm releases linear models to others, which an algorithm of a pack does not."""
    if type(algorithm).__module__.startswith(f"{packs.__name__}."):
        raise UserError(f"algo={algorithm.name} is for experiments and audits only: choose another, such as algo=wdgd.")
    if not getattr(algorithm, "linear", True):
        raise UserError(f"algo={algorithm.name} releases no linear model: choose another, such as algo=wdgd.")


def option_node(name: str) -> dict[Any, Any]:
    """What the file of the algorithm `name` says."""
    return dict(OmegaConf.load(paths.folder("conf") / "algo" / f"{name}.yaml"))


def exact_algorithm(node: Mapping[Any, Any], loss: Loss, calibration: str | None) -> Algorithm:
    """The algorithm of the option `node`, with exact noise where it has some and the node does not say which."""
    if "noise" not in node:
        with suppress(UserError):  # it has no such noise; another mistake is found again below
            return algorithm_of(OmegaConf.create({**node, "noise": "discrete"}), loss, calibration)
    return algorithm_of(OmegaConf.create(dict(node)), loss, calibration)


def require_exact(algorithm: Algorithm, remedy: str, others: Sequence[str] = _SUGGESTED) -> None:
    """Raise UserError unless the algorithm's noise is exact; `remedy` is how to publish it in spite of that.

    Named are the algorithm itself, with exact noise, and `others`, where they have some for its loss.
    """
    if has_exact_noise(algorithm):
        return
    found = []
    for name in dict.fromkeys((algorithm.name, *others)):
        with suppress(UserError):
            if has_exact_noise(exact_algorithm(option_node(name), algorithm.loss, "tight")):
                found.append(f"algo={name}")
    raise UserError(
        f"algo={algorithm.name} is asked to publish floating-point noise, whose last bits can tell neighbours apart: "
        f"take {' or '.join(found[:2])} with calibration=tight, whose noise is exact, or {remedy}, and what is proven "
        "is proven for real numbers, not for these bits."
    )


def of_these_bits(guarantees: Iterable[Guarantee], algorithm: Algorithm) -> list[Guarantee]:
    """The guarantees with the basis that they have for the numbers as published: what is proven may be `REAL` only."""
    if has_exact_noise(algorithm):
        return list(guarantees)
    return [
        replace(each, basis=REAL) if each.basis == "proven" and math.isfinite(each.eps) else each for each in guarantees
    ]
