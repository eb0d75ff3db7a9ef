"""Attacks by a server that lies and colluding parties: what they get, and what they would without the mend."""

import hashlib
from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from meddling import D, Run, numbers

from dpml.privacy import Adversary
from dpml.protocols import ProtocolError, RefusedError, Session, Stage, Topology, complete, identities, masks, messages
from dpml.protocols.masks import End
from dpml.protocols.messages import FROM_PARTIES, Kind
from dpml.protocols.session import choose, seat

P = 2**255 - 19
# the points of order 1, 2, 4 and 8 on Curve25519 and its twist (cr.yp.to/ecdh.html)
EIGHT = (
    325606250916557431795983626356110631294008115727848805560023387167927233504,
    39382357235489614581723060781553021112529911719440698176882885853963445705823,
)
SMALL_ORDER = (0, 1, P - 1, *EIGHT)


def told(run: Run, kind: Kind, party: int, body: bytes) -> bytes:
    """What the server can say to a party."""
    return messages.pack(kind, run.session.name, party, body)


def answer(run: Run, k: int, kind: Kind, body: bytes) -> messages.Message | None:
    """A party's answer, or None if it refuses."""
    try:
        return messages.unpack(run.parties[k].receive(told(run, kind, k, body)), run.session.name)
    except RefusedError as error:
        run.refused.append(str(error))
        return None


# ---- keys


def inverse(key: bytes) -> bytes:
    """The u-coordinate of the sum with the point of order 2: canonical, and it agrees on the same secrets."""
    return pow(int.from_bytes(key, "little"), -1, P).to_bytes(32, "little")


@pytest.mark.parametrize(
    "number", [*SMALL_ORDER, *(n + P for n in range(19)), *(n + 2**255 for n in (*SMALL_ORDER, 9))]
)
def test_keys_that_are_not_canonical_or_of_small_order_are_refused(number: int) -> None:
    key = number.to_bytes(32, "little")
    with pytest.raises(RefusedError, match="the public key of party 7 is not valid"):
        masks.agree(X25519PrivateKey.generate(), End(7, key))
    run = Run(Session.of(3, D, complete(3)), numbers(3, D))
    for at in (0, 1):
        keys = [X25519PrivateKey.generate().public_key().public_bytes_raw(), key][:: 1 if at else -1]
        with pytest.raises(RefusedError, match="the public key of party 1 is not valid"):
            run.server.receive(identities.signed(run.session, run.signers[1], Kind.KEYS, 1, b"".join(keys)), 1)


def test_canonical_keys_of_full_order_are_taken() -> None:
    own = X25519PrivateKey.generate()
    for number in (9, P - 2, 2, int.from_bytes(own.public_key().public_bytes_raw(), "little")):
        assert len(masks.agree(own, End(0, number.to_bytes(32, "little")))) == 32


def with_twins(parties: int) -> tuple[Run, int]:
    """Parties 0, 1, ... are honest, the next one is the victim; for each a colluder announces its key's twin."""
    run = Run(Session.of(parties, D, complete(parties)), numbers(parties, D))
    victim = (parties - 1) // 2
    for k in range(victim):
        colluder = run.parties[victim + 1 + k]
        colluder._mask_end = End(colluder.party, inverse(run.parties[k]._mask_end.key))
    return run, victim


def unmasked(run: Run, victim: int) -> np.ndarray:
    """The victim's vector as far as server and colluders can read it: without its self mask, and honest colluders'."""
    seed = run.server._seed_of(victim)
    found = messages.unpack_masked(run.sent(Kind.MASKED)[victim].body, D, 0)[0].copy()
    own = run.parties[victim]._mask_end
    masks.add_stream(found, masks.self_mask_key(seed, run.session, own), np.subtract)
    for party in run.parties[2 * victim + 1 :]:  # a colluder that is nobody's twin knows its mask
        less = np.zeros(D, dtype=np.uint64)
        masks.add_pair_mask(less, masks.agree(party._masking, own), run.session, own, party._mask_end)
        found -= less
    return found


@pytest.mark.parametrize("bound", [True, False], ids=["", "without the binding"])
@pytest.mark.parametrize("parties", [3, 5, 6, 7])
def test_twins_of_mask_keys_do_not_cancel_a_victims_masks(parties: int, bound: bool, monkeypatch) -> None:
    """The honest server takes the twins, which are proper keys; all goes on, and the vector is not to be read.

    With keys that are derived from the secret alone the victim adds and subtracts the same masks.
    """
    if not bound:
        derive = masks._key
        nobody = End(0, bytes(32))
        monkeypatch.setattr(
            masks, "_key", lambda secret, session, purpose, *_: derive(secret, session, purpose, nobody, nobody)
        )
    run, victim = with_twins(parties)
    run.go()
    assert not run.refused
    assert len(run.server.survivors) == parties
    assert np.array_equal(unmasked(run, victim), run.inputs[victim]) is not bound


def test_a_twin_of_a_sealing_key_opens_no_seal_and_passes_none_on() -> None:
    """The server passes what party 0 sealed for party 1 on as what the colluder 2 sealed, to get it by 2's name."""
    run = Run(Session.of(3, D, complete(3)), numbers(3, D))
    run.parties[2]._seal_end = End(2, inverse(run.parties[0]._seal_end.key))
    run.to(Stage.SHARES)
    for k in range(2):
        keys = [(m.party, *messages.unpack_keys(m.body), m.signature) for m in run.sent(Kind.KEYS).values()]
        body = messages.pack_entries(Kind.NEIGHBOURS, (e for e in keys if e[0] != k), bytes(64))
        reply = answer(run, k, Kind.NEIGHBOURS, body)
        assert reply is not None
        if k == 0:
            stolen = dict(messages.unpack_entries(Kind.SHARES, reply.body, messages.KEY_BYTES)[1])[1]
    party = run.parties[1]
    assert party._seals[0] != party._seals[2]  # though the secrets are the same
    assert answer(run, 1, Kind.INBOX, messages.pack_entries(Kind.INBOX, [(2, stolen)])) is None
    assert len(run.refused) == 1


def keys_of(run: Run) -> dict[int, tuple[int, bytes, bytes, bytes]]:
    return {k: (k, *messages.unpack_keys(m.body), m.signature) for k, m in run.sent(Kind.KEYS).items()}


def swapped(run: Run) -> dict[str, tuple[int, bytes, bytes, bytes]]:
    """What a server could put in the place of party 0's keys."""
    mine = [X25519PrivateKey.generate().public_key().public_bytes_raw() for _ in range(2)]
    body, stranger = b"".join(mine), Ed25519PrivateKey.generate()
    by_stranger = messages.unpack(identities.signed(run.begun, stranger, Kind.KEYS, 0, body), run.session.name)
    by_colluder = messages.unpack(identities.signed(run.begun, run.signers[3], Kind.KEYS, 0, body), run.session.name)
    honest = keys_of(run)[0]
    earlier = replace(run.begun, name=bytes(16))
    old = messages.unpack(identities.signed(earlier, run.signers[0], Kind.KEYS, 0, body), earlier.name)
    return {
        "the server's own, under the signature of others": (0, *mine, honest[3]),
        "the server's own, signed by it": (0, *mine, by_stranger.signature),
        "the server's own, signed by a colluder": (0, *mine, by_colluder.signature),
        "the two exchanged": (0, honest[2], honest[1], honest[3]),
        "of another session": (0, *mine, old.signature),
        "a colluder's, with its signature": (0, *keys_of(run)[3][1:]),
    }


@pytest.mark.parametrize("how", range(6))
def test_keys_that_their_party_did_not_sign_in_this_session_are_refused(how: int) -> None:
    run = Run(Session.of(4, D, complete(4)), numbers(4, D))
    run.to(Stage.SHARES)
    name, entry = list(swapped(run).items())[how]
    others = [keys_of(run)[k] for k in ((2,) if name.startswith("a colluder") else (2, 3))]
    assert answer(run, 1, Kind.NEIGHBOURS, messages.pack_entries(Kind.NEIGHBOURS, [entry, *others], bytes(64))) is None
    assert len(run.refused) == 1
    assert "signature under the message KEYS of party 0" in run.refused[0]


def test_a_signature_holds_for_its_round_party_session_and_body_only() -> None:
    session, signers = identities.enrol(Session.of(3, D))
    others = (
        replace(session, name=bytes(16)), replace(session, length=D + 1), replace(session, beside=1),
        replace(session, topology=complete(3, 3)), replace(session, identities=session.identities[::-1]),
    )  # fmt: skip
    for kind in sorted(FROM_PARTIES):
        text = messages.unpack(identities.signed(session, signers[0], kind, 0, b"body"), session.name)
        identities.check(session, kind, 0, b"body", text.signature)
        wrong = [(session, other, 0, b"body") for other in Kind if other is not kind]
        wrong += [(session, kind, 1, b"body"), (session, kind, 0, b"bodY"), *((s, kind, 0, b"body") for s in others)]
        for of, as_kind, party, body in wrong:
            with pytest.raises(RefusedError, match="signature under"):
                identities.check(of, as_kind, party, body, text.signature)


# ---- lists of survivors


def shares_of(run: Run, victim: int, lists: dict[int, bytes], colluders: Iterable[int]) -> tuple[int, int]:
    """How many shares of the victim's seed and of its mask key a lying server gets from the honest parties."""
    signatures: dict[bytes, list[tuple[int, bytes]]] = {}
    for k, body in lists.items():
        reply = answer(run, k, Kind.SURVIVORS, body)
        if reply is not None:
            signatures.setdefault(body, []).append((k, reply.signature))
    for body, entries in signatures.items():
        for k in colluders:
            text = identities.signed(run.session, run.signers[k], Kind.CONSISTENCY, k, body)
            entries.append((k, messages.unpack(text, run.session.name).signature))
    seeds = keys = 0
    for k, body in lists.items():
        signed = messages.pack_entries(Kind.SIGNATURES, sorted(signatures.get(body, [])))
        reply = answer(run, k, Kind.SIGNATURES, signed)
        if reply is not None:
            self_masks, mask_keys = messages.unpack_unmask(reply.body)
            seeds += victim in dict(self_masks)
            keys += victim in dict(mask_keys)
    return seeds, keys


def two_lists(parties: int, threshold: int, colluders: int, group: int) -> tuple[int, int]:
    """Some honest parties hear that party 0 survived (with it `group` of them), the others that it dropped out."""
    run = Run(
        Session.of(parties, D, Topology(parties - 1, threshold, threshold, 2 * threshold - parties - 1)),
        numbers(parties, D),
    )
    run.to(Stage.CONSISTENCY)
    with_it = messages.pack_survivors(range(parties), parties)
    without = messages.pack_survivors(range(1, parties), parties)
    honest = parties - colluders
    lists = {k: with_it if k < group else without for k in range(honest)}
    seeds, keys = shares_of(run, 0, lists, range(honest, parties))
    return seeds + colluders, keys + colluders  # who hold a share of each


CASES = [(M, t, 2 * t - M - 1) for M in range(3, 8) for t in range(M // 2 + 1, M + 1) if 2 * t - M - 1 < M - 1]


@pytest.mark.parametrize(("parties", "threshold", "colluders"), CASES)
def test_two_lists_of_survivors_never_give_both_secrets(parties: int, threshold: int, colluders: int) -> None:
    """Every way to split the honest parties, with as many colluders as the threshold is for."""
    for group in range(1, parties - colluders + 1):
        seeds, keys = two_lists(parties, threshold, colluders, group)
        assert seeds < threshold or keys < threshold
        assert max(seeds, keys) >= threshold or group not in (1, parties - colluders)


@pytest.mark.parametrize(("parties", "threshold", "colluders"), [c for c in CASES if c[2] + 1 < c[0] - 1])
def test_with_one_colluder_more_some_two_lists_give_both(parties: int, threshold: int, colluders: int) -> None:
    """The condition on the threshold is exact: 2t > M + C protects, and 2t = M + C does not."""
    found = [two_lists(parties, threshold, colluders + 1, group) for group in range(1, parties - colluders)]
    both = any(seeds >= threshold and keys >= threshold for seeds, keys in found)
    assert both


@pytest.mark.parametrize("parties", range(2, 12))
def test_thresholds_that_do_not_protect_are_refused(parties: int) -> None:
    """The default's do, against the colluders of the privacy table, and no threshold is more than that takes."""
    for colluders in range(parties):
        least = min(t for t in range(1, parties + 1) if 2 * t > parties + colluders)
        for t in range(2, least):
            with pytest.raises(ProtocolError, match=f"least quorum is {least}"):
                Session(parties, D, Topology(parties - 1, t, t, colluders))
        assert Session(parties, D, Topology(parties - 1, least, least, colluders)).topology.quorum == least
        assert choose(parties, colluders).colluders >= colluders
        assert choose(parties, colluders).quorum >= least
        if colluders == Adversary().count(parties):
            assert choose(parties) == complete(parties)
            assert choose(parties).threshold == least


@pytest.mark.parametrize("parties", [3, 5, 6, 7])
def test_a_party_dropped_after_its_masked_input_is_not_unmasked(parties: int) -> None:
    """All hear that party 0 has dropped out, so that its mask key comes out. Then the server asks for its seed too."""
    run = Run(Session.of(parties, D, complete(parties)), numbers(parties, D))
    run.to(Stage.CONSISTENCY)
    without, all_here = (messages.pack_survivors(range(first, parties), parties) for first in (1, 0))
    seeds, keys = shares_of(run, 0, dict.fromkeys(range(1, parties), without), range(0))
    threshold = run.session.topology.threshold
    assert (seeds, keys) == ((0, parties - 1) if parties - 1 >= threshold else (0, 0))
    found = messages.unpack_masked(run.sent(Kind.MASKED)[0].body, D, 0)[0].copy()
    own, masking = run.parties[0]._mask_end, run.parties[0]._masking  # which the server has put together
    for other in run.parties[1:]:
        less = np.zeros(D, dtype=np.uint64)
        masks.add_pair_mask(less, masks.agree(masking, other._mask_end), run.session, own, other._mask_end)
        found -= less
    assert not np.any(found == run.inputs[0])  # its self mask is on it
    texts = [identities.signed(run.session, s, Kind.CONSISTENCY, k, all_here) for k, s in enumerate(run.signers)]
    signatures = messages.pack_entries(
        Kind.SIGNATURES, ((k, messages.unpack(text, run.session.name).signature) for k, text in enumerate(texts))
    )
    for k in range(1, parties):
        for kind, body in ((Kind.SURVIVORS, all_here), (Kind.SIGNATURES, signatures)):
            assert answer(run, k, kind, body) is None
        assert not run.parties[k]._held
    assert answer(run, 0, Kind.SURVIVORS, without) is None  # and it does not sign its own end


def test_a_party_signs_one_list_and_gives_nothing_before_a_quorum_has() -> None:
    run = Run(Session.of(6, D, complete(6)), numbers(6, D))
    run.to(Stage.CONSISTENCY)
    all_here, without = (messages.pack_survivors(range(first, 6), 6) for first in (0, 1))
    signed = {k: answer(run, k, Kind.SURVIVORS, all_here) for k in range(6)}
    assert answer(run, 1, Kind.SURVIVORS, without) is None
    entries = [(k, message.signature) for k, message in signed.items() if message is not None]
    for few in ([], entries[:3], [*entries[:3], entries[0]], [*entries[:3], (5, entries[4][1])]):
        assert answer(run, 1, Kind.SIGNATURES, messages.pack_entries(Kind.SIGNATURES, few)) is None
        assert len(run.parties[1]._held) == 6
    assert answer(run, 1, Kind.SIGNATURES, messages.pack_entries(Kind.SIGNATURES, entries[2:])) is not None


def test_a_party_that_was_hidden_from_another_is_not_counted_in() -> None:
    """Party 1 never got the shares of party 0, and has no mask with it: it signs no list with it."""
    run = Run(Session.of(4, D, complete(4)), numbers(4, D))
    mail = run.to(Stage.MASKED)
    inbox = messages.unpack_entries(Kind.INBOX, messages.unpack(mail[1], run.session.name).body)[1]
    assert answer(run, 1, Kind.INBOX, messages.pack_entries(Kind.INBOX, inbox[1:])) is not None
    assert answer(run, 1, Kind.SURVIVORS, messages.pack_survivors(range(4), 4)) is None
    assert len(run.refused) == 1
    assert answer(run, 1, Kind.SURVIVORS, messages.pack_survivors(range(1, 4), 4)) is not None


# ---- the ring


def test_on_a_ring_two_lists_give_shares_of_one_secret_only() -> None:
    """Everybody signs the list of all parties, so that far parts of the ring cannot be told different ones."""
    run = Run(Session.of(12, D, Topology(4, 3, 8, 3)), numbers(12, D))
    run.to(Stage.CONSISTENCY)
    around = seat(12, 4, run.session.name)[0]
    colluders = sorted(set(range(1, 12)) - set(around))[:3]
    with_it, without = (messages.pack_survivors(range(first, 12), 12) for first in (0, 1))
    honest = {k: without if k in around[:2] else with_it for k in range(12) if k not in colluders}
    # it and two neighbours; ten signed their list, five the other
    assert shares_of(run, 0, honest, colluders) == (3, 0)


def test_on_a_ring_a_party_signs_no_list_that_leaves_it_too_few_neighbours() -> None:
    """Else a server that knows the seats could leave it alone in the sum, or among colluders."""
    run = Run(Session.of(12, D, Topology(4, 4, 8, 3)), numbers(12, D))
    run.to(Stage.CONSISTENCY)
    around = seat(12, 4, run.session.name)[0]
    for gone, signs in ((around, False), (around[:2], False), (around[:1], True)):
        body = messages.pack_survivors(set(range(12)) - set(gone), 12)
        assert (answer(run, 0, Kind.SURVIVORS, body) is not None) is signs
    assert len(run.refused) == 2


def test_a_server_that_knows_the_seats_can_cut_a_ring() -> None:
    """What is not promised: it says that two runs of k/2 seats have dropped out, and gets the sums of both arcs."""
    run = Run(Session.of(12, D, Topology(4, 3, 8, 3)), numbers(12, D))
    text = b"dpml secagg seat" + run.session.name
    ring = sorted(range(12), key=lambda k: hashlib.sha256(text + k.to_bytes(4, "little")).digest())
    arc, gone = ring[:4], {*ring[4:6], *ring[10:]}
    run.go(to_server=lambda k, m: [] if run.server.stage is Stage.MASKED and k in gone else [m]).assert_exact()
    partial = np.zeros(D, dtype=np.uint64)
    for k in arc:
        own = run.parties[k]._mask_end
        less = np.zeros(D, dtype=np.uint64)
        masks.add_self_mask(less, run.server._seed_of(k), run.session, own)
        for other in gone & set(seat(12, 4, run.session.name)[k]):
            key = X25519PrivateKey.from_private_bytes(run.server._key_of(other))
            masks.add_pair_mask(less, masks.agree(key, own), run.session, own, run.parties[other]._mask_end)
        partial += messages.unpack_masked(run.sent(Kind.MASKED)[k].body, D, 0)[0] - less
    assert np.array_equal(partial, run.inputs[arc].sum(axis=0))
