"""Releases require rows without missing values."""

from pathlib import Path
from typing import Any

from dpml.data.csv.column_bounds import load
from dpml.errors import UserError


def require_complete(dataset: dict[str, Any]) -> None:
    """Set the default of a release, to refuse rows with missing values, in the settings of a data set."""
    if "missing" not in dataset:
        return
    if dataset["missing"] is None:
        bounds = Path(str(dataset["bounds"])).expanduser()
        stated = load(bounds).reading.get("missing") if bounds.is_file() else None
        dataset["missing"] = stated or "refuse"
    require_all_rows(dataset["missing"])


def require_all_rows(missing: str) -> None:
    """Raise UserError if rows with missing values would be left out."""
    if missing == "drop":
        raise UserError(
            "dataset.missing=drop leaves rows out because of their content, so a replaced row could change the number "
            "of rows: a release needs dataset.missing=refuse, or keep with the step impute."
        )
