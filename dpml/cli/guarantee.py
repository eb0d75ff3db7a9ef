"""`dpml guarantee`: the privacy guarantees of a release, view by view."""

from argparse import Namespace

from dpml.atomic import check_writable, write_atomically
from dpml.cli.columns import print_table, set_aside_common
from dpml.commands.guarantee import certificate_of, guarantees_of
from dpml.commands.settings import Settings
from dpml.plain import to_json
from dpml.privacy.safe import written
from dpml.screen import Screen


def run(arguments: Namespace) -> None:
    """Print the guarantees of one setting."""
    settings = Settings(arguments.overrides, config_dir=arguments.config_dir)
    guarantees, problem = guarantees_of(settings)
    if arguments.certificate is not None:
        check_writable(arguments.certificate)
        write_atomically(arguments.certificate, certificate_of(settings))
    if arguments.json:
        print(to_json([guarantee.shown for guarantee in guarantees]))
        return
    heads = ["view", "per", "eps", "delta", "basis", "source"]
    lines = [[g.view, g.unit, written(g.eps, 6), written(g.delta, 6), g.basis, g.source] for g in guarantees]
    heads, lines, common = set_aside_common(heads, lines, ("per", "delta"))
    if any(guarantee.view == "colluders" for guarantee in guarantees):
        common["colluders"] = f"{problem.colluders} of {problem.M} parties"
    console = Screen()
    print_table(console, heads, lines)
    if common:
        console.print("  ".join(f"{head} {value}" for head, value in common.items()))
    delta = max(guarantee.delta for guarantee in guarantees)
    if delta * problem.N >= 1:
        units = problem.M if guarantees[0].unit == "party" else problem.N
        said = f"delta={delta:g} is 1/N or more: what publishes one of the N={problem.N:,} records has it, too"
        said += f", if it does with a probability of {delta * units:.3g}." if delta * units < 1 else "."
        console.print(said, style="yellow")
