"""`dpml check`: who sees which noise, what others' words mean, and what is said of a mistake."""

import itertools
import json
import math

import dp_accounting as events
import numpy as np
import pytest
from dp_accounting.pld import PLDAccountant
from scipy.stats import norm

import dpml
from dpml.errors import UserError
from dpml.privacy import gdp
from dpml.privacy.sampled import SampledGaussian
from dpml.release import verify

D = 1e-5
FLOWER = {"noise_multiplier": 9, "clipping_norm": 0.5, "num_sampled_clients": 10}


def proven(**keys) -> dict[str, float]:
    return {each.view: each.proven for each in dpml.check(**{"delta": D, "rounds": 30, **keys})}


def gauss(noise: float, rounds: int = 30) -> SampledGaussian:
    return SampledGaussian(noise, rounds, "replace")


def taking_part(share: float, noise: float = 9.0) -> SampledGaussian:
    return SampledGaussian(noise, 30, "replace", present=share)


ALL = "release aggregate client transcript"
SHARED = {"clients": 20, "noise_by": "shared", "dropouts": 4, "colluders": 6}
OWN = {"clients": 20, "unit": "client", "noise_by": "clients"}
TEN = {"clients": 10, "unit": "client"}
POISSON = {"clients": 50, "client_sampling": "poisson", "client_rate": 0.1}
SHUFFLED = {"row_sampling": "shuffled", "row_rate": 0.1}
ROWS = {"row_sampling": "poisson", "row_rate": 0.2}
FIXED = TEN | {"client_sampling": "fixed", "client_rate": 0.25}
DEALT = OWN | TEN | {"client_sampling": "shuffled", "secure_sum": True}
CENTRAL = {"flower": {"DifferentialPrivacyServerSideFixedClipping": FLOWER}, "weight": 1}
BY_CLIENTS = {"flower": {"DifferentialPrivacyClientSideFixedClipping": FLOWER}, "weight": 1}


@pytest.mark.parametrize(
    ("keys", "seen"),
    [
        # the server's noise protects from others only
        (TEN | {"colluders": 3}, {"release aggregate": gauss(9), "client transcript colluders": None}),
        ({"std": 4.5, "clip": 0.5}, {"release aggregate": gauss(9)}),
        ({"runs": 2, "rounds": 15}, {"release": gauss(9)}),
        ({"neighbours": "zero_out"}, {"release": SampledGaussian(9, 30, "zero_out")}),
        ({"noise_multiplier": 0}, {"release": None}),
        # shared noise, less what is missing and what is known
        (SHARED | {"secure_sum": True}, {"release transcript": gauss(36 / 20**0.5), "colluders": gauss(9 / 2**0.5)}),
        (SHARED, {"client transcript colluders": gauss(9 / 20**0.5)}),
        (SHARED | {"unit": "client"}, {"aggregate": gauss(36 / 20**0.5), "colluders": gauss(9 / 20**0.5)}),
        # each client's own noise; others' weights may be nothing, and a mean of models is no sum of steps
        (OWN | {"dropouts": 4}, {"client transcript": gauss(9), "release": gauss(9 * 4)}),
        (OWN | {"weight": 1.5}, {"release": gauss(6)}),
        (OWN | {"weight": None}, {ALL: gauss(9)}),
        (OWN | {"weight": 0.5, "clients": 5}, {"release client transcript": gauss(9)}),
        (OWN | {"unit": "record", "local_steps": 5}, {ALL: gauss(9, 150)}),
        # shuffled batches count once an epoch; clients may each start a new order in every round
        (SHUFFLED | {"rounds": 31}, {"release": gauss(9, 4)}),
        (SHUFFLED | {"row_rate": 0.3}, {"release": gauss(9, 10)}),
        (TEN | {"client_sampling": "shuffled", "client_rate": 0.1}, {"release": gauss(9, 3)}),
        (OWN | SHUFFLED | {"unit": "record", "local_steps": 1}, {"client": gauss(9, 30)}),
        (OWN | SHUFFLED | {"unit": "record", "local_steps": 2}, {"client": gauss(9, 30)}),
        (OWN | SHUFFLED | {"unit": "record", "local_steps": 15}, {"client": gauss(9, 60)}),
        # fewer clients at an epoch's end, 3, 3, 3 and 1, have less noise
        (DEALT | {"client_rate": 0.3}, {"aggregate": None}),
        (DEALT | {"client_rate": 0.2}, {"aggregate": gauss(9 * math.sqrt(2), 6)}),
        # sampled clients are hidden from those who do not run it
        (POISSON | {"unit": "client"}, {"aggregate": SampledGaussian(9, 30, "replace", "poisson", 0.1)}),
        (OWN | POISSON, {ALL: taking_part(0.1)}),
        (POISSON | ROWS, {"release": SampledGaussian(9, 30, "replace", "poisson", 0.2, present=0.1)}),
        # a fixed number of clients is whole, 3, and the noise that stands alone is of the most
        (FIXED, {"release": SampledGaussian(9, 30, "replace", "fixed", 0.3)}),
        (FIXED | {"client_rate": 0.3}, {"release": SampledGaussian(9, 30, "replace", "fixed", 0.3)}),
        (FIXED | {"noise_by": "shared"}, {"client": taking_part(0.3, 9 / 3**0.5)}),
        (
            FIXED | {"noise_by": "shared", "secure_sum": True, "dropouts": 1},
            {"transcript": taking_part(0.3, 9 / 2**0.5)},
        ),
        # Flower, told n clients, adds s clip / n to a mean of k, which one client replaced moves by 2 clip / k
        (CENTRAL, {"release": gauss(9)}),
        (CENTRAL | {"clients": 2}, {"release": gauss(9 / 5)}),
        (CENTRAL | {"dropouts": 5}, {"release": gauss(9 / 2)}),
        (CENTRAL | {"neighbours": "add_remove"}, {"release": None}),
        (CENTRAL | {"unit": "record"}, {"release": None}),
        (CENTRAL | POISSON, {"release": None}),
        (CENTRAL | {"clients": 50}, {"release": SampledGaussian(9, 30, "replace", "fixed", 0.2)}),
        (BY_CLIENTS | {"clients": 50}, {"release": SampledGaussian(9, 30, "replace", "fixed", 0.2)}),
    ],
)
def test_what_a_view_sees(keys, seen) -> None:
    """A Gaussian sum, sampled or not, of which nothing else is hidden; None: nothing is proven."""
    eps = proven(**({} if {"std", "flower"} & set(keys) else {"noise_multiplier": 9}) | keys)
    for views, pair in seen.items():
        for view in views.split():
            assert eps[view] == (math.inf if pair is None else pytest.approx(pair.eps(D), rel=1e-6)), view


def test_who_sees_anything() -> None:
    """One curator has all records; a secure sum hides what a client sends."""
    assert set(proven(noise_multiplier=9)) == {"release", "aggregate"}
    seen = set(proven(noise_multiplier=9, **SHARED, secure_sum=True))
    assert seen == {"release", "aggregate", "transcript", "colluders"}


@pytest.mark.parametrize(("clients", "rate"), [(10, 0.11), (10, 0.3), (7, 0.35), (5, 0.25), (10, 0.2)])
def test_a_batch_of_shuffled_clients_is_whole(clients, rate) -> None:
    """The last client of every order that is dealt in batches, the largest that the rate may mean, over 30 rounds."""
    batch = math.ceil(clients * rate)
    dealt = [order[at : at + batch] for order in [range(clients)] * 30 for at in range(0, clients, batch)]
    most = max(sum(client in some for some in dealt[:30]) for client in range(clients))
    keys = {"client_sampling": "shuffled", "client_rate": rate, "clients": clients}
    assert proven(noise_multiplier=2, unit="client", **keys)["release"] >= gdp.eps_of(most**0.5, D) * (1 - 1e-9)
    assert proven(noise_multiplier=2, **keys)["release"] >= gdp.eps_of(most**0.5, D) * (1 - 1e-9)


def test_a_claim_holds_is_false_or_is_not_proven() -> None:
    sampled = {"noise_multiplier": 1, "rounds": 50, "delta": D, "row_sampling": "poisson", "row_rate": 0.1}
    (one, _) = dpml.check(**sampled)
    assert one.verdict == "-"
    middle = (one.proven + one.attacked) / 2
    claims = {one.proven * 1.01: "holds", middle: "not proven", one.attacked * 0.99: "false"}
    assert {eps: dpml.check(**sampled, claimed_eps=eps)[0].verdict for eps in claims} == claims


def test_formulas() -> None:
    common = {"noise_multiplier": 10, "rounds": 100, "delta": D}
    textbook = 2 / 10 * math.sqrt(2 * math.log(1.25 / D))
    assert dpml.check(**common, formula="textbook")[0].claimed == pytest.approx(textbook)
    assert dpml.check(**common, formula="textbook_sum")[0].claimed == pytest.approx(100 * textbook)
    limit = dpml.check(**common, formula="clt", row_sampling="poisson", row_rate=0.5)[0].claimed
    assert limit == pytest.approx(gdp.eps_of(0.5 * math.sqrt(100 * (math.exp(0.01) - 1)), D))


@pytest.mark.parametrize(("eps", "rounds", "true"), [(1, 1, 0.75), (1, 100, 10.4), (10, 1, 10.4), (50, 1, 96.0)])
def test_flower_s_local_modifier_counts_nothing(tmp_path, eps, rounds, true) -> None:
    arguments = {"clipping_norm": 0.5, "sensitivity": 1.0, "epsilon": eps, "delta": D}
    path = tmp_path / "flower.json"
    path.write_text(json.dumps({"flower": {"LocalDpMod": arguments}, "clients": 5, "rounds": rounds}))
    found = {each.view: each for each in dpml.check(path)}
    assert found["client"].proven == pytest.approx(true, rel=0.005)
    assert found["client"].claimed == eps
    assert found["client"].verdict == ("holds" if true < eps else "false")
    (other, *_) = dpml.check(path, delta=0.3)
    assert (other.claimed, other.verdict) == (None, "-")  # at no other delta is it claimed


def test_a_mean_of_more_clients_than_flower_is_told_has_more_noise() -> None:
    """Noise of s clip / 5 in a mean of 25, which one client replaced moves by 2 clip / 25."""
    said = {"flower": {"DifferentialPrivacyServerSideFixedClipping": FLOWER | {"num_sampled_clients": 5}}}
    more = {"clients": 50, "client_sampling": "fixed", "client_rate": 0.5, "weight": 1}
    found = dpml.check(**said, **more, rounds=1, delta=D)[0]
    true = SampledGaussian(9 * 5, 1, "replace", "fixed", 0.5)
    assert found.proven == pytest.approx(true.eps(D))
    assert found.attacked == pytest.approx(true.reached(D))


def test_opacus() -> None:
    said = {"noise_multiplier": 1.1, "max_grad_norm": [0.3, 0.4], "batch_size": 64, "rows": 1000, "epochs": 2}
    found = dpml.check(opacus=said, delta=D)
    assert found[0].proven == SampledGaussian(1.1, 32, "add_remove", "poisson", 1 / 16).eps(D)
    dropped = dpml.check(opacus=said | {"drop_last": True}, delta=D)  # 15 batches of 64, and 40 rows are left
    assert dropped[0].proven == SampledGaussian(1.1, 30, "add_remove", "poisson", 1 / 15).eps(D)
    shuffled = dpml.check(opacus=said | {"poisson_sampling": False}, delta=D)
    assert shuffled[0].proven == math.inf
    same = {"unit": "record", "rounds": "32", "clients": 1, "row_rate": 1 / 16}
    assert proven(opacus=said, **same) == {each.view: each.proven for each in found}


@pytest.mark.parametrize(
    ("relation", "rate", "neighbours"),
    [("ADD_OR_REMOVE_ONE", 1, None), ("ADD_OR_REMOVE_ONE", 0.1, None), ("REPLACE_ONE", 0.1, "replace")],
)
def test_an_event_has_the_eps_that_dp_accounting_computes(relation, rate, neighbours) -> None:
    once = events.GaussianDpEvent(np.float64(1.5))  # which prints as np.float64(1.5)
    once = once if rate == 1 else events.PoissonSampledDpEvent(rate, once)
    event = events.ComposedDpEvent([once, events.SelfComposedDpEvent(once, 29)])
    accountant = PLDAccountant(events.NeighboringRelation[relation])
    theirs = accountant.compose(event).get_epsilon(D)
    keys = {"neighbours": neighbours} if neighbours else {}
    assert dpml.check(dp_event=event, delta=D, **keys)[0].proven == pytest.approx(theirs, rel=2e-3)
    assert dpml.check(dp_event=str(event), delta=D, **keys) == dpml.check(dp_event=event, delta=D, **keys)


def test_an_event_with_a_fixed_number_of_records_is_of_replaced_records() -> None:
    event = events.dp_event.SampledWithoutReplacementDpEvent(1000, 50, events.GaussianDpEvent(2.0))
    found = dpml.check(dp_event=events.SelfComposedDpEvent(event, 7), delta=D)[0]
    assert found.pair == SampledGaussian(2.0, 7, "replace", "fixed", 0.05)


def exact_allocation(eps: float, noise: float) -> float:
    """Delta at eps if a unit is in one of two sums: the larger of both directions, integrated on a grid."""
    x = np.linspace(-9 * noise, 9 * noise + 1, 2500)
    with_it, without = norm.pdf(x, 1, noise), norm.pdf(x, 0, noise)
    both = (np.outer(with_it, without) + np.outer(without, with_it)) / 2
    none = np.outer(without, without)
    pairs = ((both, none), (none, both))
    return max(np.maximum(p - math.exp(eps) * q, 0).sum() * (x[1] - x[0]) ** 2 for p, q in pairs)


@pytest.mark.slow
@pytest.mark.parametrize("noise", [0.7, 2.0])
def test_random_allocation_has_an_upper_bound_next_to_the_exact_eps(noise) -> None:
    pytest.importorskip("PLD_accounting")
    keys = {"row_sampling": "random_allocation", "row_rate": 0.5, "noise_multiplier": noise, "delta": D}
    whole, part, zero = (
        dpml.check(**keys, rounds=rounds, neighbours=neighbours)[0]
        for rounds, neighbours in ((2, "add_remove"), (1, "add_remove"), (2, "zero_out"))
    )
    assert exact_allocation(whole.proven, noise) <= D <= exact_allocation(whole.proven * 0.98, noise)
    assert part.proven == zero.proven == whole.proven  # an incomplete epoch counts as a complete one
    assert part.attacked is None
    assert 0.5 * whole.proven < whole.attacked < whole.proven


LOCAL = {"LocalDpMod": {"clipping_norm": 1, "sensitivity": 1, "epsilon": 1, "delta": D}}
OPACUS = {"noise_multiplier": 1.1, "max_grad_norm": 1, "batch_size": 64, "rows": 1000, "epochs": 2}
PLAIN = {"rounds": 3, "delta": D, "std": 1}


@pytest.mark.parametrize(
    ("keys", "named"),
    [
        (PLAIN | {"round": 3}, "rounds"),
        ({"rounds": 3, "std": 1}, "delta"),
        ({"rounds": 3, "delta": D}, "noise_multiplier"),
        (PLAIN | {"noise_multiplier": 1}, "noise_multiplier"),
        (PLAIN | {"rounds": 3.5}, "rounds"),
        (PLAIN | {"delta": math.nan}, "delta"),
        (PLAIN | {"std": 1e200, "clip": 1e-200}, "noise"),
        (PLAIN | {"std": 1e-200, "formula": "clt"}, "clt"),
        (PLAIN | {"row_rate": 0.5}, "row_sampling"),
        (PLAIN | {"clients": 4, "colluders": 4}, "colluders"),
        # a framework's words say what they mean, and nothing beside them contradicts it
        ({**CENTRAL, "rounds": 3, "delta": D, "noise_by": "clients"}, "noise_by"),
        ({**CENTRAL, "rounds": 3, "delta": D, "clip": 0.1}, "clip"),
        ({"flower": LOCAL, "rounds": 3, "noise_by": "server"}, "noise_by"),
        ({"flower": {"LocalDpMod": {"epsilon": -1}}, "rounds": 3}, "LocalDpMod"),
        ({"opacus": [1], "delta": D}, "opacus"),
        ({"opacus": OPACUS, "delta": D, "unit": "client", "clients": 50}, "unit"),  # whose records move a sum by more
        ({"opacus": OPACUS, "delta": D, "clients": 5, "noise_by": "clients"}, "clients"),
        ({"opacus": OPACUS | {"drop_last": True, "rows": 60}, "delta": D}, "drop_last"),
        ({"opacus": OPACUS | {"rows": 0.5}, "delta": D}, "rows"),
        ({"opacus": OPACUS | {"epochs": 1e300}, "delta": D}, "batches"),
        ({"opacus": OPACUS, "flower": LOCAL, "delta": D}, "one framework"),
        ({"dp_event": "LaplaceDpEvent(noise_multiplier=2.0)", "delta": D}, "LaplaceDpEvent"),
        ({"dp_event": "__import__('os').abort()", "delta": D}, "dp_event"),
        ({"dp_event": "GaussianDpEvent(noise_multiplier=" + "-" * 9000 + "1)", "delta": D}, "dp_event"),
        ({"dp_event": "SelfComposedDpEvent(event=GaussianDpEvent(noise_multiplier=1), count=0)", "delta": D}, "rounds"),
        ({"dp_event": "GaussianDpEvent(noise_multiplier=1)", "delta": D, "unit": "client"}, "unit"),
    ],
)
def test_a_mistake_is_named(keys, named) -> None:
    with pytest.raises(UserError, match=named):
        dpml.check(**keys)


@pytest.mark.parametrize(
    "keys",
    [
        {"row_sampling": "fixed", "row_rate": 0.1, "neighbours": "add_remove"},
        {"row_sampling": "shuffled", "row_rate": 0.1, "neighbours": "add_remove"},
        {"unit": "client", "clients": 9, "noise_by": "clients", "neighbours": "add_remove"},
        {"clients": 9, "noise_by": "shared", "client_sampling": "poisson", "client_rate": 0.5},
        {"clients": 2, "local_steps": 2},
        {"row_sampling": "random_allocation", "row_rate": 0.5},
        {"row_sampling": "random_allocation", "row_rate": 0.5, "neighbours": "add_remove", "local_steps": 2},
        {"tuning": "private"},
        {"noise_multiplier": 1e-200, "row_sampling": "poisson", "row_rate": 0.5},
        {"noise_multiplier": None, "flower": LOCAL, "clients": 3, "unit": "record"},  # a client's update is clipped
    ],
)
def test_what_is_not_covered_is_not_proven(keys) -> None:
    first = dpml.check(**{"noise_multiplier": 2, "rounds": 30, "delta": D, "claimed_eps": 100} | keys)[0]
    assert (first.proven, first.attacked, first.verdict) == (math.inf, None, "not proven")


@pytest.mark.parametrize("neighbours", ["replace", "add_remove", "zero_out"])
@pytest.mark.parametrize("records", [2, 5])
def test_the_mean_of_a_client_s_records_moves_no_farther_than_its_shares_say(neighbours, records) -> None:
    """All gradients of 1 and -1, enumerated; noise of deviation 1 hides a move as it hides one of N(0, 1)."""
    every = list(itertools.product((-1.0, 1.0), repeat=records))
    others = {
        "replace": lambda each: [(-each[0], *each[1:])],
        "add_remove": lambda each: [(*each, 1.0), (*each, -1.0)],
        "zero_out": lambda each: [(0.0, *each[1:])],
    }[neighbours]
    move = max(abs(np.mean(each) - np.mean(other)) for each in every for other in others(each))
    found = proven(rounds=1, noise_multiplier=1, clients=9, weight=1 / records, neighbours=neighbours)
    assert found["release"] >= gdp.eps_of(move, D) * (1 - 1e-9)
    assert found["release"] == (math.inf if neighbours == "add_remove" else pytest.approx(gdp.eps_of(move, D)))


def test_no_attack_is_claimed_where_weights_may_be_of_messages_with_their_noise() -> None:
    """The own noise is then weighed as well, and 9 is left of it, of which 6 is counted."""
    common = {"rounds": 1, "delta": D, "noise_multiplier": 9, "clients": 20, "unit": "client", "noise_by": "clients"}
    truth = gdp.eps_of(2 / 9, D)
    for weight in (0.5, 1.5, None, 1):
        for each in dpml.check(**common, weight=weight, claimed_eps=truth * 1.01):
            assert each.verdict != "false"


def test_what_is_printed_and_written(run_command, tmp_path) -> None:
    words = ["rounds=10", "noise_multiplier=5", "delta=1e-5", "clients=8", "unit=client", "noise_by=shared"]
    words += ["secure_sum=true", "colluders=2", "claimed_eps=1"]
    done = run_command("dpml", "check", *words, "--certificate", "c.json")
    assert done.code == 1, done.err  # a claim is false
    assert run_command("dpml", "check", *words, "--fail-on", "never").code == 0
    assert run_command("dpml", "check", *words[:-1]).code == 0  # nothing is claimed
    (tmp_path / "odd, 1%.yaml").write_text("unit: client\nclaimed_eps: 1\n")
    (tmp_path / "b.yaml").write_text("rounds: 9\n")
    several = run_command("dpml", "check", "odd, 1%.yaml", "b.yaml", *words[:-1], "--format", "github")
    assert several.code == 1
    of_server = [line for line in several.out.splitlines() if "::transcript" in line]
    assert [line.partition("::transcript")[0] for line in of_server] == ["::error file=odd%2C 1%25.yaml,line=2"]
    assert run_command("dpml", "check", "odd, 1%.yaml", "b.yaml", "--json", *words).code == 2
    assert run_command("dpml", "verify", "c.json").code == 0
    whole = json.loads(run_command("dpml", "check", *words, "--json").out)["views"]
    certificate = verify.read(tmp_path / "c.json")
    assert [float(eps) for _, eps, _ in verify.verify(certificate)] == [view["proven"] for view in whole]
    assert {view["verdict"] for view in whole} == {"false"}
    sampled = run_command("dpml", "check", "rounds=2", "std=1", "delta=1e-5", "row_sampling=fixed", "row_rate=0.5",
                          "--certificate", "d.json")  # fmt: skip
    assert sampled.code == 2
    assert not (tmp_path / "d.json").exists()


def test_flower_weighs_clients_by_their_records_which_a_recipe_does_not_tell() -> None:
    """A client with all the records moves the mean by 2 clip, where the noise is for 2 clip / n."""
    (first, *_) = dpml.check(flower={"DifferentialPrivacyServerSideFixedClipping": FLOWER}, rounds=30, delta=D)
    assert (first.proven, first.attacked) == (math.inf, None)
    local = {"clipping_norm": 1, "sensitivity": 2, "epsilon": 1, "delta": D}
    assert len(set(proven(flower={"LocalDpMod": local}, clients=10).values())) == 1  # no more in the mean than alone


@pytest.mark.parametrize("noise", [0.05, 0.02, 0.001])
def test_hardly_any_noise_with_sampling_is_a_large_number(noise) -> None:
    common = {"row_sampling": "poisson", "row_rate": 0.5, "rounds": 1, "neighbours": "add_remove"}
    found = proven(noise_multiplier=noise, **common)["release"]
    exact = gdp.eps_of(1 / noise, D / 0.5) + math.log(0.5)  # no overlap: delta is half that of the two Gaussians
    assert exact * (1 - 1e-9) <= found < exact * 1.05
