"""The command line of ``scripts/mutation``: record which tests run what, run mutants, report what became of them."""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path

from mutation.records import KILLED, Records
from mutation.rules import all_sites
from mutation.sources import ROOT, SOURCES, noted_names

FOLDER = ROOT / ".mutation"
EQUIVALENT = Path(__file__).with_name("equivalent.txt")
TESTS = """
tests/privacy tests/mechanisms tests/plan tests/release tests/safety tests/vectors tests/publish tests/ledger
tests/curator tests/engine tests/claims tests/surveys tests/questions tests/audit tests/inference
"""
"""The default tests that kill; those of servers, browsers and clusters are left out: they need what a fork has not."""
IGNORED = ("tests/engine/postgres", "tests/engine/spark")


def equivalent_mutants() -> dict[str, str]:
    """Read the mutants that change nothing a user or an attacker could see, each with its proof."""
    return noted_names(EQUIVALENT)


def record(jobs: int, tests: Sequence[str] = (), *, quick: bool = False) -> int:
    """Run the default tests once with markers in every block; ``tests`` adds these alone to what is recorded.

    ``quick`` records the first example of each fast test: a tenth of the time. Others of its examples are run too.
    """
    FOLDER.mkdir(exist_ok=True)
    workers = [*([] if jobs == 1 else ["-n", str(jobs), "--dist", "loadfile"]), *(["--quick"] * quick)]
    if tests:
        name = f"tests.{max((path.stat().st_mtime_ns for path in FOLDER.iterdir()), default=0)}"
        return _pytest("mutation.recording", workers, {"MUTATION_RECORD": str(FOLDER / name)}, tests).wait()
    for old in FOLDER.glob("tests.*"):
        old.unlink()
    return _pytest("mutation.recording", workers, {"MUTATION_RECORD": str(FOLDER / "tests")}).wait()


def run(
    names: Sequence[str],
    jobs: int,
    cap: float,
    *,
    folder: Path = FOLDER,
    again: bool = False,
    tests: Sequence[str] = (),
) -> None:
    """Run mutants that have no result yet, in several processes; ``again`` runs those that survived once more. Those
    that are proven equivalent are not run: every test that reaches them would be.
    """
    equivalent = equivalent_mutants()
    listing = folder / "mutants.txt"
    listing.write_text("".join(f"{name}\n" for name in names if name not in equivalent), encoding="utf-8")
    options = ["--mutants", str(listing), "--records", str(folder), "--cap", str(cap), *(["--again"] * again)]
    running = [_pytest("mutation.running", [*options, "--part", f"{part}/{jobs}"], {}, tests) for part in range(jobs)]
    codes = [process.wait() for process in running]
    if any(codes):
        raise RuntimeError(f"mutants were not run to their end: {codes}")


def _pytest(
    plugin: str, options: Sequence[str], settings: dict[str, str], tests: Sequence[str] = ()
) -> subprocess.Popen[bytes]:
    ignored = [f"--ignore={path}" for path in IGNORED]
    paths = tests or [path for path in TESTS.split() if (ROOT / path).exists()]
    # what failed is never read: neither its assertion nor its traceback is put into words, which may take seconds
    terse = ["-q", "--assert=plain", "--tb=no", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", *terse, "-p", plugin, *options, *ignored, *paths]
    path = os.pathsep.join((str(ROOT / "tests"), str(SOURCES)))  # of this checkout, wherever the package is installed
    environment = os.environ | settings | {"PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1"}
    return subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL)


def drawn(count: int | None, seed: str, only: str) -> list[str]:
    """Draw mutants by a seed, or list all, in one order."""
    prefixes = tuple(only.split(","))
    names = [name for site in all_sites(prefixes) if (name := str(site.mutant)).startswith(prefixes)]
    order = random.Random(seed)
    order.shuffle(names)
    return names[:count]


def report(names: Sequence[str], *, folder: Path = FOLDER) -> float:
    """Print what became of mutants, by package and by rule; return the share that was killed."""
    equivalent, wanted = equivalent_mutants(), set(names)
    lines = [line for line in Records(folder, tests=False).results() if line["mutant"] in wanted]
    lines.sort(key=lambda line: line["outcome"] in KILLED)  # of several runs, one that killed counts
    results = {line["mutant"]: line for line in lines}
    outcomes = {name: line["outcome"] for name, line in results.items()}
    outcomes |= {name: "equivalent" for name in names if name in equivalent}
    for title, part in (("package", lambda name: name.partition(".")[0]), ("rule", lambda name: name.split(" | ")[1])):
        table: dict[str, Counter[str]] = defaultdict(Counter)
        for name, outcome in outcomes.items():
            table[part(name)][outcome] += 1
        print(f"by {title}:")
        for key, counts in sorted(table.items()):
            print(f"  {key:20} {_share(counts):6.1%}  {dict(counts)}")
    for name, outcome in sorted(outcomes.items()):
        if outcome not in KILLED | {"equivalent", "unfit"}:
            print(f"{outcome}: {name}")
    counts = Counter(outcomes.values())
    seconds = sum(line["seconds"] for line in lines) / max(1, len(lines))
    print(f"{len(outcomes)} of {len(names)} mutants run, {seconds:.2f} CPU seconds each: {dict(counts)};")
    failing = _share(Counter({**counts, "hung": 0, "undecided": counts["undecided"] + counts["hung"]}))
    print(
        f"{_share(counts):.1%} of the reached killed, {failing:.1%} by a test that fails and not by one that never ends"
    )
    return _share(counts)


def _share(counts: Counter[str]) -> float:
    """Return how many of the reached mutants were killed: one that was not decided was not."""
    killed = sum(counts[outcome] for outcome in KILLED)
    return killed / max(1, killed + counts["survived"] + counts["undecided"])


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/mutation", description=__doc__)
    parser.add_argument("--record", action="store_true", help="first record which tests run which blocks")
    parser.add_argument("--quick", action="store_true", help="record one example of each fast test")
    parser.add_argument("--tests", nargs="+", default=(), help="record, or run, these tests alone")
    parser.add_argument("--again", action="store_true", help="run those that survived once more")
    parser.add_argument("--sample", type=int, help="how many mutants to draw")
    parser.add_argument("--all", action="store_true", help="run every mutant; goes on where it stopped")
    parser.add_argument("--seed", default=str(random.SystemRandom().randrange(10**6)), help="decides which are drawn")
    parser.add_argument("--only", default="", help="how the mutants' names begin, such as privacy.budget,plan")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--cap", type=float, default=20.0, help="CPU seconds for one mutant")
    parser.add_argument("--report", action="store_true", help="run nothing, tell what is known")
    options = parser.parse_args()
    if options.record or not any(FOLDER.glob("tests.*")):
        record(options.jobs, options.tests, quick=options.quick)
    print(f"seed {options.seed}", flush=True)
    names = drawn(None if options.all else options.sample or 300, options.seed, options.only)
    if not options.report:
        run(names, options.jobs, options.cap, again=options.again, tests=options.tests)
    report(names)
    return 0


if __name__ == "__main__":
    sys.exit(main())
