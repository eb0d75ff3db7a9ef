"""`dpml verify`: recompute the verdicts and tables of a results folder from its rows, without data."""

from argparse import Namespace

from dpml.errors import UserError
from dpml.reporting.evidence import verify


def run(arguments: Namespace) -> None:
    """Print a line for every experiment, and what does not follow from its rows.

    Raises:
        UserError: something does not, or a file was cut or edited.
    """
    wrong = 0
    for one in verify(arguments.folder):
        counts = f"{one.verdicts} verdicts, {one.values} values of tables"
        print(f"{one.experiment}: {counts}: {'not so' if one.wrong else 'ok'}")
        for line in one.wrong:
            print(f"  {line}")
        wrong += len(one.wrong)
    if wrong:
        raise UserError(f"{wrong} statements of {arguments.folder} do not follow from its rows.")
