"""One synthesis by another library, in that library's own environment: ``bench/synthesis.py --peers`` starts it.

python peer_runs.py LIBRARY METHOD ROWS.csv DOMAIN.json EPSILON DELTA SEED OUT.csv

Rows are whole numbers below the sizes of the domain. It writes as many synthetic rows as there are real ones, and ten
times as many to OUT.csv.10, and prints CPU seconds and peak memory, up to the first of these, as JSON. ``dpmm`` and
``smartnoise`` run their own AIM and MST. ``mbi`` 2 has the graphical models and no mechanism, so AIM and MST are ours
on top of it, by their papers (McKenna, Mullins, Sheldon & Miklau 2022; McKenna, Miklau & Sheldon 2021), with the
papers' settings. ``dpmm`` has PrivBayes too; its ``aim-100`` has 100 iterations in a fit in place of 1000, and pairs in
place of triples, which end sooner. Noise here is numpy's, from the seed: for a comparison, never for people. What a
library reads of the rows for free is its own affair: ``smartnoise`` takes the cells of a column from the rows, and its
MST the exact number of rows.
"""

from __future__ import annotations

import itertools
import json
import math
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

MOST_CELLS = 10_000
MODEL_MB = 80
WAYS = 3


def rho_of(epsilon: float, delta: float) -> float:
    """The largest ρ whose (ε, δ) is within these (Canonne, Kamath & Steinke 2020, prop. 12), by bisection."""

    def delta_of(rho: float) -> float:
        orders = 1 + np.geomspace(1e-4, 1e5, 4000)
        logs = (orders - 1) * (orders * rho - epsilon) + orders * np.log1p(-1 / orders) - np.log(orders - 1)
        return float(np.exp(min(0.0, logs.min())))

    low, high = 0.0, epsilon + 1.0
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if delta_of(middle) <= delta else (low, middle)
    return low


Draw = Callable[[int], pd.DataFrame]


def run_dpmm(method: str, rows: pd.DataFrame, domain: dict[str, int], epsilon: float, delta: float) -> Draw:
    name, _, iterations = method.partition("-")
    settings: dict[str, Any] = {
        "epsilon": epsilon,
        "delta": delta,
        "domain": domain,
        "n_jobs": 1,
        "random_state": np.random.RandomState(np.random.randint(2**31)),
    }
    if iterations:
        settings["n_iters"] = int(iterations)
    if name == "aim":
        from dpmm.models.aim import AIMGM

        ways = 2 if iterations else WAYS
        model = AIMGM(degree=ways, max_cells=MOST_CELLS, max_model_size=MODEL_MB, compress=False, **settings)
    elif name == "privbayes":
        from dpmm.models.priv_bayes import PrivBayesGM

        model = PrivBayesGM(**settings)
    else:
        from dpmm.models.mst import MSTGM

        model = MSTGM(**settings)
    model.fit(rows)
    return lambda count: model.generate(n_records=count)


def run_smartnoise(method: str, rows: pd.DataFrame, domain: dict[str, int], epsilon: float, delta: float) -> Draw:
    if method == "aim":
        from snsynth.aim import AIMSynthesizer

        model = AIMSynthesizer(epsilon, delta, max_model_size=MODEL_MB, degree=WAYS, max_cells=MOST_CELLS)
    else:
        from snsynth.mst import MSTSynthesizer

        model = MSTSynthesizer(epsilon, delta)
    model.fit(rows[list(domain)], categorical_columns=list(domain), preprocessor_eps=0.0)
    return model.sample


class OnMbi:
    """Measurements of a table and a model of them, by mbi."""

    def __init__(self, rows: pd.DataFrame, domain: dict[str, int], rho: float) -> None:
        import jax

        jax.config.update("jax_enable_x64", True)
        import mbi

        self.mbi, self.rho, self.spent = mbi, rho, 0.0
        self.domain = mbi.Domain.fromdict(domain)
        self.data = mbi.Dataset({name: rows[name].to_numpy() for name in domain}, self.domain)
        self.draw = np.random.default_rng(np.random.randint(2**31))
        self.measured: list[Any] = []
        self.model: Any = None

    def counts(self, columns: tuple[str, ...]) -> Any:
        return np.asarray(self.data.project(columns).datavector())

    def measure(self, columns: tuple[str, ...], sigma: float) -> None:
        true = self.counts(columns)
        noisy = true + self.draw.normal(0, sigma, true.size)
        self.measured.append(self.mbi.LinearMeasurement(noisy, columns, sigma))
        self.spent += 1 / (2 * sigma**2)

    def fit(self, rounds: int) -> None:
        estimator = self.mbi.estimation.MirrorDescent()
        self.model = estimator.estimate(self.domain, list(self.measured), iters=rounds, warm_start=self.model)

    def modelled(self, columns: tuple[str, ...]) -> Any:
        return np.asarray(self.model.project(columns).datavector())

    def choose(self, scores: dict[Any, float], epsilon: float, sensitivity: float) -> Any:
        self.spent += epsilon**2 / 8
        logs = np.array([*scores.values()]) * epsilon / (2 * sensitivity)
        return [*scores][self.draw.choice(len(logs), p=np.exp(logs - logs.max()) / np.exp(logs - logs.max()).sum())]

    def fits(self, columns: tuple[str, ...], most: float) -> bool:
        sets = [measurement.clique for measurement in self.measured]
        if any(set(columns) <= set(other) for other in sets):
            return True
        return bool(self.mbi.junction_tree.hypothetical_model_size(self.domain, [*sets, columns]) <= most)

    def rows(self, count: int) -> pd.DataFrame:
        return pd.DataFrame(self.model.synthetic_data(count).to_dict())


def aim_on_mbi(on: OnMbi) -> None:
    names = on.domain.attributes
    sets = [each for each in itertools.combinations(names, WAYS) if on.domain.size(each) <= MOST_CELLS]
    closure = {part for each in sets for size in (1, 2, 3) for part in itertools.combinations(each, size)}
    weights = {part: sum(len({*part} & {*each}) for each in sets) for part in sorted(closure)}
    sigma, epsilon = math.sqrt(16 * len(names) / (1.8 * on.rho)), math.sqrt(0.8 * on.rho / (16 * len(names)))
    for name in names:
        on.measure((name,), sigma)
    on.fit(1000)
    answers = {part: on.counts(part) for part in weights}
    is_last = False
    while not is_last:
        left = on.rho - on.spent
        is_last = left < 2 * (1 / (2 * sigma**2) + epsilon**2 / 8)
        if is_last:
            sigma, epsilon = math.sqrt(1 / (1.8 * left)), math.sqrt(0.8 * left)
        most = MODEL_MB * (on.spent + 1 / (2 * sigma**2) + epsilon**2 / 8) / on.rho
        scores = {
            part: weight
            * (np.abs(answers[part] - on.modelled(part)).sum() - math.sqrt(2 / math.pi) * sigma * answers[part].size)
            for part, weight in weights.items()
            if on.fits(part, most)
        }
        chosen = on.choose(scores, epsilon, max(weights[part] for part in scores))
        before = on.modelled(chosen)
        on.measure(chosen, sigma)
        on.fit(1000)
        if np.abs(on.modelled(chosen) - before).sum() <= sigma * math.sqrt(2 / math.pi) * before.size:
            sigma, epsilon = sigma / 2, 2 * epsilon


def mst_on_mbi(on: OnMbi) -> None:
    names = on.domain.attributes
    for name in names:
        on.measure((name,), math.sqrt(3 * len(names) / (2 * on.rho)))
    on.fit(1000)
    gaps = {pair: np.abs(on.counts(pair) - on.modelled(pair)).sum() for pair in itertools.combinations(names, 2)}
    part = {name: name for name in names}
    edges = []
    while len({*part.values()}) > 1:
        joining = {pair: gap for pair, gap in gaps.items() if part[pair[0]] != part[pair[1]]}
        first, second = on.choose(joining, math.sqrt(8 * on.rho / 3 / (len(names) - 1)), 1.0)
        edges.append((first, second))
        part = {name: part[second] if own == part[first] else own for name, own in part.items()}
    for edge in edges:
        on.measure(edge, math.sqrt(3 * len(edges) / (2 * on.rho)))
    on.fit(5000)


def run_mbi(method: str, rows: pd.DataFrame, domain: dict[str, int], epsilon: float, delta: float) -> Draw:
    on = OnMbi(rows, domain, rho_of(epsilon, delta))
    (aim_on_mbi if method == "aim" else mst_on_mbi)(on)
    assert on.spent <= on.rho * (1 + 1e-9)
    return on.rows


RUNS = {"mbi": run_mbi, "dpmm": run_dpmm, "smartnoise": run_smartnoise}


def peak_megabytes() -> float:
    """Return the most resident memory of this program: ``ru_maxrss`` has that of the process that started it, too."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def main() -> None:
    library, method, rows_file, domain_file, epsilon, delta, seed, out = sys.argv[1:]
    np.random.seed(int(seed))  # the generator that all of them draw from
    rows, domain = pd.read_csv(rows_file), json.loads(Path(domain_file).read_text())
    cpu, wall = time.process_time(), time.time()
    draw = RUNS[library](method, rows, domain, float(epsilon), float(delta))
    drawn = draw(len(rows))
    taken = {"cpu": time.process_time() - cpu, "wall": time.time() - wall}
    peak = peak_megabytes()
    drawn[list(domain)].astype(int).to_csv(out, index=False)
    draw(10 * len(rows))[list(domain)].astype(int).to_csv(f"{out}.10", index=False)
    print(json.dumps(taken | {"mb": peak}))


if __name__ == "__main__":
    main()
