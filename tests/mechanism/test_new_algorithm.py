"""An algorithm in one file outside the package has at once all that those inside have: the programs of the tutorial."""

import sys
from dataclasses import replace
from importlib import import_module

import numpy as np
import pytest
from examples import release_of
from harness import written_from_page
from quick import quick_first

import dpml
from dpml.audit import audit
from dpml.audit.neighbours import synthetic_parties
from dpml.federated.sums import sums_of
from dpml.optim.losses import LOSSES
from dpml.privacy import Adversary, Budget, Problem
from dpml.protocols.transports import Outcome

LOGISTIC, BUDGET = LOSSES["logistic"], Budget(1.0, 1e-5)
KINDS = "Centroid", "Rounds"
PROBLEM = Problem(3, 30, 2)
SIZES = np.array([30, 40, 50])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("own")
    written_from_page("tutorials/algorithm.md", place)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(place)
        yield place
    for name in ("centroid", "rounds"):
        sys.modules.pop(name, None)


@pytest.fixture(params=KINDS)
def kind(request, folder):
    return getattr(import_module(request.param.lower()), request.param)


def parties():
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.5, 0.5, (SIZES.sum(), 3))
    return replace(synthetic_parties("binary", X, np.where(X[:, 0] > 0, 1.0, -1.0), SIZES), adversary=Adversary(0))


@pytest.mark.slow_cases("centroid")
@pytest.mark.parametrize("name", ["centroid", "rounds"])
def test_it_runs_by_its_name(folder, tmp_path, monkeypatch, name) -> None:
    monkeypatch.setenv("DPML_CACHE", str(tmp_path / "cache"))
    result = dpml.run(
        f"algo={name}", "dataset=wdbc", config_dir=folder / "conf", M=4, eps=[1, 10], delta=1e-5, draws=2,
        results_dir=tmp_path,
    )  # fmt: skip
    accuracy = result.rows[(result.rows["metric"] == "accuracy") & (result.rows["eps"] == 10)]["value"]
    assert accuracy.mean() > 0.85
    assert {"release", "aggregate", "colluders"} == set(result.guarantees["view"])


@pytest.mark.parametrize("noise", ["continuous", "discrete"])
@pytest.mark.parametrize("unit", ["sample", "party"])
def test_parties_on_machines_of_their_own_make_the_model_of_one_process_bit_for_bit(kind, unit, noise) -> None:
    algorithm, pooled = kind(LOGISTIC, unit=unit, noise=noise), parties()
    sums = sums_of(algorithm, BUDGET, pooled.problem)
    own = [pooled.of(k) for k in range(len(SIZES))]
    answers = [sums.ready(pooled.X[rows], pooled.y[rows], k)(np.random.default_rng(1)) for k, rows in enumerate(own)]
    number = iter(range(len(sums.lengths)))

    def ask(content: bytes) -> Outcome:
        t = next(number)
        rings, beside = zip(*(answer(t, content) for answer in answers), strict=True)
        return Outcome(np.sum(rings, axis=0), np.arange(len(SIZES)), np.array(beside))

    alone = release_of(replace(algorithm, protocol="secagg"), pooled, [BUDGET]).weights
    assert sums.release(ask).weights[0, 0].tobytes() == alone[0, 0].tobytes()


def forgetful(kind):
    """Noise for a row that is added: half of what one that is replaced needs. All that a subclass has to say."""

    class Forgetful(kind):
        def messages(self, budget, problem):
            (right,) = super().messages(budget, problem)
            return (replace(right, sensitivity=1.0, noise=right.noise / 2),)

    return Forgetful


@pytest.mark.slow_cases("Rounds-party")
@pytest.mark.parametrize("unit", quick_first(["party", "sample"]))
def test_an_audit_knows_it_and_finds_a_bug_in_it(kind, unit) -> None:
    """Half of the noise is missed in fewer than 1 of 4000 audits. Short steps keep models where slopes are clipped."""
    noise = "discrete" if (kind.name == "rounds") == (unit == "sample") else "continuous"
    short = {"rounds": 3, "step": 0.1} if kind.name == "rounds" else {}
    found = audit(kind(LOGISTIC, unit=unit, noise=noise, clip=0.25, **short), BUDGET, PROBLEM, 4000)
    assert {finding.verdict for finding in found} == {"consistent"}
    wrong = forgetful(kind)(LOGISTIC, unit=unit, noise=noise, clip=0.25, **short)
    assert {finding.verdict for finding in audit(wrong, BUDGET, PROBLEM, 1000)} == {"BUG"}
