"""A training recipe as plain values: what is clipped, which noise is added by whom, who is sampled, who colludes."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from types import NoneType
from typing import Any, Literal, get_args, get_type_hints

from dpml.errors import UserError, nearest
from dpml.privacy.sampled import Neighbours

Who = Literal["record", "client"]
Way = Literal["none", "poisson", "fixed", "shuffled"]
By = Literal["server", "clients", "shared"]
Tuned = Literal["none", "public", "private"]
Formula = Literal["textbook", "textbook_sum", "clt"]

MOST = 10**7  # rounds, clients
_LOUDEST = 1e6  # beyond it, losses vanish in floating-point numbers


@dataclass(frozen=True)
class TrainingRecipe:
    """How a model is trained with Gaussian noise on sums of clipped parts.

    Args:
        rounds: how many sums are released; one client's update is in each at most once.
        delta: at which eps is told, in (0, 1).
        unit: who is protected: one `record`, or all of one `client`.
        neighbours: one unit is replaced (`replace`), comes or goes (`add_remove`), or adds nothing (`zero_out`).
        clip: the largest L2 norm of what a unit adds to a sum.
        noise_multiplier: the deviation of the noise over `clip`: of the sum's noise, or with noise_by=clients of that
            in every message.
        std: the deviation itself, instead of the multiplier.
        weight: the largest weight of a unit in a sum that is weighted, where the noise is for weights of 1; None: not
            known, but where clients add noise, of messages that have it.
        noise_by: the `server` adds all noise to the sum, the `clients` each add their own, or it is `shared`: each of n
            clients adds 1/n of its variance.
        clients: how many there are.
        client_sampling, client_rate: how the clients of a round are chosen, and their share.
        row_sampling, row_rate: how the records of a client's step are chosen, and their share.
        local_steps: steps that a client takes in a round, each with its own noise where the unit is a record.
        secure_sum: whether the server sees sums of messages only.
        colluders: clients that tell the server all they know.
        dropouts: clients of a round whose messages may be missing.
        runs: trainings on the same records, all of which count.
        tuning: who chose the settings: nobody (`none`), `public` data, or `private` data in runs that are not counted.
        claimed_eps: what is claimed.
        formula: how it was computed: `textbook` (sqrt(2 log(1.25/delta)) per unit of sensitivity, of one round),
            `textbook_sum` (of all rounds, added up), `clt` (Bu, Dong, Long & Su 2020, as Opacus's accountant gdp).
        unproven: why nothing can be proven, whatever the other values are; none by default.
    """

    rounds: int
    delta: float
    unit: Who = "record"
    neighbours: Neighbours = "replace"
    clip: float = 1.0
    noise_multiplier: float | None = None
    std: float | None = None
    weight: float | None = 1.0
    noise_by: By = "server"
    clients: int = 1
    client_sampling: Way = "none"
    client_rate: float = 1.0
    row_sampling: Way = "none"
    row_rate: float = 1.0
    local_steps: int = 1
    secure_sum: bool = False
    colluders: int = 0
    dropouts: int = 0
    runs: int = 1
    tuning: Tuned = "none"
    claimed_eps: float | None = None
    formula: Formula | None = None
    unproven: str | None = None

    def __post_init__(self) -> None:
        for name in ("rounds", "clients", "local_steps", "runs"):
            if not 1 <= getattr(self, name) <= MOST:
                raise UserError(f"{name} must be a whole number from 1 to {MOST:,}, got {getattr(self, name)}.")
        if self.rounds * self.local_steps * self.runs > MOST:
            raise UserError(f"rounds x local_steps x runs must be at most {MOST:,}.")
        if not 0 < self.delta < 1 or self.delta < 1e-200:
            raise UserError(f"delta must lie strictly between 0 and 1, got {self.delta}.")
        for name in ("clip", "weight", "claimed_eps"):
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                raise UserError(f"{name} must be a positive number, got {value}.")
        self._check_noise()
        for who in ("client", "row"):
            way, rate = getattr(self, f"{who}_sampling"), getattr(self, f"{who}_rate")
            if not 1e-6 <= rate <= 1:
                raise UserError(f"{who}_rate must lie in (0, 1], from 1e-6 on, got {rate}.")
            if way == "none" and rate != 1:
                raise UserError(f"{who}_rate={rate} needs {who}_sampling: choose poisson, fixed or shuffled.")
        if min(self.colluders, self.dropouts) < 0 or self.colluders + self.dropouts >= self.in_round:
            raise UserError(
                f"colluders={self.colluders} and dropouts={self.dropouts} must be 0 or more, and leave one of the "
                f"{self.in_round} clients of a round."
            )

    def _check_noise(self) -> None:
        given = [name for name in ("noise_multiplier", "std") if getattr(self, name) is not None]
        if len(given) != 1:
            raise UserError("a recipe needs either noise_multiplier or std, the deviation of its noise.")
        for name in given:
            if not 0 <= getattr(self, name) < math.inf:
                raise UserError(f"{name} must be a non-negative number, got {getattr(self, name)}.")
        if self.noise > _LOUDEST:
            raise UserError(f"the noise over clip and weight must be at most {_LOUDEST:g}, got {self.noise:g}.")

    @property
    def in_round(self) -> int:
        """The clients of a round that are certain to be asked, or on average where their number is random."""
        return max(1, math.floor(self.clients * self.client_rate * (1 + 1e-9)))

    @property
    def most_in_round(self) -> int:
        """The most clients of a round, where their number is certain but for rounding."""
        return max(1, math.ceil(self.clients * self.client_rate * (1 - 1e-12)))

    @property
    def noise(self) -> float:
        """The deviation of the noise over the most that a unit adds to the sum."""
        over = self.noise_multiplier if self.noise_multiplier is not None else (self.std or 0.0) / self.clip
        weight = self.weight or 1.0
        # a message has its client's own noise before a sum weighs it: weights below 1 take nothing from the part alone
        return over / (weight if self.noise_by == "server" else max(weight, 1.0))


_HINTS = get_type_hints(TrainingRecipe)
KEYS = tuple(each.name for each in fields(TrainingRecipe) if each.name != "unproven")


def typed(content: Mapping[str, Any]) -> TrainingRecipe:
    """Return the recipe of keys and values, as text or of their type."""
    for key in content:
        if key not in KEYS:
            raise UserError(f"a recipe has no key {str(key)[:60]!r}: {nearest(str(key)[:60], KEYS)}")
    for key in ("rounds", "delta"):
        if key not in content:
            raise UserError(f"a recipe needs {key}.")
    return TrainingRecipe(**{key: _value(key, value) for key, value in content.items()})


def _value(key: str, value: Any) -> Any:
    """Return a value, which may be text, as the type of its key."""
    kinds = get_args(_HINTS[key]) if NoneType in get_args(_HINTS[key]) else (_HINTS[key],)
    if value is None and NoneType in kinds:
        return None
    kind, text = kinds[0], value[:60] if isinstance(value, str) else ""
    got = f", got {text!r}" if text else ""
    if words := get_args(kind):
        if value not in words:
            raise UserError(f"{key} must be one of {', '.join(words)}{got}: {nearest(text, words)}")
        return value
    if kind is bool:
        told = {"true": True, "false": False}.get(text.lower(), value)
        if not isinstance(told, bool):
            raise UserError(f"{key} must be true or false{got}.")
        return told
    number = number_of(value)
    if math.isnan(number) or (kind is int and not number.is_integer()):
        raise UserError(f"{key} must be {'a whole number' if kind is int else 'a number'}{got}.")
    return kind(number)


def number_of(value: Any) -> float:
    """Return a number that may be text, as YAML 1.1 reads 1e-5; NaN if it is none."""
    try:
        return math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan
