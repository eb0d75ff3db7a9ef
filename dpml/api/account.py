"""Enter the fits of estimators into a ledger, and warn where less is proven than was asked for."""

import math
import warnings
from typing import Any

from dpml.errors import PrivacyWarning, UserError
from dpml.privacy import Guarantee, worst
from dpml.privacy.safe import written
from dpml.release.facts import Facts, statement
from dpml.release.ledger import Ledger, current


def count(estimator: Any, facts: Facts, holdings: str | None) -> None:
    """Enter a fit whose noise is not drawn yet into the ledger; warn of what is not proven, or of a second fit.

    It sets the attributes that say what is proven. `holdings` is the `parties` of `Ledger.enter`.
    """
    ledger, entry, more = estimator.ledger or current(), None, "not at all, as nothing is proven."
    if not isinstance(ledger, Ledger | None):
        raise UserError(f"ledger must be a dpml.Ledger(PATH, cap=...) or None, got {ledger!r}.")
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
            more = "in no ledger."
            if hasattr(estimator, "facts_"):
                warnings.warn(
                    "this estimator was fitted before, and this fit is in no ledger: if rows of the same people were "
                    "in both, more privacy is lost than guarantees_ says. dpml.Ledger(path, cap=...) adds fits up.",
                    PrivacyWarning,
                    stacklevel=4,
                )
    estimator.setting_, estimator.facts_, estimator.guarantees_ = setting_of(estimator), facts, list(facts.guarantees)
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
