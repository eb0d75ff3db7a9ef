"""Generate the pages of results/ on the site: the same Markdown, with contents and files to download."""

import re
from pathlib import Path

from dpml.config.experiments import natural

RESULTS = Path(__file__).resolve().parents[3] / "results"
_UP = "../../.."  # from docs/gallery/PAPER to the repository


def pages() -> dict[str, str]:
    """Return every page by its name below gallery/."""
    folders = {
        folder.name: sorted((path.stem for path in folder.glob("*.md") if path.stem != "claims"), key=natural)
        for folder in sorted(RESULTS.iterdir())
        if any(folder.glob("*.md"))
    }
    others = [path for path in RESULTS.glob("*.md") if path.stem != "claims"]
    contents = [*(f"{name}/claims" for name in folders), "/frontier", *(path.stem for path in others)]
    found = {"index": _shown(RESULTS / "claims.md") + _contents(contents)}
    for name, own in folders.items():
        path = RESULTS / name / "claims.md"
        text = _shown(path) if path.is_file() else f"# {name.capitalize()}\n"
        found[f"{name}/claims"] = text + _contents(own)
        found |= {f"{name}/{stem}": _shown(RESULTS / name / f"{stem}.md") for stem in own}
    return found | {path.stem: _shown(path) for path in others}


def _shown(path: Path) -> str:
    """Return a page for MyST: its picture is in results/, and `$` does not start a formula."""
    text = re.sub(r"\]\((\w+\.svg)\)", rf"]({_UP}/results/{path.parent.name}/\1)", path.read_text("utf-8"))
    text = re.sub(r'<a id="([\w-]+)"></a>', r"(\1)=", text).replace("$", "\\$")
    text = text.replace("](../../docs/", "](/")
    text = re.sub(r"\]\(claims\.md\)", "](index.md)", text) if path.parent == RESULTS else text
    return f"{text}\n{_downloads(path)}" if path.with_suffix(".csv").is_file() else text


def _downloads(path: Path) -> str:
    kinds = [kind for kind in ("csv", "md", "svg", "json") if path.with_suffix(f".{kind}").is_file()]
    place = f"{_UP}/results/{path.parent.name}/{path.stem}"
    return f"Files: {', '.join(f'{{download}}`{path.stem}.{kind} <{place}.{kind}>`' for kind in kinds)}\n"


def _contents(names: list[str]) -> str:
    return "\n```{toctree}\n:hidden:\n\n" + "\n".join(names) + "\n```\n"
