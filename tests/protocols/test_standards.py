"""Hashes, keys and messages of parties with the keys of two RFCs, by primitives that are written out here."""

import hashlib
import struct

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from test_masks import hkdf, info

from dpml.protocols import Session, complete, identities, masks, messages
from dpml.protocols.masks import End
from dpml.protocols.messages import Kind, Roster

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
NAME, SEED, SEALING_KEY = bytes(range(16)), bytes(range(32)), bytes(range(32, 64))


def sha256(*parts: bytes) -> bytes:
    return hashlib.sha256(b"".join(parts)).digest()


def test_hashes_keys_and_messages_follow_from_the_standards() -> None:
    signers = [Ed25519PrivateKey.from_private_bytes(bytes.fromhex(text)) for text in SIGNING]
    public = [signer.public_key().public_bytes_raw() for signer in signers]
    assert public[0].hex() == "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"
    own = [X25519PrivateKey.from_private_bytes(bytes.fromhex(text)) for text in MASKING]
    ends = [End(k, key.public_key().public_bytes_raw()) for k, key in enumerate(own)]
    assert ends[0].key.hex() == "8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a"
    assert ends[1].key.hex() == "de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f"
    agreed = masks.agree(own[0], ends[1]).hex()
    assert agreed == "4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742"

    keys = [SEALING_KEY + end.key for end in ends]
    roster = Roster(3, dict(enumerate(keys)))
    leaves = [sha256(b"dpml secagg leaf", bytes([k, 0, 0, 0]), keys[k]) for k in (0, 1)]
    right = sha256(b"dpml secagg node", bytes(64))
    assert roster.root == sha256(b"dpml secagg node", sha256(b"dpml secagg node", *leaves), right)
    assert roster.path(0) == leaves[1] + right

    begun = Session(3, 4, complete(3), 0, NAME, tuple(public))
    session = begun.run(roster.root)
    numbers = b"".join(n.to_bytes(8, "little") for n in (3, 4, 0, 2, 2, 2, 0))
    for each, of in ((begun, b""), (session, roster.root)):
        assert each.context == sha256(b"dpml secagg 4", NAME, numbers, of, *public)
    # test_masks.py has the other keys
    assert masks.commitment(SEED, session, ends[0]) == hkdf(
        SEED, session.context, info(b"commitment", ends[0], ends[0])
    )

    survivors = messages.pack_survivors((0, 2), 3)
    assert survivors == bytes([0b101])
    for each, kind, number, body in ((begun, Kind.KEYS, 1, keys[0]), (session, Kind.CONSISTENCY, 7, survivors)):
        content = struct.pack("<BB16sI", 4, number, NAME, 0) + body
        content += signers[0].sign(
            b"dpml secagg 4 signature" + each.context + bytes([number, 0, 0, 0, 0]) + sha256(body)
        )
        assert identities.signed(each, signers[0], kind, 0, body) == content + sha256(content)[:8]
