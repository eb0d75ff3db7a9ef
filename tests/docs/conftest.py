"""The site, built once with warnings as errors, where what it needs is installed: pip install -e '.[docs]'."""

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from filelock import FileLock

ROOT = Path(__file__).parents[2]
NEEDED = ("latex2mathml", "myst_parser", "pydata_sphinx_theme", "sphinx", "sphinx_design", "sphinx_gallery")

sys.path.insert(0, str(ROOT / "docs" / "_ext"))
if any(find_spec(name) is None for name in NEEDED) or not (ROOT / "results").is_dir():  # an sdist has no results
    collect_ignore = ["test_generated.py", "test_site.py"]


@pytest.fixture(scope="session")
def site(tmp_path_factory, worker_id):
    """The folder of the HTML; of a copy, so that nothing is left in the working tree, and one for all workers."""
    shared = tmp_path_factory.getbasetemp()
    folder = (shared if worker_id == "master" else shared.parent) / "site"
    with FileLock(f"{folder}.lock"):
        if not folder.exists():
            build(folder)
    return folder / "html"


def build(folder):
    made = shutil.ignore_patterns("_build", "gallery", "reference", "tour", "verdicts", "results", "__pycache__")
    shutil.copytree(ROOT / "docs", folder / "docs", ignore=made)
    for name in ("results", "README.md", "CHANGELOG.md"):
        (folder / name).symlink_to(ROOT / name)
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", "docs", "html"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
