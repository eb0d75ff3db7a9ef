"""Read training recipes, with the keys of dpml, Flower, Opacus or dp-accounting, from files or KEY=VALUE words.

The translation follows the source code of flwr 1.42, Opacus 1.6 and dp-accounting 0.6.
"""

import ast
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from dpml.errors import UserError, refuse_unknown
from dpml.files import read_mapping
from dpml.options import POSITIVE, convert
from dpml.recipes.recipe import MOST, TrainingRecipe, plain, typed

_CENTRAL = ("noise_multiplier", "clipping_norm", "num_sampled_clients")
_FLOWER = {
    "LocalDpMod": ("clipping_norm", "sensitivity", "epsilon", "delta"),
    "DifferentialPrivacyServerSideFixedClipping": _CENTRAL,
    "DifferentialPrivacyClientSideFixedClipping": _CENTRAL,
}
_OPACUS = ("noise_multiplier", "max_grad_norm", "batch_size", "rows", "epochs")  # the options without defaults
_OPACUS_ALSO = ("poisson_sampling", "clipping", "drop_last")
_ONE = {"unit": "record", "clients": 1, "client_sampling": "none", "noise_by": "server", "weight": 1}
"""What Opacus and a DpEvent imply: one curator has all records."""
_SAMPLED = {"PoissonSampledDpEvent": "poisson", "SampledWithoutReplacementDpEvent": "fixed"}
_EVENT = "SelfComposedDpEvent(event=GaussianDpEvent(noise_multiplier=2.0), count=100)"
_LONGEST = 10_000  # the most characters of an event


def recipe_of(path: str | Path | None, words: Iterable[str] = (), **keys: Any) -> TrainingRecipe:
    """Return the recipe in a file, after KEY=VALUE words and keyword arguments have replaced some values."""
    content: dict[Any, Any] = {}
    given: dict[str, Any] = {}
    try:
        if path is not None:
            content = read_mapping(Path(path), "a recipe", deepest=12, largest=1 << 20)
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}.") from None
    for word in words:
        key, equals, value = word.partition("=")
        if not equals:
            raise UserError(f"{word[:60]!r} is not KEY=VALUE.")
        if key in given:
            raise UserError(f"{key[:60]} is given twice: give each key once.")
        given[key] = value
    content |= given | keys
    named = [key for key in FRAMEWORKS if key in content]
    if len(named) > 1:
        raise UserError(f"a recipe must be for one framework, got {' and '.join(named)}: leave out one framework.")
    try:
        return FRAMEWORKS[named[0]](content.pop(named[0]), content) if named else typed(content)
    except UserError as error:
        raise UserError(f"{path}: {error}" if path else str(error)) from None


def is_word(text: str) -> bool:
    """Return whether a word of the command line is KEY=VALUE, rather than the name of a file."""
    return re.match(r"[A-Za-z_]+=", text) is not None


def _arguments(where: str, said: Any, needed: tuple[str, ...], more: tuple[str, ...] = ()) -> dict[str, Any]:
    if not isinstance(said, Mapping):
        raise UserError(f"{where} must contain values for {', '.join(needed)}.")
    refuse_unknown("argument", [str(key)[:60] for key in said], (*needed, *more), where)
    for key in needed:
        if key not in said:
            raise UserError(f"{where} needs {key}.")
    return dict(said)


def _positive(where: str, said: Any) -> float:
    return float(convert(plain(said), Annotated[float, POSITIVE], where))


def _agreeing(where: str, recipe: TrainingRecipe, said: dict[str, Any]) -> TrainingRecipe:
    """Return the recipe; raise UserError if it contradicts values that the framework's arguments imply."""
    due = typed({"rounds": 1, "delta": recipe.delta, **said})
    for key in said:
        means = getattr(due, key)
        if getattr(recipe, key) != means:
            raise UserError(f"{where} implies {key}={means}: leave out {key}={getattr(recipe, key)}, or {where}.")
    return recipe


def _flower(said: Any, own: dict[str, Any]) -> TrainingRecipe:
    if not isinstance(said, Mapping) or len(said) != 1 or next(iter(said)) not in _FLOWER:
        raise UserError(f"the recipe's key `flower` must map one of the classes {', '.join(_FLOWER)} to its arguments.")
    ((name, arguments),) = said.items()
    where = f"flower.{name}"
    given = {key: _positive(f"{where}.{key}", v) for key, v in _arguments(where, arguments, _FLOWER[name]).items()}
    own = {"unit": "client", "weight": None} | own  # FedAvg's weights, numbers of records, are unknown
    if name == "LocalDpMod":
        if given["delta"] >= 1:
            raise UserError(f"{where}.delta must be below 1.")
        std = given["sensitivity"] * math.sqrt(2 * math.log(1.25 / given["delta"])) / given["epsilon"]
        common = {"clip": given["clipping_norm"], "std": std, "noise_by": "clients"}
        recipe = _agreeing(where, typed(common | {"delta": given["delta"]} | own), common)
        if "claimed_eps" not in own and recipe.delta == given["delta"]:  # the claim is for this delta only
            recipe = replace(recipe, claimed_eps=given["epsilon"])
        return _of_clients(recipe)
    sampled = given["num_sampled_clients"]
    common = {"clip": given["clipping_norm"], "noise_multiplier": given["noise_multiplier"], "noise_by": "server"}
    recipe = _agreeing(where, typed(common | {"clients": sampled} | own), common)
    share = sampled / recipe.clients
    if share < 1 and recipe.client_sampling == "none":  # FedAvg draws this many clients uniformly
        recipe = typed(common | own | {"client_sampling": "fixed", "client_rate": share})
    recipe = _of_clients(recipe)
    # Flower scales the noise for `num_sampled_clients`, but averages over the clients that answer
    if recipe.neighbours == "add_remove" or recipe.client_sampling in ("poisson", "shuffled"):
        why = "not proven: the number of clients in a mean varies: use neighbours=replace and client_sampling=fixed"
        return replace(recipe, unproven=recipe.unproven or why)
    weight = recipe.weight and recipe.weight * sampled / (recipe.in_round - recipe.dropouts)
    return replace(recipe, weight=weight)


def _of_clients(recipe: TrainingRecipe) -> TrainingRecipe:
    """Mark a recipe as unproven if it protects records, because Flower clips only the update of a whole client."""
    why = "not proven: clip is for a client's whole update, not for a record's contribution: use unit=client"
    return replace(recipe, unproven=why) if recipe.unit == "record" else recipe


def _opacus(said: Any, own: dict[str, Any]) -> TrainingRecipe:
    given = _arguments("opacus", said, _OPACUS, _OPACUS_ALSO)
    if given.get("clipping", "flat") not in ("flat", "per_layer"):
        raise UserError("opacus.clipping must be flat or per_layer, because dpml cannot check adaptive clipping.")
    poisson = convert(given.get("poisson_sampling", True), bool, "opacus.poisson_sampling")
    drop_last = convert(given.get("drop_last", False), bool, "opacus.drop_last")
    batch, rows, epochs = (_positive(f"opacus.{key}", given[key]) for key in ("batch_size", "rows", "epochs"))
    if not (batch.is_integer() and rows.is_integer() and epochs * max(rows / batch, 1.0) <= MOST):
        raise UserError(
            "opacus.batch_size and opacus.rows must be whole numbers, and all epochs together may have at most "
            f"{MOST:,} batches."
        )
    norms = given["max_grad_norm"] if isinstance(given["max_grad_norm"], list) else [given["max_grad_norm"]]
    if drop_last and batch > rows:
        raise UserError("opacus.drop_last drops the only batch: choose opacus.batch_size no larger than opacus.rows.")
    batches = math.floor(rows / batch) if drop_last else math.ceil(rows / batch)
    common = {
        "clip": math.hypot(*(_positive("opacus.max_grad_norm", norm) for norm in norms[:10_000])),
        "noise_multiplier": given["noise_multiplier"],
        "rounds": math.ceil(epochs * batches),
        "row_sampling": "none" if batches == 1 else "poisson" if poisson else "shuffled",
        "row_rate": 1 / batches,
    }
    return _agreeing("opacus", typed({"neighbours": "add_remove"} | common | own), common | _ONE)


def _dp_event(said: Any, own: dict[str, Any]) -> TrainingRecipe:
    """Return the training recipe that a DpEvent of dp-accounting, or the text that Python prints for it, describes."""
    try:
        common = _of_event(ast.parse(str(said)[:_LONGEST], mode="eval").body)
    except (SyntaxError, ValueError, LookupError, TypeError, AttributeError, RecursionError, MemoryError):
        raise UserError(f"dp_event must be the text that Python prints for a DpEvent, such as {_EVENT}.") from None
    usual = {"neighbours": "replace" if common["row_sampling"] == "fixed" else "add_remove"}
    return _agreeing("dp_event", typed(usual | common | own), common | _ONE)


def _of_event(node: Any) -> dict[str, Any]:
    name, given = node.func.id, {each.arg: each.value for each in node.keywords}
    if name == "GaussianDpEvent":
        once = {"rounds": 1, "row_sampling": "none", "row_rate": 1.0}
        return once | {"noise_multiplier": _number(given["noise_multiplier"])}
    if name == "ComposedDpEvent":
        first, *others = map(_of_event, given["events"].elts)
        if all(each | {"rounds": 1} == first | {"rounds": 1} for each in others):
            return first | {"rounds": sum(each["rounds"] for each in (first, *others))}
    elif name == "SelfComposedDpEvent":
        once = _of_event(given["event"])
        return once | {"rounds": once["rounds"] * _number(given["count"])}
    elif name in _SAMPLED:
        once = _of_event(given["event"])
        share = given["sampling_probability"] if name.startswith("Poisson") else given["sample_size"]
        rate = _number(share) / (1 if name.startswith("Poisson") else _number(given["source_dataset_size"]))
        if once["rounds"] == 1 and once["row_sampling"] == "none":
            return once | {"row_sampling": _SAMPLED[name], "row_rate": rate}
    raise UserError(
        f"dp_event has the event {name[:60]}, which dpml cannot check: each round of a recipe must be one "
        "GaussianDpEvent with at most one level of sampling."
    )


def _number(node: Any) -> Any:
    """Return the number in a syntax tree, also if NumPy printed the number as ``np.float64(1.5)``."""
    return ast.literal_eval(node.args[0] if isinstance(node, ast.Call) else node)


FRAMEWORKS = {"flower": _flower, "opacus": _opacus, "dp_event": _dp_event}
"""The key of each framework, and the function that reads what a recipe has under it."""
