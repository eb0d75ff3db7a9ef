"""The card of a release for the public registry of differential privacy deployments (registry.opendp.org).

Its keys are those of the registry's schema, tier 3, of July 2026. What only the publisher knows is to be filled in.
"""

from datetime import date
from typing import Any

import yaml

from dpml.privacy import worst
from dpml.privacy.safe import written
from dpml.release.facts import Facts
from dpml.release.statement import statement
from dpml.version import __version__

OPEN = "TO BE FILLED IN"


def card(facts: Facts, day: date) -> str:
    """The card of a release that was published on a `day`, as the content of its YAML file."""
    return yaml.safe_dump(_content(facts, day), sort_keys=False, allow_unicode=True, width=100)


def _content(facts: Facts, day: date) -> dict[str, Any]:
    lines = [line.partition(": ")[2] for line in statement(facts)]
    (unit, guarantee, noise), (trust, _, ranges, left_out) = lines[:3], lines[-4:]
    weakest, d = worst(facts.held), facts.problem.d
    basic = {
        "name": OPEN,
        "data_curators": [OPEN],
        "intended_use": OPEN,
        "data_product_type": "Machine learning model",
        "data_product_region": OPEN,
        "description": f"A linear model of {d} features, {facts.algorithm} of dpml {__version__}.",
        "publication_date": day.isoformat(),
    }
    loss = {
        "privacy_unit": "Record" if facts.unit == "sample" else "All records of one party",
        "privacy_unit_details": unit,
        "privacy_parameters": {"epsilon": float(written(weakest.eps, 6)), "delta": float(written(weakest.delta, 6))},
        "privacy_parameters_details": guarantee,
    }
    model = {
        "model_name": "Central" if facts.trust is None else "Federated",
        "actors": trust,
        "release_type": "One release",
        "data_source_type": "Static",
        "access_type": "Non-interactive",
    }
    variant = {
        "variant_name": "Approximate DP" if weakest.delta else "Pure DP",
        "data_domain": "Any records; values outside the stated ranges and lists are clipped or refused.",
        "unprotected_quantities": "The number of records, of features and of parties, and the parties' sizes.",
    }
    return {
        "url_slug": OPEN,
        "status": "Draft",
        "tier": 3,
        "deployment": {
            "basic": basic,
            "dp_variant": variant,
            "privacy_loss": loss,
            "deployment_model": model,
            "accounting": {
                "composition": guarantee,
                "post_processing": "The model is computed from what has noise, and predictions from the model.",
            },
            "implementation": {
                "preprocessing_and_hyperparameter_tuning": f"{ranges} Not covered: {left_out}",
                "mechanisms": noise,
            },
            "administrative": {"registry_authors": [OPEN]},
        },
    }
