"""A series of releases on one tab reads one snapshot: the same rows, whatever becomes of a file."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

import sfumato as sf
from sfumato.engine.protocols import Snapshot
from sfumato.errors import EngineClosed, SourceChanged
from sfumato.ledger import Charged
from sfumato.ledger.spending import merge_equal_parts
from sfumato.plan.readings.total_readings import GroupTotals
from sfumato.privacy import codec, compose
from sfumato.release import releasing
from sfumato.release.measured import DeclaredGroupsRelease
from sfumato.release.measurement import Batch, Measurement
from sfumato.release.payers import TabPayer
from sfumato.release.prices import Price
from sfumato.release.pricing import price_release

COLUMNS = {"age": sf.Domain("integer", bounds=(0, 100)), "ward": sf.Domain("text", values=["A", "B"])}
GROUPED = "SELECT ward, COUNT(*) AS n, COUNT(*) FILTER (WHERE age > 50) AS old FROM visits GROUP BY ward"


def _write(path: Path, rows: int) -> None:
    pyarrow.parquet.write_table(pa.table({"age": [40, 60] * rows, "ward": ["A"] * (2 * rows)}), path)


@pytest.fixture
def clinic(tmp_path: Path) -> sf.Curator:
    _write(tmp_path / "visits.parquet", 10)
    table = sf.Table("visits", tmp_path / "visits.parquet", COLUMNS, id="row")
    policy = sf.Policy(sf.PrivacyUnit("visit", every_row=True), sf.Budget(1000), {"visits": table})
    with sf.Curator(policy, tmp_path / "visits.ledger") as opened:
        yield opened


def _exact(clinic: sf.Curator, reader: Snapshot) -> list[list[int]]:
    question = clinic.sql(GROUPED)
    return reader.read(GroupTotals(question.bounding_options[0], question.groups), 7).tolist()


def test_every_step_of_a_series_sees_the_rows_of_its_first(clinic: sf.Curator, tmp_path: Path) -> None:
    account, engine = clinic._context.account, clinic._context.engine
    question = clinic.sql(GROUPED)
    kind = DeclaredGroupsRelease(
        price_release(question.bounding_options, Price(50)),
        question.shared_parts.requests,
        question.groups,
        clinic._context.version,
    )
    asked = releasing.ReleaseRequest("a step", "", engine.identity())
    with account.open_tab(account.cost(sf.Curve.pure(200))) as tab, engine.open_snapshot() as held:
        payer = TabPayer(account, tab)
        first = releasing.release(kind, asked, payer=payer, engine=held)
        _write(tmp_path / "visits.parquet", 1000)  # the source changes under the series
        second = releasing.release(kind, asked, payer=payer, engine=held)
        assert _exact(clinic, held) == [[10, 10], [0, 0]]
        assert account.budget.remaining["pure"] == 800
        with pytest.raises(SourceChanged):  # and outside of it nothing is read any more
            releasing.release(kind, asked, payer=payer, engine=engine)
    assert clinic.budget.remaining["pure"] == 900
    assert [abs(each.value.columns[0][0] - 20) < 20 for each in (first, second)] == [True, True]
    assert first.value.columns != second.value.columns or first.number != second.number


def test_a_snapshot_begun_before_a_change_is_refused_for_free(clinic: sf.Curator, tmp_path: Path) -> None:
    """Its first reading would not be of the version that was opened; that is seen before the charge."""
    account, engine = clinic._context.account, clinic._context.engine
    question = clinic.sql(GROUPED)
    kind = DeclaredGroupsRelease(
        price_release(question.bounding_options, Price(1)), question.shared_parts.requests, question.groups, ""
    )
    with account.open_tab(account.cost(sf.Curve.pure(5))) as tab, engine.open_snapshot() as held:
        _write(tmp_path / "visits.parquet", 1000)
        with pytest.raises(SourceChanged):
            releasing.release(kind, releasing.ReleaseRequest("q", "", ""), payer=TabPayer(account, tab), engine=held)
        assert tab.left["pure"] == 5


def test_a_file_that_is_replaced_while_it_is_copied_is_never_read(
    clinic: sf.Curator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The copy is of neither version; it is forgotten, and the snapshot is refused from then on."""
    engine, question = clinic._context.engine, clinic.sql(GROUPED)
    reading, copies = GroupTotals(question.bounding_options[0], question.groups), type(engine.sources).copy

    def replaced(sources: object, table: str) -> str:
        made = copies(sources, table)
        _write(tmp_path / "visits.parquet", 1000)
        return made

    monkeypatch.setattr(type(engine.sources), "copy", replaced)
    with engine.open_snapshot() as held:
        with pytest.raises(SourceChanged):
            held.read(reading, 1)
        with pytest.raises(SourceChanged):
            held.check(reading)
    assert engine.sources.run("SELECT count(*) FROM duckdb_tables() WHERE table_name LIKE 'sf copy %'") == [(0,)]


def test_a_closed_snapshot_reads_nothing_and_leaves_nothing(clinic: sf.Curator) -> None:
    engine, question = clinic._context.engine, clinic.sql(GROUPED)
    reading = GroupTotals(question.bounding_options[0], question.groups)
    with engine.open_snapshot() as held:
        assert held.read(reading, 1).tolist() == engine.read(reading, 2).tolist()
    for call in (lambda: held.check(reading), lambda: held.read(reading, 1)):
        with pytest.raises(EngineClosed):
            call()
    left = engine.sources.run("SELECT count(*) FROM duckdb_tables() WHERE table_name LIKE 'sf copy %'")
    assert left == [(0,)]
    late = engine.open_snapshot()
    late.read(reading, 1)
    clinic.close()
    late.close()  # what it held is gone with its engine
    with pytest.raises(EngineClosed):
        late.check(reading)


def test_a_batch_is_kept_as_its_plan(clinic: sf.Curator) -> None:
    """Equal measurements are one part with a number, and the charge computed from it is that of all of them."""
    prepared = price_release(clinic.sql(GROUPED).bounding_options, Price(2))
    measurement = prepared.batch.measurements[0]
    thousand = Batch((measurement,) * 1000)
    assert thousand.charged == (Charged(measurement.mechanism, measurement.sensitivity, times=1000),)
    account = clinic._context.account
    assert account.cost(thousand.curve) == account.cost(compose([(measurement.curve, 1000)]))
    assert thousand.curve.max_divergence == 1000 * (measurement.curve.max_divergence or 0) > 0
    other = Measurement(measurement.reading, sf.Laplace(77))
    mixed = Batch((measurement, other, measurement))
    assert [each.times for each in mixed.charged] == [2, 1]
    text = codec.dumps(mixed.charged[0])
    assert codec.loads(text) == mixed.charged[0]
    assert "times" not in codec.dumps(mixed.charged[1])  # what was written before it existed reads the same
    assert merge_equal_parts(thousand.charged * 3) == (
        Charged(measurement.mechanism, measurement.sensitivity, times=3000),
    )


@pytest.mark.parametrize("times", [0, -1, 1.5, "many", True, None])
def test_a_part_is_run_a_whole_number_of_times(times: object) -> None:
    with pytest.raises(sf.InvalidParameter):
        Charged(sf.Laplace(2), 1, times=times)  # type: ignore[arg-type]


def test_a_statement_written_before_a_copy_was_made_is_not_read_after(clinic: sf.Curator, tmp_path: Path) -> None:
    """One thread checks while another copies the table: what the first reads is the copy too."""
    question = clinic.sql(GROUPED)
    reading = GroupTotals(question.bounding_options[0], question.groups)
    with clinic._context.engine.open_snapshot() as held:
        held.check(reading)
        remembered = held._last_totals
        held.read(GroupTotals(clinic.sql("SELECT COUNT(*) FROM visits").bounding_options[0], ((),)), 7)  # copies
        held._last_totals = remembered  # the first thread has only now come to remember it
        _write(tmp_path / "visits.parquet", 1000)
        assert held.read(reading, 7).tolist() == [[10, 10], [0, 0]]
