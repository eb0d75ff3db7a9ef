"""Training recipes of anybody: what they say as plain data (`recipe`), in others' words (`frameworks`), and judged."""

from dpml.recipes.judge import Judged, certificate_of, judge, sentence
from dpml.recipes.reading import recipe_of
from dpml.recipes.recipe import TrainingRecipe

__all__ = ["Judged", "TrainingRecipe", "certificate_of", "judge", "recipe_of", "sentence"]
