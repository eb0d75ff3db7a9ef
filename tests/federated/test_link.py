"""The whole of it over connections of this machine: parties that call an aggregator, and strangers that do."""

import asyncio
import hashlib
import json
import os
import signal
import socket
import struct
import time
from asyncio.selector_events import BaseSelectorEventLoop
from collections.abc import Callable
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from examples_federated import Clinics, assert_none_is_received, clinics

from dpml.errors import UserError
from dpml.federated import link
from dpml.federated.aggregator import Federated, aggregate
from dpml.federated.consortium import write_certificates
from dpml.federated.link import Callers, address_of, client_tls, listening, server_tls, take_part
from dpml.federated.sums import MESSAGE
from dpml.release.ledger import Ledger

HERE = ("127.0.0.1", 0)


@dataclass
class Seen:
    made: Federated
    models: list[str]


def released(
    parties: Clinics,
    answers: list[Callable[[bytes], bytes]],
    called: Callers,
    port: int,
    context=None,
    liar: int = -1,
    progress=lambda *_: None,
) -> Seen:
    """A release with a thread for each party; what becomes of a liar, which is hung up on, is not looked at."""
    with ThreadPoolExecutor(len(answers)) as pool:
        jobs = [
            pool.submit(take_part, key, parties.plan, answer, ("127.0.0.1", port), 5.0, context)
            for key, answer in zip(parties.keys, answers, strict=True)
        ]
        called.await_all(5.0)
        try:
            made = aggregate(parties.plan, called.exchange, progress)
        finally:
            called.end("" if "made" not in locals() else made.model.text())
        return Seen(made, [job.result(timeout=30) for k, job in enumerate(jobs) if k != liar])


def test_the_link_carries_the_model_of_one_process_bit_for_bit_and_hands_it_back(tmp_path, monkeypatch) -> None:
    parties = clinics(tmp_path, "algo=ssp_descent", "algo.rounds=2")
    members = parties.members(seed=5)
    with listening(parties.plan, HERE, 30.0, None) as (called, port):
        seen = released(parties, [member.answer for member in members], called, port)
    alone = parties.in_one_process(replace(parties.plan.algorithm, protocol="secagg"), seed=5)
    assert seen.made.model.weights[0].tobytes() == alone.tobytes()
    assert seen.models == [seen.made.model.text()] * 4
    members[0].receive_model(seen.models[0], tmp_path / "mine.json")
    assert (tmp_path / "mine.json").read_text(encoding="utf-8") == seen.models[0]
    (entry,) = Ledger(parties.files[0].with_suffix(".ledger")).entries()
    assert entry.model == hashlib.sha256(seen.models[0].encode()).hexdigest()
    with monkeypatch.context() as patch:
        patch.setattr("dpml.federated.party.create_atomically", Mock(side_effect=InterruptedError))  # the process dies
        with pytest.raises(InterruptedError):
            members[2].receive_model(seen.models[2], tmp_path / "ended.json")
    assert Ledger(parties.files[2].with_suffix(".ledger")).entries()[0].model == entry.model
    with pytest.raises(UserError, match="is there already"):
        members[0].receive_model(seen.models[0], tmp_path / "mine.json")
    monkeypatch.chdir(tmp_path)
    versions = json.loads(seen.models[1])["versions"]
    changes = (
        {"statement": ["Guarantee: eps = 0.01."]}, {"certificate": None}, {"label": "age"}, {"guarantees": []},
        {"errors": {"error": 0.0}}, {"note": "eps = 0.0001, proven"}, {"versions": {}},
        {"versions": versions | {"dpml": "9.9\x1b[31m"}}, {"versions": versions | {"dpml": "9" * 1000}},
        {"versions": versions | {"other": "1"}}, {"weights": [[float("nan")] * 6]}, {"weights": []},
    )  # fmt: skip
    assert_none_is_received(members[1], seen.models[1], changes)
    assert not list(tmp_path.glob(".*.json-*"))


def test_a_party_that_was_away_is_in_the_next_sum(tmp_path) -> None:
    parties = clinics(tmp_path, "algo=ssp_descent", "algo.rounds=3")
    members = parties.members()
    sums: list[int] = []
    with listening(parties.plan, HERE, 30.0, None) as (called, port):

        def leaving(said: bytes) -> bytes:
            if len(sums) == 1 and said[:1] == MESSAGE:  # in the second sum it loses its connection
                called._loop.call_soon_threadsafe(called._streams[2][1].transport.abort)
                sums.append(0)
                time.sleep(0.1)
            return members[2].answer(said)

        def progress(done: int, number: int) -> None:
            sums.append(number)
            called.await_all(5.0)

        answers = [member.answer for member in members]
        answers[2] = leaving
        released(parties, answers, called, port, progress=progress)
    assert sums == [4, 0, 3, 4, 4]


def test_strangers_are_hung_up_on(tmp_path) -> None:
    parties = clinics(tmp_path)
    with listening(parties.plan, HERE, 1.0, None) as (called, port):
        for said in (b"", b"x" * 68, struct.pack("<I", 99) + bytes(64), struct.pack("<I", 0) + bytes(64)):
            with socket.create_connection(("127.0.0.1", port)) as stranger:
                challenge = stranger.recv(32)
                assert len(challenge) == 32
                stranger.sendall(said or os.urandom(3))
                stranger.shutdown(socket.SHUT_WR)
                assert stranger.recv(10) == b""
        other = Ed25519PrivateKey.generate()
        with socket.create_connection(("127.0.0.1", port)) as stranger:
            signature = other.sign(b"dpml link " + stranger.recv(32) + parties.plan.digest.encode())
            stranger.sendall(struct.pack("<I", 1) + signature)
            assert stranger.recv(10) == b""
        assert called.exchange({0: b"x", 1: b"x"}) == {}


def test_a_party_with_another_plan_is_told_what_may_be_wrong(tmp_path) -> None:
    parties, others = clinics(tmp_path), clinics(tmp_path, "algo=capefm")
    with listening(parties.plan, HERE, 2.0, None) as (_, port), pytest.raises(UserError, match="different plan"):
        take_part(parties.keys[0], others.plan, bytes, ("127.0.0.1", port), 0.1, None)


def test_a_party_that_sends_too_much_or_too_slowly_is_silent(tmp_path) -> None:
    parties = clinics(tmp_path)
    members = parties.members()
    answers = [member.answer for member in members]
    with listening(parties.plan, HERE, 2.0, None) as (called, port):
        answers[1] = lambda said: bytes(parties.plan.longest + 1)
        seen = released(parties, answers, called, port, liar=1)
    assert seen.made.survivors.tolist() == [0, 2, 3]
    assert len(seen.models) == 3


def test_tls_is_needed_from_one_machine_to_another() -> None:
    for tls in (lambda address: server_tls(address, None, None), lambda address: client_tls(address, None)):
        assert tls(("127.0.0.1", 1)) is None
        with pytest.raises(UserError, match="TLS"):
            tls(("hospital.example", 1))
    assert address_of("[::1]:8000") == ("::1", 8000)
    for text in ("8000", ":8000", "hospital.example:0", "hospital..example:8000"):
        with pytest.raises(UserError, match="must have the form HOST:PORT"):
            address_of(text)


def test_tls_carries_a_release_to_the_aggregator_of_the_certificate_only(tmp_path) -> None:
    parties = clinics(tmp_path)
    for name in ("one", "other"):
        write_certificates("127.0.0.1", tmp_path / name)
    assert (tmp_path / "one" / "server.key").stat().st_mode & 0o077 == 0
    for host, folder in (("127.0.0.1", "one"), ("a.example:80", "new")):
        with pytest.raises(UserError):
            write_certificates(host, tmp_path / folder)
    server = server_tls(HERE, tmp_path / "one" / "server.pem", tmp_path / "one" / "server.key")
    answers = [member.answer for member in parties.members()]
    with listening(parties.plan, HERE, 30.0, server) as (called, port):
        for host, authority in (("127.0.0.1", "other"), ("localhost", "one")):
            with pytest.raises(UserError, match="invalid certificate"):
                take_part(
                    parties.keys[0], parties.plan, answers[0], (host, port), 5.0,
                    client_tls((host, port), tmp_path / authority / "ca.pem"),
                )  # fmt: skip
        seen = released(parties, answers, called, port, client_tls(HERE, tmp_path / "one" / "ca.pem"))
    assert seen.made.survivors.tolist() == [0, 1, 2, 3]
    assert len(set(seen.models)) == 1


def test_a_party_waits_for_the_others_longer_than_for_the_aggregator(tmp_path) -> None:
    parties = clinics(tmp_path)
    with listening(parties.plan, HERE, 30.0, None) as (called, port), ThreadPoolExecutor(1) as pool:
        first = pool.submit(take_part, parties.keys[0], parties.plan, bytes, ("127.0.0.1", port), 0.1, None)
        called.await_all(0.5)
        called.end("the model")
        assert first.result(timeout=30) == "the model"


def test_a_party_does_not_wait_for_ever_for_what_only_takes_calls(tmp_path, monkeypatch) -> None:
    """As a wrong port may, or a firewall: every call lasted as long as that of an aggregator that waits for others."""
    monkeypatch.setattr(link, "_GREETING", 0.1)
    parties, taken = clinics(tmp_path), []
    with socket.create_server(HERE) as mute, ThreadPoolExecutor(1) as pool:
        address = mute.getsockname()
        calls = pool.submit(take_part, parties.keys[0], parties.plan, bytes, address, 0.5, None)
        while not calls.done() and len(taken) < 30:
            with suppress(TimeoutError):
                mute.settimeout(2.0)
                taken.append(mute.accept()[0])
        mute.close()
        for connection in taken:
            connection.close()
        with pytest.raises(UserError, match="does not answer"):
            calls.result(timeout=20)
    assert len(taken) < 30


def test_a_party_tries_all_addresses_of_the_aggregator(tmp_path, monkeypatch) -> None:
    """As where IPv6 is broken: the call of the first address took all the time there was."""
    parties, really = clinics(tmp_path), BaseSelectorEventLoop.sock_connect

    async def connect(loop, connection: socket.socket, address: tuple[str, int]) -> None:
        if address[0] == "127.0.0.2":
            await asyncio.sleep(60)
        await really(loop, connection, address)

    with listening(parties.plan, HERE, 5.0, None) as (called, port), ThreadPoolExecutor(1) as pool:
        both = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, port)) for host in ("127.0.0.2", "127.0.0.1")]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: both)
        monkeypatch.setattr(BaseSelectorEventLoop, "sock_connect", connect)
        address = ("aggregator.example", port)
        job = pool.submit(take_part, parties.keys[0], parties.plan, bytes, address, 0.5, None)
        called.await_all(3.0)
        called.end("the model")
        assert job.result(timeout=30) == "the model"


def test_a_party_that_is_interrupted_sends_nothing_more(tmp_path) -> None:
    parties = clinics(tmp_path)

    def interrupted(said: bytes) -> bytes:
        signal.raise_signal(signal.SIGINT)
        return b"an answer"

    with listening(parties.plan, HERE, 5.0, None) as (called, port), ThreadPoolExecutor(1) as pool:
        answers = pool.submit(lambda: called.await_all(0.5) or called.exchange({0: b"said"}))
        with pytest.raises(KeyboardInterrupt):
            take_part(parties.keys[0], parties.plan, interrupted, ("127.0.0.1", port), 5.0, None)
        assert answers.result(timeout=20) == {}


@pytest.fixture
def forty():
    """An aggregator, and its connections to 40 parties that say nothing, unless a test lets them."""
    keys = [Ed25519PrivateKey.generate() for _ in range(40)]
    seats = [SimpleNamespace(key=key.public_key().public_bytes_raw()) for key in keys]
    plan = SimpleNamespace(seats=seats, longest=100, digest="")
    with listening(plan, HERE, 1.0, None) as (called, port), ExitStack() as stack:  # type: ignore[arg-type]
        there = [stack.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in keys]
        for number, (key, connection) in enumerate(zip(keys, there, strict=True)):
            connection.sendall(struct.pack("<I", number) + key.sign(b"dpml link " + connection.recv(32)))
        called.await_all(5.0)
        yield called, there


def test_parties_that_say_nothing_keep_nobody_else_waiting(forty) -> None:
    called, there = forty
    there[0].close()
    there[39].sendall(struct.pack("<I", 2) + b"ok")
    assert called.exchange(dict.fromkeys(range(40), b"said")) == {39: b"ok"}


def test_who_hangs_up_waits_for_no_answer(forty) -> None:
    """Ctrl-C ended an aggregator only after its --timeout, where a party was silent."""
    called, there = forty
    called._timeout = 40.0
    with ThreadPoolExecutor(1) as pool, suppress(CancelledError):
        answers = pool.submit(called.exchange, {0: b"said"})
        assert there[0].recv(4)  # it is asked
        called.close()
        answers.result(timeout=20)


def test_parties_that_take_nothing_keep_the_model_from_nobody_else(forty) -> None:
    called, there = forty
    model, taken = "x" * 3_000_000, []  # more than a connection holds by itself
    called._timeout = 3.0
    there[1].close()
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(lambda: taken.extend(iter(lambda: len(there[39].recv(1 << 20)), 0)))
        called.end(model)
        reading.result(timeout=30)
    assert sum(taken) == 4 + 1 + len(model)
