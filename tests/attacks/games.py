"""Games: which of two neighbouring files was a published model made of?"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
from numpy.random import PCG64
from scipy.special import ndtr, ndtri

from dpml.api.release import request_of
from dpml.api.settings import Settings
from dpml.audit.exposure import Quiet
from dpml.data.partition import partition
from dpml.mechanism.carriers import Carrier
from dpml.privacy import entropy
from dpml.privacy.discrete import DiscreteLaplace
from dpml.privacy.discrete.sampler import BlockSampler
from dpml.release.ledger import Ledger
from dpml.release.release import Request, release

FEATURES, ROWS = 8, 60
EPS, DELTA = 0.01, 1e-5
DRAWN = 10_000  # numbers by which an attacker gets to know a sampler
MESSAGES = 2  # of a release, that an attacker looks at

Laws = list[tuple[BlockSampler, int]]
"""The laws from which the noise of a vector was drawn, and that of how many numbers each."""


def write_files(folder: Path) -> None:
    """Neighbours for classification and for regression: A.csv and B.csv, R.csv and S.csv, and what is known of them."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (ROWS, FEATURES))
    scores = X @ rng.uniform(-1, 1, FEATURES)
    columns = [f"x{j}" for j in range(FEATURES)]
    for names, labels, stated in (
        ("AB", np.where(scores > 0, "yes", "no"), "classes: ['no', 'yes']\n"),
        ("RS", np.tanh(scores), "target: {low: -1, high: 1}\n"),
    ):
        for name in names:
            table = pd.DataFrame(X, columns=columns).assign(y=labels)
            if name in "BS":
                table.loc[7, columns] = np.sort(X[7])
                table.loc[7, "y"] = {"yes": "no", "no": "yes"}.get(labels[7], -1.0)
            table.to_csv(folder / f"{name}.csv", index=False)
        ranges = "".join(f"  {name}: {{low: -1, high: 1}}\n" for name in columns)
        (folder / f"{names}.yaml").write_text(f"columns:\n{ranges}{stated}")


def requested(algo: str, name: str, *words: str, eps: float = EPS, delta: float = DELTA, **chosen: Any) -> Request:
    """The release of a file; a UserError where its words already say that there is none."""
    columns = "AB" if name in "AB" else "RS"
    base = (
        "dataset=csv", f"dataset.path={name}.csv", "dataset.label=y", f"dataset.bounds={columns}.yaml", "M=1",
        "dataset.steps=[symmetric,sample_norm]", f"eps={eps}", f"delta={delta}", f"algo={algo}",
    )  # fmt: skip
    return request_of(Settings((*base, *words)), **chosen)[0]


@dataclass(frozen=True)
class Seen:
    """Numbers with noise (k,), and what the attacker computes from either file.

    Attributes:
        numbers: in steps of the grid, or as they are where there is none.
        widths: of their noise, in steps.
        reach: the longest noise that the attacker got from the same sampler, in steps.
        ran: what the code of a release adds the noise to, for either file, (2, k).
        real: the same by real arithmetic, without a grid, (2, k).
    """

    numbers: np.ndarray
    widths: np.ndarray
    reach: np.ndarray
    ran: np.ndarray
    real: np.ndarray


@dataclass(frozen=True)
class Spied:
    """A noisy sum of a release."""

    number: int
    at: tuple[Any, ...]
    answer: np.ndarray
    laws: Laws


class Game:
    def __init__(self, patch: Any, algo: str, names: str, *words: str, **chosen: Any) -> None:
        self.requests = [requested(algo, name, *words, **chosen) for name in names]
        self.patch, self.rng = patch, np.random.default_rng(0)
        self.spied: list[Spied] = []
        self.laws: Laws = []
        self.statement: tuple[str, ...] = ()
        self._longest: dict[BlockSampler, float] = {}
        self._seed()
        self._spy()
        self.mechanisms = [self._prepared(request) for request in self.requests]

    def _seed(self) -> None:
        """The system's random numbers are those of a seed, so that a test gives the same result every time."""
        system = np.random.default_rng(1)
        self.patch.setattr(entropy, "os", SimpleNamespace(urandom=system.bytes))
        self.patch.setattr(entropy, "secrets", SimpleNamespace(randbits=lambda bits: int(system.integers(2**63))))

    def _spy(self) -> None:
        """Hear what a release draws, and what it makes of it."""
        ask, sample = Carrier.ask, BlockSampler.sample

        def drawn(law: BlockSampler, shape: tuple[int, ...], source: Any) -> np.ndarray:
            self.laws.append((law, shape[-1]))
            return sample(law, shape, source)

        def heard(carrier: Carrier, number: int, *at: Any) -> np.ndarray:
            self.laws.clear()
            answer = ask(carrier, number, *at)
            copies = tuple(np.array(each) for each in at)
            self.spied.append(Spied(number, copies, answer[0].copy(), list(self.laws)))
            return answer

        self.patch.setattr(BlockSampler, "sample", drawn)
        self.patch.setattr(Carrier, "ask", heard)
        self._ask, self._sample = ask, sample

    def _prepared(self, request: Request) -> Any:
        data = request.dataset.load(request.files, request.N, np.random.default_rng(0))
        parties = partition(data, request.partition, request.M, np.random.default_rng(0), request.adversary)
        return request.algorithm.prepare(parties, np.random.default_rng(0))

    def play(self, times: int) -> list[tuple[int, Seen]]:
        """Which file was released, and what is seen of the release."""
        return [(which, self.released(which)) for which in self.rng.integers(2, size=times).tolist()]

    def released(self, which: int) -> Seen:
        place, ledger = Path("model.json"), Path("model.ledger")
        for file in (place, ledger):
            file.unlink(missing_ok=True)
        self.spied.clear()
        self.laws.clear()
        model, _ = release(self.requests[which], Ledger(ledger), None, place)
        self.statement = model.statement
        return self._of_sums(self.spied[:MESSAGES])

    def _of_sums(self, spied: list[Spied]) -> Seen:
        seen = []
        for each in spied:
            carriers = [Carrier(m, [self.requests[0].budget], Quiet(PCG64(0)), 1, None) for m in self.mechanisms]
            steps, widths = _steps(carriers[0], each.number)
            ran = np.array([self._ask(carrier, each.number, *each.at)[0] for carrier in carriers]) / steps
            terms = [carrier.mechanism.terms(carrier.statistic(each.number)) for carrier in carriers]
            real = np.array([term.total(*each.at).reshape(-1) for term in terms]) / steps
            seen.append((each.answer / steps, *self._noise(each.laws, widths), ran, real))
        return Seen(*(np.concatenate(parts, axis=-1) for parts in zip(*seen, strict=True)))

    def _noise(self, laws: Laws, declared: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The width and the reach of the noise of all numbers (k,), by the laws that it was drawn from, if any were."""
        if not laws:
            return declared, np.full(len(declared), np.inf)
        return tuple(np.concatenate([np.full(size, of(law)) for law, size in laws]) for of in (width, self._reach))

    def _reach(self, law: BlockSampler) -> float:
        if law not in self._longest:
            drawn = self._sample(law, (DRAWN,), np.random.default_rng(3).bytes)
            self._longest[law] = float(np.abs(drawn).max())
        return self._longest[law]


def width(law: BlockSampler) -> float:
    """The standard deviation of a Gaussian, the scale of a Laplace number."""
    return float(law.scale) if isinstance(law, DiscreteLaplace) else math.sqrt(law.variance)


def _on_grid(algorithm: Any) -> bool:
    return getattr(algorithm, "noise", "continuous") == "discrete"


def _steps(carrier: Carrier, number: int) -> tuple[np.ndarray, np.ndarray]:
    """What a step of every number is, 1 without a grid, and the width of its noise in steps."""
    message, problem = carrier.messages[0][number], carrier.problem
    of, d = message.of, problem.d
    widths = message.widths(d) * np.repeat(of.deviations(d), of.lengths(d))
    if not _on_grid(carrier.mechanism.algorithm):
        return np.ones(len(widths)), widths
    if not carrier.sharing.secure:
        problem = replace(problem, M=1, colluders=0)
    steps = np.repeat(of.steps(of.resolution(message.block_widths(), problem), problem), of.lengths(d))
    return steps, widths / np.abs(steps)


# The attacks: how well each file fits what is seen, higher for the better.

Attack = Callable[[Seen], tuple[int, int]]


def low_bits(seen: Seen) -> tuple[int, int]:
    """How many numbers could be what either file has, plus noise, by their last bits (Mironov 2012).

    Could they be a number of the file, as it is rounded or as it is not, and what the system's generator draws; or
    as it is not rounded, and whole steps?
    """
    fits = np.zeros((2, len(seen.numbers)), dtype=bool)
    for own in (seen.ran, seen.real):
        fits |= _reachable(seen.numbers, own, seen.widths)
    left, off = seen.numbers - seen.real, 1e-9 + 1e-15 * np.abs(seen.real)
    fits |= (np.abs(left - np.rint(left)) < off) & (off < 0.1)
    first, second = fits.sum(axis=1)
    return int(first), int(second)


def _reachable(numbers: np.ndarray, own: np.ndarray, widths: np.ndarray, span: int = 300) -> np.ndarray:
    """Whether ``own + widths * z`` (2, k) is exactly the number for some z that the system's generator has."""
    z = (numbers - own) / widths
    nearest = np.floor(2 * ndtr(-np.abs(z)) * 2.0**52 - 0.5)
    grains = nearest[..., None] + np.arange(-span, span + 1)
    grains = np.clip(grains, 0, 2.0**52 - 1)
    drawn = -np.sign(z)[..., None] * ndtri((grains + 0.5) * 2.0**-53)
    return np.any(own[..., None] + widths[:, None] * drawn == numbers[:, None], axis=-1)


def impossible(seen: Seen) -> tuple[int, int]:
    """How many numbers could be what either file has, plus noise that is as long as any that the attacker drew."""
    inside = np.abs(seen.numbers - seen.ran) <= seen.reach
    first, second = inside.sum(axis=1)
    return int(first), int(second)


def hits(attack: Attack, played: list[tuple[int, Seen]]) -> int:
    """How often the file that fits better was the right one; where both fit alike, a coin decides."""
    coin = np.random.default_rng(2)
    right = 0
    for which, seen in played:
        first, second = attack(seen)
        guess = int(second > first) if first != second else int(coin.integers(2))
        right += guess == which
    return right
