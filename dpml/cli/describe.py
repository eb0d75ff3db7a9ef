"""Run `dpml data describe`, which prints how a run would read a user's file."""

import shlex
from argparse import Namespace
from collections.abc import Iterator

from dpml.cli.console import print_table
from dpml.cli.files import AS_PRIVATE, own_options
from dpml.config.words import word_of
from dpml.data.csv.column_bounds import WRITTEN
from dpml.data.csv.describe import Description, bounds_text, describe, outside
from dpml.data.csv.profile import ColumnProfile
from dpml.data.sets.csv import CSV
from dpml.errors import UserError
from dpml.files import to_json, write_atomically
from dpml.screen import Screen

_SHOWN = 3  # categories shown per column


def run_describe(arguments: Namespace) -> None:
    """Print the columns of a file, report values outside of --bounds, and write a draft of bounds to --bounds-out."""
    target = arguments.bounds_out
    if target is not None and arguments.label is None:
        raise UserError("--bounds-out also writes the classes or the range of the label: add --label COLUMN.")
    if target is not None and target.exists():
        raise UserError(f"{target} is there already, and may have been edited: name another file for --bounds-out.")
    description = describe(CSV(str(arguments.file), **own_options(arguments)))
    console = Screen(quiet=arguments.json)
    lines = [_line(found, description.rows) for found in description.features]
    print_table(console, ["column", "type", "values", "missing", "note"], lines)
    sentences = [*description.noticed, *_sentences(description)]
    if arguments.bounds is not None:
        beyond = outside(description)
        sentences += beyond or [f"All values are within the bounds of {arguments.bounds}."]
        if beyond:
            sentences.append("A run clips such numbers to their range, and treats such categories as unknown.")
    if arguments.json:
        columns = [vars(found) | {"kind": found.kind.name} for found in description.features]
        counts = {key: getattr(description, key) for key in ("rows", "complete", "parties")}
        print(to_json("dpml-data-describe-1", **counts, columns=columns, sentences=sentences))
    for sentence in [*sentences, AS_PRIVATE]:
        console.print(sentence, soft_wrap=True)
    if target is not None:
        write_atomically(target, bounds_text(description))
        console.print(f"written: {target}, to be edited", soft_wrap=True)


def _line(found: ColumnProfile, rows: int) -> list[str]:
    note = f"refused: it {found.problem}" if found.problem else found.hint
    if not found.problem and (found.low == found.high or len(found.values) == 1):
        note = "one value only"
    missing = f"{found.missing:,}" + (f" ({found.missing / rows:.0%})" if found.missing else "")
    return [found.name, found.kind.name, _values(found), missing, note or "-"]


def _values(found: ColumnProfile) -> str:
    kind = found.kind
    if kind.name == "number":
        return "-" if found.low != found.low else f"{found.low:g} to {found.high:g}"
    if kind.name == "date":
        return kind.form if found.problem else f"{kind.shown(found.low)} to {kind.shown(found.high)}"
    shown = ", ".join(found.values[:_SHOWN])
    return shown if len(found.values) <= _SHOWN else f"{shown}, ... ({len(found.values):,})"


def _sentences(description: Description) -> Iterator[str]:
    labels, rows, label = description.labels, description.rows, description.options.label
    if labels is None:
        yield "To choose the column to predict, add --label COLUMN."
    elif labels.task == "regression":
        yield "label {}: regression, {:g} to {:g}".format(label, *description.classes)
    else:
        counts = zip(labels.names.items(), description.classes, strict=True)
        classes = "; ".join(f"{number} is {name} ({count:,.0f} rows)" for (number, name), count in counts)
        yield f"label {label}: {labels.task}, {classes}"
    columns = len(description.features) - len(description.problems)
    parties = "" if description.parties is None else f"; {description.parties:,} parties"
    yield (
        f"{rows:,} rows; {description.complete:,} without a missing value; {columns:,} columns for features, "
        f"{description.width:,} after one_hot{parties}"
    )
    for each in description.problems:
        yield f"A run would refuse the column {each.name!r}."
    if description.complete < rows and description.options.missing == "drop":
        yield (
            "dataset.missing=drop, the default, leaves out rows with a missing value; dataset.missing=keep with "
            "dataset.steps=[impute,one_hot,symmetric,bias,sample_norm] fills them in."
        )
    if labels is not None:
        options, usual = description.options, CSV()
        reading = options.statements.reading if options.statements else {}
        named = {key: getattr(options, key) for key in ("path", "label", "party", "bounds", "drop", *WRITTEN)}
        named["drop"] = (*options.drop, *(each.name for each in description.problems))
        given = {key: said for key, said in named.items() if said not in (getattr(usual, key), reading.get(key))}
        words = ["dataset=csv", *(word_of(f"dataset.{key}", said) for key, said in given.items())]
        yield f"A run: dpml-run {shlex.join(words)}, with the steps {', '.join(options.steps)}"
