"""An aggregator that ended in the middle of a release and is started again."""

import json
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path

import numpy as np
import pytest
from examples_federated import Clinics, clinics, entries, run

from dpml.errors import UserError
from dpml.federated.aggregator import Kept, aggregate
from dpml.federated.link import take_part
from dpml.federated.sums import OPEN, REFUSED
from dpml.files import seal_object
from dpml.protocols import ProtocolError

WORDS = ("algo=ssp_descent", "algo.noise=discrete", "algo.rounds=2", "count_errors=0.5")  # four secure sums
SUMS, MESSAGES = 4, 5


class Killed(BaseException):
    """The aggregator's process ends."""


def aggregated(parties: Clinics, members, kept: Kept, until: int | None = None, heard: bool = False, spy=None):
    """A release with these parties; killed at message number `until`, after parties have `heard` it or before."""
    numbers = count()

    def exchange(mail: Mapping[int, bytes]) -> dict[int, bytes]:
        ends = next(numbers) == until
        if ends and not heard:
            raise Killed
        answers = {node: members[node].answer(said) for node, said in mail.items()}
        if spy is not None:
            spy.append((dict(mail), answers))
        if ends:
            raise Killed
        return answers

    return aggregate(parties.plan, exchange, kept=kept).model


def killed(folder: Path, until: int, heard: bool = False, spy=None):
    """Parties whose aggregator was killed at message number `until`, and what it kept."""
    parties = clinics(folder, *WORDS)
    members, kept = parties.members(seed=5), Kept(folder / "model.json.sums", parties.plan)
    with pytest.raises(Killed):
        aggregated(parties, members, kept, until, heard, spy)
    return parties, members, kept


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> str:
    parties = clinics(tmp_path_factory.mktemp("whole"), *WORDS)
    return run(parties.members(seed=5), parties.plan).model.text()


@pytest.mark.parametrize("heard", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["unheard", "heard"])
@pytest.mark.parametrize("until", range(SUMS * MESSAGES))
def test_it_goes_on_wherever_it_was_killed(tmp_path, whole, until, heard) -> None:
    """At every message of the release; the model is then that of an aggregator that was not killed."""
    parties, members, kept = killed(tmp_path, until, heard)
    assert kept.done == until // MESSAGES
    assert all(path.stat().st_mode & 0o077 == 0 for path in (kept.folder, *kept.folder.iterdir()))
    made = aggregated(parties, members, kept)
    assert made.text() == whole
    assert [path.suffix for path in kept.folder.iterdir()] == [".json"] * SUMS
    assert entries(parties) == [1] * 4


def test_parties_that_could_not_be_reached_go_on_later(tmp_path, whole) -> None:
    """The second start reaches them only when it has given the sum up: they refuse another one, and keep the first."""
    parties, members, kept = killed(tmp_path, 3, heard=True)
    away = iter([True])

    def exchange(mail):
        here = () if next(away, False) else mail
        return {node: members[node].answer(mail[node]) for node in here}

    with pytest.raises(ProtocolError):
        aggregate(parties.plan, exchange, kept=kept)
    assert aggregated(parties, members, kept).text() == whole
    assert entries(parties) == [1] * 4


def test_a_sum_whose_parties_are_gone_begins_anew_without_those_who_sent_a_vector(tmp_path) -> None:
    """Party 0 sent its vector; the others are started again, and have nothing of the sum that was under way."""
    parties = clinics(tmp_path, *WORDS)
    members, kept = parties.members(), Kept(tmp_path / "model.json.sums", parties.plan)
    numbers = count()

    def exchange(mail):
        here = [0] if next(numbers) == 2 else mail
        return {node: members[node].answer(mail[node]) for node in here}

    with pytest.raises(ProtocolError):
        aggregate(parties.plan, exchange, kept=kept)
    members[1:] = parties.members()[1:]
    made = aggregate(parties.plan, lambda mail: {k: members[k].answer(mail[k]) for k in mail}, kept=kept)
    assert Kept(kept.folder, parties.plan).read(0, b"")["parties"] == [1, 2, 3]
    assert made.refused
    assert entries(parties) == [1] * 4


def test_what_is_kept_is_the_sums_and_nothing_that_parties_sent(tmp_path) -> None:
    parties, spy = clinics(tmp_path, *WORDS), []
    kept = Kept(tmp_path / "model.json.sums", parties.plan)
    aggregated(parties, parties.members(), kept, spy=spy)
    assert kept.folder.stat().st_mode & 0o077 == 0
    sent = [answer for _, answers in spy for answer in answers.values()]
    openings = {said[1:17] for mail, _ in spy for said in mail.values() if said[:1] == OPEN}
    assert len(openings) == SUMS
    for path in kept.folder.iterdir():
        assert path.stat().st_mode & 0o077 == 0
        content = json.loads(path.read_text())
        assert set(content) == {"of", "parties", "total", "beside", "checksum"}
        numbers = np.array(content["total"], "<u8").tobytes() + np.array(content["beside"], "<f8").tobytes()
        said = numbers + bytes.fromhex(content["of"][2])
        pieces = {said[place : place + 16] for place in range(len(said) - 15)}
        assert not any(answer[place : place + 16] in pieces for answer in sent for place in range(0, len(answer) - 15))
    kept.forget()
    assert not kept.folder.exists()


def test_no_party_gives_two_vectors_to_a_sum_however_often_the_aggregator_starts(tmp_path) -> None:
    """Eight starts in the first sum; one party after the other answers. Every second start has lost what was kept."""
    parties = clinics(tmp_path, *WORDS)
    members, kept = parties.members(), Kept(tmp_path / "model.json.sums", parties.plan)
    given: list[tuple[int, int]] = []
    for party, member in enumerate(members):

        def counted(opening, ask=member._contribution, party=party):
            given.append((party, opening.number))
            return ask(opening)

        member._contribution = counted  # type: ignore[method-assign]
    for start in range(8):
        numbers = count()

        def exchange(mail, start=start, numbers=numbers):
            stage = next(numbers)
            if stage == 3:
                raise Killed
            here = [node for node in mail if stage < 2 or node == start % 4]
            return {node: members[node].answer(mail[node]) for node in here}

        with pytest.raises((Killed, ProtocolError)):
            aggregate(parties.plan, exchange, kept=kept)
        if start % 2:
            kept.forget()
    assert len(set(given)) == len(given) > 0
    assert kept.done == 0
    assert max(entries(parties)) == 1


@pytest.mark.parametrize("stage", range(MESSAGES))
def test_a_party_repeats_an_answer_and_gives_no_other(tmp_path, stage) -> None:
    """To the same message the same bytes; nothing to what another message of the same round says, or an earlier one."""
    parties, members, _ = killed(tmp_path, stage, heard=True, spy=(spy := []))
    for party, member in enumerate(members):
        asked = [mail[party] for mail, _ in spy]
        assert member.answer(asked[stage]) == spy[stage][1][party] == member.answer(asked[stage])
        if stage:
            for other in (*asked[1:stage], asked[stage][:-1] + bytes([asked[stage][-1] ^ 1])):
                assert member.answer(other)[:1] == REFUSED
    assert entries(parties) == [int(stage >= 2)] * 4


def test_a_party_signs_no_second_list_for_an_aggregator_that_goes_on_with_another(tmp_path) -> None:
    """What was kept is changed: the vector of party 3 has not come."""
    parties, members, kept = killed(tmp_path, 3, heard=True)
    (path,) = kept.folder.iterdir()
    content = json.loads(path.read_text())
    content.pop("checksum")
    del content["answers"][2]["3"]
    path.write_text(json.dumps(seal_object(content)))
    with pytest.raises(ProtocolError):
        aggregated(parties, members, kept, spy=(spy := []))
    assert all(answer[:1] == REFUSED for _, answers in spy for answer in answers.values())


@pytest.mark.parametrize("until", [3, MESSAGES])
def test_what_is_damaged_or_of_another_plan_is_refused(tmp_path, until) -> None:
    parties, members, kept = killed(tmp_path, until)
    (path,) = kept.folder.iterdir()
    content = path.read_text()
    for text in (content.replace("0", "1", 1), content[:-9], "[]", ""):
        path.write_text(text)
        with pytest.raises(UserError, match="is not a sum of this release"):
            aggregated(parties, members, kept)
    path.write_text(content)
    other = clinics(tmp_path, *WORDS, "algo.lam=0.5")
    with pytest.raises(UserError, match="is not a sum of this release"):
        aggregated(other, other.members(), Kept(kept.folder, other.plan))


@pytest.mark.parametrize("folder", ["a file", "a link to nothing", "a path below a file"])
def test_parties_spend_nothing_on_a_sum_that_cannot_be_kept(tmp_path, folder) -> None:
    parties, place, spy = clinics(tmp_path, *WORDS), tmp_path / "model.json.sums", []
    if folder == "a link to nothing":
        place.symlink_to(tmp_path / "nothing")
    else:
        place.write_text("")
    kept = Kept(place / "sums" if folder == "a path below a file" else place, parties.plan)
    with pytest.raises((UserError, OSError)):
        aggregated(parties, parties.members(), kept, spy=spy)
    assert not spy
    assert entries(parties) == [0] * 4


@pytest.mark.slow
def test_a_process_that_is_killed_between_two_sums_is_started_again(tmp_path) -> None:
    parties = clinics(tmp_path, *WORDS)
    (tmp_path / "plan.json").write_text(parties.plan.text)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

    def start() -> subprocess.Popen[str]:
        words = ["--plan", "plan.json", "--listen", f"127.0.0.1:{port}", "-o", "model.json", "--timeout", "20"]
        program = [sys.executable, "-c", "from dpml.cli import dpml; dpml()", "federate", "aggregator", *words]
        return subprocess.Popen(program, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    third, go_on = threading.Event(), threading.Event()

    def held(member, said: bytes) -> bytes:
        """A party waits when the third sum begins."""
        if said[:1] == OPEN and member.reached == 2 and not go_on.is_set():
            third.set()
            go_on.wait(60)
        return member.answer(said)

    with ThreadPoolExecutor(4) as pool:
        jobs = [
            pool.submit(take_part, key, parties.plan, lambda said, m=m: held(m, said), ("127.0.0.1", port), 60.0, None)
            for key, m in zip(parties.keys, parties.members(), strict=True)
        ]
        first = start()
        assert third.wait(60)
        first.kill()
        first.communicate(timeout=60)
        assert Kept(tmp_path / "model.json.sums", parties.plan).done == 2
        assert not (tmp_path / "model.json").exists()
        second = start()
        go_on.set()
        _, problems = second.communicate(timeout=120)
        assert second.returncode == 0, problems
        models = [job.result(timeout=60) for job in jobs]
    assert models == [Path(tmp_path / "model.json").read_text(encoding="utf-8")] * 4
    assert not (tmp_path / "model.json.sums").exists()
    assert entries(parties) == [1] * 4
    assert np.isfinite(json.loads(models[0])["errors"]["error"])
