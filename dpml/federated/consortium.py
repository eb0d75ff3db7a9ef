"""Folders for the parties and the aggregator of a consortium, each with the steps that its owner takes.

No party's signing key is made here: each party makes its own, next to its rows, with the command `card`.
"""

import re
import shlex
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from shutil import rmtree

import yaml

from dpml.data.csv.column_bounds import ColumnBounds
from dpml.errors import UserError
from dpml.federated.certificates import write_certificates

_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")  # of a folder, on every system
_WAIT = ("--wait", "3600")  # seconds: people start their programs by hand

_BEFORE = {
    "card": "Put your rows into `rows.csv`. This command counts them and makes your signing key, which never leaves "
    "this folder. Send the card to the aggregator.",
    "sign": "Take `plan.json` from the aggregator. Read what is printed, compare checksum and fingerprints with the "
    "others by telephone, then send the signed `plan.json` back.",
    "party": "Take the plan with all signatures, which replaces yours, and take part. The model is handed to you.",
    "plan": "Put all cards here. Send `plan.json` to all parties.",
    "copies": "Put the signed copies here, each as the party's name with `.json`. Send `plan.json` to all again.",
    "aggregator": "Tell all parties to begin.",
}


def write_consortium(
    names: Sequence[str],
    address: tuple[str, int],
    stated: ColumnBounds,
    setting: Sequence[str],
    adversary: Sequence[str],
    folder: Path,
) -> None:
    """Write a folder for each party and the aggregator into `folder`, which must not exist.

    Args:
        names: the parties' names, which differ.
        address: the host and the port of the aggregator.
        stated: the public statements about the columns.
        setting: ``--set`` and all that follows it, of `card` and `plan`.
        adversary: the options of `plan` about colluders, drop-outs and noise.
        folder: the folder to write.
    """
    for name in names:
        if not _NAME.fullmatch(name) or name == "aggregator":
            raise UserError(
                f"{name[:64]!r} cannot be a party's folder: take small letters, digits and dashes, at most 40, and "
                "not aggregator."
            )
    if folder.exists():
        raise UserError(f"{folder} is there already: choose another name.")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    except OSError as error:
        raise UserError(f"{folder} cannot be written: {error.strerror}.") from None
    try:
        write_certificates(address[0], temporary / "aggregator")
        authority = (temporary / "aggregator" / "ca.pem").read_bytes()
        columns = yaml.safe_dump(stated.content(), sort_keys=False, allow_unicode=True)
        agreeing = ("--bounds", "columns.yaml", *setting)
        steps = {name: _party(name, address, agreeing) for name in names}
        steps["aggregator"] = _aggregator(names, address[1], (*adversary, *agreeing))
        for name, commands in steps.items():
            place = temporary / name
            place.mkdir(exist_ok=True)
            (place / "columns.yaml").write_text(columns, encoding="utf-8")
            (place / "STEPS.md").write_text(_steps(name, commands), encoding="utf-8")
            (place / "ca.pem").write_bytes(authority)
        temporary.chmod(0o755)
        temporary.rename(folder)
    except OSError as error:
        raise UserError(f"{folder} cannot be written: {error.strerror or error}.") from None
    finally:
        rmtree(temporary, ignore_errors=True)


def _party(name: str, address: tuple[str, int], agreeing: Sequence[str]) -> dict[str, Sequence[str]]:
    key = ("--key", f"{name}.key")
    calling = ("--aggregator", f"{address[0]}:{address[1]}", "--ca", "ca.pem", *_WAIT)
    return {
        "card": ("card", "rows.csv", *key, "-o", f"{name}.card", *agreeing),
        "sign": ("sign", "plan.json", *key),
        "party": ("party", "rows.csv", "--plan", "plan.json", *key, *calling, "-o", "model.json"),
    }


def _aggregator(names: Sequence[str], port: int, agreeing: Sequence[str]) -> dict[str, Sequence[str]]:
    listening = ("--listen", f"0.0.0.0:{port}", "--certificate", "server.pem", "--certificate-key", "server.key")
    return {
        "plan": ("plan", *(f"{name}.card" for name in names), "-o", "plan.json", *agreeing),
        "copies": ("sign", "plan.json", "--copies", *(f"{name}.json" for name in names)),
        "aggregator": ("aggregator", "--plan", "plan.json", *listening, *_WAIT, "-o", "model.json"),
    }


def _steps(name: str, commands: Mapping[str, Sequence[str]]) -> str:
    parts = [f"# {name}\n"]
    for number, (step, words) in enumerate(commands.items(), 1):
        parts.append(f"{number}. {_BEFORE[step]}\n\n```bash\n{shlex.join(['dpml', 'federate', *words])}\n```\n")
    return "\n".join(parts)
