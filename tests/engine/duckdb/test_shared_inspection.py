"""Files that are inspected with one DuckDB are read as each by itself: nothing of one is seen in another."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import Any

import duckdb
import pytest

from sfumato.engine.inspecting import inferred_types, sample_texts, schema, shared_inspection, tables, unusable_columns
from sfumato.errors import InvalidPolicy


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, ...]:
    """Two tables of text and two databases with different tables."""
    (tmp_path / "visits.csv").write_text("who,age,note\n1,3,x\n2,4,y\n")
    (tmp_path / "codes.csv").write_text("id,day\n01,2024-01-01\n02,2024-01-02\n")
    for name in ("first", "second"):
        with duckdb.connect(tmp_path / f"{name}.duckdb") as database:
            database.execute(f"CREATE TABLE {name} AS SELECT '1' AS {name}_text")
    return tuple(tmp_path / name for name in ("visits.csv", "codes.csv", "first.duckdb", "second.duckdb"))


def _inspected(files: tuple[Path, ...]) -> list[Any]:
    visits, codes, first, second = files
    described: list[Callable[..., Any]] = [schema, unusable_columns, inferred_types]
    return [
        *([inspect(path) for inspect in described for path in (visits, codes)]),
        *([inspect(path, path.stem) for inspect in described for path in (first, second)]),
        *(sample_texts(visits, None, ["note"]), sample_texts(codes, None, ["id", "day"])),
        *(tables(first), tables(second)),
    ]


def test_files_are_read_with_one_engine_as_each_by_itself(
    files: tuple[Path, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    apart, opened, connect = _inspected(files), [], duckdb.connect

    def counted(*arguments: Any) -> duckdb.DuckDBPyConnection:
        opened.append(arguments)
        return connect(*arguments)

    monkeypatch.setattr(duckdb, "connect", counted)
    with shared_inspection():
        assert _inspected(files) == apart
        with pytest.raises(InvalidPolicy):
            schema(files[2], "nowhere")
        with shared_inspection():
            assert _inspected(files) == apart
        schema(files[0])  # the inner one has closed nothing
        assert len(opened) == 1
        thread = Thread(target=_inspected, args=(files,))  # another thread shares nothing
        thread.start()
        thread.join()
        others = len(opened) - 1
        assert others > 1
    schema(files[0])
    assert len(opened) == others + 2
