"""A charge can be computed again from its line, and a line that states another sensitivity is found out."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

import pytest

import sfumato as sf
from ledger.recomputing import ledgers, wrong
from ledger.small_accounts import PATIENT, account
from sfumato.ledger.sealed_rows import Row
from sfumato.ledger.stores.sqlite import MIGRATIONS

EVERY = (
    sf.Charged(sf.Laplace(20), sf.Sensitivity(groups=3, per_group=2, total=5)),
    sf.Charged(sf.Laplace([20, 30], grid="0.5"), 1),
    sf.Charged(sf.Gaussian(30), sf.Sensitivity(groups=3, per_group=2)),
    sf.Charged(sf.Exponential("0.1", monotone=True)),
    sf.Charged(sf.PermuteAndFlip("0.1")),
    sf.Charged(sf.NoisyMax("0.1")),
    sf.Charged(sf.TopK("0.1", k=3)),
    sf.Charged(sf.Quantiles(["0.25", "0.5", "0.75"], "0.1", (0, 100))),
    sf.Charged(sf.KeyThreshold("0.1", "1e-9")),
    sf.Charged(sf.KeyThreshold("0.1", "1e-9", 4)),
    sf.Charged(sf.KeyThreshold.gaussian("0.1", "1e-9", 4)),
    sf.Charged(sf.AboveThreshold("0.1", 100, values_epsilon="0.05")),
    sf.Curve.laplace(20),
)
LOCAL = (
    sf.Charged(sf.RandomizedResponse("0.1", 3)),
    sf.Charged(sf.OptimizedUnaryEncoding("0.1", 3)),
    sf.Charged(sf.OptimalLocalHashing("0.1", 3)),
    sf.Charged(sf.Laplace(20), sf.Sensitivity(per_group=2, neighbours="replace")),
)


def leaks(part: sf.Charged) -> sf.Curve:
    """What the mechanism itself says."""
    given = () if part.sensitivity is None else (part.sensitivity,)
    return part.mechanism.curve(*given)


def test_every_kind_of_charge_is_recomputed_from_its_line(tmp_path: Path) -> None:
    ledger = sf.Ledger.open(tmp_path / "ledger")
    clinic = account(ledger, sf.Budget(10, "1e-6"))
    replaced = ledger.account("source", unit=PATIENT, budget=sf.Budget(10, "1e-6", neighbours="replace"))
    for where, parts in ((clinic, EVERY), (replaced, LOCAL)):
        lines = [where.charge(sf.Entry(part)) for part in parts]
        lines.append(where.charge(sf.Entry(parts)))
        for line in lines:
            assert where.recomputed(line) == line.cost
        leaked = [part if isinstance(part, sf.Curve) else leaks(part) for part in parts]
        assert [line.cost for line in lines] == [where.cost(curve) for curve in (*leaked, sf.compose(leaked))]
    watch = clinic.open_tab(sf.Entry(EVERY[-2]))
    assert clinic.recomputed(watch.opening) == watch.opening.cost
    with clinic.open_tab(sf.Entry(EVERY[0])) as tab:
        assert clinic.recomputed(tab.opening) == tab.opening.held
        assert clinic.recomputed(step := tab.step(sf.Entry(EVERY[0]))) == step.cost
    with clinic.open_tab(clinic.cost(sf.Curve.pure("0.1"))) as tab:
        assert clinic.recomputed(tab.opening) is None  # an amount for steps yet to be chosen
    assert clinic.recomputed(clinic.correct(sf.Curve.pure("0.1"), reason="forgotten")) is None


@pytest.mark.parametrize(
    "wrong_part",
    [
        lambda: sf.Charged(sf.Laplace(1)),  # type: ignore[arg-type]
        lambda: sf.Charged(sf.Gaussian(1)),
        lambda: sf.Charged(sf.Exponential(1), 1),
        lambda: sf.Charged(sf.AboveThreshold(1, 10), 1),
        lambda: sf.Charged(sf.Curve.pure(1)),
        lambda: sf.Charged(sf.Laplace),
        lambda: sf.Charged(sf.Laplace(1), "one"),
        lambda: sf.Charged(None, 1),
    ],
)
def test_a_part_is_a_mechanism_with_the_sensitivity_it_needs(wrong_part: object) -> None:
    with pytest.raises(sf.InvalidParameter):
        wrong_part()  # type: ignore[operator]


def forged(path: Path, **columns: str) -> Path:
    """The same ledger whose first charge says something else, with every seal made anew: its totals still add up."""
    copy = path.parent / "forged.ledger"
    shutil.copy(path, copy)
    with closing(sqlite3.connect(copy)) as raw:
        raw.executescript("DROP TRIGGER no_update; DROP TRIGGER no_delete")
        rows = [Row(*values) for values in raw.execute("SELECT * FROM lines ORDER BY number")]
        previous = rows[0].previous
        for row in rows:
            changed = row._replace(**(columns if row.number == 2 else {}), previous=previous)  # type: ignore[arg-type]
            previous = changed.compute_seal()
            given = (changed.parts, changed.previous, previous, row.number)
            raw.execute("UPDATE lines SET parts = ?, previous = ?, hash = ? WHERE number = ?", given)
        for statement in MIGRATIONS[0][-2:]:
            raw.execute(statement)
        raw.commit()
    with sf.Ledger.open(copy) as ledger:
        assert ledger.verify().holds
    return copy


def test_the_walk_over_all_ledgers_finds_a_sensitivity_that_does_not_fit_its_cost() -> None:
    """Outside the folder that is walked at the end of the run, or it would rightly fail."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "honest.ledger"
        with sf.Ledger.open(path) as ledger:
            account(ledger, sf.Budget(10, "1e-6")).charge(sf.Entry(sf.Charged(sf.Laplace(20), 2)))
        with closing(sqlite3.connect(path)) as raw:
            raw.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            (parts,) = raw.execute("SELECT parts FROM lines WHERE number = 2").fetchone()
        assert list(ledgers(Path(folder))) == [path]
        assert wrong(path) == []
        assert wrong(forged(path, parts=parts)) == []
        lower = sf.ledger.spending.write_parts([sf.Charged(sf.Laplace(20), 1)])
        (found,) = wrong(forged(path, parts=lower))
        assert "line 2" in found
