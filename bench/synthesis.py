"""How near synthetic tables come, and what they take: total variation of all 3-way marginals, CPU seconds, memory.

.venv/bin/python bench/synthesis.py [--adult FOLDER] [--nist national2019.csv] [--repeat 5] [--methods aim,mst]
.venv/bin/python bench/synthesis.py --peers --adult FOLDER [--epsilon 1] [--repeat 5] [--scratch FOLDER] [--libraries …]

ADULT is the encoded table of 14 columns (48,842 rows, UCI) with its domain; NIST's excerpt has 27,253 rows and, with
ages, densities and incomes in bins, 20 columns. δ = 1e-9. The error is that of the model, then that of rows drawn from
it, over all sets of three columns with at most 10,000 cells; AUC is that of income, learned from n synthetic rows.
Every run draws fresh noise; one line is a mean with its deviation.

With ``--peers`` other libraries run beside, each installed from the registry into an environment of its own under the
scratch folder (``peer_runs.py``): the same four fifths of the rows, cells, ε and δ, add-remove neighbours. Errors are
of as many drawn rows, over all sets of two and of three columns with at most 10,000 cells; AUC is of two learners on
the last fifth; CPU seconds and peak MB are of the process that fits and draws. One line is a median; what failed to
install or to end is a line too, and the end says where a peer is better.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

import sfumato as sf
from sfumato.publish.sampling import sample_codes
from sfumato.publish.synthetic import Synthetic

MOST_CELLS = 10_000
PRICES = {"adult": ("0.1", "1", "10"), "nist": ("1",)}
GOALS = {("adult", "0.1"): 0.150, ("adult", "1"): 0.0622, ("adult", "10"): 0.036, ("nist", "1"): 0.079}


def adult(folder: Path) -> tuple[pd.DataFrame, dict[str, int]]:
    domain = json.loads((folder / "adult_encoded_domain.json").read_text())
    return pd.read_csv(folder / "adult_encoded.csv")[list(domain)], domain


def nist(path: Path) -> tuple[pd.DataFrame, dict[str, int]]:
    """Code the excerpt: ages by 5 years, densities in 9 bins, incomes by 50 points of the poverty line."""
    raw = pd.read_csv(path, dtype=str)
    found = {}
    for name in raw.columns:
        if name in ("INDP", "PINCP", "PWGTP", "WGTP"):
            continue
        texts = raw[name].fillna("N")
        if name == "AGEP":
            texts = (pd.to_numeric(texts) // 5).clip(0, 19).astype(int).astype(str)
        elif name == "DENSITY":
            ends = [-1, 150, 500, 1000, 2000, 3000, 5000, 8000, 15000, 1e9]
            texts = pd.cut(pd.to_numeric(texts), ends, labels=False).astype(str)
        elif name == "POVPIP":
            texts = texts.map(lambda each: each if each in ("N", "501") else str(int(float(each)) // 50))
        elif name in ("NOC", "NPF"):
            texts = texts.map(lambda each: each if each == "N" else str(min(int(float(each)), 8)))
        found[name] = texts.astype("category").cat.codes
    rows = pd.DataFrame(found)
    return rows, {name: int(rows[name].max()) + 1 for name in rows}


def distinct_sets(domain: dict[str, int], count: int = 3) -> list[tuple[str, ...]]:
    chosen = itertools.combinations(domain, count)
    return [each for each in chosen if math.prod(domain[name] for name in each) <= MOST_CELLS]


def errors_of(found: Synthetic, rows: pd.DataFrame, sets: list[tuple[str, ...]]) -> dict[str, float]:
    """The mean total variation from the table's marginals: of the model, of as many rows, and of 4 times as many."""
    names, sizes = list(found.columns), found.model.sizes
    places = [tuple(sorted(names.index(name) for name in each)) for each in sets]
    truth = _shares(rows[names].to_numpy(), places, sizes)
    told = {"error": [each.ravel() / each.sum() for each in found.sampling_model.marginals(places)]}
    for name, times in (("n_rows", 1), ("4n_rows", 4)):
        told[name] = _shares(
            sample_codes(found.sampling_model.conditionals(), times * len(rows), len(names)), places, sizes
        )
    return {
        name: float(np.mean([_distance(*pair) for pair in zip(truth, own, strict=True)])) for name, own in told.items()
    }


def _shares(codes: Any, places: list[tuple[int, ...]], sizes: tuple[int, ...]) -> list[Any]:
    found = []
    for each in places:
        shape = [sizes[place] for place in each]
        flat = np.ravel_multi_index([codes[:, place] for place in each], shape)
        found.append(np.bincount(flat, minlength=math.prod(shape)) / len(codes))
    return found


def _distance(one: Any, other: Any) -> float:
    return 0.5 * float(np.abs(one - other).sum())


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


def run(data: str, path: str, method: str, epsilon: str) -> dict[str, Any]:
    """One release in this process."""
    rows, domain = adult(Path(path)) if data == "adult" else nist(Path(path))
    columns = {name: {"type": "integer", "values": list(range(size))} for name, size in domain.items()}
    table = sf.Table("people", pa.Table.from_pandas(rows.astype("int64")), columns, id="row")
    policy = sf.Policy(sf.PrivacyUnit("row", every_row=True), sf.Budget(100, "1e-6"), {"people": table})
    sets = distinct_sets(domain)
    with tempfile.TemporaryDirectory() as folder, sf.Curator(policy, Path(folder) / "people.ledger") as curator:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        cpu, wall = time.process_time(), time.time()
        proposal = curator.synthesize("people", method, [list(each) for each in sets])
        found = proposal.release(epsilon=epsilon, delta="1e-9")
        cpu, wall = time.process_time() - cpu, time.time() - wall
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    told = errors_of(found, rows, sets) | {"auc": income_area(found, rows) if data == "adult" else math.nan}
    taken = {"cpu": cpu, "wall": wall, "mb": peak / 1024, "more_mb": (peak - before) / 1024}
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


# ── peers ──────────────────────────────────────────────────────────────────────────────────────

PEERS = {"mbi": ["mbi==2.0.0", "pandas"], "dpmm": ["dpmm==0.1.9"], "smartnoise": ["smartnoise-synth==1.0.8"]}
OURS = "sfumato"
MEASURES = ("error2", "error3", "auc_trees", "auc_logistic", "cpu", "mb")
HIGHER_IS_BETTER = {"auc_trees", "auc_logistic"}
PEER_SECONDS = 4 * 3600


def split(rows: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Four fifths to learn from, and the rest, the same in every run."""
    kept = rows.sample(frac=0.8, random_state=0)
    return kept, rows.drop(kept.index)


def rows_error(drawn: pd.DataFrame, real: pd.DataFrame, domain: dict[str, int], count: int) -> float:
    """The mean total variation of all sets of so many columns."""
    names = list(domain)
    places = [tuple(names.index(name) for name in each) for each in distinct_sets(domain, count)]
    sizes = tuple(domain.values())
    pairs = zip(*(_shares(each[names].to_numpy(), places, sizes) for each in (drawn, real)), strict=True)
    return float(np.mean([_distance(*pair) for pair in pairs]))


def held_out_areas(drawn: pd.DataFrame, held_out: pd.DataFrame, target: str = "income>50K") -> dict[str, float]:
    """The area under the ROC curve on held-out rows, of two learners of drawn rows; nan without scikit-learn."""
    try:
        from sklearn.ensemble import HistGradientBoostingClassifier
        from sklearn.linear_model import LogisticRegression
        from sklearn.metrics import roc_auc_score
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import OneHotEncoder
    except ImportError:
        return dict.fromkeys(("auc_trees", "auc_logistic"), math.nan)
    features = [name for name in held_out.columns if name != target]
    learners = {
        "auc_trees": HistGradientBoostingClassifier(random_state=0),
        "auc_logistic": make_pipeline(OneHotEncoder(handle_unknown="ignore"), LogisticRegression(max_iter=300)),
    }
    found = {}
    for name, learner in learners.items():
        if drawn[target].nunique() < 2:
            found[name] = 0.5
            continue
        learner.fit(drawn[features], drawn[target] == 1)
        scores = learner.predict_proba(held_out[features])[:, 1]
        found[name] = float(roc_auc_score(held_out[target] == 1, scores))
    return found


def draw_ours(method: str, train: str, domain_file: str, epsilon: str, out: str) -> dict[str, float]:
    """Fit and draw with this library in this process, as ``peer_runs.py`` does with another."""
    rows, domain = pd.read_csv(train), json.loads(Path(domain_file).read_text())
    columns = {name: {"type": "integer", "values": list(range(size))} for name, size in domain.items()}
    table = sf.Table("people", pa.Table.from_pandas(rows.astype("int64")), columns, id="row")
    policy = sf.Policy(sf.PrivacyUnit("row", every_row=True), sf.Budget(100, "1e-6"), {"people": table})
    cpu, wall = time.process_time(), time.time()
    with tempfile.TemporaryDirectory() as folder, sf.Curator(policy, Path(folder) / "people.ledger") as curator:
        proposal = curator.synthesize("people", method, [list(each) for each in distinct_sets(domain)])
        drawn = proposal.release(epsilon=epsilon, delta="1e-9").sample(len(rows))
    taken = {"cpu": time.process_time() - cpu, "wall": time.time() - wall}
    drawn.to_pandas().to_csv(out, index=False)
    return taken | {"mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}


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


def run_peer(library: str, method: str, scratch: Path, epsilon: str) -> dict[str, float]:
    """One run of a library on the split in the scratch folder; its measures."""
    files = [str(scratch / name) for name in ("train.csv", "domain.json")]
    out = str(scratch / f"{library}-{method}-{epsilon}.csv")
    if library == OURS:
        command = [sys.executable, "-W", "ignore", __file__, "--ours", method, *files, epsilon, out]
    else:
        runner = str(Path(__file__).with_name("peer_runs.py"))
        command = [installed(library, scratch), "-W", "ignore", runner, library, method, *files, epsilon, "1e-9", out]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=PEER_SECONDS)
    taken = json.loads(done.stdout.splitlines()[-1])
    real, held_out = (pd.read_csv(scratch / name) for name in ("train.csv", "held_out.csv"))
    drawn, domain = pd.read_csv(out), json.loads(Path(files[1]).read_text())
    errors = {f"error{count}": rows_error(drawn, real, domain, count) for count in (2, 3)}
    return errors | held_out_areas(drawn[list(domain)], held_out[list(domain)]) | taken


def compare_peers(folder: Path, scratch: Path, epsilons: list[str], repeat: int, libraries: list[str]) -> None:
    """Print the median of every measure of every library, what failed, and where a peer is better than we are."""
    scratch.mkdir(parents=True, exist_ok=True)
    rows, domain = adult(folder)
    for name, part in zip(("train.csv", "held_out.csv"), split(rows), strict=True):
        part.to_csv(scratch / name, index=False)
    (scratch / "domain.json").write_text(json.dumps(domain))
    for epsilon in epsilons:
        medians: dict[str, dict[str, float]] = {}
        for library, method in itertools.product([OURS, *libraries], ("aim", "mst")):
            try:
                found = [run_peer(library, method, scratch, epsilon) for _ in range(repeat)]
            except (subprocess.CalledProcessError, subprocess.TimeoutExpired, KeyError) as error:
                said = str(getattr(error, "stderr", "") or error).strip().splitlines()
                print(f"ε = {epsilon} {library} {method}: FAILED: {said[-1][:200] if said else error}", flush=True)
                continue
            median = {name: float(np.median([each[name] for each in found])) for name in MEASURES}
            medians[f"{library} {method}"] = median
            told = "  ".join(f"{name} {value:.4g}" for name, value in median.items())
            print(f"ε = {epsilon} {library:10} {method}  {told}  (median of {repeat})", flush=True)
        for line in losses(medians):
            print(f"ε = {epsilon} {line}", flush=True)


def losses(medians: dict[str, dict[str, float]]) -> list[str]:
    """Say for each measure and method by how much a peer is better than we are, or that none is."""
    said = []
    for method, name in itertools.product(("aim", "mst"), MEASURES):
        ours = medians.get(f"{OURS} {method}")
        peers = {key: each[name] for key, each in medians.items() if key.endswith(method) and not key.startswith(OURS)}
        if ours is None or not peers:
            continue
        best = (max if name in HIGHER_IS_BETTER else min)(peers, key=lambda key: peers[key])
        is_better = (peers[best] > ours[name]) == (name in HIGHER_IS_BETTER) and peers[best] != ours[name]
        said.append(
            f"{method} {name}: {'LOSS' if is_better else 'gain'}, ours {ours[name]:.4g}, {best} {peers[best]:.4g}"
        )
    return said


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--adult", help="the folder with adult_encoded.csv and its domain")
    parser.add_argument("--nist", help="national2019.csv")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--methods", default="aim,mst,mwem,independent")
    parser.add_argument("--epsilon", help="of ADULT, such as 0.1,1")
    parser.add_argument("--one", nargs=4, help=argparse.SUPPRESS)
    parser.add_argument("--ours", nargs=5, help=argparse.SUPPRESS)
    parser.add_argument("--peers", action="store_true", help="run other libraries beside, on ADULT")
    parser.add_argument("--libraries", default=",".join(PEERS), help="of --peers")
    parser.add_argument("--scratch", type=Path, default=Path(tempfile.gettempdir()) / "sfumato-peers")
    given = parser.parse_args()
    if given.ours:
        print(json.dumps(draw_ours(*given.ours)))
        return
    if given.peers:
        libraries = [name for name in given.libraries.split(",") if name]
        compare_peers(Path(given.adult), given.scratch, list(_prices("adult", given.epsilon)), given.repeat, libraries)
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
