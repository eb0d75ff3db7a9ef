"""Describe a training run as plain values: its clipping, noise, sampling, colluders and claimed eps."""

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, fields
from typing import Annotated, Any, Literal, get_type_hints

from dpml.errors import UserError, refuse_unknown
from dpml.options import NOT_NEGATIVE, POSITIVE, Bound, at_least, between, convert
from dpml.privacy.sampled import Neighbours

Who = Literal["record", "client"]
Way = Literal["none", "poisson", "fixed", "shuffled"]
RowWay = Literal["none", "poisson", "fixed", "shuffled", "random_allocation"]
By = Literal["server", "clients", "shared"]
Tuned = Literal["none", "public", "private"]
Formula = Literal["textbook", "textbook_sum", "clt"]

MOST = 10**7  # the largest number of rounds or clients
_LOUDEST = 1e6  # with more noise, privacy losses vanish in floating-point numbers
_WORDS = {"true": True, "false": False, "null": None}
Count = Annotated[int, between(1, MOST)]
Rate = Annotated[float, between(1e-6, 1)]


@dataclass(frozen=True)
class TrainingRecipe:
    """A description of a training run that adds Gaussian noise to sums of clipped contributions.

    Args:
        rounds: the number of released sums; each has at most one update of each client.
        delta: the delta of every eps, in (0, 1).
        unit: the protected unit: one `record`, or all records of one `client`.
        neighbours: one unit is replaced (`replace`), added or removed (`add_remove`), or contributes 0 (`zero_out`).
        clip: the largest L2 norm of a unit's contribution to a sum.
        noise_multiplier: the standard deviation of the noise in the sum, divided by `clip`; with noise_by=clients, of
            the noise in every message.
        std: the standard deviation of this noise, instead of the multiplier.
        weight: the largest weight of a unit in a weighted sum whose noise was chosen for weights of 1; None: unknown.
            If clients add noise, the weights apply to their noise, too.
        noise_by: the `server` adds all noise to the sum, the `clients` each add their own, or it is `shared`: each of n
            clients adds 1/n of the variance.
        clients: the number of clients.
        client_sampling, client_rate: how the clients of a round are chosen, and their share of all clients.
        row_sampling, row_rate: how the records of a client's step are chosen, and their share. With `random_allocation`
            every record is in one random step of each epoch of 1/row_rate steps.
        local_steps: the number of a client's steps in a round; each has its own noise if the unit is a record.
        secure_sum: whether the server sees only sums of messages.
        colluders: the number of clients that tell the server everything they know.
        dropouts: the number of clients in a round whose messages may be missing.
        runs: the number of trainings on the same records; all are accounted for.
        tuning: the data that chose the settings: `none`, `public`, or `private` in runs that are not accounted for.
        claimed_eps: the claimed eps.
        formula: the formula of the claim: `textbook` (sqrt(2 log(1.25/delta)) per unit of sensitivity, for one round),
            `textbook_sum` (the sum over all rounds), `clt` (Bu, Dong, Long & Su 2020, Opacus's accountant gdp).
        unproven: a reason why nothing can be proven, whatever the other values are; None by default.
    """

    rounds: Count
    delta: Annotated[float, Bound("strictly between 0 and 1, from 1e-200 on", lambda x: 1e-200 <= x < 1)]
    unit: Who = "record"
    neighbours: Neighbours = "replace"
    clip: Annotated[float, POSITIVE] = 1.0
    noise_multiplier: Annotated[float, NOT_NEGATIVE] | None = None
    std: Annotated[float, NOT_NEGATIVE] | None = None
    weight: Annotated[float, POSITIVE] | None = 1.0
    noise_by: By = "server"
    clients: Count = 1
    client_sampling: Way = "none"
    client_rate: Rate = 1.0
    row_sampling: RowWay = "none"
    row_rate: Rate = 1.0
    local_steps: Count = 1
    secure_sum: bool = False
    colluders: Annotated[int, at_least(0)] = 0
    dropouts: Annotated[int, at_least(0)] = 0
    runs: Count = 1
    tuning: Tuned = "none"
    claimed_eps: Annotated[float, POSITIVE] | None = None
    formula: Formula | None = None
    unproven: str | None = None

    def __post_init__(self) -> None:
        for name, hint in get_type_hints(TrainingRecipe, include_extras=True).items():
            object.__setattr__(self, name, convert(getattr(self, name), hint, name))
        if self.rounds * self.local_steps * self.runs > MOST:
            raise UserError(f"the product of rounds, local_steps and runs must be at most {MOST:,}.")
        if (self.noise_multiplier is None) == (self.std is None):
            raise UserError("a recipe needs either noise_multiplier or std, the standard deviation of its noise.")
        if not self.noise <= _LOUDEST:
            raise UserError(f"noise / (clip x weight) must be at most {_LOUDEST:g}; this ratio is {self.noise:g}.")
        for who in ("client", "row"):
            if getattr(self, f"{who}_sampling") == "none" and getattr(self, f"{who}_rate") != 1:
                raise UserError(f"{who}_rate needs {who}_sampling: choose poisson, fixed or shuffled.")
        if self.colluders + self.dropouts >= self.in_round:
            raise UserError(
                f"colluders={self.colluders} and dropouts={self.dropouts} must add up to less than the {self.in_round} "
                "clients of a round."
            )

    @property
    def in_round(self) -> int:
        """Return the least number of clients in a round, or the average number if the number is random."""
        return max(1, math.floor(self.clients * self.client_rate * (1 + 1e-9)))

    @property
    def most_in_round(self) -> int:
        """Return the largest number of clients in a round, or, if the number is random, its average rounded up."""
        return max(1, math.ceil(self.clients * self.client_rate * (1 - 1e-12)))

    @property
    def noise(self) -> float:
        """Return the noise_std divided by the largest contribution of a protected record (or client) to the sum."""
        over = self.noise_multiplier if self.noise_multiplier is not None else (self.std or 0.0) / self.clip
        weight = self.weight or 1.0
        # if clients add noise, a weight below 1 reduces contribution and noise alike
        return over / (weight if self.noise_by == "server" else max(weight, 1.0))


KEYS = tuple(each.name for each in fields(TrainingRecipe) if each.name != "unproven")


def typed(content: Mapping[str, Any]) -> TrainingRecipe:
    """Return the training recipe of a mapping from keys to values; numbers may be written as text."""
    refuse_unknown("key", [str(key)[:60] for key in content], KEYS, "a recipe")
    for key in ("rounds", "delta"):
        if key not in content:
            raise UserError(f"a recipe needs {key}.")
    return TrainingRecipe(**{key: plain(value) for key, value in content.items()})


def plain(value: Any) -> Any:
    """Return the number or truth value that a text means (YAML 1.1 reads 1e-5 as text)."""
    if isinstance(value, str):
        with suppress(ValueError):
            return _WORDS[value] if value in _WORDS else float(value)
    return value
