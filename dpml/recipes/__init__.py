"""Check the privacy of training runs in other frameworks, given recipes that describe the runs as plain data."""

from dpml.recipes.frameworks import recipe_of
from dpml.recipes.judge import Judged, certificate_of, judge, sentence
from dpml.recipes.recipe import TrainingRecipe

__all__ = ["Judged", "TrainingRecipe", "certificate_of", "judge", "recipe_of", "sentence"]
