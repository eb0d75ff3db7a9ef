"""Write codemeta.json and .zenodo.json from pyproject.toml and CITATION.cff: python scripts/metadata.py."""

import json
import tomllib
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[1]


def files() -> dict[str, str]:
    """Return the content of each file by its name."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    names = [author["name"] for author in project["authors"]]
    both = {key: project[key] for key in ("description", "keywords", "license")} | {"version": citation["version"]}
    codemeta = {
        "@context": "https://w3id.org/codemeta/3.0",
        "@type": "SoftwareSourceCode",
        **both,
        "name": project["name"],
        "alternateName": citation["title"],
        "author": [{"@type": "Organization", "name": name} for name in names],
        "license": f"https://spdx.org/licenses/{project['license']}",
        "datePublished": str(citation["date-released"]),
        "programmingLanguage": "Python",
        "runtimePlatform": f"Python {project['requires-python']}",
        "operatingSystem": "Linux",
    }
    zenodo = both | {
        "title": citation["title"],
        "creators": [{"name": name} for name in names],
        "upload_type": "software",
        "publication_date": str(citation["date-released"]),
    }
    contents = {"codemeta.json": codemeta, ".zenodo.json": zenodo}
    return {name: json.dumps(content, indent=2) + "\n" for name, content in contents.items()}


if __name__ == "__main__":
    for name, content in files().items():
        (ROOT / name).write_text(content, encoding="utf-8")
