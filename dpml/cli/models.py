"""Run `dpml release`, `show` and `ledger`, which release a model, print a model, and list a ledger's releases."""

import re
from argparse import Namespace
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from dpml.cli.console import print_table
from dpml.cli.files import own_file
from dpml.errors import UserError
from dpml.files import to_json
from dpml.privacy.guarantee import DECLARED, REAL
from dpml.privacy.safe import written
from dpml.release.ledger import Audience, Cap, Ledger, LedgerEntry, Unit, spent
from dpml.screen import Screen

if TYPE_CHECKING:
    from dpml.release.model import Model

_SEEN = {"release": "those who see what is published", "worst": "the worst view of every release"}
_FIXED = "These totals are proven if the algorithm and the budget of every release were fixed in advance"
_REAL = "proven for real numbers, not for these bits"
_DECLARED = "declared by code that is not part of dpml, and not proven"
_NEVER = "not published, but accounted for, because somebody may have seen its model"
_EFFECTS = (
    "The effect of a range is averaged over it; the effect of a category is relative to the mean of all categories. "
    "All other features are held at the middle of their range, or at their first value."
)


def run_release(arguments: Namespace) -> None:
    """Release one model and print its guarantees. A ledger records the release before the noise is drawn."""
    from dpml.api.release import request_of  # loads Hydra and pandas
    from dpml.api.settings import Settings
    from dpml.release.release import release

    settings = Settings(own_file(arguments), config_dir=arguments.config_dir)
    allowed = {"floating": arguments.floating, "declared": arguments.declared}
    request, path = request_of(settings, arguments.ledger, **allowed)
    ledger = Ledger(path)
    cap = None if arguments.cap is None else Cap(arguments.cap, arguments.cap_delta, request.unit)
    console = Screen()
    model, entry = release(request, ledger, cap, arguments.output, console.print)
    more = f"{arguments.output}: dpml show {arguments.output} prints its coefficients."
    console.print(*model.statement, "", more, f"{ledger.path}: release {entry.number}", sep="\n")


def run_show(arguments: Namespace) -> None:
    """Print a model's guarantees, classes, and coefficients in the data's units; --shapes draws feature effects."""
    from dpml.release.model import read_model

    model, console = read_model(arguments.model), Screen()
    if arguments.shapes is not None:
        _draw_shapes(model, arguments.shapes)
    for sentence in model.statement:
        console.print(sentence)
    heads = [model.label]
    if model.task != "regression":
        codes = zip((-1, 1) if model.task == "binary" else range(len(model.weights)), model.stated.classes, strict=True)
        console.print(f"\n{model.label}: {', '.join(f'{code:+} is {name}' for code, name in codes)}")
        names = model.stated.classes if len(model.weights) > 1 else model.stated.classes[1:]
        heads = [f"{'log odds' if model.loss == 'logistic' else 'score'} of {name}" for name in names]
    print_table(console, ["feature", "value", *heads], list(_coefficients(model)))
    console.print(_EFFECTS)
    if model.moments is not None:
        console.print(f"`dpml table {arguments.model}` prints intervals and p-values.", soft_wrap=True)


def _coefficients(model: "Model") -> Iterator[Sequence[str]]:
    import numpy as np

    from dpml.data.info import Range

    columns = model.stated.columns
    usual = np.array([c.low / 2 + c.high / 2 if isinstance(c, Range) else 0.0 for c in columns.values()])
    for place, (name, column) in enumerate(columns.items()):
        values = [column.low, column.high] if isinstance(column, Range) else range(len(column))
        rows = np.tile(usual, (len(values), 1))
        rows[:, place] = values
        effects = model.scale * model.scores(rows).reshape(len(values), -1)
        if isinstance(column, Range):
            unit = {"boolean": "if true", "date": "per day"}.get(model.stated.kind_of(name), "per unit")
            slopes = (effects[1] - effects[0]) / (column.high - column.low)
            yield [name, unit, *(f"{slope:+.3g}" for slope in slopes)]
            continue
        for value, effect in zip(column, effects - effects.mean(axis=0), strict=True):
            yield [name, value, *(f"{number:+.3g}" for number in effect)]


def _draw_shapes(model: "Model", folder: Path) -> None:
    from dpml.reporting import shapes  # slow to load

    if folder.exists() and any(folder.iterdir() if folder.is_dir() else [folder]):
        raise UserError(f"--shapes {folder} exists already and is not empty: choose another folder.")
    files = shapes.write(model, folder)
    print(f"{len(files)} files in {folder}: each feature as .png and .svg, and all numbers in shapes.csv\n")


def run_ledger(arguments: Namespace) -> None:
    """Print the releases in a ledger, their total eps, and the caps on the total."""
    beside = arguments.ledger.with_name(f"{arguments.ledger.name}.ledger")  # if the user names the data file
    ledger = Ledger(beside if beside.is_file() else arguments.ledger)
    if not ledger.path.is_file():
        raise UserError(f"there is no ledger {ledger.path}: `dpml release` creates one next to the data.")
    if not 0 < arguments.delta < 1:
        raise UserError(f"--delta must lie strictly between 0 and 1, got {arguments.delta:g}.")
    entries, caps = ledger.entries(), ledger.caps()
    totals = _totals(entries, arguments.delta)
    if arguments.json:
        releases = [asdict(entry) for entry in entries]
        print(to_json("dpml-ledger-1", releases=releases, totals=totals, caps=[asdict(cap) for cap in caps]))
        return
    console = Screen()
    heads = ["release", "date (UTC)", "algorithm", "unit", "eps published", "eps worst", "delta", "model"]
    print_table(console, heads, [_line(entry) for entry in entries])
    for total in totals:
        eps = "no total, because some releases protect samples only, or other parties."
        if total["eps"] is not None:
            eps = f"eps = {written(total['eps'])} at delta = {written(total['delta'], 6)}."
        console.print(f"All releases together, for one {total['unit']} and {_SEEN[total['audience']]}: {eps}")
    if len(entries) > 1:
        gaussian = all(each.mu is not None for entry in entries for each in entry.guarantees)
        rest = ". The cap holds even if earlier results chose them" if gaussian and caps else ""
        console.print(f"{_FIXED}{rest}.")
    for cap in caps:
        console.print(f"Cap for one {cap.unit}: eps = {cap.eps:g} at delta = {cap.delta:g}.")
    for entry in entries:
        bases = {each.basis for each in entry.guarantees}
        notes = [_REAL] * (REAL in bases) + [_DECLARED] * (DECLARED in bases) + [_NEVER] * (not entry.model)
        console.print(f"Release {entry.number}: {'; '.join([*notes, entry.setting])}")


def _line(entry: LedgerEntry) -> list[str]:
    public, worst = entry.seen_by("release"), entry.seen_by("worst")
    algorithm = re.search(r"\balgo='?([\w.]+)", entry.setting)
    date, model = entry.time[:10], entry.model[:12] if entry.model else "-"
    eps = [written(public.eps), written(worst.eps), written(worst.delta, 6)]
    return [str(entry.number), date, algorithm[1] if algorithm else "-", entry.unit, *eps, model]


def _totals(entries: Sequence[LedgerEntry], delta: float) -> list[dict[str, Any]]:
    totals = []
    for unit in get_args(Unit):
        if unit == "party" and not any(entry.unit == "party" for entry in entries):
            continue
        for audience in get_args(Audience):
            total = spent(entries, unit, audience)
            eps = None if total is None else total.eps(delta)
            totals.append({"unit": unit, "audience": audience, "eps": eps, "delta": delta})
    return totals
