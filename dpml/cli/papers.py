"""Run `dpml plot`, `table`, `merge`, `report`, `cite` and `verify`, which all read stored results."""

import re
import sys
from argparse import Namespace
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from dpml import packs
from dpml.cli.files import refuse_overwriting
from dpml.errors import UserError, nearest
from dpml.files import to_json, write_atomically
from dpml.version import __version__

_INCHES = {"in": 1.0, "cm": 1 / 2.54, "mm": 1 / 25.4, "pt": 1 / 72.27}
_DPML = f"""\
@software{{dpml,
  author = {{{{The dpml authors}}}},
  title = {{dpml: experiments in multiparty differentially private learning}},
  version = {{{__version__}}},
  year = {{2026}},
  license = {{MIT}},
}}"""


def run_plot(arguments: Namespace) -> None:
    """Draw a figure for a paper, and print its path and a caption."""
    from dpml.reporting.chosen import chosen  # loads Matplotlib
    from dpml.reporting.figures import paper_figure, save_as

    output, width = arguments.output, _width(arguments.width)
    refuse_overwriting(output, arguments.force, ("pdf", "png", "svg"))
    charts = chosen(arguments.path).where(arguments.where).charts(arguments.x, arguments.y)
    figure, caption = paper_figure(charts, width)
    save_as(figure, output, dpi=300)
    print(output)
    print(caption)


def _width(text: str) -> float:
    length = re.fullmatch(r"(\d+\.?\d*|\.\d+) ?(in|cm|mm|pt)", text)
    inches = float(length[1]) * _INCHES[length[2]] if length else 0.0
    if not 1.5 <= inches <= 20:
        raise UserError(f"--width must be 1.5in to 20in, such as 3.3in, 84mm, 8.4cm or 240pt, got {text}.")
    return inches


def run_table(arguments: Namespace) -> None:
    """Write a table of results for a paper, or print the table as Markdown."""
    from dpml.reporting.chosen import chosen
    from dpml.reporting.run_table import FORMATS, run_table

    if arguments.output:
        refuse_overwriting(arguments.output, arguments.force, FORMATS)
    if arguments.path.suffix == ".json":
        if arguments.y or arguments.where:
            raise UserError("--y and --where select result rows, but a model file has none: leave out --y and --where.")
        _write_coefficients(arguments)
        return
    rows = chosen(arguments.path).where(arguments.where)
    table = run_table(rows.summary, arguments.y, rows.claims)
    _deliver(table.written, arguments.output)


def _deliver(written: Callable[[str], str | bytes], output: Path | None) -> None:
    if output is None:
        print(str(written("md")), end="")
    else:
        write_atomically(output, written(output.suffix[1:]))
        print(output)


def _write_coefficients(arguments: Namespace) -> None:
    from dpml.release.inference import coefficient_table, heading
    from dpml.release.model import read_model
    from dpml.reporting.coefficients import written

    model = read_model(arguments.path)
    lines = coefficient_table(model, arguments.level, _numbers(arguments.per))
    head = heading(model, arguments.level)
    _deliver(lambda kind: written(lines, kind, head, model.task == "binary"), arguments.output)


def _numbers(words: list[str]) -> dict[str, float]:
    found = {}
    for word in words:
        name, _, number = word.rpartition("=")
        try:
            found[name] = float(number)
            1 / found[name]
        except (ValueError, ZeroDivisionError):
            raise UserError(f"--per takes COLUMN=NUMBER, such as --per age=10, got {word!r}.") from None
    return found


def run_merge(arguments: Namespace) -> None:
    """Write the merged tables of several runs or sweeps, and print their paths."""
    from dpml.reporting.tables import merge

    for path in merge(arguments.folders, arguments.output):
        print(path)


def run_report(arguments: Namespace) -> None:
    """Write web pages about experiments, runs and sweeps, and print the path of the start page."""
    from dpml.reporting.html import write_report

    print(write_report(arguments.results))


def run_cite(arguments: Namespace) -> None:
    """Print the BibTeX entry of dpml or of one paper, or the entries of dpml and of all papers."""
    entries = citations()
    if arguments.name not in (None, *entries):
        raise UserError(f"there is no {arguments.name!r} to cite: {nearest(arguments.name, entries)}")
    print("\n\n".join([entries[arguments.name]] if arguments.name else entries.values()))


def citations() -> dict[str, str]:
    """Return the BibTeX entries of dpml and all papers, in a dict with the keys `dpml` and the papers' folder names."""
    from dpml.reporting.cards import card_of

    cards = {name: card_of(name) for name in packs.known()}
    return {"dpml": _DPML} | {name: card.citation.strip() for name, card in cards.items() if card and card.citation}


def run_verify(arguments: Namespace) -> None:
    """Recompute verdicts and tables from stored result rows, or recompute a model's guarantees from its certificate."""
    path = arguments.path
    if not path.is_dir() and not path.with_name(f"{path.stem}_rows.csv.xz").is_file():
        from dpml.release import verify as certificate

        if code := _verify_as_json(path) if arguments.json else certificate.main(str(path)):
            sys.exit(code)
        return
    from dpml.reporting.cards import card_of
    from dpml.reporting.evidence import verify

    experiments = []
    for one in verify(path):
        experiments.append(one)
        if arguments.json:
            continue
        counts = f"{one.verdicts} verdicts, {one.values} values of tables"
        print(f"{one.experiment}: {counts}: {'WRONG' if one.wrong else 'ok'}", *one.wrong, sep="\n  ", flush=True)
        card = card_of(one.experiment.partition("/")[0])
        if one.wrong and card and card.headline:
            print(f"  the headline of its page may now be wrong: {card.headline}")
    if arguments.json:
        print(to_json("dpml-verify-1", experiments=[asdict(one) for one in experiments]))
    if wrong := sum(len(one.wrong) for one in experiments):
        raise UserError(f"{wrong} statements in {path} do not follow from its rows: repeat dpml-run or add --pack DIR.")
    if arguments.json:
        return
    verdicts, values = (sum(getattr(one, key) for one in experiments) for key in ("verdicts", "values"))
    print(
        f"Recomputed from the stored rows: {verdicts:,} verdicts and {values:,} values of tables of "
        f"{len(experiments)} experiments. All agree with the stored ones. The rows were not recomputed."
    )


def _verify_as_json(path: Path) -> int:
    from dpml.release import verify

    try:
        content = verify.read(path)
    except verify.RejectedError as error:
        raise UserError(f"{path} was not verified: {error}") from None
    certificate = content.get("certificate", content)
    if certificate is None:
        raise UserError(f"{path} was not verified, because nothing is proven about this model.")
    found = [
        {"view": view, "eps": float(eps), "proven": None if proven is None else float(proven), "holds": eps == proven}
        for view, eps, proven in verify.verify(certificate)
    ]
    print(to_json("dpml-verify-1", unit=certificate["unit"], delta=certificate["delta"], views=found))
    return int(not all(each["holds"] for each in found))
