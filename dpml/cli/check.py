"""`dpml check`: what anybody's training recipe guarantees, beside what is claimed of it."""

import math
from argparse import Namespace

from dpml.atomic import check_writable, write_atomically
from dpml.cli.columns import print_table
from dpml.errors import UserError
from dpml.plain import to_json
from dpml.privacy.safe import written, written_below
from dpml.recipes import certificate_of, judge, recipe_of, sentence
from dpml.recipes.reading import is_word
from dpml.screen import Screen


def run(arguments: Namespace) -> None:
    """Print the views of a recipe.

    Raises:
        UserError: the recipe is wrong, or there is no certificate to write.
    """
    words = [word for word in arguments.overrides if is_word(word)]
    files = [word for word in arguments.overrides if not is_word(word)]
    if len(files) > 1 or not arguments.overrides:
        raise UserError("dpml check takes one RECIPE.yaml, or KEY=VALUE, or both.")
    recipe = recipe_of(files[0] if files else None, words)
    found = judge(recipe)
    if arguments.certificate is not None:
        check_writable(arguments.certificate)
        write_atomically(arguments.certificate, certificate_of(recipe, found))
    if arguments.json:
        print(to_json([each.shown for each in found]))
        return
    console = Screen()
    heads = ["view", "claimed", "proven", "attacked", "claim", "source"]
    lines = [
        [each.view, _eps(each.claimed), _eps(each.proven), _attack(each.attacked), each.verdict, each.source]
        for each in found
    ]
    print_table(console, heads, lines)
    console.print(f"eps for one {recipe.unit} at delta {written(recipe.delta)}")
    console.print(sentence(recipe, found))
    if recipe.unit == "client" and recipe.delta * recipe.clients >= 1:
        said = f"delta={recipe.delta:g} is 1/N or more of N={recipe.clients:,} clients: what publishes one has it, too."
        console.print(said, style="yellow")


def _eps(eps: float | None) -> str:
    return "-" if eps is None else "none" if math.isinf(eps) else written(eps)


def _attack(eps: float | None) -> str:
    return "-" if eps is None else written_below(eps)
