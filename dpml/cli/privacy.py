"""`dpml guarantee`, `audit`, `check` and `secagg`: what is proven, what attacks achieve, what a secure sum costs."""

import math
import sys
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from dpml.cli.columns import print_table, set_aside_common
from dpml.cli.files import stem
from dpml.errors import UserError
from dpml.files import check_writable, to_json, write_atomically
from dpml.privacy import Problem
from dpml.privacy.safe import written, written_below
from dpml.recipes import certificate_of, judge, recipe_of, sentence
from dpml.recipes.frameworks import is_word
from dpml.screen import Screen

if TYPE_CHECKING:
    from dpml.audit import Finding


def run_guarantee(arguments: Namespace) -> None:
    """Print the guarantees of one setting."""
    from dpml.api.functions import PlannedRelease  # loads Hydra
    from dpml.api.settings import Settings

    release = PlannedRelease.of(Settings(arguments.overrides, config_dir=arguments.config_dir))
    guarantees, problem = release.guaranteed(), release.problem
    if arguments.certificate is not None:
        check_writable(arguments.certificate)
        write_atomically(arguments.certificate, release.certificate())
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
        message = f"delta={delta:g} is 1/N or more: what publishes one of the N={problem.N:,} records has it, too"
        message += f", if it does with a probability of {delta * units:.3g}." if delta * units < 1 else "."
        console.print(message, style="yellow")


def run_audit(arguments: Namespace) -> None:
    """Print what the attacks achieve; exit with 1 if one exceeds the proven guarantee."""
    from dpml.api.functions import attacked
    from dpml.api.settings import Settings
    from dpml.audit import audit

    figure = None if arguments.figure is None else stem(arguments.figure)
    release, draws, seed = attacked(Settings(arguments.overrides, config_dir=arguments.config_dir))
    findings = audit(*release, draws, seed)
    if arguments.json:
        print(to_json([_finding(finding) for finding in findings]))
    else:
        _show_findings(findings, draws, release.problem)
    if figure is not None and all(finding.rates is None for finding in findings):
        print("No figure: no view was attacked.", file=sys.stderr)
    elif figure is not None:
        from dpml.reporting.trade_off import draw  # loads Matplotlib

        for path in draw(findings, f"dpml audit {' '.join(arguments.overrides)}", figure):
            print(path, file=sys.stderr)
    if any(finding.verdict == "BUG" for finding in findings):
        sys.exit(1)


def _finding(finding: "Finding") -> dict[str, object]:
    """Return the value for JSON: an unknown value is null."""
    rates = finding.rates and {key: value.tolist() for key, value in finding.rates._asdict().items()}
    values = asdict(replace(finding, rates=None)) | {"judgement": finding.judgement, "rates": rates}
    return {key: None if value != value else value for key, value in values.items()}


def _show_findings(findings: "Sequence[Finding]", draws: int, problem: Problem) -> None:
    from dpml.audit.scores import CONFIDENCE

    basis = "proven" if math.isnan(findings[0].declared) else "declared"
    heads = ["view", "per", "delta", "claimed", basis, "this pair", "attacked", "by", "verdict"]
    lines = []
    for f in findings:
        numbers = [f"{f.claimed:.4g}", written(f.held), *(written_below(eps) for eps in (f.exact, f.attacked))]
        numbers = ["-" if number == "nan" else number for number in numbers]
        lines.append([f.view, f.unit, f"{f.delta:g}", *numbers, f.attack, f.judgement])
    heads, lines, common = set_aside_common(heads, lines, ("per", "delta"))
    console = Screen()
    print_table(console, heads, lines)
    if any(finding.view == "colluders" for finding in findings):
        common["colluders"] = f"{problem.colluders} of {problem.M} parties"
    context = "".join(f"; {head} {value}" for head, value in common.items())
    bound = f"a lower bound at {CONFIDENCE:.0%} confidence from {draws:,} releases of either data set"
    if all(math.isnan(finding.attacked) for finding in findings):
        bound = "no view was"
    sums = "" if math.isnan(findings[0].moved) else f"; sums move by {findings[0].moved:.9g} of what is counted"
    console.print(f"eps{context}; attacked: {bound}{sums}")
    for note in findings[0].notes:
        console.print(f"Look at it: {note}.", style="yellow")


def run_check(arguments: Namespace) -> None:
    """Print what a recipe guarantees in every view."""
    words = [word for word in arguments.overrides if is_word(word)]
    files = [word for word in arguments.overrides if not is_word(word)]
    if len(files) > 1 or not arguments.overrides:
        raise UserError("dpml check takes one RECIPE.yaml, or KEY=VALUE, or both.")
    recipe = recipe_of(files[0] if files else None, words)
    views = judge(recipe)
    if arguments.certificate is not None:
        check_writable(arguments.certificate)
        write_atomically(arguments.certificate, certificate_of(recipe, views))
    if arguments.json:
        print(to_json([view.shown for view in views]))
        return
    console = Screen()
    lines = []
    for view in views:
        proven = "none" if math.isinf(view.proven) else written(view.proven)
        claimed = "-" if view.claimed is None else "none" if math.isinf(view.claimed) else written(view.claimed)
        attacked = "-" if view.attacked is None else written_below(view.attacked)
        lines.append([view.view, claimed, proven, attacked, view.verdict, view.source])
    print_table(console, ["view", "claimed", "proven", "attacked", "claim", "source"], lines)
    console.print(f"eps for one {recipe.unit} at delta {written(recipe.delta)}")
    console.print(sentence(recipe, views))
    if recipe.unit == "client" and recipe.delta * recipe.clients >= 1:
        message = f"delta={recipe.delta:g} is 1/N or more of N={recipe.clients:,} clients: "
        console.print(f"{message}what publishes one has it, too.", style="yellow")


def run_secagg(arguments: Namespace) -> None:
    """Run a secure sum with the real protocol, and print its cost."""
    from dpml.protocols.costs import measure  # loads cryptography
    from dpml.running.cell import limit_blas

    with limit_blas():  # its products are small: more threads would only spin
        costs = measure(arguments.M, arguments.d, arguments.drop)
    for name, value in costs.items():
        print(f"{name:25} {value}")
