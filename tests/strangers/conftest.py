"""A stranger's machine: a fresh clone of what is committed, with an environment, and commands typed into it."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
Typed = Callable[..., str]


@pytest.fixture(scope="session")
def commands(tmp_path_factory) -> Path:
    """The folder with the commands of a fresh clone, with what parties on machines of their own need."""
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("a clone needs git, and a repository to clone")
    place = tmp_path_factory.mktemp("stranger")
    subprocess.run(["git", "clone", "--quiet", str(ROOT), "clone"], cwd=place, check=True)
    subprocess.run([sys.executable, "-m", "venv", "venv"], cwd=place, check=True)
    found = place / "venv" / "bin"
    subprocess.run([found / "pip", "install", "--quiet", "-e", place / "clone"], check=True)
    return found


@pytest.fixture
def typed(commands, tmp_path) -> Typed:
    """Type a command in an empty folder: its words, split at blanks, and further ones; what it prints comes back."""

    def run(line: str, *more: str, code: int = 0) -> str:
        name, *words = line.split()
        keep = {key: os.environ[key] for key in ("HOME", "LANG", "TMPDIR") if key in os.environ}
        environment = {
            **keep,
            "PATH": f"{commands}:/usr/bin:/bin",
            "DPML_CACHE": str(tmp_path / ".cache"),
        }
        started = time.monotonic()
        done = subprocess.run(
            [commands / name, *words, *more], cwd=tmp_path, env=environment, capture_output=True, text=True
        )
        print(f"{time.monotonic() - started:6.1f} s  {line[:100]}")
        assert done.returncode == code, f"{line}\n{done.stdout}\n{done.stderr}"
        assert "Traceback" not in done.stderr
        return done.stdout + done.stderr

    return run
