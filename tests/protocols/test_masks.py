"""Keys and masks: the key schedule against HKDF written out, no key stream used twice, keys checked when rebuilt."""

import hashlib
import hmac
import itertools
from dataclasses import replace

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
from meddling import D, M, Run, a_run, numbers, repacked

from dpml.protocols import ProtocolError, RefusedError, Session, Stage, Topology, complete, masks, messages, shamir
from dpml.protocols.identities import enrol
from dpml.protocols.masks import End
from dpml.protocols.messages import Kind
from dpml.protocols.party import Party
from dpml.protocols.session import seat

OWN_KEYS = {b"self mask": masks.self_mask_key, b"commitment": masks.commitment}


def info(purpose: bytes, sender: End, receiver: End) -> bytes:
    """What HKDF is told, from the page."""
    ends = b"".join(end.party.to_bytes(4, "little") + end.key for end in (sender, receiver))
    return b"dpml secagg 4 " + purpose + b"\0" + ends


def all_keys(secret: bytes, session: Session, one: End, other: End) -> list[bytes]:
    """Every key that two parties could derive from one secret."""
    pairs = [masks.pair_mask_key(secret, session, one, other)]
    pairs += [masks.seal_key(secret, session, *ends) for ends in ((one, other), (other, one))]
    return pairs + [make(secret, session, end) for make in OWN_KEYS.values() for end in (one, other)]


def hkdf(secret: bytes, salt: bytes, info: bytes) -> bytes:
    """The 32 bytes of RFC 5869, from HMAC-SHA256 alone."""
    key = hmac.new(salt, secret, hashlib.sha256).digest()
    return hmac.new(key, info + b"\1", hashlib.sha256).digest()


def key_stream(key: bytes, words: int) -> np.ndarray:
    """ChaCha20 with nonce and counter 0, in one piece."""
    return np.frombuffer(Cipher(ChaCha20(key, bytes(16)), mode=None).encryptor().update(bytes(8 * words)), "<u8")


def watched(run: Run) -> tuple[dict[int, dict[int, bytes]], dict[int, tuple[bytes, bytes]]]:
    """A run to its end: the shares that every party held for the others, by party and sender, and its two secrets."""
    held, secrets = {}, {}

    def note(k: int, message: bytes) -> list[bytes]:
        if run.server.stage is Stage.SHARES:
            secrets[k] = run.parties[k]._seed, run.parties[k]._masking.private_bytes_raw()
        if run.server.stage is Stage.MASKED:
            held[k] = dict(run.parties[k]._held)
        return [message]

    run.go(to_server=note).assert_exact()
    return held, secrets


def bodies(run: Run, kind: Kind) -> dict[int, bytes]:
    """What each party sent of one kind."""
    return {party: message.body for party, message in run.sent(kind).items()}


def test_no_key_serves_two_purposes_sessions_parties_or_public_keys() -> None:
    """A commitment is public: were it the key of the self mask, anybody could take that mask off."""
    secret = b"\x07" * 32
    sessions = [enrol(Session.of(3, D))[0] for _ in range(2)]
    sessions.append(replace(sessions[0], identities=sessions[1].identities))
    sessions.append(replace(sessions[0], length=D + 1))
    ends = [End(party, bytes([number]) * 32) for party, number in ((0, 1), (1, 2), (1, 3), (2, 2))]
    derived = [
        {key for one, other in itertools.combinations(ends, 2) for key in all_keys(secret, session, one, other)}
        for session in sessions
    ]
    # 6 pairs, of which two are not of different parties in order, and seals in both directions; 4 ends by themselves
    assert [len(keys) for keys in derived] == [6 + 12 + 2 * 4] * 4
    assert len(set.union(*derived)) == sum(map(len, derived))
    own, pair = np.zeros(D, dtype=np.uint64), np.zeros(D, dtype=np.uint64)
    masks.add_self_mask(own, secret, sessions[0], ends[0])
    masks.add_pair_mask(pair, secret, sessions[0], ends[0], ends[1])
    streams = [key_stream(key, D).tolist() for key in derived[0]]
    assert streams.count(own.tolist()) == streams.count(pair.tolist()) == 1
    assert own.tolist() != pair.tolist()


@pytest.mark.parametrize("length", [1, 32_768, 32_769, 80_000])
def test_a_stream_is_one_whatever_the_length(length: int) -> None:
    """In blocks, to be added or subtracted: the words of the library's stream in one piece, on both sides of a seam."""
    key = bytes(range(32))
    total = np.arange(length, dtype=np.uint64)
    masks.add_stream(total, key)
    assert np.array_equal(total, np.arange(length, dtype=np.uint64) + key_stream(key, length))
    masks.add_stream(total, key, np.subtract)
    assert np.array_equal(total, np.arange(length, dtype=np.uint64))


def test_a_masked_vector_is_the_input_with_its_masks() -> None:
    """``y_u = x_u + PRG(b_u) + sum_(v > u) PRG(k_uv) - sum_(v < u) PRG(k_uv)``, by HKDF written out here."""
    run = Run(Session.of(4, D, complete(4, 3)), numbers(4, D))
    _, secrets = watched(run)
    for u, body in bodies(run, Kind.MASKED).items():
        masked, *_ = messages.unpack_masked(body, D, 0)
        public = {k: End(k, messages.unpack_keys(keys)[1]) for k, keys in bodies(run, Kind.KEYS).items()}
        own = info(b"self mask", public[u], public[u])
        due = run.inputs[u] + key_stream(hkdf(secrets[u][0], run.session.context, own), D)
        for v in set(range(4)) - {u}:
            secret = run.parties[u]._masking.exchange(run.parties[v]._masking.public_key())
            between = info(b"pair mask", public[min(u, v)], public[max(u, v)])
            mask = key_stream(hkdf(secret, run.session.context, between), D)
            due = due + mask if u < v else due - mask
        assert np.array_equal(masked, due)


def test_shares_are_sealed_for_one_receiver_by_a_key_agreed_on_for_that_direction() -> None:
    """ChaCha20-Poly1305 under HKDF of the agreed secret, bound to the session, the sender and the receiver."""
    run = a_run()
    held, _ = watched(run)
    public = {k: End(k, messages.unpack_keys(keys)[0]) for k, keys in bodies(run, Kind.KEYS).items()}
    for sender, body in bodies(run, Kind.SHARES).items():
        for receiver, sealed in messages.unpack_entries(Kind.SHARES, body, messages.KEY_BYTES)[1]:
            secret = run.parties[receiver]._sealing.exchange(run.parties[sender]._sealing.public_key())
            key = hkdf(secret, run.session.context, info(b"seal", public[sender], public[receiver]))
            assert ChaCha20Poly1305(key).decrypt(bytes(12), sealed, None) == held[receiver][sender]
    for party in run.parties:  # and what could open or unmask anything is forgotten
        assert not party._seals
        assert not party._held
        assert not hasattr(party, "_seed")


@pytest.mark.parametrize("threshold", [4, 5])
def test_a_secret_is_shared_so_that_no_fewer_than_the_threshold_know_it(threshold: int) -> None:
    """Both secrets of every party, from the shares that the others hold: t give them, t - 1 give something else."""
    held, secrets = watched(a_run(threshold))
    for owner, both in secrets.items():
        for part, secret in enumerate(both):
            limbs = {k: np.frombuffer(shares[owner], "<u4").reshape(2, -1)[part] for k, shares in held.items()}
            for count in range(1, M + 1):
                holders = list(range(M))[M - count :]
                points = np.stack([limbs[k] for k in holders]).astype(np.uint64)
                found = shamir.reconstruct(shamir.holders_of(holders), points)
                # each limb is right by chance once in 2^31 times
                right = found == shamir.split(secret)
                assert right.all() if count >= threshold else not right.any()


def test_a_party_takes_no_neighbours_but_those_of_its_seat() -> None:
    """A server that seats colluders around a party could collect its shares."""
    session, signers = enrol(Session.of(9, D, Topology(4, 3, 6, 1)))
    parties = [
        Party(session, k, signer, lambda vector=vector: (vector, np.empty(0)))
        for k, (signer, vector) in enumerate(zip(signers, numbers(9, D), strict=True))
    ]
    said = {k: messages.unpack(party.start(), session.name) for k, party in enumerate(parties)}
    keys = {k: (k, *messages.unpack_keys(message.body), message.signature) for k, message in said.items()}
    seats = seat(9, 4, session.name)[0]
    stranger = next(k for k in range(1, 9) if k not in seats)
    for ids, refused in (((*seats[1:], stranger), True), ((*seats, stranger), True), (seats, False)):
        body = messages.pack_entries(Kind.NEIGHBOURS, (keys[k] for k in ids), bytes(128))
        message = messages.pack(Kind.NEIGHBOURS, session.name, 0, body)
        if refused:
            with pytest.raises(RefusedError, match=f"NEIGHBOURS for party 0 names unknown party {stranger}"):
                parties[0].receive(message)
        else:
            assert messages.unpack(parties[0].receive(message), session.name).kind is Kind.SHARES


@pytest.mark.parametrize(
    ("silent", "said"),
    [
        (None, "the shares of the seed of party 0 do not fit its commitment: no sum"),
        (4, "the shares of the key of party 4 do not fit its public key: no sum"),
    ],
    ids=["seed", "key"],
)
def test_shares_that_fit_each_other_but_not_the_secret_end_the_run(silent: int | None, said: str) -> None:
    """All who answer agree on another secret: what is put together is a proper one, and only the check can tell."""
    run = a_run()
    other = shamir.split(X25519PrivateKey.generate().private_bytes_raw())
    false = shamir.share(other, shamir.holders_of(range(M)), run.session.topology.threshold).astype("<u4")

    def lie(k: int, message: bytes) -> list[bytes]:
        if run.server.stage is Stage.MASKED and k == silent:
            return []
        if run.server.stage is not Stage.UNMASK:
            return [message]
        seeds, keys = messages.unpack_unmask(messages.unpack(message, run.session.name)[2])
        target = seeds if silent is None else keys
        target[0] = target[0][0], false[k].tobytes()
        return [repacked(message, run, body=lambda _: messages.pack_unmask(seeds, keys))]

    with pytest.raises(ProtocolError, match=said):
        run.go(to_server=lie)
    assert not run.refused
    with pytest.raises(ProtocolError, match="there is no sum yet"):
        _ = run.server.total
