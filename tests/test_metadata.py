"""Files that other programs read about the project say what pyproject.toml, CITATION.cff and the README say."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "scripts"))
metadata = pytest.importorskip("metadata")


def test_metadata_are_generated() -> None:
    for name, content in metadata.files().items():
        assert (ROOT / name).read_text(encoding="utf-8") == content, "python scripts/metadata.py writes it again"


def test_an_image_runs_the_commands_of_the_readme() -> None:
    first, second = (ROOT / "README.md").read_text("utf-8").split("```bash\n")[1].split("```")[0].strip().splitlines()
    image = (ROOT / "Dockerfile").read_text("utf-8")
    assert f"RUN {first}\n" in image
    assert second in image
