"""What is said to Spark of tables that keep their versions; ``test_iceberg`` asks the real thing where it is."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from sfumato.engine.spark.sources import SparkSource, _open_version
from sfumato.errors import InvalidPolicy
from sfumato.policy.table_sources import SparkTable

_PLACE = "tables.t.source"


class Said:
    """A Spark that writes down what it is asked, and tells one row: a version."""

    def __init__(self, *rows: tuple[Any, ...]) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.rows = rows
        self.schema = SimpleNamespace(fields=[])

    @property
    def read(self) -> Said:
        return self

    def collect(self) -> list[tuple[Any, ...]]:
        return list(self.rows)

    def __getattr__(self, called: str) -> Any:
        def call(*said: Any) -> Said:
            self.calls.append((called, *said))
            return self

        return call


def _opened(form: str, spark: Said, **said: Any) -> SparkSource:
    session: Any = SimpleNamespace(spark=spark)
    source = SparkTable("sc://host:15002", **said)
    return _open_version(source, form, session, ("spark://here",), _PLACE)


_READ = {
    ("delta", "relation"): [
        ("sql", "DESCRIBE HISTORY `main`.`clinic`.`vis``its` LIMIT 1"),
        ("select", "version"),
        ("option", "versionAsOf", "7"),
        ("table", "`main`.`clinic`.`vis``its`"),
    ],
    ("delta", "path"): [
        ("sql", "DESCRIBE HISTORY delta.`s3://clinic/visits` LIMIT 1"),
        ("select", "version"),
        ("format", "delta"),
        ("option", "versionAsOf", "7"),
        ("load", "s3://clinic/visits"),
    ],
    ("iceberg", "relation"): [
        ("table", "`main`.`clinic`.`vis``its`.refs"),
        ("filter", "name = 'main'"),
        ("select", "snapshot_id"),
        ("option", "versionAsOf", "7"),
        ("table", "`main`.`clinic`.`vis``its`"),
    ],
    ("iceberg", "path"): [
        ("format", "iceberg"),
        ("load", "s3://clinic/visits#refs"),
        ("filter", "name = 'main'"),
        ("select", "snapshot_id"),
        ("format", "iceberg"),
        ("option", "snapshot-id", "7"),
        ("load", "s3://clinic/visits"),
    ],
}
_NAMES = {"relation": "main.clinic.vis`its", "path": "s3://clinic/visits"}


_FOUND = {("delta", "relation"): 2, ("delta", "path"): 2, ("iceberg", "relation"): 3, ("iceberg", "path"): 4}
"""How many calls find the newest version, before it is read."""
_DETAIL = {
    "relation": ("sql", "DESCRIBE DETAIL `main`.`clinic`.`vis``its`"),
    "path": ("sql", "DESCRIBE DETAIL delta.`s3://clinic/visits`"),
}


def _looked(form: str, by: str) -> list[tuple[Any, ...]]:
    """A look: the version is analysed again, and a table of Delta's is asked which one it is."""
    named = [_DETAIL[by], ("select", "id")] if form == "delta" else []
    return _READ[form, by][_FOUND[form, by] :] + named


@pytest.mark.parametrize(("form", "by"), _READ)
def test_the_newest_version_is_found_once_and_read(form: str, by: str) -> None:
    spark = Said((7,))
    source = _opened(form, spark, **{by: _NAMES[by]})
    assert spark.calls == _READ[form, by]
    assert source.has_version
    assert source.change_token() == ("7 of 7" if form == "delta" else "7")
    assert spark.calls == _READ[form, by] + _looked(form, by)


@pytest.mark.parametrize(("form", "by"), _READ)
def test_a_version_that_is_named_is_read(form: str, by: str) -> None:
    spark = Said((5,))
    source = _opened(form, spark, version="7", **{by: _NAMES[by]})
    assert spark.calls == _READ[form, by][_FOUND[form, by] :]
    assert source.change_token() == ("7 of 5" if form == "delta" else "7")


@pytest.mark.parametrize("form", ["delta", "iceberg"])
@pytest.mark.parametrize("version", ["main", "-1", "1.5", " 7", "²"])
def test_a_version_that_may_move_is_refused(form: str, version: str) -> None:
    with pytest.raises(InvalidPolicy, match="must be a whole number: a branch or tag can change") as refused:
        _opened(form, Said((7,)), relation="visits", version=version)
    assert refused.value.place == "tables.t.version"


@pytest.mark.parametrize("form", ["delta", "iceberg"])
def test_a_table_without_a_version_is_refused(form: str) -> None:
    with pytest.raises(InvalidPolicy, match=f"cannot open this {form.capitalize()} table"):
        _opened(form, Said(), relation="visits")


def test_a_name_in_a_catalog_is_no_path() -> None:
    with pytest.raises(InvalidPolicy, match="for Iceberg, a path without '/' names a table of the catalog") as refused:
        _opened("iceberg", Said((7,)), path="clinic.visits", format="iceberg", version="7")
    assert refused.value.place == "tables.t.path"
