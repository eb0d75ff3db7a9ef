"""`dpml verify`: compute anew what is said, from what it was said of.

Of results, of a paper or of a figure: the verdicts and tables, from their rows. Of a published model: its guarantees,
from its certificate; that computation is a file of its own, `dpml/release/verify.py`, which needs nothing of dpml and
may be copied anywhere.
"""

import sys
from argparse import Namespace
from pathlib import Path

from dpml.errors import UserError


def run(arguments: Namespace) -> None:
    """Print what holds.

    Raises:
        UserError: a statement of the folder does not follow from its rows, or a file was cut or edited.
        SystemExit: with status 1 or 2, where the certificate does not give a stated eps.
    """
    path = arguments.path
    if path.is_dir() or path.with_name(f"{path.stem}_rows.csv.xz").is_file():
        _results(path)
    else:
        from dpml.release import verify

        if code := verify.main(str(arguments.path)):
            sys.exit(code)


def _results(path: Path) -> None:
    from dpml.reporting.cards import card_of
    from dpml.reporting.evidence import verify

    experiments = verdicts = values = wrong = 0
    for one in verify(path):
        counts = f"{one.verdicts} verdicts, {one.values} values of tables"
        print(f"{one.experiment}: {counts}: {'not so' if one.wrong else 'ok'}")
        for line in one.wrong:
            print(f"  {line}")
        card = card_of(one.experiment.partition("/")[0])
        if one.wrong and card and card.headline:
            print(f"  the headline of its page may be wrong now: {card.headline}")
        experiments, verdicts, values = experiments + 1, verdicts + one.verdicts, values + one.values
        wrong += len(one.wrong)
    if wrong:
        raise UserError(f"{wrong} statements of {path} do not follow from its rows.")
    print(
        f"Recomputed from the stored rows: {verdicts:,} verdicts and {values:,} values of tables of {experiments} "
        "experiments. All are as written. The rows themselves were not computed again."
    )
