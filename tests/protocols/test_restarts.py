"""Parties that are started again under an opening that was used before, as often as a lying server likes.

In a small model of the protocol: what one start does depends on no other but through signatures, which are never lost;
so all are told their rosters first, then their lists, then disclose. All of these are searched, for every roster.
"""

import itertools
from collections.abc import Iterator
from functools import cache

import numpy as np
import pytest
from meddling import D, Run, numbers

from dpml.protocols import RefusedError, Session, Stage, complete, messages
from dpml.protocols.identities import signed
from dpml.protocols.messages import HASH_BYTES, Kind, Roster, depth, root
from dpml.protocols.party import Party
from dpml.protocols.server import Server
from dpml.protocols.session import least_quorum


def subsets(parties: int, least: int) -> list[frozenset[int]]:
    return [
        frozenset(some)
        for size in range(least, parties + 1)
        for some in itertools.combinations(range(parties), size)
    ]  # fmt: skip


def told(parties: int, quorum: int, colluders: int = 0) -> Iterator[tuple[frozenset[int], ...]]:
    """What the honest parties of one roster are told: a list with itself each, of a quorum at least."""
    lists = subsets(parties, quorum)
    yield from itertools.product(*([some for some in lists if k in some] for k in range(parties - colluders)))


def disclosed(
    said: tuple[frozenset[int], ...], quorum: int, earlier: bool, colluders: int = 0
) -> dict[int, frozenset[int]]:
    """The lists for which shares come out, by party: those that a quorum has signed.

    The last parties, `colluders`, sign whatever the server likes. If signatures of `earlier` starts count, every party
    has signed every list with it: it may have been started often.
    """
    honest = len(said)
    signers = {some: {k for k in some if k >= honest or earlier or said[k] == some} for some in set(said)}
    return {k: some for k, some in enumerate(said) if len(signers[some]) >= quorum}


def partial_sums(
    honest: int, threshold: int, shares: dict[int, frozenset[int]], colluders: int = 0
) -> set[frozenset[int]]:
    """The sets of honest parties whose sum is free of masks, out of all shares that came out and the colluders' own.

    A mask of two parties is known to who has the key of either; those with colluders are known.
    """
    return _sums_of(honest, threshold, tuple(sorted(shares.values(), key=sorted)), colluders)


@cache
def _sums_of(honest: int, threshold: int, lists: tuple[frozenset[int], ...], colluders: int) -> set[frozenset[int]]:
    seeds = {u for u in range(honest) if colluders + sum(u in some for some in lists) >= threshold}
    keys = {u for u in range(honest) if colluders + sum(u not in some for some in lists) >= threshold}
    return {
        some
        for some in subsets(honest, 1)
        if some <= seeds and (some <= keys or frozenset(range(honest)) - some <= keys)
    }


@pytest.mark.slow_cases("5-0")
@pytest.mark.parametrize(
    ("parties", "colluders"),
    [(2, 0), (3, 0), (4, 0), (5, 0), (3, 1), (4, 1), (4, 2), (5, 1), (5, 2), (6, 2), (6, 3), (7, 3)],
)
def test_however_often_parties_start_one_roster_gives_one_sum_of_a_quorum_also_to_colluders(parties, colluders) -> None:
    """With the least quorum that a plan may have, and with all parties. Colluders sign all and show their shares."""
    for quorum in {least_quorum(parties, colluders), parties}:
        for said in told(parties, quorum, colluders):
            shares = disclosed(said, quorum, earlier=False, colluders=colluders)
            found = partial_sums(parties - colluders, quorum, shares, colluders)
            assert found <= {some & frozenset(range(parties - colluders)) for some in shares.values()}
            assert len(found) <= 1
            assert all(len(some) >= quorum - colluders for some in found)


@pytest.mark.slow_cases("6-1-0-True")
@pytest.mark.parametrize(
    ("parties", "colluders", "fewer", "earlier"),
    [(3, 1, 1, False), (4, 1, 1, False), (5, 1, 1, False), (5, 2, 1, False), (6, 3, 1, False), (6, 1, 0, True)],
)
def test_a_smaller_quorum_or_signatures_of_earlier_starts_would_not_do(parties, colluders, fewer, earlier) -> None:
    """The search finds what goes wrong then: two sums, or one of fewer."""
    quorum, honest = least_quorum(parties, colluders) - fewer, parties - colluders
    found = (
        partial_sums(honest, quorum, disclosed(said, quorum, earlier, colluders), colluders)
        for said in told(parties, quorum, colluders)
    )
    assert any(len(sums) > 1 or any(len(some) < quorum - colluders for some in sums) for sums in found)


def test_a_party_is_in_the_roster_at_its_place_with_its_keys_and_nowhere_else() -> None:
    for parties in (2, 3, 5, 8, 9):
        keys = {k: bytes([k + 1]) * 64 for k in range(parties) if k != 1}
        roster = Roster(parties, keys)
        for k in keys:
            path = roster.path(k)
            assert len(path) == HASH_BYTES * depth(parties)
            assert root(k, keys[k], path) == roster.root
            assert all(root(j, keys[k], path) != roster.root for j in range(parties) if j != k)
            assert root(k, bytes(64), path) != roster.root
        assert roster.root != Roster(parties, keys | {1: bytes(64)}).root


def test_a_signature_of_an_earlier_start_is_worth_nothing() -> None:
    """The real parties, each started twice under one name: their signatures of the first time, in the second."""
    run = Run(Session.of(5, D, complete(5, 3)), numbers(5, D))
    first = signatures(run, messages.pack_survivors((0, 1, 2), 5))
    run.again()
    second = signatures(run, messages.pack_survivors((0, 1, 2), 5))
    name = run.session.name
    mixed = messages.pack_entries(Kind.SIGNATURES, [(0, second[0]), (1, first[1]), (2, first[2])])
    with pytest.raises(RefusedError, match="signature under the message CONSISTENCY of party 1 is not that party's"):
        run.parties[0].receive(messages.pack(Kind.SIGNATURES, name, 0, mixed))
    fresh = messages.pack_entries(Kind.SIGNATURES, sorted(second.items()))
    assert run.parties[0].receive(messages.pack(Kind.SIGNATURES, name, 0, fresh))


def signatures(run: Run, body: bytes) -> dict[int, bytes]:
    """Of parties 0, 1 and 2 on a list, at the end of a run in which all sent their vectors."""
    run.to(Stage.CONSISTENCY)
    made = {}
    for k in (0, 1, 2):
        answer = run.parties[k].receive(messages.pack(Kind.SURVIVORS, run.session.name, k, body))
        made[k] = messages.unpack(answer, run.session.name).signature
    return made


def test_shares_of_another_roster_do_not_open() -> None:
    """A server that tells parties different rosters: nobody opens what was sealed under another."""
    run = Run(Session.of(3, D, complete(3)), numbers(3, D))
    honest = run.to(Stage.SHARES)
    again = Party(run.begun, 2, run.signers[2], lambda: (run.inputs[2], np.empty(0)))  # party 2 is started again
    other = Server(run.begun)
    for k in (0, 1):
        keys = run.parties[k]._seal_end.key + run.parties[k]._mask_end.key
        other.receive(signed(run.begun, run.signers[k], Kind.KEYS, k, keys), k)
    other.receive(again.start(), 2)
    different = other.advance()
    assert other.session.roster != run.server.session.roster
    name = run.session.name
    shares = {0: run.parties[0].receive(honest[0]), 1: run.parties[1].receive(different[1])}
    sealed = dict(messages.unpack_entries(Kind.SHARES, messages.unpack(shares[0], name).body, messages.KEY_BYTES)[1])
    with pytest.raises(RefusedError, match="sees 1 parties with itself"):
        run.parties[1].receive(messages.pack(Kind.INBOX, name, 1, messages.pack_entries(Kind.INBOX, [(0, sealed[1])])))


def test_one_who_seals_nonsense_for_all_is_left_out_and_one_who_blames_all_too() -> None:
    for parties in (4, 5):
        for liar in (0, 1, parties - 1):
            for blames in (False, True):
                run = Run(Session.of(parties, D, complete(parties, parties - 1)), numbers(parties, D))

                def lie(k: int, message: bytes, run=run, liar=liar, blames=blames) -> list[bytes]:
                    kind, _, body, _ = messages.unpack(message, run.session.name)
                    if k != liar or kind is not (Kind.MASKED if blames else Kind.SHARES):
                        return [message]
                    if blames:
                        others = [j for j in range(run.session.parties) if j != liar]
                        body += np.array(others, "<u4").tobytes()
                    else:
                        commitment, sealed = messages.unpack_entries(Kind.SHARES, body, messages.KEY_BYTES)
                        body = messages.pack_entries(
                            kind, [(who, bytes(len(text))) for who, text in sealed], commitment
                        )
                    return [signed(run.session, run.signers[liar], kind, liar, body)]

                run.go(to_server=lie).assert_exact()
                assert set(run.server.survivors) == set(range(parties)) - {liar}
                assert run.refused[0].startswith(f"shares between party {liar} and ")
