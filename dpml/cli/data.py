"""Run `dpml data`, which lists, fetches and checks data sets, and deals their rows to parties."""

import sys
from argparse import Namespace
from functools import cache
from typing import Any

import numpy as np

from dpml.api.settings import Settings, is_private
from dpml.arrays import Array, Index
from dpml.cli.console import print_table
from dpml.cli.files import AS_PRIVATE
from dpml.config import catalogue
from dpml.data import Files, Source
from dpml.data.partition import Parties, Partition, Skew, distances
from dpml.data.sources import cache as parsed
from dpml.data.sources.files import difference, fresh_content, known_content
from dpml.data.table import Tabular, joint_checksum
from dpml.errors import UserError
from dpml.files import to_json
from dpml.screen import Screen

_EXPLAINED = (
    "distance: total variation distance between the class shares of a party and of all rows, from 0 (equal) to 1; by "
    "chance: for parties of the same sizes with rows dealt at random"
)


def _files(arguments: Namespace) -> Files:
    return Files(arguments.data_dir, into=getattr(arguments, "into", None))


def _named(arguments: Namespace) -> dict[str, Source]:
    if arguments.names in ([], ["all"]):
        return catalogue.sources(arguments.config_dir)
    return {name: catalogue.source(name, arguments.config_dir) for name in arguments.names}


def state(source: Source, files: Files) -> str:
    """Return the state of a data set's files: `ready`, `raw only` (not parsed yet), `incomplete`, or `missing`."""
    if not source.info.files:
        return "ready"
    local = {raw.name: files.local(source.info, raw.name) for raw in source.info.files}
    paths = {name: path for name, path in local.items() if path is not None}
    if len(paths) < len(local):
        return "incomplete" if paths else "missing"
    if not isinstance(source, Tabular):
        return "ready"
    digests = {name: content.sha256 for name, path in paths.items() if (content := known_content(path))}
    if len(digests) == len(paths) and parsed.folder(source.info.name, source.key(joint_checksum(digests))).is_dir():
        return "ready"
    return "raw only"


def run_list(arguments: Namespace) -> None:
    """Print a line for every data set, and the folders of data files and parsed arrays."""
    files, console, found = _files(arguments), Screen(), []
    for name, source in catalogue.sources(arguments.config_dir).items():
        info, (_, d) = source.info, source.size(None)
        rows = source.drawn() if isinstance(source, Tabular) else info.rows
        about: dict[str, Any] = {"name": name, "task": info.task, "rows": rows, "columns": info.features, "d": d}
        about |= {"state": state(source, files), "public_ranges": bool(info.columns)}
        found.append(about | {"published_checksums": all(raw.sha256 for raw in info.files)})
    if arguments.json:
        print(to_json("dpml-data-list-1", datasets=found))
        return
    lines = []
    for each in found:
        features = f"{each['d']}" if each["d"] == each["columns"] else f"{each['columns']:,} -> {each['d']}"
        lines.append([each["name"], each["task"], f"{each['rows']:,}", features, each["state"]])
    print_table(console, ["name", "task", "rows", "d", "state"], lines)
    public = ", ".join(each["name"] for each in found if each["public_ranges"])
    loose = ", ".join(each["name"] for each in found if not each["published_checksums"])
    console.print(f"Public ranges (dataset.bounds=public): {public}.")
    console.print(f"Without a published checksum, so that the first file seen is trusted: {loose}.")
    console.print("Your own file: dataset=csv dataset.path=FILE.csv dataset.label=COLUMN")
    print(f"data files     {', '.join(map(str, files.roots))}\nparsed arrays  {parsed.root()}")


def run_get(arguments: Namespace) -> None:
    """Fetch data sets. If one data set cannot be fetched, the other data sets are still fetched."""
    files, failed = _files(arguments), []
    for name, source in _named(arguments).items():
        try:
            print(f"{name}: {_prepare(source, files)}", flush=True)
        except UserError as error:
            if len(arguments.names) == 1 and arguments.names != ["all"]:
                raise
            failed.append(name)
            print(f"{name}: {error}", file=sys.stderr)
    if failed:
        raise UserError(f"failed to fetch {', '.join(failed)}: the lines above say why.")


def _prepare(source: Source, files: Files) -> str:
    info = source.info
    if not info.files:
        return f"nothing to fetch. {info.how_to_get}"
    rows, columns = info.rows, info.features
    if isinstance(source, Tabular):
        rows, columns = source.table(files)[0].X.shape
    else:
        files.verified(info)
    return f"ready, {rows:,} rows x {columns:,} columns, verified"


def run_check(arguments: Namespace) -> None:
    """Read all raw files again, and print whether each file has the expected content."""
    files, content = _files(arguments), cache(fresh_content)  # several data sets can share a file
    wrong = 0
    for name, source in _named(arguments).items():
        for raw in source.info.files:
            path = files.local(source.info, raw.name)
            verdict = "missing"
            if path is not None:
                verdict = "ok" if raw.sha256 else "ok (no published sha256: size, and the sha256 recorded here)"
                if problem := difference(raw, path, content(path)):
                    verdict = f"WRONG, {problem}: {path}"
                    wrong += 1
            print(f"{name}: {raw.name}: {verdict}")
    if wrong:
        raise UserError(
            f"{wrong} of the files do not have the expected content: move these files away, then run dpml data get."
        )


def run_partition(arguments: Namespace) -> None:
    """Deal the rows of a data set as a run would, and print or draw how the parties' rows differ."""
    from dpml.api.functions import dealt  # loads the audits

    skew, rule, parties = dealt(Settings(arguments.overrides, config_dir=arguments.config_dir))
    if arguments.json:
        shares = {
            "distances": distances(skew.counts),
            "distances_by_chance": distances(skew.chance),
            "rows": skew.counts,
        }
        values = {key: value.tolist() for key, value in shares.items()}
        print(to_json("dpml-data-partition-1", classes=list(map(str, skew.names)), **values))
    else:
        _show_partition(skew, rule, parties)
    if arguments.figure is not None:
        from dpml.reporting.heterogeneity import draw  # loads Matplotlib

        words = [word for word in arguments.overrides if not is_private(word)]
        for path in draw(skew, f"dpml data partition {' '.join(words)}", arguments.figure.with_suffix("")):
            print(path, file=sys.stderr)


def _show_partition(skew: Skew, rule: Partition, parties: Parties) -> None:
    console = Screen()
    lines = [
        ["rows", *_summary(skew.sizes)],
        ["classes", *_summary(np.count_nonzero(skew.counts, axis=1))],
        ["distance", *_summary(distances(skew.counts))],
        ["distance by chance", *_summary(distances(skew.chance))],
    ]
    print_table(console, ["per party", "smallest", "median", "mean", "largest"], lines)
    M, N, K = len(skew.sizes), len(parties.y), len(skew.names)
    kinds = "intervals of the target" if skew.intervals else "classes"
    counts = f"partition={rule.name} of dataset={parties.data.name}: {N:,} rows, M={M:,} parties, {K} {kinds}"
    auxiliary = len(parties.X_auxiliary)
    rest = {"auxiliary": auxiliary, "unused": len(parties.data.y) - N - auxiliary}
    counts += "".join(f", {rows:,} {kind} rows" for kind, rows in rest.items() if rows)
    console.print(f"{counts}; {_EXPLAINED}")
    console.print(AS_PRIVATE)


def _summary(values: Array | Index) -> list[str]:
    numbers = (float(number) for number in (values.min(), np.median(values), values.mean(), values.max()))
    return [f"{number:.4g}" if number < 1000 else f"{number:,.0f}" for number in numbers]
