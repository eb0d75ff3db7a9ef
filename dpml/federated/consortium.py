"""Write folders for the parties and the aggregator of a federation, with the commands that each of them must type."""

import re
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from dpml.data.csv.column_bounds import ColumnBounds
from dpml.errors import UserError
from dpml.files import create_atomically

_HOST = re.compile(r"[\w-]+(\.[\w-]+)*", re.ASCII)
_DAYS = 825  # the longest validity that browsers and operating systems accept
_WAIT = ("--wait", "3600")  # seconds: people start their programs by hand

_BEFORE = {
    "card": "Put your rows into `rows.csv`. This command counts them and makes your signing key, which never leaves "
    "this folder. Send the card to the aggregator.",
    "sign": "Take `plan.json` from the aggregator. Read the printed plan, compare checksum and fingerprints with "
    "the others by telephone, then send the signed `plan.json` back.",
    "party": "Replace your plan by the one with all signatures, then take part. You will receive the model.",
    "plan": "Put all cards here. Send `plan.json` to all parties.",
    "copies": "Put the signed copies here, each named after its party with `.json`. Send `plan.json` to all again.",
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
    """Write one folder for each party and one for the aggregator into a new `folder`.

    `setting` has the command-line arguments of `dpml federate card` and `dpml federate plan` from ``--set`` on, and
    `adversary` has further arguments of `dpml federate plan`, such as ``--colluders 1``.
    """
    if "aggregator" in names:
        raise UserError(
            "a party cannot be named aggregator, which is the name of the aggregator's folder: choose another name."
        )
    columns = yaml.safe_dump(stated.content(), sort_keys=False, allow_unicode=True)
    agreeing = ("--bounds", "columns.yaml", *setting)
    steps = {name: _party(name, address, agreeing) for name in names}
    steps["aggregator"] = _aggregator(names, address[1], (*adversary, *agreeing))
    try:
        folder.mkdir(parents=True)
        write_certificates(address[0], folder / "aggregator")
        authority = (folder / "aggregator" / "ca.pem").read_bytes()
        for name, commands in steps.items():
            place = folder / name
            place.mkdir(exist_ok=True)
            (place / "columns.yaml").write_text(columns, encoding="utf-8")
            (place / "STEPS.md").write_text(_steps(name, commands), encoding="utf-8")
            (place / "ca.pem").write_bytes(authority)
    except FileExistsError:
        raise UserError(f"{folder} is there already: choose another name for the folder.") from None


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


def write_certificates(host: str, folder: Path) -> None:
    """Write the aggregator's key and self-signed TLS certificate into a folder: server.key, server.pem and ca.pem."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "dpml aggregator")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))  # clocks differ
        .not_valid_after(now + timedelta(days=_DAYS))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([_host(host)]), critical=False)
        .sign(key, hashes.SHA256())
        .public_bytes(serialization.Encoding.PEM)
    )
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for file, content in (("ca.pem", certificate), ("server.pem", certificate), ("server.key", secret)):
            create_atomically(folder / file, content, private=content is secret)
    except FileExistsError as error:
        raise UserError(f"{error.filename} is there already: choose another folder.") from None


def _host(host: str) -> x509.GeneralName:
    with suppress(ValueError):
        return x509.IPAddress(ip_address(host))
    with suppress(ValueError):
        name = host.encode("idna").decode("ascii")
        if _HOST.fullmatch(name):
            return x509.DNSName(name)
    raise UserError(f"{host!r} is not a host name or an IP address.")
