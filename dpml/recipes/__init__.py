"""Check the privacy of other frameworks' training runs, described as plain data (recipes)."""

from dpml.recipes.frameworks import recipe_of
from dpml.recipes.judge import Judged, certificate_of, judge, sentence
from dpml.recipes.recipe import TrainingRecipe

__all__ = ["Judged", "TrainingRecipe", "certificate_of", "judge", "recipe_of", "sentence"]
