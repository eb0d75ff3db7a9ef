"""What numbers and timings were made with: versions, the commit, the machine."""

import os
import platform
import subprocess
from importlib.metadata import version
from pathlib import Path
from typing import Any

from dpml import __version__

_PACKAGES = ("numpy", "scipy", "pandas", "scikit-learn", "hydra-core")


def environment() -> dict[str, Any]:
    """What numbers and timings were made with: versions, the commit, the machine."""
    return {
        "versions": {"dpml": __version__, "python": platform.python_version()} | {p: version(p) for p in _PACKAGES},
        "git": _git_state(),
        "cpu": _cpu(),
        "platform": platform.platform(),
    }


def _git_state() -> dict[str, Any] | None:
    """Commit and cleanliness of the checkout that dpml runs from; None where it is installed without one."""
    package = Path(__file__).resolve().parent
    if not (package.parent / ".git").exists():
        return None

    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=package, capture_output=True, text=True, check=True).stdout.strip()

    try:
        return {"commit": git("rev-parse", "HEAD"), "dirty": bool(git("status", "--porcelain", "--untracked-files=no"))}
    except (OSError, subprocess.CalledProcessError):
        return None


def _cpu() -> dict[str, Any]:
    """The processor's name and the number of cores."""
    name = platform.processor()
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        name = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), name)
    except OSError:
        pass  # not Linux
    return {"model": name, "cores": os.cpu_count()}
