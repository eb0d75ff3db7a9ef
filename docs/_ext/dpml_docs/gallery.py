"""The pages of the gallery: every figure of results/ with its command, its data and its verdicts."""

from collections.abc import Sequence

import yaml

from dpml import paths
from dpml.packs import CARD
from dpml.reporting.outputs import FigureFiles, Outputs, Paper
from dpml.reporting.pages import content
from dpml_docs import claims

RESULTS = claims.RESULTS
_UP = "../../.."  # from docs/gallery/PAPER to the repository


def pages() -> dict[str, str]:
    """Every page by its name below gallery/."""
    papers = claims.results()
    shown = {"claims"}  # on the pages of verdicts
    tables = {path.stem: path for path in sorted(RESULTS.glob("*.md")) if path.stem not in shown}
    found = {"index": index(papers, list(tables))}
    for paper in papers:
        own = {figure.name for _, figure in paper.figures} | shown
        further = {path.stem: path for path in sorted((RESULTS / paper.name).glob("*.md")) if path.stem not in own}
        tables |= {f"{paper.name}/{stem}": path for stem, path in further.items()}
        found |= {experiment.name: page(experiment) for experiment in paper.experiments if experiment.figures}
        found[f"{paper.name}/index"] = overview(paper, list(further))
    return found | {name: _plain(path.read_text(encoding="utf-8")) for name, path in tables.items()}


def index(papers: Sequence[Paper], tables: Sequence[str]) -> str:
    """A card for every paper, with its first picture; and `tables` that are about none."""
    cards = []
    for paper in papers:
        picture = f"../../results/{paper.name}/{paper.drawn[0][1].name}.svg" if paper.drawn else ""
        made = ", ".join(experiment.short for experiment in paper.experiments if experiment.figures)
        cards.append(_card(f"{paper.name}/index", paper.title, picture, made))
    toctree = "\n".join(f"{paper.name} <{paper.name}/index>" for paper in papers)
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


def _card(link: str, title: str, picture: str, text: str) -> str:
    image = f":img-top: {picture}\n:img-alt: {title}\n" if picture else ""
    return f":::{{grid-item-card}} {title}\n:link: {link}\n:link-type: doc\n{image}\n{text}\n:::\n"


def overview(paper: Paper, further: Sequence[str]) -> str:
    """A card for every figure of a paper; `further` are the names of its pages that are no figure's."""
    made = [experiment for experiment in paper.experiments if experiment.figures]
    cards = [
        _card(one.short, one.short, _picture(one.figures[0]), f"{one.title}\n\n{claims.counted(one.verdicts)}")
        for one in made
    ]
    toctree = "\n".join(f"{stem} <{stem}>" for stem in [*further, *(experiment.short for experiment in made)])
    lists = (
        ["## Tables\n\n" + "".join(f"- [](/gallery/{paper.name}/{name}.md)\n" for name in further)] if further else []
    )
    missing = not_computed(paper)
    lists += ["## Not computed here\n\n" + "\n".join(missing)] if missing else []
    return f"""# {paper.title}

`dpml-run experiment={paper.name}` makes all of these.

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


def not_computed(paper: Paper) -> list[str]:
    """The paper's experiments that have no figures in results/, as they are described in experiments/."""
    made = {experiment.name for experiment in paper.experiments if experiment.figures}
    lines = []
    for path in sorted(paths.folder("experiments").joinpath(paper.name).glob("[!_]*.yaml")):
        name = f"{paper.name}/{path.stem}"
        if path.name != CARD and name not in made:
            about = yaml.safe_load(path.read_text(encoding="utf-8"))
            lines.append(f"- {about['title']} ({about['source']}): `dpml-run experiment={name}`")
    return lines


def page(experiment: Outputs) -> str:
    """A figure's page: picture, verdicts, guarantees, values and files, for every calibration that it has."""
    about = experiment.about
    lines = [f"# {experiment.short}: {experiment.title}\n", f"{about['source']}.\n"]
    lines += [f"```sh\n{about['command']}\n```\n", f"{about['note']}\n"]
    for figure in experiment.figures:
        if len(experiment.figures) > 1:
            lines.append(f"## {(figure.twin or 'published').capitalize()} noise\n")
        if figure.drawn:
            lines.append(f"![{experiment.title}]({_picture(figure)})\n")
        lines.append(f"{_downloads(figure)}\n")
        for section in figure.sections:
            body = _plain(content(section, heading="**{}**"))
            lines.append(f":::::{{dropdown}} {section['title']}\n{body.strip()}\n:::::\n")
    if about["skipped"]:
        skipped = "\n".join(f"- {number} cells: {_plain(reason)}" for reason, number in about["skipped"].items())
        lines.append(f":::::{{dropdown}} Not computed\n{skipped}\n:::::\n")
    if experiment.verdicts:
        lines += ["## Verdicts\n", *map(claims.block, experiment.verdicts)]
    return "\n".join(lines)


def _address(figure: FigureFiles, kind: str) -> str:
    """One of a figure's files, from the pages of its paper."""
    return f"{_UP}/results/{figure.folder.name}/{figure.name}.{kind}"


def _picture(figure: FigureFiles) -> str:
    return _address(figure, "svg") if figure.drawn else ""


def _downloads(figure: FigureFiles) -> str:
    kinds = [kind for kind in ("csv", "md", "svg", "json") if figure.file(kind).is_file()]
    links = [f"{{download}}`{figure.name}.{kind} <{_address(figure, kind)}>`" for kind in kinds]
    return f"Files: {', '.join(links)}"


def _plain(text: str) -> str:
    """Without what is a formula only to MyST."""
    return text.replace("$", "\\$")
