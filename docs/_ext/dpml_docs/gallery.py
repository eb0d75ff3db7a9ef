"""The pages of the gallery: every figure of results/ with its command, its data and its verdicts."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import yaml

from dpml import paths
from dpml.config.compose import natural
from dpml_docs import claims, papers

RESULTS = claims.RESULTS
_UP = "../../.."  # from docs/gallery/PAPER to the repository


@dataclass(frozen=True)
class Figure:
    """An experiment: what its YAML file or its manifest says, and which files it made."""

    name: str
    title: str
    source: str
    command: str
    note: str
    files: tuple[str, ...]

    @property
    def paper(self) -> str:
        """The folder."""
        return self.name.partition("/")[0]

    @property
    def stem(self) -> str:
        """The name inside the folder."""
        return self.name.partition("/")[2]

    def twins(self) -> Iterator[tuple[str, str]]:
        """The calibrations that have files of their own: name of the files, and calibration."""
        yield self.stem, "published"
        if f"{self.stem}_tight.md" in self.files:
            yield f"{self.stem}_tight", "tight"

    def picture(self, stem: str) -> str:
        """The path of a picture from the figure's page, where there is one."""
        return f"{_UP}/results/{self.paper}/{stem}.png" if f"{stem}.png" in self.files else ""


def figures() -> list[Figure]:
    """Every experiment in experiments/, computed or not, fig2 before fig10."""
    files = [path for path in paths.folder("experiments").glob("*/*.yaml") if not path.name.startswith("_")]
    return sorted(map(_figure, files), key=lambda figure: natural(figure.name))


def _figure(path: Path) -> Figure:
    name = f"{path.parent.name}/{path.stem}"
    about = yaml.safe_load(path.read_text(encoding="utf-8"))
    manifest = RESULTS / f"{name}.json"
    if not manifest.is_file():
        return Figure(name, about["title"], about["source"], f"dpml-run experiment={name}", about.get("note", ""), ())
    made = json.loads(manifest.read_text(encoding="utf-8"))
    folder = manifest.parent
    files = tuple(file for file in (*made["files"], manifest.name) if (folder / file).is_file())
    return Figure(name, made["title"], made["source"], made["command"], made["note"], files)


def pages() -> dict[str, str]:
    """Every page by its name below gallery/."""
    known = figures()
    by_paper = {paper: list(members) for paper, members in groupby(known, key=lambda figure: figure.paper)}
    found = {path.stem: _table(path) for path in sorted(RESULTS.glob("*.md")) if path.stem != "claims"}
    found |= {"index": index(by_paper, list(found))}
    for figure in known:
        if figure.files:
            found[figure.name] = page(figure)
    for path in sorted(RESULTS.glob("*/*.md")):
        name = f"{path.parent.name}/{path.stem}"
        if name not in found and not path.stem.endswith("_tight"):
            found[name] = _table(path)
    return found | {f"{paper}/index": overview(paper, members, found) for paper, members in by_paper.items()}


def index(by_paper: dict[str, list[Figure]], tables: list[str]) -> str:
    """A card for every paper, with its first picture; and `tables` that are about none."""
    cards = [
        _card(f"{paper}/index", papers.about(paper), _shown(members), ", ".join(m.stem for m in members if m.files))
        for paper, members in by_paper.items()
    ]
    toctree = "\n".join(f"{paper} <{paper}/index>" for paper in by_paper)
    further = "\n".join(tables)
    return f"""# Gallery

Every figure and table in `results/`, with its command, its numbers, and the verdicts on the claims that it tests.
`dpml-run experiment=all` makes all of them.

::::{{grid}} 1 2 3 3
:gutter: 3

{"".join(cards)}
::::

```{{toctree}}
:hidden:

{toctree}
/frontier
{further}
```
"""


def _shown(members: list[Figure]) -> str:
    return next((f"../../results/{f.paper}/{f.stem}.png" for f in members if f.picture(f.stem)), "")


def _card(link: str, title: str, picture: str, text: str) -> str:
    image = f":img-top: {picture}\n:img-alt: {title}\n" if picture else ""
    return f":::{{grid-item-card}} {title}\n:link: {link}\n:link-type: doc\n{image}\n{text}\n:::\n"


def overview(paper: str, members: list[Figure], found: dict[str, str]) -> str:
    """A card for every figure of a paper."""
    verdicts = claims.read()
    cards = []
    for figure in members:
        if figure.files:
            counted = claims.counted([claim for claim in verdicts if claim.experiment == figure.name])
            cards.append(_card(figure.stem, figure.stem, figure.picture(figure.stem), f"{figure.title}\n\n{counted}"))
    further = [name for name in found if name.startswith(f"{paper}/") and name not in {f.name for f in members}]
    missing = [f"- {figure.title} ({figure.source}): `{figure.command}`" for figure in members if not figure.files]
    stems = [name.partition("/")[2] for name in further] + [f.stem for f in members if f.files]
    toctree = "\n".join(f"{stem} <{stem}>" for stem in stems)
    lists = [f"## Tables\n\n{''.join(f'- [](/gallery/{name}.md){chr(10)}' for name in further)}" if further else ""]
    lists += ["## Not computed here\n\n" + "\n".join(missing) if missing else ""]
    return f"""# {papers.about(paper)}

`dpml-run experiment={paper}` makes all of these.

::::{{grid}} 1 2 3 3
:gutter: 3

{"".join(cards)}
::::

{chr(10).join(lists)}

```{{toctree}}
:hidden:

{toctree}
```
"""


def page(figure: Figure) -> str:
    """A figure's page: picture, verdicts, guarantees, values and files, for every calibration that it has."""
    lines = [f"# {figure.stem}: {figure.title}\n", f"{figure.source}.\n", f"```sh\n{figure.command}\n```\n"]
    lines.append(f"{figure.note}\n")
    twins = list(figure.twins())
    for stem, calibration in twins:
        if len(twins) > 1:
            lines.append(f"## {calibration.capitalize()} noise\n")
        if picture := figure.picture(stem):
            lines.append(f"![{figure.title}]({picture})\n")
        lines.append(f"{_downloads(figure, stem)}\n")
        lines += [f":::::{{dropdown}} {title}\n{body}\n:::::\n" for title, body in _sections(figure, stem)]
    own = [claim for claim in claims.read() if claim.experiment == figure.name]
    if own:
        lines.append("## Verdicts\n")
        lines += [claims.block(claim) for claim in own]
    return "\n".join(lines)


def _downloads(figure: Figure, stem: str) -> str:
    kinds = [kind for kind in ("csv", "md", "tex", "svg", "json") if f"{stem}.{kind}" in figure.files]
    links = [f"{{download}}`{stem}.{kind} <{_UP}/results/{figure.paper}/{stem}.{kind}>`" for kind in kinds]
    return f"Files: {', '.join(links)}"


def _sections(figure: Figure, stem: str) -> Iterator[tuple[str, str]]:
    """The sections of a figure's Markdown page but those that this page has in a form of its own."""
    text = (RESULTS / figure.paper / f"{stem}.md").read_text(encoding="utf-8")
    for section in text.split("\n## ")[1:]:
        title, _, body = section.partition("\n")
        if title != "Claims":
            yield title, re.sub(r"^#+ (.*)", r"**\1**", _plain(body), flags=re.MULTILINE).strip()


def _table(path: Path) -> str:
    """A page of results that is no figure."""
    return _plain(path.read_text(encoding="utf-8"))


def _plain(text: str) -> str:
    """Without what is a formula only to MyST."""
    return text.replace("$", "\\$")
