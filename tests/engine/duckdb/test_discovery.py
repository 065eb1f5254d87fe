"""Types of undeclared columns: what is ruled out by its shape is ruled out by its grammar."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

from engine.tables import policy_of
from sfumato.engine.duckdb import discovery
from sfumato.engine.duckdb.connection import Sources
from sfumato.plan.values.grammars import GRAMMARS, ZERO
from sfumato.policy import Table, Type

_GRAMMARS = {
    Type.INTEGER: (GRAMMARS[Type.INTEGER], GRAMMARS[Type.REAL], ZERO),
    Type.REAL: (GRAMMARS[Type.REAL], ZERO),
    Type.DATE: (GRAMMARS[Type.DATE], GRAMMARS[Type.TIMESTAMP]),
    Type.TIMESTAMP: (GRAMMARS[Type.TIMESTAMP],),
    Type.BOOLEAN: (GRAMMARS[Type.BOOLEAN],),
}


@pytest.mark.parametrize("kind", _GRAMMARS)
@settings(max_examples=40)
@given(st.data())
def test_every_text_that_a_grammar_admits_has_the_shape_of_its_type(kind: Type, data: Any) -> None:
    """Else a column would be text because its types were ruled out before it was parsed."""
    (shape,) = [shape for shape, types in discovery._SHAPES.items() if kind in types]
    for grammar in _GRAMMARS[kind]:
        text = data.draw(st.from_regex(re.compile(grammar, re.ASCII), fullmatch=True))
        assert re.fullmatch(shape, text)


def _domains(path: Path) -> Any:
    people = Table("people", pa.table({"age": [1]}), {"age": {"type": "integer", "bounds": [0, 9]}}, id="row")
    with Sources(policy_of(people, Table("codes", path, public=True))) as sources:
        return sources.columns("codes"), [each for each in sources.statements if "sf reading of" in each]


def test_the_same_bytes_are_inferred_once_and_others_anew(tmp_path: Path) -> None:
    """Wherever they are stored; a file that was written anew in place, with as many bytes, is another."""
    one, other = tmp_path / "one.csv", tmp_path / "other.csv"
    one.write_text("code,n\nrare,17\n")
    other.write_text("code,n\nrare,17\n")
    first, read = _domains(one)
    again, unread = _domains(other)
    assert first == again
    assert read
    assert not unread
    one.write_text("code,n\nrare,1x\n")
    changed, _ = _domains(one)
    assert (first["n"].type, changed["n"].type) == (Type.INTEGER, Type.TEXT)
