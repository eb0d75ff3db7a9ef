"""How strong is the suite? Break one line at a time, run the tests that should notice, and list what was not noticed.

Listed mutants are mistakes that somebody could make in a line on which a privacy guarantee or a published number rests,
each with the test that should fail. Those of a room, a folder of dpml/, are made by rule (`mutants_by_rule.py`), and
all tests that execute the line may notice. A mutant is made in a copy of the repository, one at a time, and survives
when its tests pass all the same; so does one whose line no test executes. Where a mutant changes nothing that could be
wrong, `mutants_reasons.yaml` says why.

    python scripts/mutants.py [WORD ...]                     listed ones with a word in their file's path
    python scripts/mutants.py --room privacy [--sample 60]   those made by rule, or as many of them at random

Exit status 1: more than `--allowed` of the mutants survive, or a test fails without any mutant.
"""

import argparse
import multiprocessing
import os
import random
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from queue import Queue

import pytest
import yaml
from mutants_by_rule import ROOMS, ROOT, SECONDS, Change, Contexts, changes
from scipy.stats import binomtest

COPIED = ("dpml", "conf", "docs", "experiments", "scripts", "tests", "README.md", "pyproject.toml")
LOADED = ("numpy", "scipy.stats", "scipy.optimize", "pandas", "sklearn.linear_model", "mpmath", "pytest")
"""What most tests import: once, and each mutant's process is a fork."""


@dataclass(frozen=True)
class Mutant:
    """A line that is changed, and the test that should fail then, FILE::NAME in tests/; `old` is there once.

    One test is named, and not its file, because that takes a tenth of the time.
    """

    file: str
    old: str
    new: str
    test: str

    @property
    def change(self) -> Change:
        """What it does to the file.

        Raises:
            ValueError: the line is not there, or more than once.
        """
        content, old = (ROOT / self.file).read_bytes(), self.old.encode()
        if content.count(old) != 1:
            raise ValueError(f"{self.file} has the text {self.old!r} {content.count(old)} times, not once")
        start = content.index(old)
        line = content.count(b"\n", 0, start) + 1
        return Change(self.file, line, start, start + len(old), self.new.encode())


MUTANTS = (
    # weights of an estimator's rows
    Mutant(
        "dpml/api/rows.py",
        "return np.minimum(weights, 1.0)",
        "return weights / weights.max()",
        "api/test_weights.py::test_a_weight_above_1_counts_as_1",
    ),
    Mutant(
        "dpml/api/rows.py",
        "kept = rng.random(len(X)) < np.prod(weights, axis=0)",
        "kept = np.prod(weights, axis=0) > 0\n    kept[kept] = rng.random(kept.sum()) < np.prod(weights, axis=0)[kept]",
        "api/test_weights.py::test_a_coin_is_drawn_for_every_row_whatever_its_weight",
    ),
    # recipes of others
    Mutant(
        "dpml/recipes/judge.py",
        'return recipe.noise if view in ("release", "aggregate") else 0.0',
        "return recipe.noise",
        "recipes/test_check.py::test_the_server_s_noise_protects_from_others_only",
    ),
    Mutant(
        "dpml/recipes/judge.py",
        "or recipe.weight != 1",
        "or (recipe.weight or 1) != 1",
        "recipes/test_check.py::test_each_client_s_own_noise",
    ),
    Mutant(
        "dpml/recipes/judge.py",
        "n - recipe.dropouts - (recipe.colluders",
        "n - max(recipe.dropouts, recipe.colluders",
        "recipes/test_check.py::test_shared_noise_less_what_is_missing_and_what_is_known",
    ),
    Mutant(
        "dpml/recipes/judge.py",
        "return math.ceil(batches / math.floor(1 / rate * (1 + 1e-12)))",
        "return math.ceil(batches * rate)",
        "recipes/test_check.py::test_shuffled_batches_count_once_an_epoch",
    ),
    Mutant(
        "dpml/recipes/frameworks.py",
        'own = {"unit": "client", "weight": None} | own',
        'own = {"unit": "client"} | own',
        "recipes/test_check.py::test_flower_weighs_clients_by_their_records_which_a_recipe_does_not_tell",
    ),
    Mutant(
        "dpml/recipes/frameworks.py",
        "math.floor(rows / batch) if drop_last",
        "math.ceil(rows / batch) if drop_last",
        "recipes/test_check.py::test_opacus",
    ),
    Mutant(
        "dpml/privacy/sampled.py",
        "(q, m / 2)), reach)",
        "(q, 0.0)), reach)",
        "privacy/test_sampled.py::test_one_round_is_the_integral_of_the_definition",
    ),
    # curves, calibration and composition
    Mutant(
        "dpml/privacy/gdp.py",
        "(_mills(-z1) + _mills(z2))",
        "(_mills(-z1) - _mills(z2))",
        "privacy/test_gdp.py::test_curve_matches_80_digit_arithmetic",
    ),
    Mutant(
        "dpml/privacy/gdp.py",
        "top, up=True)",
        "top, up=False)",
        "privacy/test_safe_side.py::test_the_gaussian_curve_and_its_inverses",
    ),
    Mutant(
        "dpml/privacy/gdp.py",
        "z1 = math.nextafter(math.nextafter(eps / mu, 0.0) - mu / 2, -math.inf)",
        "z1 = eps / mu - mu / 2",
        "privacy/test_safe_side.py::test_the_gaussian_curve_and_its_inverses",
    ),
    Mutant(
        "dpml/mechanism/guarantees.py",
        "Proof(gdp.eps_of(round_up(mu), delta), source, round_up(mu))",
        "Proof(gdp.eps_of(mu, delta), source, mu)",
        "privacy/test_safe_side.py::test_what_an_algorithm_reports",
    ),
    Mutant(
        "dpml/privacy/accountant.py",
        "mu * math.sqrt(_counted(times))",
        "mu * _counted(times) ** 0.25",
        "privacy/test_accountant.py::test_gaussian_releases_are_exact",
    ),
    Mutant(
        "dpml/privacy/accountant.py",
        "times * math.log1p(-delta)",
        "math.log1p(-delta)",
        "privacy/test_accountant.py::test_mixtures_match_dp_accounting",
    ),
    Mutant(
        "dpml/privacy/guarantee.py",
        "math.ceil(M / 3) - 1",
        "math.floor(M / 3) - 1",
        "privacy/test_guarantee.py::test_colluders_are_a_number_a_share_or_the_papers",
    ),
    Mutant(
        "dpml/privacy/noise.py",
        "return rng.standard_normal(shape), rng.standard_normal(shape)",
        "return (rng.standard_normal(shape),) * 2",
        "privacy/test_noise.py::test_cape_messages_have_the_covariance_of_the_definition",
    ),
    Mutant(
        "dpml/privacy/noise.py",
        "parties * (d + 1) / 2",
        "parties * d / 2",
        "privacy/test_noise.py::test_l2_laplace_sums_have_the_characteristic_function",
    ),
    # proofs
    Mutant(
        "dpml/privacy/proofs/noisy_sums.py",
        "np.expm1(-high / 4 * (mu - low))",
        "np.expm1(-high / 2 * (mu - low))",
        "privacy/test_noisy_sums.py::test_what_eta_leaves_is_reached_by_a_constant_shift",
    ),
    Mutant(
        "dpml/privacy/proofs/objective_perturbation.py",
        "return round_up(2 / ridge) - round_down(2 / sigma / sigma)",
        "return round_up(1 / ridge) - round_down(2 / sigma / sigma)",
        "privacy/test_objective.py::test_no_replaced_row_on_a_line_exceeds_the_bound",
    ),
    Mutant(
        "experiments/frontier/amp.py",
        "math.hypot(2 / sigma, mu)",
        "math.hypot(1 / sigma, mu)",
        "frontier/test_amp_proof.py::test_with_the_free_ridge_it_is_one_gaussian_release",
    ),
    Mutant(
        "experiments/frontier/outpert.py",
        "> middle / (1 - middle**2)",
        "> middle / (1 - middle)",
        "frontier/test_gradient_balls.py::test_radii_are_the_largest_values_and_never_below",
    ),
    Mutant(
        "dpml/privacy/proofs/last_iterate.py",
        "while pieces and pieces[-1][2] >= slope:",
        "while pieces and pieces[-1][2] > 2 * slope:",
        "privacy/test_last_iterate.py::test_the_optimum_is_that_of_a_general_minimiser",
    ),
    # sensitivities, and noise as it is drawn
    Mutant(
        "dpml/algorithms/quadratic/coefficients.py",
        "A * (1 + s * s + 2 * s * c)",
        "A * (1 + s * s)",
        "algorithms/quadratic/test_sensitivity.py::test_joint_sensitivity_is_the_supremum_over_neighbours",
    ),
    Mutant(
        "dpml/optim/losses.py",
        "linear_bound=2 * float(np.sqrt(1 - 1 / classes))",
        "linear_bound=2 * (1 - 1 / classes)",
        "algorithms/quadratic/test_sufficient_statistics.py::test_no_two_rows_are_farther_apart_than_is_counted",
    ),
    Mutant(
        "dpml/mechanism/sharing.py",
        '"colluders": math.sqrt(problem.M / problem.honest)}',
        '"colluders": 1.0}',
        "mechanism/test_sharing.py::test_the_mu_of_a_view_is_that_of_what_it_sees",
    ),
    Mutant(
        "dpml/mechanism/sharing.py",
        "M / honest + (1 - 1 / honest)",
        "M / honest + (1 - 1 / M)",
        "mechanism/test_sharing.py::test_what_is_seen_of_cape_is_what_the_docs_say",
    ),
    Mutant(
        "dpml/algorithms/descent/clipped.py",
        "Sum(of, 2.0, self.noise, times=self.rounds)",
        "Sum(of, 1.0, self.noise, times=self.rounds)",
        "mechanism/test_message.py::test_what_is_proven_follows_from_the_messages",
    ),
    Mutant(
        "dpml/algorithms/descent/clipped.py",
        "math.hypot(2.0, 1 / counted)",
        "2.0",
        "mechanism/test_message.py::test_what_is_proven_follows_from_the_messages",
    ),
    Mutant(
        "dpml/mechanism/message.py",
        "+ len(widths) * REST)",
        "+ REST)",
        "mechanism/test_discrete.py::test_every_lot_of_discrete_noise_adds_what_is_left_of_the_grid_to_the_mu",
    ),
    Mutant(
        "dpml/mechanism/carriers.py",
        "exact + carrier.widths(number)[:, None] * unit",
        "exact + 0.9 * carrier.widths(number)[:, None] * unit",
        "mechanism/test_carriers.py::test_every_sum_has_noise_of_the_declared_standard_deviation",
    ),
    Mutant(
        "dpml/algorithms/quadratic/coefficients.py",
        "1.0 if self.mirrored else math.sqrt(0.5)",
        "1.0",
        "mechanism/test_carriers.py::test_every_sum_has_noise_of_the_declared_standard_deviation",
    ),
    Mutant(
        "dpml/optim/gradients.py",
        "exact /= np.maximum(lengths, 1)[..., None]",
        "exact /= np.maximum(lengths, 2)[..., None]",
        "algorithms/descent/test_clipped.py::test_party_gradients_are_those_of_every_party_alone",
    ),
    Mutant(
        "dpml/optim/convex.py",
        "if np.all(length <= enough):",
        "if np.any(length <= enough):",
        "optim/test_convex.py::test_newton_solves_every_tilted_problem_in_the_stack",
    ),
    Mutant(
        "experiments/frontier/outpert.py",
        "return 2 * float(radius(length))",
        "return float(radius(length))",
        "frontier/test_outpert.py::test_no_pair_of_small_data_sets_is_farther_apart",
    ),
    Mutant(
        "dpml/mechanism/message.py",
        "return math.sqrt(times) * self.ratio if times else 0.0",
        "return self.ratio if times else 0.0",
        "mechanism/test_message.py::test_what_is_proven_follows_from_the_messages",
    ),
    Mutant(
        "experiments/frontier/adassp.py",
        "math.sqrt(1 / 1.5 if d > 1 else 1 / 2)",
        "math.sqrt(1.0)",
        "frontier/test_adassp.py::test_the_worst_case_is_as_bad_as_the_proof",
    ),
    Mutant(
        "dpml/algorithms/ensemble.py",
        "(swing * (n - 1) + 2) / n",
        "swing",
        "algorithms/test_voting.py::test_protect_auxiliary_covers_a_replaced_row_and_a_partys_votes",
    ),
    Mutant(
        "dpml/algorithms/ensemble.py",
        'proven * root if law == "laplace" else proven',
        "proven",
        "algorithms/test_output_perturbation.py::test_noise_per_coordinate_is_proven_by_its_privacy_loss",
    ),
    Mutant(
        "dpml/privacy/discrete/sampler.py",
        "keep &= ~(negative & (x == 0))",
        "keep &= ~(negative & (x == 1))",
        "privacy/test_discrete_noise.py::test_every_integer_has_its_probability",
    ),
    Mutant(
        "dpml/release/facts.py",
        'if each.basis == "proven" and math.isfinite(each.eps)',
        "if False",
        "release/test_release.py::test_floating_point_noise_is_refused_and_then_labelled_everywhere",
    ),
    Mutant(
        "dpml/algorithms/descent/network.py",
        "of_rows(rows, whole * self.epochs, self.epochs)",
        "of_rows(rows, whole * self.epochs, 1)",
        "algorithms/descent/test_network.py::test_total_eps_against_the_covariance_of_all_rounds",
    ),
    # rows
    Mutant(
        "dpml/data/preprocess.py",
        "out = np.clip(X, low, high)",
        "out = X.copy()",
        "data/test_data_bounds.py::test_rows_end_in_the_unit_ball_whatever_they_are",
    ),
    Mutant(
        "dpml/data/preprocess.py",
        "np.maximum(extent.high, -extent.low)",
        "extent.high",
        "data/test_data_preprocess.py::test_max_abs_divides_by_the_largest_absolute_value_of_training_rows",
    ),
    # secure sums
    Mutant(
        "dpml/protocols/codec.py",
        "whole += rng.random(scaled.shape) < scaled - whole",
        "whole += 0.5 < scaled - whole",
        "protocols/test_codec.py::test_rounding_is_unbiased",
    ),
    Mutant(
        "dpml/protocols/shamir.py",
        "blocks(len(B), most=1 << 11)",
        "blocks(len(B), most=1 << 20)",
        "protocols/test_shamir.py::test_matrix_product_in_the_field_is_exact_at_its_largest",
    ),
    # what is kept, and what is said of numbers
    Mutant(
        "dpml/files.py",
        "rest.decode() if checksum",
        "rest.decode() if True or checksum",
        "cli/test_run.py::test_a_damaged_cell_is_computed_again",
    ),
    Mutant(
        "dpml/release/ledger.py",
        "for limit in (*content.caps, *([own] if own else [])):",
        "for limit in [own] if own else []:",
        "release/test_ledger.py::test_a_cap_refuses_what_would_exceed_it_and_enters_nothing",
    ),
    Mutant(
        "dpml/reporting/criteria.py",
        "if values[key] > LEVEL / left:",
        "if values[key] > LEVEL:",
        "reporting/test_criteria.py::test_holm_stops_at_the_first_that_is_not_significant",
    ),
    Mutant(
        "dpml/audit/attacks.py",
        "betaincinv(np.maximum(hits, 1), trials - hits + 1, error)",
        "hits / trials",
        "audit/test_bounds.py::test_interval_is_clopper_pearsons",
    ),
    # where a suite that names one test a line was blind
    Mutant(
        "dpml/running/cell.py",
        '"draws": [self.first, self.draws]',
        '"draws": self.draws',
        "running/test_cell.py::test_every_setting_is_in_the_identity",
    ),
    Mutant(
        "dpml/running/cell.py",
        '"adversary": _plain(self.adversary),',
        "",
        "running/test_cell.py::test_every_setting_is_in_the_identity",
    ),
    Mutant(
        "dpml/running/cell.py",
        "(str(cell.first),) if cell.first else ()",
        "()",
        "running/test_cell.py::test_later_draws_have_noise_of_their_own",
    ),
    Mutant(
        "dpml/running/cell.py",
        'generator(cell.seed, "start")',
        'generator(0, "start")',
        "running/test_cell.py::test_every_stream_is_the_seeds",
    ),
    Mutant(
        "dpml/algorithms/descent/private_sgd.py",
        "sigma * math.sqrt(h / M) / farther",
        "sigma / farther",
        "algorithms/descent/test_rajkumar2012.py::test_only_honest_parties_parts_of_eta_protect",
    ),
    Mutant(
        "dpml/algorithms/ensemble.py",
        "exact + 2 * TOLERANCE / lam",
        "exact",
        "algorithms/test_voting.py::test_either_model_may_be_as_far_from_its_minimiser_as_the_solver_stops",
    ),
    Mutant(
        "dpml/algorithms/perturbation.py",
        "pull = made.extra * longest",
        "pull = 0 * longest",
        "algorithms/test_objective_perturbation.py::test_theorem_5_1_holds_as_often_as_it_says",
    ),
    Mutant(
        "dpml/privacy/proofs/objective_perturbation.py",
        "+ np.log1p(1 / k) + rest",
        "+ np.log1p(1 / k)",
        "privacy/test_objective.py::test_the_bound_holds_wherever_newtons_steps_end",
    ),
    Mutant(
        "dpml/privacy/proofs/noisy_sums.py",
        "math.exp(unlikely) + float(seen",
        "float(seen",
        "privacy/test_noisy_sums.py::test_scales_too_small_to_be_counted_are_an_infinite_loss",
    ),
    Mutant(
        "dpml/audit/attacks.py",
        "first[cut[0] :], second[cut[1] :], error",
        "first, second, error",
        "audit/test_bounds.py::test_a_threshold_is_not_judged_on_the_scores_that_chose_it",
    ),
    Mutant(
        "dpml/data/partition.py",
        "np.arange(M) < (M + 1) // 2",
        "np.arange(M) < M // 2",
        "data/test_partition.py::test_two_group_has_the_ratio",
    ),
    Mutant(
        "dpml/data/partition.py",
        "np.arange(M - 1, -1, -1)",
        "np.arange(M, 0, -1)",
        "data/test_label_rules.py::test_a_power_law_with_a_smallest_size",
    ),
    Mutant(
        "dpml/reporting/claim_tests.py",
        "if won > len(values) / 2 else",
        "if won >= len(values) / 2 else",
        "reporting/test_claims.py::test_logic_with_what_is_undecided",
    ),
)


def passes(copy: Path, tests: Sequence[str], hours: bool = False) -> bool:
    """Whether some tests pass in a copy of the repository; those that take much too long do not, unless they may."""
    process = multiprocessing.get_context("forkserver").Process(target=_pytest, args=(copy, tests))
    process.start()
    process.join(None if hours else 10 * SECONDS)
    with suppress(ProcessLookupError):
        os.killpg(process.pid or 0, signal.SIGKILL)  # what the tests have started goes with them
    process.join()
    return process.exitcode == 0


def _pytest(copy: Path, tests: Sequence[str]) -> None:
    os.setsid()
    os.chdir(copy)
    sys.path.insert(0, str(copy))
    sys.dont_write_bytecode = True
    os.environ |= {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(copy)}
    with Path(os.devnull).open("w") as nowhere:
        for number in (1, 2):
            os.dup2(nowhere.fileno(), number)
    sys.exit(pytest.main(["-q", "-x", "-n", "0", "-p", "no:cacheprovider", *tests]))


def survives(change: Change, tests: Sequence[str], copies: "Queue[Path]") -> bool:
    """Whether a mutant's tests pass although it is there."""
    copy = copies.get()
    place = copy / change.file
    whole = place.read_bytes()
    try:
        place.write_bytes(change.made(whole))
        return not tests or passes(copy, tests)
    finally:
        place.write_bytes(whole)
        copies.put(copy)


def copied(copy: Path) -> Path:
    """A copy of what tests need, which may be broken."""
    copy.mkdir()
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, copy / name)
    return copy


def reasons() -> dict[tuple[str, str, str], str]:
    """Why a mutant may survive: by its file, and its line before and after."""
    read = yaml.safe_load(Path(__file__).with_name("mutants_reasons.yaml").read_text(encoding="utf-8"))
    return {(each["file"], each["line"], each["becomes"]): each["why"] for each in read}


def run(chosen: Sequence[tuple[Change, Sequence[str]]], jobs: int) -> tuple[int, bool]:
    """Try mutants with their tests and say what became of each.

    Returns: how many survive without a reason, and whether the tests pass without any mutant.
    """
    known, left = reasons(), 0
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(jobs) as pool:
        copies: Queue[Path] = Queue()
        for number in range(jobs):
            copies.put(copied(Path(folder) / str(number)))
        alive = pool.map(lambda each: survives(*each, copies), chosen)
        for (change, tests), survived in zip(chosen, alive, strict=True):
            before, after = change.lines
            why = known.get((change.file, before, after)) if survived else None
            left += survived and why is None
            said = "noticed " if not survived else "SURVIVES" if tests else "NOT RUN "
            print(f"{said}  {change.file}:{change.line}: {before}  ->  {after}", flush=True)
            if why:
                print(f"          which is no mistake: {why}")
        sound = passes(copies.get(), sorted({test for _, tests in chosen for test in tests}), hours=True)
    return left, sound


def listed(words: Sequence[str]) -> Iterator[tuple[Change, list[str]]]:
    """Listed mutants with their tests."""
    for mutant in MUTANTS:
        if not words or any(word in mutant.file for word in words):
            yield mutant.change, [f"tests/{mutant.test}"]


def made(rooms: Sequence[str], sample: int | None, seed: int, contexts: Contexts) -> Iterator[tuple[Change, list[str]]]:
    """Mutants made by rule, with their tests."""
    files = sorted(path for room in rooms for path in (ROOT / "dpml" / room).rglob("*.py"))
    chosen = [change for path in files for change in changes(str(path.relative_to(ROOT)))]
    if sample:
        print(f"{sample} of {len(chosen)} mutants, at random from seed {seed}")
        chosen = random.Random(seed).sample(chosen, sample)
    for change in sorted(chosen, key=lambda change: (change.file, change.start)):
        yield change, contexts.tests(change)


def main() -> int:
    """Run the script: its exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("words", nargs="*", help="only listed mutants whose file's path has one of these")
    parser.add_argument("--room", action="append", choices=ROOMS, help="folder of dpml/; once or more")
    parser.add_argument("--sample", type=int, help="this many of the rooms' mutants, at random; all by default")
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    parser.add_argument("--contexts", type=Path, help="folder that keeps which test executes what")
    parser.add_argument("--allowed", type=float, default=0.0, help="share of survivors without a reason")
    parser.add_argument("--jobs", type=int, default=1)
    arguments = parser.parse_args()
    os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    multiprocessing.get_context("forkserver").set_forkserver_preload(list(LOADED))
    if arguments.room:
        with tempfile.TemporaryDirectory() as folder:
            contexts = Contexts(arguments.contexts or Path(folder), arguments.room, arguments.jobs)
            chosen = list(made(arguments.room, arguments.sample, arguments.seed, contexts))
    else:
        chosen = list(listed(arguments.words))
    left, sound = run(chosen, arguments.jobs)
    ends = binomtest(left, len(chosen)).proportion_ci()
    print(f"{left} of {len(chosen)} mutants survive without a reason: {left / len(chosen):.1%}", end="")
    print(f" ({ends.low:.1%} to {ends.high:.1%} with 95 % confidence)" if arguments.sample else "")
    if not sound:
        print("the tests fail without any mutant: nothing above counts", file=sys.stderr)
    return int(left > arguments.allowed * len(chosen) or not sound)


if __name__ == "__main__":
    sys.exit(main())
