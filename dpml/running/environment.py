"""Describe where numbers were computed: software versions, the commit of dpml, and the machine."""

import os
import platform
import subprocess
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from dpml import code
from dpml.version import __version__

_CODE = ("dpml", "conf", "experiments", "pyproject.toml")


def provenance(versions: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return the commit of dpml and the software `versions`; if none are given, return the installed versions."""
    return {"versions": dict(versions or made_with()), "git": _git_state()}


def made_with() -> dict[str, str]:
    """Return the installed versions of dpml, Python and the numerical libraries."""
    return {"dpml": __version__, "python": platform.python_version(), **code.versions()}


def environment(versions: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return the software versions, the commit of dpml, and a description of the machine."""
    return {**provenance(versions), "cpu": _cpu(), "platform": platform.platform()}


@cache
def matrix_rate() -> float:
    """Measure how many GFLOP/s one core reaches in products of single-precision matrices; take the best of 5 trials."""
    matrix = np.ones((1000, 1000), np.float32)
    best = np.inf
    with threadpool_limits(1):
        for _ in range(5):
            start = time.thread_time()
            matrix @ matrix
            best = min(best, time.thread_time() - start)
    return float(f"{2 * len(matrix) ** 3 / best / 1e9:.3g}")


def _git_state() -> dict[str, Any] | None:
    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():
        return None

    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=True).stdout.strip()

    try:
        changed = git("status", "--porcelain", "--untracked-files=no", "--", *_CODE)
        return {"commit": git("rev-parse", "HEAD"), "dirty": bool(changed)}
    except (OSError, subprocess.CalledProcessError):
        return None


def _cpu() -> dict[str, Any]:
    name = platform.processor()
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        name = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), name)
    except OSError:
        pass  # not Linux
    return {"model": name, "cores": os.cpu_count()}
