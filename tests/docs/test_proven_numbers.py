"""Privacy numbers in the sentences of pages are computed: proven ones rounded up, lower bounds and claims kept down."""

import json
import math
import re
from pathlib import Path

import pandas as pd
import pytest
from scipy.optimize import brentq

import dpml
from dpml import sums
from dpml.packs.heikkila2017 import theorems as dca
from dpml.packs.jayaraman2018 import theorems as jayaraman
from dpml.packs.wei2020 import theorems as nbafl
from dpml.privacy import gdp
from dpml.privacy.accountant import Accountant
from dpml.privacy.proofs import objective_perturbation
from dpml.privacy.safe import written, written_below

DOCS = Path(__file__).parents[2] / "docs"
WDDP = "algo=wddp calibration=published dataset=adult M=32 N=45222 d=104 eps=0.25 delta=1e-3"
PSGD = "algo=psgd algo.lam=1 M=5 N=1000 d=10"
RANDOM = "partition=simplex partition.floor=100"
FM, ADASSP = ("loss=squared delta=1e-5 " + algo for algo in ("algo=fm eps=1", "algo=adassp calibration=published"))
AMP = "algo=amp calibration=published N=30162 d=104"
NETWORK = "algo=nn_cape eps=0.5 delta=0.01 M=4"
KDD = "eps=1 dataset=kddcup99 partition=per_party partition.n=22 partition.auxiliary=0.0873 M=20000"


def page(name: str) -> str:
    return (DOCS / f"{name}.md").read_text(encoding="utf-8")


def in_words(number: str) -> str:
    """As a page writes it: 2.35e+05 is 2.35 times a power of ten."""
    return re.sub(r"e\+0(\d)$", r" \\cdot 10^\1", number)


@pytest.mark.parametrize(
    ("name", "words", "said"),
    [
        ("kang2019", WDDP, "is {client} ({release}) with equal sizes"),
        ("kang2019", f"{WDDP} partition=two_group partition.u=9", "{client} ({release}) with $u = 9$"),
        ("kang2019", f"{WDDP} {RANDOM}", "{client} ({release}) with random sizes"),
        ("kang2019", f"{WDDP} {RANDOM} seed=1", "{client} ({release}) with `seed=1`"),
        (
            "rajkumar2012",
            f"{PSGD} eps=0.1 delta=0.05",
            "is {release} for `release` and `aggregate`, {colluders} for colluders, {client} for a client",
        ),
        ("rajkumar2012", f"{PSGD} eps=1 delta=1e-5", "{release}, {colluders}, {client}"),
        ("imtiaz2019", FM, r"that is $\varepsilon = {release}$ or"),
        ("imtiaz2019", FM.replace("squared", "logistic"), "or {release} | Theorem 1"),
        ("imtiaz2019", FM.replace("fm", "capefm M=100"), r"$\varepsilon = {colluders}$ for 1 | Theorem 2"),
        ("imtiaz2019", NETWORK, r"all epochs: $\varepsilon = {colluders}$ for $0.5$"),
        ("imtiaz2019", NETWORK, r"the colluders have $\varepsilon = {colluders}$"),
        ("imtiaz2019", "algo=dpfm loss=squared d=30 eps=1", "far less: {release} for 1 (squared, $d = 30$)"),
        ("imtiaz2019", "algo=objpert eps=1 N=50 algo.lam=0.01", "less: {release} for 1 (logistic, $N = 50$"),
        ("sufficient_statistics", f"{ADASSP} eps=1", r"{release} at $\varepsilon = 1$"),
        ("sufficient_statistics", f"{ADASSP} eps=7", r"up to $\varepsilon = 7$ ({release})"),
        ("sufficient_statistics", f"{ADASSP} eps=8", "at 8 the noise gives {release}"),
        ("sufficient_statistics", f"{ADASSP} eps=8", r"{release} at $\varepsilon = 8$"),
        ("perturbed_minima", f"{AMP} eps=0.1 delta=1e-5", "{release} for 0.1"),
        ("perturbed_minima", f"{AMP} eps=1 delta=1e-5", "{release} for 1 (Adult: $N = 30162$, $d = 104$"),
        ("perturbed_minima", f"{AMP} eps=20 delta=0.005", "{release} is proven"),
        ("hamm2016", f"{KDD} algo=avg", "that is {release} (`avg`, `paper`)"),
        ("hamm2016", f"{KDD} algo=soft algo.variant=sum_per_coordinate", "${release}$ (`soft`"),
    ],
)
def test_a_sentence_says_what_is_computed(run_command, name, words, said) -> None:
    found = json.loads(run_command("dpml", "guarantee", *words.split(), "--json").out)["views"]
    eps = {each["view"]: in_words(written(each["eps"], 3)) for each in found if each["basis"] == "proven"}
    assert said.format(**eps) in page(f"privacy/{name}")


def proven(**settings: object) -> float:
    return max(each.eps for each in dpml.guarantee(**settings) if each.basis == "proven")


def test_the_textbooks_noise() -> None:
    textbook = gdp.eps_of(gdp.classical_mu(10, 1e-5), 1e-5)
    assert f"gives {written(textbook, 5)}." in page("privacy")
    in_a_pack = gdp.eps_of(gdp.classical_mu(10, 1e-3), 1e-3)
    assert f"(noise for ε = 10 gives {written(in_a_pack)})" in page("howto/add_a_paper")


def test_several_releases() -> None:
    text = page("privacy")
    (made,) = re.findall(r"^spent = (.*)$", text, re.MULTILINE)
    spent = eval(made, {"Accountant": Accountant})
    assert f"spent.eps(1e-5)  # {written(spent.eps(1e-5), 3)}\n" in text
    assert f"spent.delta(3.0)  # {written(spent.delta(3.0), 2)}\n" in text
    folds = Accountant().gaussian(gdp.mu_of(1, 1e-5), times=4).eps(1e-5)
    assert f"at (1, 1e-5) each, ε = {written(folds, 3)} in all" in page("api")


def test_more_noise_than_is_needed() -> None:
    soft, avg = 1 / proven(algo="soft", eps=1), 1 / proven(algo="avg", M=1000, N=6000, d=50, eps=1)
    assert f"`soft` adds {written_below(soft, 2)} times the noise that it needs" in page("concepts")
    assert f"by a factor of {written_below(avg, 3)} (binary)" in page("privacy/hamm2016")


def test_a_recipe_with_equal_weights() -> None:
    flower = {"LocalDpMod": {"clipping_norm": 1, "sensitivity": 2, "epsilon": 1, "delta": 1e-5}}
    mean, *_, client = dpml.check(flower=flower, clients=10, rounds=100, weight=1)
    assert f'"ε = 1" is {written(client.proven, 3)} for each client' in page("howto/check")
    assert f"whoever sees only the mean of ten has {written(mean.proven, 3)};" in page("howto/check")


def below(excess, low: float, high: float, parts: int = 10) -> float:
    """The largest tenth up to which an excess that only grows is not positive."""
    return math.floor(parts * brentq(excess, low, high)) / parts


def test_up_to_where_the_claim_of_amp_holds() -> None:
    published = {"algo": "amp", "calibration": "published", "N": 30162, "d": 104}
    most = [
        below(lambda eps, d=delta: proven(**published, eps=eps, delta=d) - eps, 10, 30, parts=1)
        for delta in (1e-5, 1e-3, 0.005, 0.05)
    ]
    first, *others = map("{:g}".format, most)
    said = rf"$\varepsilon = {first}$ on Adult's size at $\delta = 10^{{-5}}$, "
    said += "{} at $10^{{-3}}$, {} at 0.005 and {} at 0.05.".format(*others)
    assert said in page("privacy/perturbed_minima")


def test_noise_in_a_network_as_its_authors_ran_it() -> None:
    eps = proven(**{"algo": "nn_cape", "algo.variant": "authors", "N": 1000, "eps": 0.5, "delta": 0.01})
    said = f"{math.ceil(eps):,}".replace(",", "{,}")
    assert f"{said}$ at 0.5 per round, $\\delta = 0.01$, $m = 64$, $E = 500$." in page("privacy/imtiaz2019")


def test_a_perturbed_minimum() -> None:
    eps = objective_perturbation.eps_of(sigma=20, ridge=1, delta=1e-5)
    assert f"[rajkumar2012.md](rajkumar2012.md) {written(eps, 3)}." in page("privacy/perturbed_minima")


def test_rounded_sums() -> None:
    text, entries = page("privacy/floating_point_sums").replace("e-", "e-0"), 2 * 105
    few, many = (written(sums.imprecision(rows, entries), 2) for rows in (30_000, 10**6))
    assert f"It adds {few} of $\\Delta$ at 30,000\nrows, {many} at a million." in text
    few, many = (1e4 * sums.single_imprecision(rows, entries) for rows in (10**6, 10**9))
    said = f"That is {written(few, 3)}e-04 of $\\Delta$ from 64 to a million rows, {written(many, 2)}e-04 at\n$10^9$"
    assert said in text


def one(rows: pd.DataFrame, **only: object) -> float:
    """The value of the only row of some kind."""
    (value,) = rows.loc[(rows[list(only)] == list(only.values())).all(axis=1), "value"]
    return float(value)


def test_jayaraman() -> None:
    text = page("privacy/jayaraman2018")
    largest = [
        below(lambda eps, d=delta: one(jayaraman.gradient_perturbation([eps], [d], [1.0])), 1, 20)
        for delta in (1e-2, 1e-3, 1e-5)
    ]
    assert r"up to $\varepsilon = {}$, {}, {}.".format(*largest) in text
    eps = gdp.eps_of(math.sqrt(2) * 0.5, 1e-3)
    assert rf"gradients have $\varepsilon = {written(eps, 3)}$ for the 0.5 claimed" in text
    lost = jayaraman.output_perturbation(118, [500], 1e-3, 0.5)
    lost = one(lost, neighbours="logistic loss", reading="in every coordinate")
    assert f"a loss of {written_below(lost, 3)} for $n = 500$" in text


def test_nbafl() -> None:
    text = page("privacy/wei2020")

    def excess(view: str, eps: float, exposures: int = 1) -> float:
        return one(nbafl.accounted([eps], 0.01, 25, [exposures], 50, 20), view=view)

    upload = below(lambda eps: excess("uplink", eps), 1, 60)
    at_8, server = (10 ** excess(view, eps) for view, eps in (("uplink", 8), ("server", 0.1)))
    assert rf"keeps the claim up to $\varepsilon = {upload}$; at 8 its $\delta$ is {written(at_8, 2)} times" in text
    assert f"is {written(server, 2)} times too large at $\\varepsilon = 0.1$" in text
    once, twice = (math.ceil(brentq(lambda eps, L=L: excess("scheduled", eps, L), 11, 100)) for L in (1, 2))
    assert rf"violated from $\varepsilon = {once}$ on, with $L = 2$ from {twice} on ($K = 20$)" in text


def test_dca() -> None:
    """What is shown of one pair is rounded down, what is proven up."""
    parts = dca.parts([1, 10**0.5, 10, 10**1.5], 1e-4, 8, [7.5, 7.5])
    eps = parts[parts["metric"] == "eps_of_noise"].set_index("part")["value"]
    whole, alone = (
        " | ".join(wrote(x, 3) for x in eps[part])
        for part, wrote in (("whole", written_below), ("statistics", written))
    )
    assert f"whole release, at least | {whole} |\n" in page("privacy/heikkila2017")
    assert f"alone, of 0.7, at most | {alone} |\n" in page("privacy/heikkila2017")
