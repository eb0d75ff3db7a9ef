"""What parties agree on, and what is refused before any of them waits for another."""

import json
from dataclasses import replace

import numpy as np
import pytest
from examples_federated import COMMON, clinics

from dpml.errors import UserError
from dpml.federated.aggregator import aggregate
from dpml.federated.agreed import agreed_of
from dpml.federated.party import Member, agreed_rows
from dpml.federated.plan import FederationPlan, agreed_topology, most_dropouts, read_card, read_plan
from dpml.optim.losses import LOSSES
from dpml.privacy import Budget
from dpml.protocols import Session


def test_a_plan_is_read_as_it_was_written(tmp_path) -> None:
    words = ("dataset.encoding=cp1252", "dataset.decimal=comma", "dataset.separator=;", "dataset.na=[unbekannt]")
    plan = clinics(tmp_path, "algo=ssp", *words).plan
    (tmp_path / "plan.yaml").write_text(plan.text)
    read = read_plan(tmp_path / "plan.yaml")
    assert (read.digest, read.terms, read.seats, read.topology) == (plan.digest, plan.terms, plan.seats, plan.topology)
    written = read.terms.dataset.written
    assert (written.encoding, written.decimal, written.separator, written.na) == ("cp1252", ",", ";", ("unbekannt",))
    content = json.loads(plan.text)
    content["parties"]["clinic0"]["rows"] += 1
    (tmp_path / "plan.yaml").write_text(json.dumps(content))
    assert read_plan(tmp_path / "plan.yaml").digest != plan.digest


def test_a_damaged_card_is_refused_or_the_plan_with_it_is_by_its_party(tmp_path) -> None:
    """A bit of every byte: a card has no checksum, because a party signs only what has its own key and rows."""
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
        with pytest.raises(UserError):
            agreed_rows(plan, plan.number_of(key), file)
    assert taken > 5


def test_no_noise_of_psgd_is_in_more_than_one_sum(tmp_path) -> None:
    """Else what is proven would need the same parties in all of them."""
    plan = clinics(tmp_path, "algo=psgd", "algo.rounds=3").plan
    assert plan.algorithm.perturbation(Budget(1.0, 1e-5), plan.problem).scale == 0


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
    with pytest.raises(UserError, match="dropouts="):
        agreed_topology(parties, colluders, most + 1)


def test_nobody_takes_part_before_all_have_signed(tmp_path) -> None:
    parties = clinics(tmp_path)
    others = {name: signature for name, signature in parties.plan.signatures.items() if name != "clinic2"}
    for signatures in (others, others | {"clinic2": others["clinic1"]}, others | {"clinic2": bytes(64)}):
        plan = replace(parties.plan, signatures=signatures)
        assert plan.unsigned == ("clinic2",)
        assert not plan.signed(parties.keys[2]).unsigned  # a wrong one is in nobody's way
        assert not plan.with_signatures(parties.plan.signatures).unsigned
        with pytest.raises(UserError, match="clinic2"):
            Member(plan, parties.keys[0], parties.files[0], tmp_path / "ledger")
        with pytest.raises(UserError, match="clinic2"):
            aggregate(plan, lambda mail: {})
    changed = replace(parties.plan, dropouts=0)
    assert len(changed.unsigned) == 4


REFUSED = {
    "algo=gop": "algo=ssp",
    "algo=nn_cape": "algo=ssp",
    "algo=newton": "algo=ssp",
    "algo=psgd algo.variant=halving": "calibration=published",
    "algo=ssp epz=1": "'eps'",
    "algo=ssp seed=1": "'seed'",
    "algo=ssp dataset.bounds=fitted": "'dataset.bounds'",
    "algo=ssp algo._target_=centroid.Centroid": "'algo._target_'",
    "algo=ssp algo.noise=${oc.env:HOME}": "algo.noise",
    "algo=ssp dataset.missing=drop": "leaves rows out",
    # a party would take part, or not, by how long its rows are
    "algo=ssp dataset.steps=[one_hot,symmetric]": "dataset.steps",
    "algo=ssp dataset.steps=[one_hot,max_norm,one_hot]": "dataset.steps",
    "algo=regression dataset.steps=[one_hot,symmetric,bias,sample_norm]": "treatment",
    "algo=ssp algo.radius=1e30": "algo.radius",
    "algo=wdgd algo.clip=1e300": "algo.clip",
    "algo=ssp algo.noise=discrete count_errors=nan": "count_errors",
    "algo=ssp algo.noise=discrete count_errors=-1": "count_errors",
    "algo=psgd count_errors=0.1": "count_errors",
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_parties_cannot_agree_on_is_refused(tmp_path, words) -> None:
    plan = clinics(tmp_path).plan
    with pytest.raises(UserError) as caught:
        FederationPlan(agreed_of((*words.split(), *COMMON)), plan.stated, plan.seats, 1, 1)
    assert REFUSED[words] in str(caught.value)


def test_a_plan_has_different_keys_one_colluder_at_least_and_an_honest_party(tmp_path) -> None:
    plan = clinics(tmp_path).plan
    with pytest.raises(UserError):
        replace(plan.seats[0], name="\x1b[2J")
    assert (
        "2 parties add it, of whom 1 may collude"
        in FederationPlan(plan.terms, plan.stated, plan.seats[:2], 1, 0).statement[2]
    )
    for seats, colluders, dropouts in (
        ((plan.seats[0], *plan.seats), 1, 1), (plan.seats, 0, 0), (plan.seats, -1, 0), (plan.seats[:2], 1, 1),
        (plan.seats, 4, 0),
    ):  # fmt: skip
        with pytest.raises(UserError):
            FederationPlan(plan.terms, plan.stated, seats, colluders, dropouts)


def test_noise_is_exact_unless_floating_point_noise_is_asked_for() -> None:
    terms = agreed_of(("algo=ssp", *COMMON))
    assert terms.with_exact_noise(LOSSES["logistic"], False).options == {"noise": "discrete"}
    for words in (("algo=psgd", "algo.rounds=3"), ("algo=ssp", "algo.noise=continuous")):
        terms = agreed_of((*words, *COMMON))
        with pytest.raises(UserError, match="--floating"):
            terms.with_exact_noise(LOSSES["logistic"], False)
        assert terms.with_exact_noise(LOSSES["logistic"], True) == terms
