"""The views of a pair of neighbours in noisy descents: all rounds, or last models only (`noisy_rounds`)."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.random import Generator

from dpml.algorithms.transcript import Recorder, Transcript, Watch, transcript
from dpml.arrays import Array
from dpml.audit.exposure import Exposure
from dpml.privacy import Budget, View


def all_rounds(view: View, prepared: Sequence[Any], budget: Budget) -> Transcript:
    """All rounds, and the noisy scores of a private choice."""
    algorithm, parties = prepared[0].algorithm, prepared[0].parties
    problem = parties.problem
    per_rows = algorithm.per_rows(budget, problem)
    if algorithm.tuned == "private":  # one candidate after the other
        scores = np.full(len(per_rows), algorithm.per_score(budget, problem))
        scales = np.concatenate([np.repeat(per_rows, algorithm.rounds), scores])
    else:
        scales = np.tile(per_rows, algorithm.rounds)
    channel = algorithm.channel(view, parties)

    def release(which: int, rng: Generator, draws: int, watch: Watch) -> None:
        prepared[which].release([budget], rng, draws, watch)

    return transcript(view, release, lambda: Recorder(prepared, channel, scales), len(scales))


def last_models(view: View, prepared: Sequence[Any], budget: Budget) -> Exposure:
    """The release with the chosen step size; for a client, or colluders with a server, the models that they see."""

    hidden = view in ("client", "colluders") and prepared[0].algorithm.hidden(prepared[0].parties.problem)

    def sample(which: int, rng: Generator, draws: int) -> Array:
        if hidden:
            models = prepared[which].models([budget], rng, draws)[-1 if view == "client" else 0 :, 0]
            return np.moveaxis(models, 2, 0).reshape(draws, -1).astype(float)
        release = prepared[which].release([budget], rng, draws)
        assert release.weights is not None
        return np.column_stack([release.weights[0], *(metric[0] for metric in release.metrics.values())])

    return Exposure(view, sample)
