"""An authority of the federation's own, and the aggregator's certificate by it: what TLS needs where there is none."""

import os
import re
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from dpml.errors import UserError

_NAME = re.compile(r"[\w-]+(\.[\w-]+)*", re.ASCII)
_DAYS = 825  # the longest that browsers and operating systems accept


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
        for name in contents:
            if (folder / name).exists():
                raise UserError(f"{folder / name} is there already: choose another folder.")
        for name, content in contents.items():
            mode = 0o600 if name.endswith(".key") else 0o644
            with os.fdopen(os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
                file.write(content)
    except OSError as error:
        raise UserError(f"{folder} cannot be written: {error.strerror}.") from None


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
    if not _NAME.fullmatch(name):
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
