"""`dpml table`: a table for a paper, of a run, a sweep or a figure."""

from argparse import Namespace

from dpml.atomic import write_atomically
from dpml.cli.files import refuse_overwriting
from dpml.reporting.chosen import chosen
from dpml.reporting.run_table import FORMATS, run_table


def run(arguments: Namespace) -> None:
    """Write the table, or print it as Markdown."""
    if arguments.output:
        refuse_overwriting(arguments.output, arguments.force, FORMATS)
    what = chosen(arguments.path).where(arguments.where)
    table = run_table(what.summary, arguments.metric, what.claims)
    if arguments.output is None:
        print(str(table.written("md")), end="")
        return
    write_atomically(arguments.output, table.written(arguments.output.suffix[1:]))
    print(arguments.output)
