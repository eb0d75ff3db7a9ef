"""`dpml forecast`: what accuracy to expect of a release, before any budget is spent."""

from argparse import Namespace

from dpml.commands.release import forecast_of
from dpml.commands.settings import Settings
from dpml.screen import Screen


def run(arguments: Namespace) -> None:
    """Print a forecast of one setting."""
    console = Screen()
    for sentence in forecast_of(Settings(arguments.overrides, config_dir=arguments.config_dir)).sentences:
        console.print(sentence)
