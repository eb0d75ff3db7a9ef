"""The known answers in vectors.txt: by the code, and by primitives written out in tests."""

import hashlib
import re
import struct
from pathlib import Path

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from dpml.protocols import Session, complete, identities, masks, messages
from dpml.protocols.masks import End
from dpml.protocols.messages import Kind, Roster

ANSWERS = Path(__file__).with_name("vectors.txt")
# the inputs: RFC 8032, section 7.1, tests 1 to 3; RFC 7748, section 6.1, Alice and Bob
SIGNING = (
    "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
    "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
    "c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
)
MASKING = (
    "77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a",
    "5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb",
)
SEALING = ("11" * 32, "22" * 32)
NAME, SEED = bytes(range(16)), bytes(range(32))


def known() -> dict[str, str]:
    """The known answers, by name."""
    return dict(re.findall(r"^(.+?) {2,}([0-9a-f]+)$", ANSWERS.read_text(encoding="utf-8"), re.MULTILINE))


def private(texts: tuple[str, ...]) -> list[X25519PrivateKey]:
    return [X25519PrivateKey.from_private_bytes(bytes.fromhex(text)) for text in texts]


def ends(texts: tuple[str, ...]) -> list[End]:
    return [End(k, key.public_key().public_bytes_raw()) for k, key in enumerate(private(texts))]


def stream(key: bytes) -> bytes:
    words = np.zeros(4, dtype=np.uint64)
    masks.add_stream(words, key)
    return words.tobytes()


def by_the_code() -> dict[str, bytes]:
    signers = [Ed25519PrivateKey.from_private_bytes(bytes.fromhex(text)) for text in SIGNING]
    session = Session(3, 4, complete(3), 0, NAME, tuple(s.public_key().public_bytes_raw() for s in signers))
    (seal_0, seal_1), (mask_0, mask_1) = ends(SEALING), ends(MASKING)
    seals, pair = masks.agree(private(SEALING)[0], seal_1), masks.agree(private(MASKING)[0], mask_1)
    begun = session
    public = {k: seal.key + mask.key for k, seal, mask in ((0, seal_0, mask_0), (1, seal_1, mask_1))}
    roster = Roster(3, public)
    session = begun.run(roster.root)
    mask_key, own_key = masks.pair_mask_key(pair, session, mask_0, mask_1), masks.self_mask_key(SEED, session, mask_0)
    keys = identities.signed(begun, signers[0], Kind.KEYS, 0, public[0])
    survivors = messages.pack_survivors((0, 2), 3)
    consistency = identities.signed(session, signers[0], Kind.CONSISTENCY, 0, survivors)
    return {
        "context of KEYS": begun.context,
        "roster": roster.root,
        "path of 0": roster.path(0),
        "context": session.context,
        "sealing key 0": seal_0.key,
        "sealing key 1": seal_1.key,
        "mask key 0": mask_0.key,
        "mask key 1": mask_1.key,
        "sealing secret 0, 1": seals,
        "seal 0 to 1": masks.seal_key(seals, session, seal_0, seal_1),
        "seal 1 to 0": masks.seal_key(seals, session, seal_1, seal_0),
        "mask secret 0, 1": pair,
        "pair mask key 0, 1": mask_key,
        "pair mask 0, 1": stream(mask_key),
        "self mask key 0": own_key,
        "self mask 0": stream(own_key),
        "commitment 0": masks.commitment(SEED, session, mask_0),
        "message KEYS 0": keys,
        "message CONSISTENCY 0": consistency,
    }


def test_the_code_gives_the_known_answers() -> None:
    assert {name: value.hex() for name, value in by_the_code().items()} == known()


def test_the_known_answers_follow_from_the_standards() -> None:
    """The keys of RFC 7748 and RFC 8032, hashes and messages; test_masks.py has HKDF and ChaCha20 written out."""
    answers = {name: bytes.fromhex(value) for name, value in known().items()}
    signers = [Ed25519PrivateKey.from_private_bytes(bytes.fromhex(text)) for text in SIGNING]
    public = [signer.public_key().public_bytes_raw() for signer in signers]
    assert public[0].hex() == "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"
    assert answers["mask key 0"].hex() == "8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a"
    assert answers["mask key 1"].hex() == "de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f"
    assert answers["mask secret 0, 1"].hex() == "4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742"
    numbers = b"".join(n.to_bytes(8, "little") for n in (3, 4, 0, 2, 2, 2, 0))
    leaves = [
        hashlib.sha256(
            b"dpml secagg leaf" + bytes([k, 0, 0, 0]) + answers[f"sealing key {k}"] + answers[f"mask key {k}"]
        )
        for k in (0, 1)
    ]
    right = hashlib.sha256(b"dpml secagg node" + bytes(64)).digest()
    left = hashlib.sha256(b"dpml secagg node" + leaves[0].digest() + leaves[1].digest()).digest()
    roster = hashlib.sha256(b"dpml secagg node" + left + right).digest()
    assert answers["roster"] == roster
    assert answers["path of 0"] == leaves[1].digest() + right
    begun, context = (
        hashlib.sha256(b"dpml secagg 4" + NAME + numbers + of + b"".join(public)).digest() for of in (b"", roster)
    )
    assert (answers["context of KEYS"], answers["context"]) == (begun, context)
    for name, kind, body, of in (
        ("message KEYS 0", 1, answers["sealing key 0"] + answers["mask key 0"], begun),
        ("message CONSISTENCY 0", 7, bytes([0b101]), context),
    ):
        content = struct.pack("<BB16sI", 4, kind, NAME, 0) + body
        signed = b"dpml secagg 4 signature" + of + bytes([kind, 0, 0, 0, 0]) + hashlib.sha256(body).digest()
        content += signers[0].sign(signed)
        assert answers[name] == content + hashlib.sha256(content).digest()[:8]
