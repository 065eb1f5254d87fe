"""The measures of ``bench/synthesis.py --peers`` on tables small enough to count by hand; no peer is installed."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pytest

BENCH = Path(__file__).parents[1] / "bench"
DOMAIN = {"a": 2, "b": 2, "c": 3}


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCH))

    def module(name: str) -> ModuleType:
        return importlib.import_module(name)

    return module


def rows_of(*cells: tuple[int, int, int], times: int = 1) -> pd.DataFrame:
    return pd.DataFrame(list(cells) * times, columns=list(DOMAIN))


def test_errors_are_total_variations(bench: Any) -> None:
    measures = bench("peer_measures")
    real, drawn = rows_of((0, 0, 0), (1, 1, 1)), rows_of((0, 0, 0), (1, 1, 2))
    assert measures.rows_error(real, real, DOMAIN, 3) == 0
    assert measures.rows_error(drawn, real, DOMAIN, 3) == 0.5
    # of the pairs, that of a and b is right, and half of the rows of the two with c are elsewhere
    assert measures.rows_error(drawn, real, DOMAIN, 2) == pytest.approx((0 + 0.5 + 0.5) / 3)


def test_implausible_rows_are_those_that_chance_would_have_shown(bench: Any) -> None:
    measures = bench("peer_measures")
    real = rows_of((0, 0, 0), (1, 1, 1), times=40)  # 20 rows with a = 0 and b = 1, were the columns independent
    drawn = rows_of((0, 1, 0), (0, 0, 0), (1, 1, 2), (1, 1, 1))
    assert measures.implausible_share(drawn, real, DOMAIN) == 0.25
    assert measures.implausible_share(drawn, rows_of((0, 0, 0), (1, 1, 1), times=39), DOMAIN) == 0


def test_learners_and_the_regression_are_judged_on_real_rows(bench: Any) -> None:
    inputs, measures = bench("synthesis_inputs"), bench("peer_measures")
    draw = np.random.default_rng(1)
    a, b = draw.integers(0, 2, (2, 400))
    real = pd.DataFrame({"a": a, "b": b, "c": a + b})
    table = inputs.LearningTable(real, DOMAIN, "a", 1, ("b", "c"))
    right = measures.held_out_learning(real, real, "a", 1)
    assert right["auc_trees"] > 0.99 < right["auc_logistic"]
    assert right["loss_trees"] < 0.1
    constant = real.assign(a=0)
    wrong = measures.held_out_learning(constant, real, "a", 1)
    assert wrong["auc_trees"] == 0.5 == wrong["auc_logistic"]
    assert wrong["loss_trees"] > np.log(2)
    assert measures.regression_error(real, real, table) == 0
    # a = c − b: the coefficients of the standardised columns are their deviations, and a constant has none
    deviations = real[["b", "c"]].std()
    assert measures.regression_error(constant, real, table) == pytest.approx(deviations.mean())
    every = measures.measures_of(real, real, real, real, table)
    assert set(every) == set(measures.MEASURES)


def medians(bench: Any, **changed: float) -> dict[str, float]:
    measures = bench("peer_measures")
    return dict.fromkeys(measures.MEASURES, 1.0) | {"cpu": 1.0, "mb": 1.0} | changed


def test_verdicts_print_losses_as_plainly_as_gains(bench: Any) -> None:
    judged = bench("peer_measures").verdicts(
        {
            "sfumato aim": medians(bench, error3=0.5, auc_trees=0.8, error2=2.0, cpu=1.0, mb=2.0),
            "sfumato mst": medians(bench, error3=0.9, error2=0.0),
            "mbi aim": medians(bench, error3=0.6, auc_trees=0.7, cpu=40.0, mb=19.0),
            "dpmm mst": medians(bench, error3=0.7, auc_trees=0.9, cpu=0.1, mb=0.1),
        }
    )
    said = {line.split(":")[0]: line for line in judged}
    assert said["error3"].startswith("error3: GAIN, sfumato aim 0.5, best peer mbi aim 0.6;")  # of any method
    assert said["error3"].endswith("goal 1.00 × MET, 0.833 ×")
    assert "goal 1.00 × MISSED" in said["error2"]
    assert "LOSS" in said["error2"]  # by the method that has the least 3-way error, not by the best of both
    assert said["auc_trees"] == "auc_trees: LOSS, sfumato aim 0.8, best peer dpmm mst 0.9"
    assert "TIE" in said["ols"]
    assert said["cpu"].startswith("cpu: goal 1/40 MET, 1/40;")  # of the most accurate peer
    assert said["mb"].startswith("mb: goal 1/10 MISSED, 1/9.5;")
    assert "no peer" in bench("peer_measures").verdicts({"sfumato aim": medians(bench)})[0]


def test_every_peer_has_a_run_and_a_failure_is_a_line(
    bench: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script, runs, inputs = bench("synthesis"), bench("peer_runs"), bench("synthesis_inputs")
    assert set(script.PEERS) == set(runs.RUNS)

    started: list[str] = []

    def run(_: Any, run: tuple[str, str, str, str], *_rest: Any) -> dict[str, float]:
        _, library, method, _ = run
        started.append(method)
        if method == "mst":
            raise script.subprocess.CalledProcessError(1, "pip", stderr="no such version")
        return medians(bench, error3=0.1 if library == "mbi" else 0.2)

    monkeypatch.setattr(script.PeerRuns, "run", run)
    rows, domain = inputs.wide(3, 20)
    table = inputs.LearningTable(rows, domain, "c0", 1, ("c1",))
    runs_asked = script.PeerRuns(tmp_path, ["1"], ["mbi"], ["aim", "mst"], 2, 2, script.Caps(60, 1000))
    runs_asked.compare("wide", table)
    printed = capsys.readouterr().out
    assert "mbi mst: FAILED: no such version" in printed
    assert "error3: LOSS, sfumato aim 0.2, best peer mbi aim 0.1" in printed
    assert len(pd.read_csv(tmp_path / "rows" / "wide" / "train.csv")) == 16
    assert started == ["aim", "aim", "mst"] * 2
    runs_asked.compare("wide", table)  # every run is kept, and none is repeated
    assert len(started) == 6
    assert "mbi mst: FAILED: no such version" in capsys.readouterr().out


def test_a_run_ends_at_its_caps(bench: Any) -> None:
    """A process that works or sleeps too long, and one that fills memory in a child, are ended."""
    processes = bench("peer_processes")
    python = [sys.executable, "-c"]
    assert processes.Caps(60, 1000).run([*python, "print(7)"]) == "7\n"
    for endless in ("while True: pass", "import time; time.sleep(600)"):
        with pytest.raises(processes.CapExceeded, match="not done after 0 CPU-s"):
            processes.Caps(0.1, 1000).run([*python, endless])
    child = "import time; filled = b'x' * (1 << 28); time.sleep(600)"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    with pytest.raises(processes.CapExceeded, match="more than 100 MB"):
        processes.Caps(60, 100).run([*python, parent])
    with pytest.raises(subprocess.CalledProcessError) as failed:
        processes.Caps(60, 1000).run([*python, "raise SystemExit('no')"])
    assert failed.value.stderr == "no\n"


def test_a_peers_rho_is_the_largest_within_epsilon_and_delta(bench: Any) -> None:
    """Of ρ-zCDP (Canonne, Kamath & Steinke 2020), as this library converts it."""
    from sfumato.privacy import Guarantee
    from sfumato.privacy.calibration import meets
    from sfumato.privacy.curve import Curve

    rho = bench("peer_runs").rho_of(1.0, 1e-9)
    assert meets(Curve.concentrated(str(rho * 0.999)), Guarantee(1, "1e-9"))
    assert not meets(Curve.concentrated(str(rho * 1.01)), Guarantee(1, "1e-9"))
