"""Write docs/data: one page per data set and an index, from the metadata that the loaders use.

To write them: python scripts/data_pages.py. With --check, only say which are out of date.
"""

import argparse
import re
import sys
from pathlib import Path

from dpml.config import catalogue
from dpml.data import Info, Range, Raw, Source
from dpml.data.extent import after_one_hot
from dpml.data.info import Column
from dpml.data.sets.packaged import Packaged
from dpml.data.steps import STEPS
from dpml.data.table import Tabular

_PUBLIC = """
## Public ranges

Scaling as the papers do it is fitted to private training rows, and no budget counts that: every row of results names
it under `private_preprocessing`. `dataset.steps=[...]` chooses other steps. With `dataset.bounds=public` no step reads
a row: what is known of a column without its rows, on the page of its data set, takes the place of what would be
fitted, and as values are clipped, privacy does not rest on a range being right. What a publisher did to the rows before
is not counted; the page says where it is known.

| step | with public ranges |
| --- | --- |
| all | numbers are clipped to their range, on the scale log(1 + value) where it says so |
| `min_max`, `max_abs`, `centre`, `impute` | to [0, 1]; by the largest absolute value; less the middle; the middle |
| `one_hot` | a column for every value that is listed, in the rows or not |
| `max_norm` | by the largest norm that the ranges allow (after `min_max`: √columns before one-hot coding) |
| a regression's target | clipped to its range, and divided by its largest absolute value |
| `pca:D`, and data sets without public ranges | refused |

## A data set of your own

A CSV file needs no code ([own data](../own_data.md)), another source a [class](../howto/plug_ins.md#a-data-set). One
that is to come with dpml derives from `OfficialSplit` or `RandomSplit` of `dpml.data.table`, with `info` (where its
files come from, and what must be in them) and `parse` (files to a `Table`), in `dpml/data/sets/NAME.py`, and has
`conf/dataset/NAME.yaml`.

Written by `python scripts/data_pages.py`.
"""
_GET = """# Data sets

`dataset=NAME` chooses one. Files are fetched from their publishers at first use, checked against a pinned SHA-256,
parsed once and memory-mapped. (Not pinned are `twitter_buzz`, `url` and the features of `har`: rows and columns are
counted, and the checksum of the first file that is seen is compared from then on.)

| to | command or key |
| --- | --- |
| see which are here; fetch one, or `all` | `dpml data list`, `dpml data get NAME` |
| compare every file's content; find the folder | `dpml data check`, `dpml data path` |
| have files in `DIR/NAME/` (or .gz, .xz, .bz2), or a publisher's archive saved by hand | `data_dir=DIR` or DPML_DATA |
| fetch from another place, or nothing | `mirror=URL` or DPML_MIRROR, `offline=true` or DPML_OFFLINE=1 |
| keep parsed arrays elsewhere | DPML_CACHE |
"""
_VALUES = 8  # that are shown of a column
FOLDER = Path(__file__).resolve().parents[1] / "docs" / "data"


def pages() -> dict[str, str]:
    """The text of every page, by file name."""
    sources = catalogue.sources()
    tables = {name: source for name, source in sources.items() if isinstance(source, Packaged)}
    own = {f"{name}.md": page(name, source, sources) for name, source in sources.items() if name not in tables}
    return own | {"packaged.md": packages(tables), "README.md": index(sources)}


def index(sources: dict[str, Source]) -> str:
    """The list of all data sets."""
    rows = [
        f"| [`{name}`]({name}.md) | {source.info.task} | {_used(source):,} | {_width(source)} |"
        f" {'yes' if source.info.columns else 'no'} |"
        for name, source in sources.items()
        if not isinstance(source, Packaged)
    ]
    packed = ", ".join(f"`{name}`" for name, source in sources.items() if isinstance(source, Packaged))
    lines = [
        *_GET.splitlines(),
        "",
        "| name | task | rows | features | public ranges |",
        "| --- | --- | ---: | ---: | --- |",
        *rows,
        "",
        f"Further, from the package index, pinned: [tables of Python packages](packaged.md), {packed}. A file of",
        "your own is [`csv`](../own_data.md). `creditcard_subset` and `har_73of561` are smaller substitutes, for",
        "experiments only where the official files cannot be had; `crime_authors`, `twitter_authors` and",
        "`synthetic_authors` are samples that Imtiaz et al. 2019 published. Rows are dealt to parties by",
        "[partitions](../partitions.md).",
        "",
        "## Steps",
        "",
        "Rows must lie in the unit ball, and length 1 uses it best: `dataset.steps=[one_hot,symmetric,sample_norm]`.",
        "",
        *(f"- `{step}`: {_first_line(step)}" for step in STEPS),
        *_PUBLIC.splitlines(),
    ]
    return "\n".join([*lines, ""])


def packages(sources: dict[str, Source]) -> str:
    """One page for the tables of Python packages, which are alike in all but their content."""
    lines = [
        "# Tables of Python packages",
        "",
        "Constants of rules (`dpml/algorithms/defaults.py`) were chosen on one of them, diabetes. While `wdgd` was",
        "made, affairs, bikeshare, caravan, diamonds, digits, german_credit, loanapp and mroz were looked at;",
        "birthweight, college, credit_balance, mnist_5k and orange_juice were not.",
        "Nothing is stated of their columns: ranges are fitted.",
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
        archive = re.split(r"-py3|-cp|\.tar", info.files[0].urls[0].partition("!")[0].rpartition("/")[2])[0]
        lines.append(
            f"| {name} | {info.schema} | {info.rows:,} | {info.features} | {classes} | {info.citation}; {archive} |"
        )
    return "\n".join([*lines, ""])


def page(name: str, source: Source, sources: dict[str, Source]) -> str:
    """One data set's page."""
    info = source.info
    steps = ", ".join(f"`{step}`" for step in getattr(source, "steps", ()))
    scaled = (
        f"Steps: {steps}, fitted to training rows, which [no budget counts](README.md#public-ranges)."
        if steps
        else "Steps: none that can be chosen."
    )
    if info.task == "regression" and isinstance(source, Tabular):
        scaled += " The target is divided by its largest absolute value over the training rows."
    lines = [f"# {name}: {info.title}", "", _counts(source), "", info.schema, "", scaled, "", *_ranges(info, sources)]
    lines += ["## Papers and differences", "", info.papers, "", f"*Here.* {info.differences}", ""]
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


def _ranges(info: Info, sources: dict[str, Source]) -> list[str]:
    """What is stated of the columns; neighbours of which the same is stated share a line."""
    if not info.columns:
        return [f"Public ranges: none, as {info.bounds}.", ""]
    first = next(name for name, other in sources.items() if other.info.bounds == info.bounds)
    if first != info.name:
        return [f"Public ranges: [as of {first}]({first}.md#public-ranges), for the columns that are there.", ""]
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
    lines = [_file(raw) for raw in shown]
    if len(info.files) > len(shown):
        lines += [f"- and so on up to `{info.files[-1].name}`, alike"]
    folders = " or ".join(f"`{folder}/`" for folder in info.folders)
    also = f" The folder may also be {folders}." if folders else ""
    return [*lines, "", f"{info.how_to_get}{also}"]


def _file(raw: Raw) -> str:
    if raw.sha256:
        known = "sha256 " + " or ".join(f"`{digest}`" for digest in raw.sha256)
    else:
        sizes = [f"{number:,} {what}" for number, what in ((raw.lines, "lines"), (raw.fields, "columns")) if number]
        known = f"{', '.join(sizes) or 'its contents'} checked, not pinned"
    return f"- `{raw.name}`: {known}"


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
