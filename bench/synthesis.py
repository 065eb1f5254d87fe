"""How near synthetic tables come, and what they take: total variation of all 3-way marginals, CPU seconds, memory.

.venv/bin/python bench/synthesis.py [--adult FOLDER] [--nist national2019.csv] [--repeat 5] [--methods aim,mst]
.venv/bin/python bench/synthesis.py --wide 100 1000000 [--methods mst] [--epsilon 1]
.venv/bin/python bench/synthesis.py --peers --adult FOLDER --nist national2019.csv [--epsilon 1] [--tables wide]

ADULT is the encoded table of 14 columns (48,842 rows, UCI) with its domain; NIST's excerpt has 27,253 rows and, with
ages, densities and incomes in bins, 20 columns. δ = 1e-9. The error is that of the model, then that of rows drawn from
it, over all sets of three columns with at most 10,000 cells; AUC is that of income, learned from n synthetic rows.
Every run draws fresh noise; one line is a mean with its deviation.

With ``--wide`` a table of so many columns and rows is invented in a Parquet file: CPU seconds, peak memory, forecasts.

With ``--peers`` other libraries run beside, each installed from the registry into an environment of its own under the
scratch folder (``peer_runs.py``): on ADULT, NIST's table and an invented wide one, the same four fifths of the rows,
cells, ε and δ, add-remove neighbours. ``peer_measures.py`` says what is measured; CPU seconds and peak MB are of the
process that fits and draws. One line is a median; what failed to install or to end within ``--cap`` is a line too, and
verdicts against the best peer of any method follow: losses as plainly as gains. Runs that ended are kept in the scratch
folder (``peer_processes.py``), so that a call goes on where the last one was stopped. Seeds of peers are 0, 1, …
(``smartnoise`` draws from OpenDP, which takes none, and so do we); ``--peer-repeat`` runs peers less often than ours.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from own_run import peak_megabytes
from peer_measures import COSTS, MEASURES, OURS, distance, measures_of, shares, verdicts
from peer_processes import Caps, KeptRuns
from synthesis_inputs import LearningTable, adult, distinct_sets, nist, split, wide, write_wide

import sfumato as sf
from sfumato.publish.sampling import sample_codes
from sfumato.publish.synthetic import Synthetic
from sfumato.quick_dataclass import dataclass

PRICES = {"adult": ("0.1", "1", "10"), "nist": ("1",)}
GOALS = {("adult", "0.1"): 0.150, ("adult", "1"): 0.0622, ("adult", "10"): 0.036, ("nist", "1"): 0.079}


def errors_of(found: Synthetic, rows: pd.DataFrame, sets: list[tuple[str, ...]]) -> dict[str, float]:
    """The mean total variation from the table's marginals: of the model, of as many rows, and of 4 times as many."""
    names, sizes = list(found.columns), found.model.sizes
    places = [tuple(sorted(names.index(name) for name in each)) for each in sets]
    truth = shares(rows[names].to_numpy(), places, sizes)
    told = {"error": [each.ravel() / each.sum() for each in found.sampling_model.marginals(places)]}
    for name, times in (("n_rows", 1), ("4n_rows", 4)):
        told[name] = shares(
            sample_codes(found.sampling_model.conditionals(), times * len(rows), len(names)), places, sizes
        )
    return {
        name: float(np.mean([distance(*pair) for pair in zip(truth, own, strict=True)])) for name, own in told.items()
    }


def income_area(found: Synthetic, rows: pd.DataFrame, target: str = "income>50K") -> float:
    """The area under the ROC curve on the table, of boosted trees that learned from as many synthetic rows; nan without
    scikit-learn.
    """
    try:
        from sklearn.ensemble import HistGradientBoostingClassifier
        from sklearn.metrics import roc_auc_score
    except ImportError:
        return math.nan
    place = list(found.columns).index(target)
    codes = sample_codes(found.sampling_model.conditionals(), len(rows), len(found.columns))
    real = rows[list(found.columns)].to_numpy()
    model = HistGradientBoostingClassifier(random_state=0)
    model.fit(np.delete(codes, place, axis=1), codes[:, place] == 1)
    return float(roc_auc_score(real[:, place] == 1, model.predict_proba(np.delete(real, place, axis=1))[:, 1]))


@contextmanager
def opened(rows: pd.DataFrame, domain: dict[str, int]) -> Iterator[sf.Curator]:
    """A curator of coded rows, each of them a person, with a ledger that is removed."""
    columns = {name: {"type": "integer", "values": list(range(size))} for name, size in domain.items()}
    table = sf.Table("people", pa.Table.from_pandas(rows.astype("int64")), columns, id="row")
    policy = sf.Policy(sf.PrivacyUnit("row", every_row=True), sf.Budget(100, "1e-6"), {"people": table})
    with tempfile.TemporaryDirectory() as folder, sf.Curator(policy, Path(folder) / "people.ledger") as curator:
        yield curator


def run(data: str, path: str, method: str, epsilon: str) -> dict[str, Any]:
    """One release in this process."""
    rows, domain = adult(Path(path)) if data == "adult" else nist(Path(path))
    sets = distinct_sets(domain)
    with opened(rows, domain) as curator:
        before = peak_megabytes()
        cpu, wall = time.process_time(), time.time()
        proposal = curator.synthesize("people", method, [list(each) for each in sets])
        found = proposal.release(epsilon=epsilon, delta="1e-9")
        cpu, wall = time.process_time() - cpu, time.time() - wall
    peak = peak_megabytes()
    told = errors_of(found, rows, sets) | {"auc": income_area(found, rows) if data == "adult" else math.nan}
    taken = {"cpu": cpu, "wall": wall, "mb": peak, "more_mb": peak - before}
    return told | taken | {"rounds": len(found.rounds)}


def forecast_seconds(columns: int = 59, ways: int = 3) -> dict[str, float]:
    """CPU seconds of the first forecast of a process for a wide table, of which the machine's speed is a part, and of
    the next one.
    """
    sizes = [2, 3, 4, 5, 8, 10, 16, 30]
    domain = {f"c{place}": {"type": "integer", "values": list(range(sizes[place % 8]))} for place in range(columns)}
    table = sf.Table("people", pa.table({name: pa.array([0]) for name in domain}), domain, id="row")
    policy = sf.Policy(sf.PrivacyUnit("row", every_row=True), sf.Budget(100, "1e-6"), {"people": table})
    found = {}
    with tempfile.TemporaryDirectory() as folder, sf.Curator(policy, Path(folder) / "people.ledger") as curator:
        for name in ("first", "next"):
            proposal, start = curator.synthesize("people", "aim", ways), time.process_time()
            proposal.forecast(epsilon=1, delta="1e-9", rows=20_000)
            found[name] = time.process_time() - start
    return found


def run_wide(path: str, domain_file: str, method: str, epsilon: str) -> dict[str, Any]:
    """One release of a wide table in a file, in this process, with what was forecast for it."""
    domain = json.loads(Path(domain_file).read_text())
    columns = {name: {"type": "integer", "values": list(range(size))} for name, size in domain.items()}
    rows = pq.ParquetFile(path).metadata.num_rows
    table = sf.Table("people", path, columns, id="row")
    policy = sf.Policy(sf.PrivacyUnit("row", every_row=True), sf.Budget(100, "1e-6"), {"people": table}, size=rows)
    with tempfile.TemporaryDirectory() as folder, sf.Curator(policy, Path(folder) / "people.ledger") as curator:
        start = time.process_time()
        proposal = curator.synthesize("people", method, 2 if method == "mst" else 3)
        proposing, start = time.process_time() - start, time.process_time()
        forecast = proposal.forecast(epsilon=epsilon, delta="1e-9")
        forecasting = time.process_time() - start
        before, start = peak_megabytes(), time.process_time()
        model = proposal.release(epsilon=epsilon, delta="1e-9")
        cpu, peak = time.process_time() - start, peak_megabytes()
    return {
        "proposing": proposing,
        "forecasting": forecasting,
        "cpu": cpu,
        "forecast_cpu": forecast.seconds,
        "mb": peak,
        "more_mb": peak - before,
        "forecast_mb": forecast.memory / 2**20,
        "rounds": len(model.rounds),
    }


def measure_wide(columns: int, rows: int, methods: list[str], epsilon: str) -> None:
    """Invent a wide table once, and print what each method takes for it."""
    with tempfile.TemporaryDirectory() as folder:
        path, domain_file = Path(folder) / "wide.parquet", Path(folder) / "domain.json"
        domain_file.write_text(json.dumps(write_wide(path, columns, rows)))
        for method in methods:
            command = [sys.executable, "-W", "ignore", __file__, "--one-wide", path, domain_file, method, epsilon]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            taken = json.loads(done.stdout)
            print(
                f"{columns} columns × {rows:,} rows, ε = {epsilon}, {method}: {taken['cpu']:.1f} CPU-s (forecast "
                f"{taken['forecast_cpu']:.1f}), {taken['mb']:.0f} MB at most, {taken['more_mb']:.0f} of it for the "
                f"release (forecast {taken['forecast_mb']:.0f}), {taken['rounds']} measured; proposing "
                f"{taken['proposing']:.2f} and forecasting {taken['forecasting']:.2f} CPU-s",
                flush=True,
            )


# ── peers ──────────────────────────────────────────────────────────────────────────────────────

PEERS = {"mbi": ["mbi==2.0.0", "pandas"], "dpmm": ["dpmm==0.1.9"], "smartnoise": ["smartnoise-synth==1.0.8"]}
OWN_CODE = {"mbi": "AIM and MST are our code on mbi's models: mbi has no mechanism of its own"}
"""What a reader must know of a line that carries a library's name."""
PEER_TABLES = ("adult", "nist", "wide")
PEER_METHODS = {
    OURS: ("aim", "mst"),
    "mbi": ("aim", "mst"),
    "dpmm": ("aim", "aim-100", "aim-400", "mst", "mst-500", "privbayes"),
    "smartnoise": ("aim", "mst"),
}
WIDE_COLUMNS, WIDE_ROWS = 50, 20_000


def learning_table(name: str, path: Path | None) -> LearningTable:
    """Return a table of ``--peers`` with what is learned from it."""
    if name == "adult":
        assert path is not None
        explaining = ("age", "education-num", "hours-per-week", "sex")
        return LearningTable(*adult(path), "income>50K", 1, explaining)
    if name == "nist":
        assert path is not None
        return LearningTable(*nist(path), "OWN_RENT", 1, ("AGEP", "EDU", "SEX"))
    rows, domain = wide(WIDE_COLUMNS, WIDE_ROWS)
    return LearningTable(rows, domain, "c48", 1, ("c44", "c45", "c46", "c47"))


def installed(library: str, scratch: Path) -> str:
    """The interpreter of an environment with this library; it is installed once. Raises what pip said."""
    folder = scratch / library
    python = folder / "bin" / "python"
    if not (folder / "installed").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True, capture_output=True)
        subprocess.run(
            [python, "-m", "pip", "install", "-q", *PEERS[library]], check=True, capture_output=True, text=True
        )
        (folder / "installed").touch()
    return str(python)


@dataclass(frozen=True)
class PeerRuns:
    """What ``--peers`` is asked for."""

    scratch: Path
    epsilons: list[str]
    libraries: list[str]
    methods: list[str]
    repeat: int
    """Runs of ours."""
    peer_repeat: int
    caps: Caps

    def compare(self, name: str, table: LearningTable) -> None:
        """Print the median of every measure of every library, what failed, and the verdicts."""
        folder = self.scratch / "rows" / name
        folder.mkdir(parents=True, exist_ok=True)
        for file, part in zip(("train.csv", "held_out.csv"), split(table.rows), strict=True):
            part.to_csv(folder / file, index=False)
        (folder / "domain.json").write_text(json.dumps(table.domain))
        for epsilon in self.epsilons:
            medians = {}
            for library, method in itertools.product([OURS, *self.libraries], self.methods):
                if method not in PEER_METHODS[library]:
                    continue
                median = self._median((name, library, method, epsilon), table)
                if median is not None:
                    medians[f"{library} {method}"] = median
            for line in verdicts(medians):
                print(f"  ε = {epsilon} {line}", flush=True)

    def run(self, run: tuple[str, str, str, str], seed: int, table: LearningTable) -> dict[str, float]:
        """One run of a library on the split in the scratch folder; its measures. Our noise has no seed."""
        name, library, method, epsilon = run
        folder = self.scratch / "rows" / name
        files = [str(folder / file) for file in ("train.csv", "domain.json")]
        out = str(folder / f"{library}-{method}-{epsilon}.csv")
        if library == OURS:
            runner = str(Path(__file__).with_name("own_run.py"))
            command = [sys.executable, "-W", "ignore", runner, method, *files, epsilon, "1e-9", out]
        else:
            python, runner = installed(library, self.scratch), str(Path(__file__).with_name("peer_runs.py"))
            command = [python, "-W", "ignore", runner, library, method, *files, epsilon, "1e-9", str(seed), out]
        taken = json.loads(self.caps.run(command).splitlines()[-1])
        drawn, many_drawn, real, held_out = (
            pd.read_csv(path) for path in (out, f"{out}.10", folder / "train.csv", folder / "held_out.csv")
        )
        return measures_of(drawn, many_drawn, real, held_out, table) | taken

    def _median(self, run: tuple[str, str, str, str], table: LearningTable) -> dict[str, float] | None:
        """Print and return the medians of all runs; None if one failed."""
        _, library, method, epsilon = run
        kept = KeptRuns(self.scratch / "runs.jsonl")
        found = []
        repeat = self.repeat if library == OURS else self.peer_repeat
        for number in range(repeat):
            measures = kept.run_or_read(" ".join((*run, str(number))), partial(self.run, run, number, table))
            if isinstance(measures, str):
                print(f"  ε = {epsilon} {library} {method}: FAILED: {measures}", flush=True)
                return None
            found.append(measures)
        median = {measure: float(np.median([run[measure] for run in found])) for measure in (*MEASURES, *COSTS)}
        told = "  ".join(f"{measure} {value:.4g}" for measure, value in median.items())
        print(f"  ε = {epsilon} {library:10} {method}  {told}  (median of {repeat})", flush=True)
        return median


def run_peers(given: argparse.Namespace) -> None:
    libraries = [name for name in given.libraries.split(",") if name]
    for name in libraries:
        print(f"{name}: {', '.join(PEERS[name])}; {OWN_CODE.get(name, 'its own AIM and MST')}", flush=True)
    methods, epsilons = given.methods.split(","), (given.epsilon or "0.1,1,10").split(",")
    repeats = given.repeat, given.peer_repeat or given.repeat
    runs = PeerRuns(given.scratch, epsilons, libraries, methods, *repeats, Caps(*given.cap))
    for name in given.tables.split(","):
        path = getattr(given, name, None)
        if name != "wide" and path is None:
            print(f"{name}: left out, no --{name}", flush=True)
            continue
        table = learning_table(name, path and Path(path))
        print(f"{name}: {len(table.rows):,} rows × {len(table.domain)} columns", flush=True)
        runs.compare(name, table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--adult", help="the folder with adult_encoded.csv and its domain")
    parser.add_argument("--nist", help="national2019.csv")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--peer-repeat", type=int, help="runs of each peer, if other than --repeat")
    parser.add_argument("--methods", default="aim,mst,mwem,independent")
    parser.add_argument("--epsilon", help="such as 0.1,1")
    parser.add_argument("--one", nargs=4, help=argparse.SUPPRESS)
    parser.add_argument(
        "--wide", nargs=2, type=int, metavar=("COLUMNS", "ROWS"), help="an invented table, such as 100 1000000"
    )
    parser.add_argument("--one-wide", nargs=4, help=argparse.SUPPRESS)
    parser.add_argument("--peers", action="store_true", help="run other libraries beside")
    parser.add_argument("--libraries", default=",".join(PEERS), help="of --peers")
    parser.add_argument("--tables", default=",".join(PEER_TABLES), help="of --peers")
    parser.add_argument(
        "--cap",
        nargs=2,
        type=float,
        default=(3600, 8000),
        metavar=("SECONDS", "MB"),
        help="of CPU and memory, of each run of --peers",
    )
    parser.add_argument("--scratch", type=Path, default=Path(tempfile.gettempdir()) / "sfumato-peers")
    given = parser.parse_args()
    if given.peers:
        run_peers(given)
        return
    if given.one_wide:
        print(json.dumps(run_wide(*given.one_wide)))
        return
    if given.wide:
        columns, rows = given.wide
        measure_wide(columns, rows, given.methods.split(","), given.epsilon or "1")
        return
    if given.one:
        print(json.dumps(run(*given.one)))
        return
    for name, seconds in forecast_seconds().items():
        print(f"{name} forecast of 59 columns, 3 at a time: {seconds:.2f} CPU-s (goal 0.3)", flush=True)
    for data in ("adult", "nist"):
        path = getattr(given, data)
        for epsilon, method in itertools.product(
            _prices(data, given.epsilon) if path else (), given.methods.split(",")
        ):
            found = [_apart(data, path, method, epsilon) for _ in range(given.repeat)]
            mean = {name: float(np.mean([each[name] for each in found])) for name in found[0]}
            spread = float(np.std([each["error"] for each in found]))
            goal = GOALS.get((data, epsilon)) if method == "aim" else None
            print(
                f"{data:6} ε = {epsilon:4} {method:12} error {mean['error']:.4f} ±{spread:.4f}"
                f"{f' (goal {goal})' if goal else ''}  rows {mean['n_rows']:.4f}, 4n {mean['4n_rows']:.4f}  "
                f"AUC {mean['auc']:.3f}  {mean['cpu']:.1f} CPU-s  {mean['rounds']:.0f} measured  "
                f"{mean['mb']:.0f} MB, {mean['more_mb']:.0f} of it for the release",
                flush=True,
            )


def _prices(data: str, epsilon: str | None) -> tuple[str, ...]:
    return tuple(epsilon.split(",")) if epsilon else PRICES[data]


def _apart(*one: str) -> dict[str, Any]:
    """Each run has a process of its own, so that its memory is its own."""
    own = [sys.executable, "-W", "ignore", __file__, "--one", *one]
    found: dict[str, Any] = json.loads(subprocess.run(own, check=True, capture_output=True, text=True).stdout)
    return found


if __name__ == "__main__":
    main()
