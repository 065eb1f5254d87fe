"""Seeded bugs in batches, combinations of totals and snapshots."""

from __future__ import annotations

from mutants.running import Kind, Mutant, suite

MUTANTS = (
    Mutant(
        "a part that is run many times is charged once",
        Kind.CHARGE_ORDER,
        "ledger/charged.py",
        "return once if self.times == 1 else compose([(once, self.times)])",
        "return once",
        ("release/test_series.py::test_a_batch_is_kept_as_its_plan",),
    ),
    Mutant(
        "equal parts are kept once",
        Kind.CHARGE_ORDER,
        "ledger/charged.py",
        "counted[once] = counted.get(once, 0) + part.times",
        "counted[once] = part.times",
        ("release/test_series.py::test_a_batch_is_kept_as_its_plan",),
    ),
    Mutant(
        "a combination's sensitivity forgets that a column has several rows",
        Kind.SENSITIVITY,
        "plan/readings.py",
        "sum(map(abs, column)) for column in columns",
        "max(map(abs, column)) for column in columns",
        ("plan/test_readings.py::test_no_unit_moves_combinations_further_than_derived",),
    ),
    Mutant(
        "a combination's squares are those of its largest weight",
        Kind.SENSITIVITY,
        "plan/readings.py",
        "sum(weight**2 for weight in column) for column in columns",
        "max(weight**2 for weight in column) for column in columns",
        ("plan/test_readings.py::test_no_unit_moves_combinations_further_than_derived",),
    ),
    Mutant(
        "a snapshot reads the source again",
        Kind.REUSE,
        "engine/duckdb/driver.py",
        "return self._copies.get(table) or super()._scan(table)",
        "return super()._scan(table)",
        ("release/test_series.py::test_every_step_of_a_series_sees_the_rows_of_its_first",),
    ),
    Mutant(
        "a snapshot is made of whatever the file holds now",
        Kind.CHARGE_ORDER,
        "engine/duckdb/driver.py",
        "        if self._missing(reading):\n            self.sources.check_unchanged()\n",
        "",
        ("release/test_series.py::test_a_snapshot_begun_before_a_change_is_refused_for_free",),
    ),
)

test_the_tests_of_series_notice = suite(MUTANTS)
