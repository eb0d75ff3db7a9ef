"""What an attacker who has a published model and two neighbouring files learns of which was released: nothing.

Nobody guesses right more often than e^.01/(1 + e^.01) + 1e-5 < .5026 of the time. An attack that is right `MANY` of
`TIMES` times has won: by chance that happens with less than 1e-6 in all 30 games, whose random numbers are seeded.
"""

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from games import DELTA, EPS, Game, hits, impossible, low_bits, width, write_files
from scipy import stats

from dpml.config.compose import options
from dpml.errors import UserError
from dpml.mechanism import discrete
from dpml.privacy.discrete.sampler import BlockSampler
from dpml.privacy.entropy import SystemGenerator
from dpml.running.environment import provenance

TIMES, MANY = 30, 29
ATTACKS = {"low bits": low_bits, "impossible outcomes": impossible}
ALGORITHMS = options("algo")
"""All that could be published: which of them are, a release says."""


ALLOWED = math.exp(EPS) / (1 + math.exp(EPS)) + DELTA
ONCE = cache(provenance)
"""Of the same code every time, and half of the time of a small release."""


@pytest.fixture(autouse=True)
def files(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DPML_CACHE", str(tmp_path / "cache"))
    write_files(tmp_path)
    monkeypatch.setattr("dpml.release.release.provenance", ONCE)


def published(patch: pytest.MonkeyPatch, algo: str, names: str) -> Game | None:
    """The game, if there is one: of what is not published a release says why."""
    try:
        game = Game(patch, algo, names)
        game.released(0)
    except UserError:
        return None
    return game


def test_a_stated_chance_of_a_false_alarm() -> None:
    assert stats.binom.sf(MANY - 1, TIMES, ALLOWED) * len(ATTACKS) * 15 < 1e-6


ROUNDS = ("dpgd", "wdgd")
"""Of these a release takes long."""


@pytest.mark.parametrize("names", ["AB", "RS"])
@pytest.mark.parametrize(
    "algo", [pytest.param(algo, marks=[pytest.mark.slow] if algo in ROUNDS else []) for algo in ALGORITHMS]
)
def test_nobody_guesses_which_file_it_was(monkeypatch, algo, names) -> None:
    game = published(monkeypatch, algo, names)
    if game is None:
        assert (algo, names) not in {("dpgd", "AB"), ("ssp", "RS"), ("dpfm", "RS")}  # one of each kind of noise
        return
    played = game.play(TIMES)
    won = {name for name, attack in ATTACKS.items() if hits(attack, played) >= MANY}
    assert not won
    (said,) = (sentence for sentence in game.statement if sentence.startswith("Noise"))
    assert "exact integers" in said
    assert game.laws
    (law, _), *_ = game.laws
    assert farthest(law) > LONG * width(law)


@pytest.mark.slow
def test_last_bits_tell_which_file_it_was_where_noise_is_floating_and_are_whole_steps_where_it_is_not() -> None:
    """Mironov's attack (2012) on a release that says what it is: nothing is planted."""
    with pytest.MonkeyPatch.context() as patch:
        game = Game(patch, "ssp", "AB", "algo.noise=continuous", floating=True)
        assert hits(low_bits, game.play(TIMES)) >= MANY
        assert any("floating-point numbers" in said for said in game.statement)
    with pytest.MonkeyPatch.context() as patch:
        played = Game(patch, "ssp", "AB").play(5)
        assert not any((seen.numbers % 1).any() for _, seen in played)


LONG = 15.0
"""Widths beyond which is one Gaussian number in 10^50."""


def farthest(law: BlockSampler) -> int:
    """The number that is drawn if the system's first 256 bits are ones, and all others zeros: one in 10^77."""
    words = iter([b"\xff"] * 4)
    return abs(int(law.sample((1,), lambda count: (next(words, b"\0") * count)[:count])[0]))


def sampled(change: Callable[[Any, np.ndarray, Callable[[int], bytes]], np.ndarray]) -> Callable[[Any], None]:
    """All discrete noise is changed, ``change(law, noise, source)``, wherever it is drawn; none stays none."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        right = BlockSampler.sample

        def sample(law: BlockSampler, shape: tuple[int, ...], source: Any) -> np.ndarray:
            noise = right(law, shape, source)
            return change(law, noise, source) if noise.any() else noise

        patch.setattr(BlockSampler, "sample", sample)
        patch.setattr(discrete, "total", lambda *arguments: discrete.parts(*arguments).sum(axis=0))

    return plant


def floating(law: BlockSampler, noise: np.ndarray, source: Callable[[int], bytes]) -> np.ndarray:
    """Floating-point noise of the same width, from the generator of a release."""
    return width(law) * SystemGenerator().standard_normal(noise.shape)


def clamped(law: BlockSampler, noise: np.ndarray, source: Callable[[int], bytes]) -> np.ndarray:
    """Noise that is cut off, so that no model is too bad: at an eighth of its width."""
    return np.clip(noise, -int(width(law) / 8), int(width(law) / 8))


PLANTED = {"low bits": sampled(floating), "impossible outcomes": sampled(clamped)}


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize(
    "algo", [pytest.param(algo, marks=[] if algo in ("dpfm", "ssp") else [pytest.mark.slow]) for algo in ALGORITHMS]
)
def test_the_same_attack_wins_where_noise_is_wrong(monkeypatch, algo, attack) -> None:
    PLANTED[attack](monkeypatch)
    for names in ("AB", "RS"):
        game = published(monkeypatch, algo, names)
        if game is not None:
            assert hits(ATTACKS[attack], game.play(TIMES)) >= MANY
            return
