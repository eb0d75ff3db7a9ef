"""`dpml data`: what data sets there are and what is here, fetching them, and checking what is here."""

import argparse
import sys
from collections.abc import Iterable
from typing import Any

from rich.console import Console
from rich.table import Table as Screen

from dpml.config import catalogue
from dpml.data import Files, Source
from dpml.data.sets.table import Tabular, checksum
from dpml.data.sources import cache
from dpml.data.sources.files import difference, first_seen, read_content, remember, remembered
from dpml.errors import UserError

_WIDE = 200  # columns, where the output is not a terminal


def add_command(commands: Any) -> None:
    """Add `data` and its actions to the subparsers of `dpml`."""
    about = "data sets: what there is, what is here; fetch and verify"
    data = commands.add_parser("data", help=about, description=f"{about.capitalize()}.")
    actions = data.add_subparsers(dest="data_command", required=True, metavar="ACTION")

    def action(name: str, about: str, act: Any) -> argparse.ArgumentParser:
        parser: argparse.ArgumentParser = actions.add_parser(name, help=about, description=f"{about.capitalize()}.")
        parser.add_argument(
            "--data-dir", metavar="DIR", help="where data files lie (default: $DPML_DATA, else a cache)"
        )
        parser.set_defaults(action=act, mirror=None, offline=True)
        return parser

    action("list", "every data set, and whether it is here", _list)
    get = action("get", "fetch, verify and parse data sets", _get)
    get.add_argument("names", nargs="+", metavar="NAME", help="as in `dpml data list`, or all")
    get.add_argument(
        "--mirror", metavar="URL", help="fetch from here, laid out as a data folder (default: $DPML_MIRROR)"
    )
    get.add_argument("--offline", action="store_true", help="fetch nothing (as does DPML_OFFLINE=1)")
    get.set_defaults(offline=False)
    check = action("check", "read every raw file that is here again and compare its content", _check)
    check.add_argument("names", nargs="*", metavar="NAME", help="which sets (default: all)")
    path = action("path", "where data files and parsed arrays lie", _path)
    path.add_argument("names", nargs="*", metavar="NAME", help="the raw files of these sets (default: the folders)")


def _files(arguments: argparse.Namespace) -> Files:
    return Files(arguments.data_dir, arguments.mirror, arguments.offline)


def _named(names: Iterable[str]) -> dict[str, Source]:
    """The data sets called `names`; all of them for `all` or for no name."""
    names = list(names)
    if not names or names == ["all"]:
        return catalogue.sources()
    return {name: catalogue.source(name) for name in names}


def state(source: Source, files: Files) -> str:
    """`ready` (nothing to fetch or parse), `raw only` (not parsed yet), `incomplete`, or `missing`."""
    if not source.info.files:
        return "ready"
    paths = {raw.name: files.local(source.info, raw.name) for raw in source.info.files}
    here = [path for path in paths.values() if path is not None]
    if len(here) < len(paths):
        return "incomplete" if here else "missing"
    if not isinstance(source, Tabular):
        return "ready"
    known = {name: content.sha256 for name, path in paths.items() if path and (content := remembered(path))}
    if len(known) == len(paths) and cache.folder(source.info.name, source.key(checksum(known))).is_dir():
        return "ready"
    return "raw only"


def _list(arguments: argparse.Namespace) -> None:
    files = _files(arguments)
    screen = Screen(show_lines=True)
    for column in ("name", "task"):
        screen.add_column(column, no_wrap=True)
    for column in ("rows", "d"):
        screen.add_column(column, justify="right", no_wrap=True)
    screen.add_column("state", no_wrap=True)
    for column in ("parties in the papers", "source, licence, citation"):
        screen.add_column(column, overflow="fold")
    colours = {"ready": "green", "raw only": "yellow", "incomplete": "red", "missing": "red"}
    for name, source in catalogue.sources().items():
        info, now = source.info, state(source, files)
        _, d = source.size(None)
        screen.add_row(
            name,
            info.task,
            f"{source.drawn() if isinstance(source, Tabular) else info.rows:,}",
            f"{d}" if d == info.features else f"{info.features:,} -> {d}",
            f"[{colours[now]}]{now}[/]",
            info.parties,
            f"{info.homepage or info.how_to_get}\n{info.licence}\n{info.citation}",
        )
    console = Console()
    if not console.is_terminal:
        console = Console(width=_WIDE)
    console.print(screen)
    print(f"Data files: {files.root}   parsed arrays: {cache.root()}")


def _get(arguments: argparse.Namespace) -> None:
    """Fetch what can be fetched; one that cannot does not keep the others from it."""
    files, failed = _files(arguments), []
    for name, source in _named(arguments.names).items():
        try:
            print(f"{name}: {_prepare(source, files)}", flush=True)
        except UserError as error:
            if len(arguments.names) == 1 and arguments.names != ["all"]:
                raise
            failed.append(name)
            print(f"{name}: {error}", file=sys.stderr)
    if failed:
        raise UserError(f"not all data sets could be had: {', '.join(failed)} (see above).")


def _prepare(source: Source, files: Files) -> str:
    info = source.info
    if not info.files:
        return f"nothing to fetch. {info.how_to_get}"
    if isinstance(source, Tabular):
        table, _ = source.table(files)
        rows, columns = table.X.shape
        return f"ready, {rows:,} rows x {columns:,} columns as parsed, verified"
    files.verified(info)
    return f"ready, {info.rows:,} rows x {info.features} columns, verified"


def _check(arguments: argparse.Namespace) -> None:
    files, bad, seen = _files(arguments), 0, {}
    for name, source in _named(arguments.names).items():
        missing: list[str] = []
        for raw in source.info.files:
            path = files.local(source.info, raw.name)
            if path is None:
                missing.append(raw.name)
                continue
            if path not in seen:
                before = first_seen(path)
                content = read_content(path, raw.separator)
                problem = difference(raw, content)
                if not problem and not raw.sha256 and before and before != content.sha256:
                    problem = f"it has changed since its sha256 {before[:16]}... was recorded"
                if not problem:
                    remember(path, content)
                seen[path] = problem
            ok = "ok" if raw.sha256 else "ok (no published sha256: size, and the sha256 recorded here)"
            print(f"{name}: {raw.name}: {f'WRONG, {seen[path]}: {path}' if seen[path] else ok}")
            bad += bool(seen[path])
        if missing:
            more = f" and {len(missing) - 2} more" if len(missing) > 2 else ""
            print(f"{name}: {', '.join(missing[:2])}{more}: missing")
        if not source.info.files:
            print(f"{name}: no files. {source.info.how_to_get}")
    if bad:
        raise UserError(
            f"{bad} of the files are not what they should be: move them away, then get them again with dpml data get."
        )


def _path(arguments: argparse.Namespace) -> None:
    files = _files(arguments)
    if not arguments.names:
        print(f"data files     {files.root}\nparsed arrays  {cache.root()}")
        return
    for source in _named(arguments.names).values():
        for raw in source.info.files:
            print(files.local(source.info, raw.name) or f"missing: {files.root / source.info.name / raw.name}")
