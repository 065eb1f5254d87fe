"""What is measured of synthetic rows of any library, and the verdict on it. Nothing here knows a library.

Errors are of drawn rows against those they were learned from: the mean total variation of all sets of two, or three,
columns with at most 10,000 cells. That of *the model* is of ten times as many drawn rows, which every library can draw:
what is left of sampling is a third. Two learners are fitted to drawn rows and judged on held-out ones. An *implausible*
row has two cells that no real row has together, although 20 would, were the columns independent. The regression's error
is the mean difference of its standardised coefficients from those of the real rows: no library here claims that they
are right, since inference is another kind of release (``regress``).
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pandas as pd
from synthesis_inputs import LearningTable, distinct_sets

OURS = "sfumato"
MEASURES = (
    "error2",
    "error3",
    "model2",
    "model3",
    "auc_trees",
    "auc_logistic",
    "loss_trees",
    "loss_logistic",
    "ols",
    "implausible",
)
COSTS = {"cpu": 40, "mb": 10}
"""What a run takes, and by how much less than the peer with the best error ours shall take."""
ERRORS = MEASURES[:4]
"""Whose goal is at most the best peer's."""
HIGHER_IS_BETTER = {"auc_trees", "auc_logistic"}
RANKED_BY = "error3"
_LEAST_EXPECTED = 20


def shares(codes: Any, places: list[tuple[int, ...]], sizes: tuple[int, ...]) -> list[Any]:
    """Return the share of rows in every cell, for each set of places."""
    found = []
    for each in places:
        shape = [sizes[place] for place in each]
        flat = np.ravel_multi_index([codes[:, place] for place in each], shape)
        found.append(np.bincount(flat, minlength=math.prod(shape)) / len(codes))
    return found


def distance(one: Any, other: Any) -> float:
    """Return the total variation of two distributions."""
    return 0.5 * float(np.abs(one - other).sum())


def rows_error(drawn: pd.DataFrame, real: pd.DataFrame, domain: dict[str, int], count: int) -> float:
    """Return the mean total variation of all sets of so many columns."""
    names, sizes = list(domain), tuple(domain.values())
    places = [tuple(names.index(name) for name in each) for each in distinct_sets(domain, count)]
    pairs = zip(*(shares(each[names].to_numpy(), places, sizes) for each in (drawn, real)), strict=True)
    return float(np.mean([distance(*pair) for pair in pairs]))


def held_out_learning(drawn: pd.DataFrame, held_out: pd.DataFrame, target: str, positive: int) -> dict[str, float]:
    """Return the area under the ROC curve and the log-loss on held-out rows, of two learners of drawn rows."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import log_loss, roc_auc_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder
    from threadpoolctl import threadpool_limits

    features = [name for name in held_out.columns if name != target]
    learners = {
        "trees": HistGradientBoostingClassifier(random_state=0),
        "logistic": make_pipeline(OneHotEncoder(handle_unknown="ignore"), LogisticRegression(max_iter=300)),
    }
    labels, truth = drawn[target] == positive, held_out[target] == positive
    found = {}
    for name, learner in learners.items():
        if labels.nunique() < 2:
            chances = np.full(len(held_out), float(labels.mean()))
        else:
            with threadpool_limits(1):  # on a busy machine, threads that wait for each other take thrice the CPU time
                chances = learner.fit(drawn[features], labels).predict_proba(held_out[features])[:, 1]
        least = 1 / len(drawn)  # a learner of so many rows is never surer than that
        found[f"auc_{name}"] = float(roc_auc_score(truth, chances))
        found[f"loss_{name}"] = float(log_loss(truth, np.clip(chances, least, 1 - least), labels=[False, True]))
    return found


def regression_error(drawn: pd.DataFrame, real: pd.DataFrame, table: LearningTable) -> float:
    """Return the mean difference of the coefficients of a linear regression, in deviations of the real columns."""

    def coefficients(rows: pd.DataFrame) -> Any:
        columns = (rows[[*table.explaining]] - real[[*table.explaining]].mean()) / real[[*table.explaining]].std()
        design = np.column_stack([np.ones(len(rows)), columns.to_numpy(float)])
        return np.linalg.lstsq(design, (rows[table.target] == table.positive).to_numpy(float), rcond=None)[0][1:]

    return float(np.abs(coefficients(drawn) - coefficients(real)).mean())


def implausible_share(drawn: pd.DataFrame, real: pd.DataFrame, domain: dict[str, int]) -> float:
    """Return the share of drawn rows with two cells that no real row has together although 20 would, by chance."""
    is_implausible = np.zeros(len(drawn), bool)
    for first, second in itertools.combinations(domain, 2):
        counts = np.zeros((domain[first], domain[second]))
        np.add.at(counts, (real[first].to_numpy(), real[second].to_numpy()), 1)
        expected = np.outer(counts.sum(axis=1), counts.sum(axis=0)) / len(real)
        never = (counts == 0) & (expected >= _LEAST_EXPECTED)
        is_implausible |= never[drawn[first].to_numpy(), drawn[second].to_numpy()]
    return float(is_implausible.mean())


def measures_of(
    drawn: pd.DataFrame, many_drawn: pd.DataFrame, real: pd.DataFrame, held_out: pd.DataFrame, table: LearningTable
) -> dict[str, float]:
    """Return all measures of rows that were learned from the real ones; ``many_drawn`` are ten times as many."""
    names = list(table.domain)
    return {
        **{f"error{count}": rows_error(drawn, real, table.domain, count) for count in (2, 3)},
        **{f"model{count}": rows_error(many_drawn, real, table.domain, count) for count in (2, 3)},
        **held_out_learning(drawn[names], held_out[names], table.target, table.positive),
        "ols": regression_error(drawn, real, table),
        "implausible": implausible_share(drawn, pd.concat([real, held_out]), table.domain),
    }


def verdicts(medians: dict[str, dict[str, float]]) -> list[str]:
    """Say for every measure whether the best peer, of any method, is better than our best method; and for CPU and
    memory whether ours takes as much less than the peer with the best error as it shall. Keys are ``library method``.
    """
    ours = {key: values for key, values in medians.items() if key.split()[0] == OURS}
    peers = {key: values for key, values in medians.items() if key not in ours}
    if not ours or not peers:
        return [f"no verdict: {'no peer' if ours else 'not this library'} came to its end"]
    best = min(ours, key=lambda key: ours[key][RANKED_BY])
    said = [_verdict(name, best, ours[best], peers) for name in MEASURES]
    accurate = min(peers, key=lambda key: peers[key][RANKED_BY])
    for name, factor in COSTS.items():
        times = peers[accurate][name] / ours[best][name]
        met = "MET" if times >= factor else "MISSED"
        values = f"{best} {ours[best][name]:.4g}, {accurate} {peers[accurate][name]:.4g}"
        said.append(f"{name}: goal 1/{factor} {met}, 1/{times:.3g}; {values}")
    return said


def _verdict(name: str, best: str, ours: dict[str, float], peers: dict[str, dict[str, float]]) -> str:
    is_higher_better = name in HIGHER_IS_BETTER
    peer = (max if is_higher_better else min)(peers, key=lambda key: peers[key][name])
    value, other = ours[name], peers[peer][name]
    word = "TIE" if value == other else "GAIN" if (value > other) == is_higher_better else "LOSS"
    said = f"{name}: {word}, {best} {value:.4g}, best peer {peer} {other:.4g}"
    if name not in ERRORS:
        return said
    return f"{said}; goal 1.00 × {'MET' if value <= other else 'MISSED'}, {value / other if other else math.inf:.3f} ×"
