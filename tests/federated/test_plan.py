"""What parties agree on, and what is refused before any of them waits for another."""

import json
import sys
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from subprocess import TimeoutExpired

import numpy as np
import pytest
from examples_federated import COMMON, STATED, clinics, signing_keys

from dpml.cli import dpml, federate
from dpml.data.csv.column_bounds import bounds_from
from dpml.errors import UserError
from dpml.federated import party
from dpml.federated.aggregator import aggregate
from dpml.federated.agreed import agreed_of
from dpml.federated.party import Member, agreed_rows
from dpml.federated.plan import FederationPlan, agreed_topology, check_columns, most_dropouts, read_card, read_plan
from dpml.privacy import Budget
from dpml.protocols import Session, session

WORDS = ["--set", "algo=ssp", "eps=1", "delta=1e-5", "dataset.label=health"]


def command(monkeypatch, *words) -> int:
    monkeypatch.setattr(sys, "argv", ["dpml", "federate", *map(str, words)])
    try:
        dpml()
    except SystemExit as end:
        return int(end.code or 0)
    return 0


@pytest.fixture
def bounds(tmp_path):
    path = tmp_path / "clinics.yaml"
    path.write_text(json.dumps(STATED))
    return path


@pytest.fixture
def cards(tmp_path, bounds, monkeypatch) -> list[Path]:
    """Of the four clinics."""
    made = [tmp_path / f"p{k}.card" for k in range(4)]
    for file, card in zip(clinics(tmp_path).files, made, strict=True):
        words = ["card", file, "--key", card.with_suffix(".key"), "-o", card, "--bounds", bounds, *WORDS]
        assert command(monkeypatch, *words) == 0
    return made


def test_a_plan_is_read_as_it_was_written(tmp_path) -> None:
    plan = clinics(tmp_path).plan
    (tmp_path / "plan.yaml").write_text(plan.text)
    read = read_plan(tmp_path / "plan.yaml")
    assert (read.digest, read.seats, read.topology) == (plan.digest, plan.seats, plan.topology)
    content = json.loads(plan.text)
    content["parties"]["clinic0"]["rows"] += 1
    (tmp_path / "plan.yaml").write_text(json.dumps(content))
    assert read_plan(tmp_path / "plan.yaml").digest != plan.digest


@pytest.mark.slow
def test_cards_make_a_plan(tmp_path, cards, bounds, monkeypatch, capsys) -> None:
    assert command(monkeypatch, "plan", *cards, "-o", tmp_path / "plan.yaml", "--bounds", bounds, *WORDS) == 0
    plan = read_plan(tmp_path / "plan.yaml")
    assert [(seat.name, seat.rows) for seat in plan.seats] == [("p0", 60), ("p1", 80), ("p2", 100), ("p3", 120)]
    assert plan.dropouts == 1
    said = " ".join(capsys.readouterr().out.split())
    assert "4 parties add it, of whom 1 may collude and 1 more may be missing" in said
    assert "Secure sums of the release: 1, with 5 messages to every party." in said
    assert plan.terms.options == {"noise": "discrete"}
    assert "Noise: exact integers" in said


def test_a_card_replaces_no_file_that_is_read(tmp_path, bounds, monkeypatch, capsys) -> None:
    """It took the place of the rows, where -o named their file."""
    rows = clinics(tmp_path).files[0]
    for file in (rows, bounds):
        before = file.read_bytes()
        words = ["card", rows, "--key", tmp_path / "own.key", "-o", file, "--bounds", bounds, *WORDS]
        assert command(monkeypatch, *words) == 2
        assert "which is read: choose another name" in capsys.readouterr().err
        assert file.read_bytes() == before


@pytest.mark.slow
def test_a_delta_that_lets_a_record_be_published_is_refused(tmp_path, cards, bounds, monkeypatch, capsys) -> None:
    words = [word.replace("1e-5", "0.003") for word in WORDS]  # of 360 rows
    made = ["plan", *cards, "-o", tmp_path / "plan.json", "--bounds", bounds]
    assert command(monkeypatch, *made, *words) == 2
    assert "delta=0.003 is 1/N or more, with N=360" in capsys.readouterr().err
    assert not (tmp_path / "plan.json").exists()
    assert command(monkeypatch, *made, *[word.replace("1e-5", "0.0027") for word in WORDS]) == 0


def test_a_plan_for_rows_that_may_be_too_long_is_refused(tmp_path, cards, bounds, monkeypatch, capsys) -> None:
    """Else a party takes part, or not, by how long its rows are."""
    words = [*WORDS, "dataset.steps=[one_hot,symmetric]"]
    assert command(monkeypatch, "plan", *cards, "-o", tmp_path / "plan.yaml", "--bounds", bounds, *words) == 2
    assert "may leave a row that is" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        ("one_hot,clip,spline", "must have spline once"),
        ("one_hot,max_norm,one_hot", "must have one_hot once"),
        ("one_hot,bin,bin,sample_norm", "must have bin once"),
        ("clip,one_hot,sample_norm", "must have one_hot once"),
        ("sample_norm", "must have one_hot"),
    ],
)
def test_steps_that_do_not_suit_are_refused_before_any_row_is_read(tmp_path, steps, said) -> None:
    """A second one_hot also made rows longer than 1 that a plan had taken for short ones."""
    columns = {"age": {"low": 0, "high": 100, "edges": [30, 60]}, "job": ["farm", "mine"]}
    dataset = agreed_of(("algo=ssp", *COMMON, f"dataset.steps=[{steps}]")).dataset
    with pytest.raises(UserError, match=said):
        check_columns(dataset, bounds_from(Path("b"), {"columns": columns, "classes": ["ill", "well"]}))


def test_a_damaged_card_is_refused_or_the_plan_with_it_is_by_its_party(tmp_path) -> None:
    """A bit of every byte: no checksum is needed, for a party signs only what has its own key and rows."""
    parties = clinics(tmp_path)
    seat, file, key = parties.plan.seats[0], parties.files[0], parties.keys[0].public_key().public_bytes_raw()
    whole = json.dumps({"rows": seat.rows, "key": seat.key.hex()}).encode()
    card = tmp_path / f"{seat.name}.card"
    card.write_bytes(whole)
    assert read_card(card) == seat
    taken = 0
    for place, bit in enumerate(np.random.default_rng(0).integers(8, size=len(whole))):
        card.write_bytes(whole[:place] + bytes([whole[place] ^ (1 << bit)]) + whole[place + 1 :])
        try:
            plan = replace(parties.plan, seats=(read_card(card), *parties.plan.seats[1:]))
        except UserError:
            continue
        taken += 1
        with pytest.raises(
            UserError, match=r"no party with the verification key|rows that can be used, and the plan says"
        ):
            agreed_rows(plan, plan.number_of(key), file)
    assert taken > 5


def test_floating_point_noise_is_in_a_plan_only_where_that_is_said(
    tmp_path, cards, bounds, monkeypatch, capsys
) -> None:
    for words, instead in (
        (["algo=psgd", "algo.rounds=3"], "take algo=dpgd or algo=ssp with"),
        (["algo=ssp", "algo.noise=continuous"], "take algo=ssp or algo=dpgd with"),
    ):
        place = tmp_path / f"{words[0]}.yaml"
        setting = ["-o", place, "--bounds", bounds, "--set", *words, *WORDS[2:]]
        assert command(monkeypatch, "plan", *cards, *setting) == 2
        assert f"{instead} calibration=tight, whose noise is exact, or say --floating" in " ".join(
            capsys.readouterr().err.split()
        )
        assert not place.exists()
        assert command(monkeypatch, "plan", *cards, *setting, "--floating") == 0
        plan = read_plan(place)
        assert {guarantee.basis for guarantee in plan.guarantees} == {"proven for real numbers"}
        assert "proven for real numbers, not for these bits" in " ".join(capsys.readouterr().out.split())


def test_every_view_is_given_what_holds_when_parties_are_missing(tmp_path) -> None:
    """The release of those who are left shows as much as one colluder sees who knows his own noise."""
    with_one, with_all = (clinics(tmp_path, dropouts=dropouts).plan for dropouts in (1, 0))
    assert {guarantee.view for guarantee in with_one.guarantees} == {"release", "aggregate", "colluders"}
    assert with_all.guarantees[0].eps < 0.9  # the noise of all four is in what is released
    for guarantee in (*with_one.guarantees, with_all.guarantees[-1]):
        assert guarantee.eps == pytest.approx(1.0)


def test_no_noise_of_psgd_is_in_more_than_one_sum(tmp_path) -> None:
    """Else what is proven would need the same parties in all of them."""
    plan = clinics(tmp_path, "algo=psgd", "algo.rounds=3").plan
    assert plan.algorithm.perturbation(Budget(1.0, 1e-5), plan.problem).sigma == 0


def test_the_statement_trusts_no_place_with_all_records(tmp_path) -> None:
    trust = [sentence for sentence in clinics(tmp_path).plan.statement if sentence.startswith("Trust:")]
    assert len(trust) == 1
    assert "no place had the records of two parties" in trust[0]


def test_a_plan_says_how_files_are_written() -> None:
    words = ("dataset.encoding=cp1252", "dataset.decimal=comma", "dataset.separator=;", "dataset.na=[unbekannt]")
    terms = agreed_of(("algo=ssp", "eps=1", "delta=1e-5", "dataset.label=health", *words))
    written = terms.dataset.written
    found = (written.encoding, written.decimal, written.separator, written.na)
    assert found == ("cp1252", ",", ";", ("unbekannt",))
    assert agreed_of(terms.words) == terms


@pytest.mark.parametrize("parties", range(2, 12))
@pytest.mark.parametrize("colluders", range(4))
def test_no_two_lists_of_parties_can_both_be_summed(parties, colluders) -> None:
    """Two lists of M - D signers each share M - 2 D parties at least: more than C of them are not all colluders."""
    if colluders >= parties:
        return
    most = most_dropouts(parties, colluders)
    Session.of(parties, 1, agreed_topology(parties, colluders, most))
    assert most == 0 or parties - 2 * most > colluders
    assert most + 1 == parties or parties - 2 * (most + 1) <= colluders or parties - most - 1 < 2
    with pytest.raises(UserError, match=f"{most} at most"):
        agreed_topology(parties, colluders, most + 1)


def test_a_plan_without_an_honest_party_is_one_sentence(tmp_path) -> None:
    """The noise was computed first, of no party: a traceback."""
    plan = clinics(tmp_path).plan
    with pytest.raises(UserError, match="2 parties of which colluders=1 collude can do without 0 at most"):
        FederationPlan(plan.terms, plan.stated, plan.seats[:2], 1, 1)
    content = json.loads(plan.text)
    content["parties"] = dict(list(content["parties"].items())[:2])
    (tmp_path / "plan.json").write_text(json.dumps(content))
    with pytest.raises(UserError, match="is no plan that can be carried out: 2 parties"):
        read_plan(tmp_path / "plan.json")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("algo=gop",), "choose an algorithm of secure sums, as algo=ssp"),
        (("algo=nn_cape",), "choose an algorithm of secure sums, as algo=ssp"),
        (("algo=conv",), "choose an algorithm of secure sums, as algo=ssp"),
        (("algo=newton",), "choose an algorithm of secure sums, as algo=ssp"),
        (("algo=psgd", "algo.variant=halving"), "set calibration=published"),
        (("algo=ssp", "epz=1"), "did you mean 'eps'"),
        (("algo=ssp", "lam"), "KEY=VALUE, got 'lam'"),
        (("algo=ssp", "seed=1"), "a plan has no 'seed'"),
        (("algo=ssp", "calibration=published"), "a plan has no 'calibration'"),
        (("algo=ssp", "dataset.bounds=fitted"), "a plan has no 'dataset.bounds'"),
        (("algo=ssp", "algo._target_=centroid.Centroid"), "a plan has no 'algo._target_'"),
        (("algo=vote", "algo.local=[{_target_: os.abort}]"), "choose an algorithm of secure sums"),
        (("algo=ssp", "dataset.missing=drop"), "leaves rows out because of their content"),
        (("algo=ssp", "dataset.decimal=;"), "dataset.decimal must be point or comma, got ';'"),
        (("algo=ssp", "algo.radius=1e30"), "algo.radius must be at most 1e\\+06"),
        (("algo=wdgd", "algo.clip=1e300"), "algo.clip of wdgd must be at most 1e"),
        (("algo=wdgd", "algo.budget_share=0.99"), "algo.budget_share of wdgd must be less than 0.98"),
        (("algo=fm", "algo.radius=1e300"), "algo.radius must be at most 1e\\+06"),
        (("algo=dpgd", "algo.lam=1e300"), "algo.lam of dpgd must be at most 1e\\+06"),
    ],
)
def test_what_parties_cannot_agree_on_is_refused(tmp_path, words, said) -> None:
    plan = clinics(tmp_path).plan
    with pytest.raises(UserError, match=said):
        FederationPlan(agreed_of((*words, *COMMON)), plan.stated, plan.seats, 1, 1)


@pytest.mark.parametrize("parties", [2, 3, 4])
def test_one_party_at_least_is_counted_as_the_aggregators(tmp_path, parties) -> None:
    plan = clinics(tmp_path).plan
    seats = plan.seats[:parties]
    with pytest.raises(UserError, match="colluders=0 is no plan"):
        FederationPlan(plan.terms, plan.stated, seats, 0, 0)
    with pytest.raises(UserError, match="colluders=-1 is no plan"):
        FederationPlan(plan.terms, plan.stated, seats, -1, 0)
    with_one = FederationPlan(plan.terms, plan.stated, seats, 1, 0)
    assert f"{parties} parties add it, of whom 1 may collude and 0 more may be missing" in with_one.statement[2]


def test_a_vector_that_is_too_long_is_refused_before_anybody_signs(tmp_path, monkeypatch) -> None:
    plan = clinics(tmp_path).plan
    monkeypatch.setattr(session, "_LONGEST", 5)
    with pytest.raises(UserError, match="a vector must have 1 to 5 entries"):
        FederationPlan(plan.terms, plan.stated, plan.seats, 1, 1)


def test_one_key_is_one_party(tmp_path) -> None:
    plan = clinics(tmp_path).plan
    with pytest.raises(UserError, match="the same key"):
        FederationPlan(plan.terms, plan.stated, (plan.seats[0], *plan.seats), 1, 1)


@pytest.mark.parametrize(
    "text", ["", "[]", "{", "format: dpml plan 1\n", '{"format": "dpml plan 1", "setting": 1, "stated": 1}']
)
def test_a_file_that_is_no_plan_is_one_sentence(tmp_path, text) -> None:
    (tmp_path / "plan.yaml").write_text(text)
    with pytest.raises(UserError, match="is no plan"):
        read_plan(tmp_path / "plan.yaml")


@pytest.mark.parametrize("in_its_place", ['"farm"', '"clinic0": "'])
def test_half_a_character_is_one_sentence(tmp_path, in_its_place) -> None:
    """It can be neither hashed nor written."""
    place, text = tmp_path / "plan.json", clinics(tmp_path).plan.text
    place.write_text(text.replace(in_its_place, in_its_place[0] + "\\ud800" + in_its_place[1:]))
    assert place.read_text() != text
    with pytest.raises(UserError, match="is no plan"):
        read_plan(place)


def test_rows_are_read_by_whatever_is_stated(tmp_path) -> None:
    """Signs beyond 16 bits and small numbers, of which YAML and JSON have other ways to write."""
    said = {"columns": {"age": {"low": 0, "high": 1e-5}, "job": ["😀", "mine"]}, "classes": ["ill", "well"]}
    (tmp_path / "rows.csv").write_text("age,job,health\n0.000005,😀,ill\n0,mine,well\n", encoding="utf-8")
    dataset = agreed_of(("algo=ssp", *COMMON, "dataset.steps=[one_hot,symmetric,sample_norm]")).dataset
    X, y = party.own_rows(dataset, bounds_from(Path("stated"), said), tmp_path / "rows.csv")
    assert np.allclose(X * np.linalg.norm([1, 1]), [[0, 0, np.sqrt(2)], [-1, 1, 0]])
    assert y.tolist() == [-1, 1]
    (tmp_path / "rows.csv").write_text("Age,job,health\n0,mine,ill\n0,mine,well\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"^clinics.yaml states nothing of the column 'Age' of .*rows.csv: add it"):
        party.own_rows(dataset, bounds_from(Path("clinics.yaml"), said), tmp_path / "rows.csv")


def test_nobody_takes_part_before_all_have_signed(tmp_path) -> None:
    parties = clinics(tmp_path)
    others = {name: signature for name, signature in parties.plan.signatures.items() if name != "clinic2"}
    for signatures in (others, others | {"clinic2": others["clinic1"]}, others | {"clinic2": bytes(64)}):
        plan = replace(parties.plan, signatures=signatures)
        assert plan.unsigned == ("clinic2",)
        assert not plan.signed(parties.keys[2]).unsigned  # a wrong one is in nobody's way
        assert not plan.with_signatures(parties.plan.signatures).unsigned
        with pytest.raises(UserError, match="lacks the signature of clinic2"):
            Member(plan, parties.keys[0], parties.files[0], tmp_path / "ledger")
        with pytest.raises(UserError, match="lacks the signature of clinic2"):
            aggregate(plan, range(4), lambda mail: {})
    changed = replace(parties.plan, dropouts=0)
    assert len(changed.unsigned) == 4


def test_a_signature_is_not_verified_once_for_every_party(tmp_path, monkeypatch) -> None:
    """With 400 parties it took half a minute to say who has signed."""
    plan, verified = clinics(tmp_path).plan, []
    really = FederationPlan._has_signed
    monkeypatch.setattr(FederationPlan, "_has_signed", lambda plan, seat: verified.append(seat) or really(plan, seat))
    federate._say(plan)
    assert verified == [*plan.seats]


def test_signatures_of_copies_are_put_together(tmp_path, monkeypatch, capsys) -> None:
    plan = replace(clinics(tmp_path).plan, signatures={})
    for k, key in enumerate(signing_keys()):
        (tmp_path / f"{k}.key").write_text(key.private_bytes_raw().hex())
        (tmp_path / f"{k}.key").chmod(0o600)
        (tmp_path / f"{k}.json").write_text(plan.text)
        assert command(monkeypatch, "sign", tmp_path / f"{k}.json", "--key", tmp_path / f"{k}.key") == 0
    copies = [tmp_path / f"{k}.json" for k in range(1, 4)]
    assert command(monkeypatch, "sign", tmp_path / "0.json", "--copies", *copies) == 0
    whole = read_plan(tmp_path / "0.json")
    assert whole.unsigned == ()
    said = " ".join(capsys.readouterr().out.split())
    assert f"Plan {plan.digest}" in said
    assert all(f"{seat.name}: {seat.rows} rows, key {seat.fingerprint}, signed" in said for seat in plan.seats)
    (tmp_path / "1.json").write_text(replace(plan, dropouts=0).text)
    assert command(monkeypatch, "sign", tmp_path / "0.json", "--copies", tmp_path / "1.json") == 2
    assert "is another plan than" in capsys.readouterr().err
    (tmp_path / "0.key").chmod(0o644)
    assert command(monkeypatch, "sign", tmp_path / "0.json", "--key", tmp_path / "0.key") == 2
    assert "may be read by others" in " ".join(capsys.readouterr().err.split())


def test_a_try_overwrites_no_model(tmp_path, bounds, monkeypatch, capsys) -> None:
    (tmp_path / "model.json").write_text("mine")
    words = ["try", "--release", tmp_path / "a.csv", "-o", tmp_path / "model.json", "--bounds", bounds, *WORDS]
    assert command(monkeypatch, *words) != 0
    assert "is there already" in capsys.readouterr().err


def test_a_file_whose_name_is_no_partys_is_said_before_anybody_waits(tmp_path, bounds, monkeypatch, capsys) -> None:
    """Every party said so of a plan in a temporary folder, and the aggregator that nobody had come."""
    files = clinics(tmp_path).files
    odd = files[0].rename(tmp_path / "clinic (1).csv")
    monkeypatch.setattr(federate, "_started", None)
    out = tmp_path / "model.json"
    assert command(monkeypatch, "try", odd, *files[1:], "-o", out, "--bounds", bounds, *WORDS) == 2
    assert capsys.readouterr().err.startswith(
        "dpml: error: the name 'clinic (1)' of a party, which is that of its file,"
    )
    words = ["card", odd, "--key", tmp_path / "0.key", "--bounds", bounds, *WORDS]
    assert command(monkeypatch, *words, "-o", tmp_path / "(1).card") == 2
    assert command(monkeypatch, *words, "-o", tmp_path / "clinic1.card") == 0


def test_a_try_waits_for_parties_that_take_longer_than_an_answer_may(tmp_path, bounds, monkeypatch) -> None:
    """They write their ledgers and models after the last one; a traceback was all that was seen of it."""

    class Party:
        def wait(self, timeout: float | None = None) -> None:
            if timeout is not None:
                raise TimeoutExpired("dpml", timeout)

    monkeypatch.setattr(federate, "_started", lambda *_: nullcontext(Party()))
    monkeypatch.setattr(federate, "_aggregate", lambda *_: None)
    files = clinics(tmp_path).files
    assert command(monkeypatch, "try", *files, "-o", tmp_path / "model.json", "--bounds", bounds, *WORDS) == 0
