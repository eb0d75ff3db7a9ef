"""Privacy numbers in the sentences of pages are computed: proven ones rounded up, lower bounds and claims kept down."""

import json
import re
from pathlib import Path

import pytest

import dpml
from dpml.privacy import gdp
from dpml.privacy.accountant import Accountant
from dpml.privacy.safe import written

DOCS = Path(__file__).parents[2] / "docs"
WDDP = "algo=wddp calibration=published dataset=adult M=32 N=45222 d=104 eps=0.25 delta=1e-3"
PSGD = "algo=psgd algo.lam=1 M=5 N=1000 d=10"
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
        ("kang2019", WDDP, "is {client} for a client's messages and {release} for the release"),
        ("kang2019", f"{WDDP} partition=two_group partition.u=9", "of the release is {release}"),
        (
            "rajkumar2012",
            f"{PSGD} eps=0.1 delta=0.05",
            "is {release} in the views `release` and `aggregate`, {colluders} in the view `colluders`, and {client} in",
        ),
        ("imtiaz2019", FM, r"that is $\varepsilon = {release}$ or"),
        ("imtiaz2019", FM.replace("squared", "logistic"), "or {release} | Theorem 1"),
        ("imtiaz2019", FM.replace("fm", "capefm M=100"), r"$\varepsilon = {colluders}$ for 1 | Theorem 2"),
        ("imtiaz2019", NETWORK, r"all epochs: $\varepsilon = {colluders}$ for $0.5$"),
        ("imtiaz2019", "algo=objpert eps=1 N=50 algo.lam=0.01", "less: {release} for 1 (logistic, $N = 50$"),
        ("sufficient_statistics", f"{ADASSP} eps=1", r"{release} for a claimed $\varepsilon = 1$"),
        ("sufficient_statistics", f"{ADASSP} eps=7", r"up to $\varepsilon = 7$ (proven: {release})"),
        ("sufficient_statistics", f"{ADASSP} eps=8", r"{release} for a claimed $\varepsilon = 8$"),
        ("perturbed_minima", f"{AMP} eps=1 delta=1e-5", "{release} for 1 (Adult: $N = 30162$, $d = 104$"),
        ("perturbed_minima", f"{AMP} eps=20 delta=0.005", "{release} is proven"),
        ("hamm2016", f"{KDD} algo=avg", "from {release} (`avg`, `paper`)"),
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
    in_a_pack = gdp.eps_of(gdp.classical_mu(10, 1e-3), 1e-3)
    assert f"the theorem's noise for ε = 10 has an exact ε of {written(in_a_pack)}." in page("howto/add_a_paper")


def test_the_concepts() -> None:
    mu, once = gdp.mu_of(1, 1e-5), Accountant().gaussian(0.3).eps(1e-5)
    text = page("concepts")
    assert f"**ε = {written(Accountant().gaussian(2 * mu).eps(1e-5), 3)}** for a replaced row" in text
    assert rf"$\mu=0.3$ has $\varepsilon={written(once, 3)}$." in text
    assert rf"gives $\varepsilon={written(5 * once, 3)}$ at $\delta=5\cdot10^{{-5}}$." in text
    assert f"**{mu / gdp.classical_mu(1, 1e-5) - 1:.0%}** larger".replace("%", " %") in text


def test_several_releases() -> None:
    folds = Accountant().gaussian(gdp.mu_of(1, 1e-5), times=4).eps(1e-5)
    assert f"at (1, 1e-5) each, ε = {written(folds, 3)} in all" in page("api")


def test_a_recipe_with_equal_weights() -> None:
    flower = {"LocalDpMod": {"clipping_norm": 1, "sensitivity": 2, "epsilon": 1, "delta": 1e-5}}
    mean, *_, client = dpml.check(flower=flower, clients=10, rounds=100, weight=1)
    assert f"has a proven ε of {written(client.proven, 3)} after 100 rounds" in page("howto/check")
    assert f"ε is {written(mean.proven, 3)} against an adversary who sees only the mean" in page("howto/check")
