"""Folders for the parties and the aggregator of a consortium, each with the steps that its owner takes.

No party's signing key is made here: each party makes its own, next to its rows, with the command `card`.
"""

import re
import shlex
from collections.abc import Mapping, Sequence
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
    if "aggregator" in names:
        raise UserError("no party can have the name aggregator: that folder is the aggregator's own.")
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
        raise UserError(f"{folder} is there already: choose another name.") from None


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
    """Write ``ca.pem``, which all parties get, and the aggregator's ``server.pem`` and ``server.key``.

    The authority's own key is not kept: it has signed one certificate, for `host`, and can sign no other.
    """
    authority_key, server_key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    authority = _name("dpml federation")
    ca = _signed(authority, authority_key.public_key(), authority, authority_key, None)
    certificate = _signed(_name("dpml aggregator"), server_key.public_key(), authority, authority_key, _host(host))
    secret = server_key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    pem = serialization.Encoding.PEM
    contents = {"ca.pem": ca.public_bytes(pem), "server.pem": certificate.public_bytes(pem), "server.key": secret}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in contents.items():
            create_atomically(folder / name, content, private=name.endswith(".key"))
    except FileExistsError as error:
        raise UserError(f"{error.filename} is there already: choose another folder.") from None


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        pass
    try:
        name = host.encode("idna").decode("ascii")
    except ValueError:
        name = ""
    if not _HOST.fullmatch(name):
        raise UserError(f"{host!r} is no name and no address of a machine.")
    return x509.DNSName(name)


def _signed(
    subject: x509.Name,
    key: ec.EllipticCurvePublicKey,
    issuer: x509.Name,
    by: ec.EllipticCurvePrivateKey,
    host: x509.GeneralName | None,
) -> x509.Certificate:
    now = datetime.now(UTC)
    usage = dict.fromkeys(_USES, False) | ({"key_cert_sign": True} if host is None else {"digital_signature": True})
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))  # clocks differ
        .not_valid_after(now + timedelta(days=_DAYS))
        .add_extension(x509.BasicConstraints(ca=host is None, path_length=0 if host is None else None), critical=True)
        .add_extension(x509.KeyUsage(**usage), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(by.public_key()), critical=False)
    )
    if host is not None:
        builder = builder.add_extension(x509.SubjectAlternativeName([host]), critical=False)
    return builder.sign(by, hashes.SHA256())


_USES = (
    "digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement",
    "key_cert_sign", "crl_sign", "encipher_only", "decipher_only",
)  # fmt: skip
