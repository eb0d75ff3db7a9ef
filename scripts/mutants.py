"""How strong is the suite? Break one line at a time, run the tests that should notice, and list what they did not.

Each mutant is a mistake that somebody could make in a line on which a privacy guarantee or a published number rests. It
is made in a copy of the repository, one at a time; a mutant survives when the named tests pass all the same. In the
end the tests are run without any, so that no mutant counts as noticed because a test is broken.

    python scripts/mutants.py [--jobs N] [WORD ...]     only mutants with one of the words in their file's path

Exit status 1: one survived, or a test fails without any mutant.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import Queue

ROOT = Path(__file__).resolve().parents[1]
COPIED = ("dpml", "conf", "experiments", "scripts", "tests", "pyproject.toml")


@dataclass(frozen=True)
class Mutant:
    """A line that is changed, and the tests that should fail then; `old` is there once."""

    file: str
    old: str
    new: str
    tests: str

    @property
    def label(self) -> str:
        """For a line on the screen."""
        return f"{self.file}: {self.old.strip()} -> {self.new.strip()}"


MUTANTS = (
    # curves, calibration and composition
    Mutant(
        "dpml/privacy/gdp.py", "first = float(log_ndtr(-z1))", "first = float(log_ndtr(-z2))", "privacy/test_gdp.py"
    ),
    Mutant("dpml/privacy/gdp.py", "top, up=True)", "top, up=False)", "privacy/test_gdp.py"),
    Mutant("dpml/privacy/gdp.py", "sum(mu * mu for mu in mus)", "sum(mu for mu in mus)", "privacy/test_gdp.py"),
    Mutant(
        "dpml/privacy/accountant.py",
        "mu * math.sqrt(_counted(times))",
        "mu * _counted(times) ** 0.25",
        "privacy/test_accountant.py",
    ),
    Mutant(
        "dpml/privacy/accountant.py", "times * math.log1p(-delta)", "math.log1p(-delta)", "privacy/test_accountant.py"
    ),
    Mutant("dpml/privacy/guarantee.py", "math.ceil(M / 3) - 1", "math.floor(M / 3) - 1", "privacy/test_adversary.py"),
    Mutant(
        "dpml/privacy/noise.py",
        "ehat, g = np.empty(shape), np.empty(shape)",
        "ehat = g = np.empty(shape)",
        "privacy/test_noise.py",
    ),
    Mutant("dpml/privacy/noise.py", "parties * (d + 1) / 2", "parties * d / 2", "privacy/test_noise.py"),
    # proofs
    Mutant(
        "dpml/privacy/proofs/noisy_sums.py",
        "np.expm1(-high / 4 * (mu - low))",
        "np.expm1(-high / 2 * (mu - low))",
        "privacy/test_noisy_sums.py",
    ),
    Mutant(
        "dpml/privacy/proofs/objective_perturbation.py",
        "return 2 / ridge - 2 / sigma / sigma",
        "return 1 / ridge - 2 / sigma / sigma",
        "privacy/test_objective.py",
    ),
    Mutant(
        "dpml/privacy/proofs/approximate_minima.py",
        "math.hypot(2 / sigma, mu)",
        "math.hypot(1 / sigma, mu)",
        "privacy/test_minima.py",
    ),
    Mutant(
        "dpml/privacy/proofs/gradient_balls.py",
        "> middle / (1 - middle**2)",
        "> middle / (1 - middle)",
        "privacy/test_gradient_balls.py",
    ),
    Mutant(
        "dpml/privacy/proofs/last_iterate.py",
        "while pieces and pieces[-1][2] >= slope:",
        "while pieces and pieces[-1][2] > 2 * slope:",
        "privacy/test_last_iterate.py",
    ),
    # sensitivities, and noise as it is drawn
    Mutant(
        "dpml/algorithms/coefficients.py",
        "A * (1 + s * s + 2 * s * c)",
        "A * (1 + s * s)",
        "algorithms/test_coefficients.py",
    ),
    Mutant(
        "dpml/algorithms/distributed_noise.py",
        '"colluders": math.sqrt(problem.M / problem.honest)}',
        '"colluders": 1.0}',
        "algorithms/test_distributed_noise.py -k mu_of_a_view",
    ),
    Mutant(
        "dpml/algorithms/distributed_noise.py",
        "M / honest + (1 - 1 / honest)",
        "M / honest + (1 - 1 / M)",
        "algorithms/test_distributed_noise.py",
    ),
    Mutant(
        "dpml/algorithms/clipped_rounds.py",
        "self.rounds * (4 / self.noise**2",
        "self.rounds * (1 / self.noise**2",
        "algorithms/test_clipped_descent.py",
    ),
    Mutant(
        "dpml/optim/party_gradients.py",
        "limit / np.maximum(lengths, limit)",
        "limit / np.maximum(lengths, 2 * limit)",
        "algorithms/test_clipped_descent.py",
    ),
    Mutant(
        "dpml/algorithms/gaussian_output.py",
        "return 2 * float(radius(length))",
        "return float(radius(length))",
        "algorithms/test_gaussian_output.py",
    ),
    Mutant(
        "dpml/algorithms/noisy_newton.py",
        "mu = math.sqrt(self.rounds) * gdp.compose(each)",
        "mu = gdp.compose(each)",
        "algorithms/test_noisy_newton.py",
    ),
    Mutant(
        "dpml/algorithms/adaptive_statistics.py",
        "math.sqrt(1 / 1.5 if d > 1 else 1 / 2)",
        "math.sqrt(1.0)",
        "algorithms/test_adaptive_statistics.py",
    ),
    Mutant("dpml/algorithms/voting.py", "(swing * (n - 1) + 2) / n", "swing", "algorithms/test_voting.py"),
    Mutant(
        "dpml/algorithms/output_perturbation.py",
        "(math.sqrt(D) if self.per_coordinate else 1.0)",
        "1.0",
        "algorithms/test_output_perturbation.py",
    ),
    Mutant(
        "dpml/algorithms/network.py",
        "mu = math.sqrt(self.epochs) * self.sensitivity(rows)",
        "mu = self.sensitivity(rows)",
        "algorithms/test_network.py",
    ),
    # rows
    Mutant("dpml/data/bounds.py", "out = np.clip(X, low, high)", "out = X.copy()", "data/test_data_bounds.py"),
    Mutant(
        "dpml/data/preprocess.py",
        "np.maximum(train.max(axis=0), -train.min(axis=0))",
        "train.max(axis=0)",
        "data/test_data_preprocess.py",
    ),
    # secure sums
    Mutant(
        "dpml/protocols/codec.py",
        "whole += rng.random(scaled.shape) < scaled - whole",
        "whole += 0.5 < scaled - whole",
        "protocols/test_codec.py",
    ),
    Mutant(
        "dpml/protocols/shamir.py", "(product(high, B_high) << 1)", "product(high, B_high)", "protocols/test_shamir.py"
    ),
    # what is kept, and what is said of numbers
    Mutant(
        "dpml/atomic.py", "rest.decode() if checksum", "rest.decode() if True or checksum", "cli/test_run.py -k damage"
    ),
    Mutant(
        "dpml/release/ledger.py",
        "for limit in (*_caps(events), *([cap] if cap else [])):",
        "for limit in [cap] if cap else []:",
        "release/test_ledger.py",
    ),
    Mutant(
        "dpml/reporting/statistics.py",
        "if values[key] > LEVEL / left:",
        "if values[key] > LEVEL:",
        "reporting/test_statistics.py",
    ),
    Mutant(
        "dpml/audit/bounds.py",
        "betaincinv(np.maximum(hits, 1), trials - hits + 1, error)",
        "hits / trials",
        "audit/test_bounds.py",
    ),
)


def broken(mutant: Mutant, content: str) -> str:
    """A file's content with the mutant in it.

    Raises:
        ValueError: the line is not there, or more than once.
    """
    if content.count(mutant.old) != 1:
        raise ValueError(f"{mutant.file} has the text {mutant.old!r} {content.count(mutant.old)} times, not once")
    return content.replace(mutant.old, mutant.new)


def passes(copy: Path, tests: str) -> bool:
    """Whether some tests pass in a copy of the repository."""
    words = [*(f"tests/{word}" if word.endswith(".py") else word for word in tests.split())]
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-n", "0", "-p", "no:cacheprovider", *words]
    threads = {"OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(copy)}
    done = subprocess.run(command, cwd=copy, env=os.environ | threads, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        raise RuntimeError(f"{' '.join(command)}: {done.stdout}{done.stderr}")
    return done.returncode == 0


def survives(mutant: Mutant, copies: "Queue[Path]") -> bool:
    """Whether the mutant's tests pass although it is there."""
    copy = copies.get()
    place = copy / mutant.file
    whole = place.read_text(encoding="utf-8")
    try:
        place.write_text(broken(mutant, whole), encoding="utf-8")
        return passes(copy, mutant.tests)
    finally:
        place.write_text(whole, encoding="utf-8")
        copies.put(copy)


def _sound(tests: str, copies: "Queue[Path]") -> bool:
    copy = copies.get()
    try:
        return passes(copy, tests)
    finally:
        copies.put(copy)


def _copied(copy: Path) -> Path:
    copy.mkdir()
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, copy / name)
    return copy


def run(mutants: Sequence[Mutant], jobs: int) -> int:
    """Try the mutants, say what became of each: the exit status."""
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(jobs) as pool:
        copies: Queue[Path] = Queue()
        for number in range(jobs):
            copies.put(_copied(Path(folder) / str(number)))
        left = []
        for mutant, alive in zip(mutants, pool.map(lambda mutant: survives(mutant, copies), mutants), strict=True):
            print(f"{'SURVIVES' if alive else 'noticed'}  {mutant.label}", flush=True)
            left += [mutant] if alive else []
        sound = all(pool.map(lambda tests: _sound(tests, copies), sorted({mutant.tests for mutant in mutants})))
    print(f"{len(mutants) - len(left)} of {len(mutants)} mutants noticed")
    if not sound:
        print("the tests fail without any mutant: nothing above counts", file=sys.stderr)
    return int(bool(left) or not sound)


def main() -> int:
    """Run the script: its exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("words", nargs="*", help="only mutants whose file's path has one of these")
    parser.add_argument("--jobs", type=int, default=1)
    arguments = parser.parse_args()
    chosen = [m for m in MUTANTS if not arguments.words or any(word in m.file for word in arguments.words)]
    return run(chosen, arguments.jobs)


if __name__ == "__main__":
    sys.exit(main())
