"""Run `dpml guarantee`, `audit` and `check`, which compute or attack guarantees, and `dpml secagg`, a speed test."""

import math
import re
import sys
from argparse import Namespace
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from dpml.cli.console import eps_text, print_table
from dpml.errors import UserError
from dpml.files import check_writable, to_json, write_atomically
from dpml.privacy import Guarantee
from dpml.privacy.guarantee import HELD, large_delta
from dpml.privacy.safe import written, written_below
from dpml.recipes import Judged, TrainingRecipe, certificate_of, judge, recipe_of, sentence
from dpml.recipes.frameworks import is_word
from dpml.screen import Screen, printable

if TYPE_CHECKING:
    from dpml.api.functions import PlannedRelease
    from dpml.audit import Finding


def run_guarantee(arguments: Namespace) -> None:
    """Print the guarantees of one release against every observer."""
    from dpml.api.functions import PlannedRelease  # loads Hydra
    from dpml.api.settings import Settings

    release = PlannedRelease.of(Settings(arguments.overrides, config_dir=arguments.config_dir))
    guarantees, problem = release.guaranteed(), release.problem
    _write_certificate(arguments.certificate, release.certificate)
    if arguments.json:
        print(to_json("dpml-guarantee-1", views=[guarantee.shown for guarantee in guarantees]))
        return
    console = Screen()
    console.print(release.about, style="bold")
    held = {each.view: each for each in guarantees if each.basis in HELD}
    claims = {each.view: each for each in guarantees if each.basis == "published" and math.isfinite(each.eps)}
    conditional = {each.view: each for each in guarantees if each.basis == "conditional"}
    columns = {"claimed ε": claims, f"{next(iter(held.values())).basis} ε": held, "if fixed beforehand": conditional}
    columns = {head: views for head, views in columns.items() if views}
    lines = [
        [view, *(eps_text(views[view].eps) if view in views else "-" for views in columns.values()), each.source]
        for view, each in held.items()
    ]
    print_table(console, ["view", *columns, "source"], lines)
    first = guarantees[0]
    console.print(f"ε for one {first.unit} at delta = {written(first.delta, 6)}")
    for claim in dict.fromkeys(claim.source for claim in claims.values()):
        console.print(f"claimed by {claim}")
    if release.algorithm.name == "regression":
        from dpml.release.inference import expected  # loads pandas

        console.print(*expected(release.algorithm, release.budget, problem))
    if arguments.why:
        _show_why(console, release, held.values())
    units = problem.M if first.unit == "party" else problem.N
    if message := large_delta(max(guarantee.delta for guarantee in guarantees), problem.N, units):
        console.print(message, style="yellow")


def _show_why(console: Screen, release: "PlannedRelease", held: Iterable[Guarantee]) -> None:
    console.print("\nThe messages, and the noise in them:")
    for message in release.messages:
        name, times = type(message.of).__name__, f"{message.times:,} times" if message.times > 1 else "once"
        what = (type(message.of).__doc__ or name).splitlines()[0].rstrip(".")
        console.print(f"- {name}, sent {times}: {what}.")
        ratio = f"{written(message.sensitivity)} / {message.noise:.4g} = {written(message.sensitivity / message.noise)}"
        console.print(f"  sensitivity / scale of the {message.law} noise = {ratio}")
    if not release.messages:
        console.print("- This algorithm is not a list of noisy sums: the source in the table above has the proof.")
    console.print("The guarantee of each view, composed from the noise that it does not know:")
    for each in held:
        how = f"{written(each.mu)}-GDP, which gives" if each.mu is not None and math.isfinite(each.mu) else "gives"
        console.print(f"- {each.view}: {how} eps = {eps_text(each.eps)} at delta = {written(each.delta, 6)}")


def run_audit(arguments: Namespace) -> None:
    """Print the eps that attacks reach; exit with 1 if an attack exceeds the proven eps."""
    from dpml.api.functions import attacked
    from dpml.api.settings import Settings
    from dpml.audit import audit

    release, draws, seed, shortened = attacked(Settings(arguments.overrides, config_dir=arguments.config_dir))
    error, begun = Screen(stderr=True), monotonic()
    with error.status(f"attacking {draws:,} releases of each data set; 100,000 take about a minute"):
        findings = audit(*release, draws, seed)
    if arguments.json:
        print(to_json("dpml-audit-1", views=[_finding(finding) for finding in findings]))
    else:
        console = Screen()
        console.print(release.about, style="bold")
        if shortened:
            console.print(f"The audit has chosen {', '.join(shortened)}: set these keys to attack another setting.")
        _show_findings(findings, draws)
        console.print(f"{monotonic() - begun:.0f} seconds")
    if arguments.figure is not None and any(finding.rates is not None for finding in findings):
        from dpml.reporting.trade_off import draw  # loads Matplotlib

        command = f"dpml audit {' '.join(arguments.overrides)}"
        for path in draw(findings, command, arguments.figure.with_suffix("")):
            print(path, file=sys.stderr)
    if any(finding.verdict == "BUG" for finding in findings):
        sys.exit(1)


def _finding(finding: "Finding") -> dict[str, object]:
    rates = finding.rates and {key: value.tolist() for key, value in finding.rates._asdict().items()}
    return asdict(replace(finding, rates=None)) | {"judgement": finding.judgement, "rates": rates}


def _show_findings(findings: "Sequence[Finding]", draws: int) -> None:
    from dpml.audit.scores import CONFIDENCE

    first, console = findings[0], Screen()
    basis = "proven" if math.isnan(first.declared) else "declared"
    lines = []
    for f in findings:
        lower = ["-" if math.isnan(eps) else written_below(eps) for eps in (f.exact, f.attacked)]
        lines.append([f.view, eps_text(f.claimed), eps_text(f.held), *lower, f.judgement])
    print_table(console, ["view", "claimed", basis, "pair", "attacked", "verdict"], lines)
    console.print(f"ε for one {first.unit} at delta = {first.delta:g}; pair: exact ε of the two attacked data sets")
    if any(math.isfinite(finding.attacked) for finding in findings):
        how = "; ".join(dict.fromkeys(finding.attack for finding in findings if finding.attack != "-"))
        console.print(
            f"attacked: a lower bound at {CONFIDENCE:.0%} confidence from {draws:,} releases of each data set ({how})"
        )
    if not math.isnan(first.moved):
        console.print(f"Measured sensitivity: {first.moved:.1%} of the one in the proof.")
    if needed := _draws_needed(findings, draws):
        console.print(f"If these data sets attain the proven ε, about draws={needed} are needed to see it.")
    for note in first.notes:
        console.print(f"Note: {note}.", style="yellow")


def _draws_needed(findings: "Sequence[Finding]", draws: int) -> int | None:
    """Return how many draws an audit needs to judge every guarantee; None if more draws do not help."""
    from dpml.audit import POWER

    silent = [f for f in findings if f.verdict == "no violation seen" and f.attack != "-" and math.isfinite(f.held)]
    factors = [
        4.0 if f.power >= POWER else ((1 - f.power) / (1 - POWER)) ** 2
        for f in silent
        if f.power >= POWER or math.isnan(f.exact)
    ]
    if not factors:
        return None
    digits = math.floor(math.log10(draws * max(factors)))
    return int(math.ceil(draws * max(factors) / 10**digits) * 10**digits)


_FAILING = {"unproven": ("false", "not proven"), "false": ("false",), "never": ()}


def run_check(arguments: Namespace) -> None:
    """Print the guarantees of training recipes; exit with 1 if a claim has one of the verdicts in --fail-on."""
    words = [word for word in arguments.overrides if is_word(word)]
    files = [word for word in arguments.overrides if not is_word(word)]
    if not arguments.overrides:
        raise UserError("dpml check takes files RECIPE.yaml, or settings KEY=VALUE, or both.")
    if len(files) > 1 and (arguments.json or arguments.certificate):
        raise UserError("--json and --certificate are for one recipe: name one file.")
    judged = [(file, recipe := recipe_of(file, words), judge(recipe)) for file in files or [None]]
    failing = _FAILING[arguments.fail_on]
    _write_certificate(arguments.certificate, lambda: certificate_of(*judged[0][1:]))
    for file, recipe, views in judged:
        if arguments.json:
            print(to_json("dpml-check-1", views=[view.shown for view in views]))
        elif arguments.format == "github":
            for view in views:
                if view.verdict in _FAILING["unproven"]:
                    print(printable(_annotation(view, file, "error" if view.verdict in failing else "warning")))
        else:
            if len(files) > 1:
                print(f"\n{file}")
            _show_check(recipe, views)
    if any(view.verdict in failing for _, _, views in judged for view in views):
        sys.exit(1)


def _annotation(view: Judged, file: str | None, level: str) -> str:
    where = ""
    if file is not None:
        lines = Path(file).read_text("utf-8").splitlines()
        claims = [number for number, line in enumerate(lines, 1) if re.search("claimed_eps|formula|epsilon", line)]
        name = re.sub("[%\r\n:,]", lambda each: f"%{ord(each[0]):02X}", file)  # GitHub decodes these
        where = f" file={name},line={min(claims, default=1)}"
    proven = f"eps = {written(view.proven)} is proven" if math.isfinite(view.proven) else "nothing is proven"
    return f"::{level}{where}::{view.view}: the claim eps = {view.claimed:g} is {view.verdict}: {proven}"


def _show_check(recipe: TrainingRecipe, views: list[Judged]) -> None:
    console, lines = Screen(), []
    for view in views:
        claimed = math.nan if view.claimed is None else view.claimed
        attacked = "-" if view.attacked is None else written_below(view.attacked)
        lines.append([view.view, eps_text(claimed), eps_text(view.proven), attacked, view.verdict, view.source])
    print_table(console, ["view", "claimed", "proven", "attacked", "claim", "source"], lines)
    console.print(f"eps for one {recipe.unit} at delta {written(recipe.delta)}")
    console.print(sentence(recipe, views))
    if recipe.unit == "client" and (message := large_delta(recipe.delta, recipe.clients)):
        console.print(message, style="yellow")


def _write_certificate(path: Path | None, content: Callable[[], str]) -> None:
    if path is not None:
        check_writable(path)
        write_atomically(path, content())


def run_secagg(arguments: Namespace) -> None:
    """Run the protocol for secure sums on random vectors, and print the time and the bytes that it takes."""
    from dpml.protocols.costs import measure  # loads cryptography
    from dpml.running.cell import limit_blas

    with limit_blas():  # the matrix products are small, so more threads would only wait
        costs = measure(arguments.M, arguments.d, arguments.drop)
    for name, value in costs.items():
        print(f"{name:25} {value}")
