"""Keys that had another name in an earlier version."""

from collections.abc import Mapping

RENAMED: Mapping[tuple[str, str | None], str] = {
    ("algo.rate", "ClippedDescent"): "algo.noise_step",
    ("algo.share", "PreconditionedDescent"): "algo.budget_share",
    ("algo.share", "NoisyNewton"): "algo.budget_share",
    ("algo.norm", "NoisyNewton"): "algo.model_norm",
    ("algo.norm", "GaussianOutput"): "algo.model_norm",
    ("algo.tuned", "NoisyDescent"): "algo.step_selection",
    ("algo.protects", "NoisyDescent"): "algo.calibrate_for",
    ("algo.c", "NoisyDescent"): "algo.noise_constant",
}
"""The new key for an old key of a class of options, or of a run, ``("epsilon", None)``."""


def sentence(key: str, kind: str | None = None) -> str | None:
    """Return the new name of a former key of the class called `kind`, or None if it never was one."""
    return f"{key} is now called {RENAMED[key, kind]}." if (key, kind) in RENAMED else None
