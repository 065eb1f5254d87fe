"""A dialect is its spelling alone: what is written through another one has no word of DuckDB's."""

from __future__ import annotations

import inspect
import re
from fractions import Fraction
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from engine.lowered import selected
from engine.ordinary import ORDINARY
from engine.tables import policy_of
from plan.samples import read
from sfumato.engine.duckdb.driver import DuckDB
from sfumato.engine.lowering import bounded_totals, reading_statements
from sfumato.engine.lowering.relational_form import ScalarFunction, Wide
from sfumato.engine.spellings import generator
from sfumato.engine.spellings.duckdb import DuckDBSpelling
from sfumato.engine.spellings.generator import Generator
from sfumato.engine.spellings.spelling import Spelling
from sfumato.plan.bounding import ContributionLimits, candidate_bounded_plans
from sfumato.plan.keys import KeySpan, ValueCombinations
from sfumato.plan.sql.statements import parse
from sfumato.plan.values.expressions import Column, Field
from sfumato.plan.values.functions import call, literal
from sfumato.policy import Domain, Table, Type

OWN = re.compile(
    r"list_transform|lambda|hash\(|md5|QUALIFY|HUGEINT|BIGINT|DOUBLE|VARCHAR|TRY_CAST|//|::|isfinite|TRUNC|ROUND\(|LEAST|"
    r"GREATEST|LIKE|SUBSTR|TRIM|LOWER|UPPER|date_|to_|epoch|unnest|\$|range\(|regexp|struct_pack|FLOOR|CEIL|SUM\(",
    re.IGNORECASE,
)


class Marked:
    """A spelling that writes what it is asked for in words of no dialect."""

    types = {kind: f"T{index}" for index, kind in enumerate([*Type, Wide.INTEGER])}  # noqa: RUF012
    staged, longest_merged, length = " FENCE", 0, "LETTERS"

    def __getattr__(self, method: str) -> Any:
        signature = inspect.signature(getattr(Spelling, method))

        def written(*arguments: object) -> str:
            signature.bind(self, *arguments)
            if method == "name":
                return f"[{arguments[0]}]"
            named = "".join(part.capitalize() for part in method.split("_"))
            shown = [each if isinstance(each, str) and each[-1:] in ")]" else "~" for each in arguments]
            return f"S{len(method)}{named[0]}({', '.join(shown)})"

        return written


@pytest.mark.parametrize("question", ORDINARY)
def test_functions_have_no_word_of_a_dialect(question: str) -> None:
    written = selected([read(question)], "SOURCE", Marked())  # type: ignore[arg-type]
    assert not OWN.search(written), (OWN.search(written), written)


QUESTIONS = (
    "SELECT place, COUNT(*), SUM(cost), AVG(cost) FROM t GROUP BY place",
    "SELECT place, COUNT(DISTINCT who), SUM(cost) FROM t WHERE cost * 2 > 1 GROUP BY place",
    "SELECT COUNT(*) FILTER (WHERE cost > 3) FROM t JOIN p ON t.place = p.place WHERE p.far > 1",
)


@pytest.mark.parametrize("question", QUESTIONS)
def test_statements_have_no_word_of_a_dialect(question: str) -> None:
    source = pa.table({"who": [1], "place": ["a"], "cost": [1.5]})
    columns = {"place": {"values": ["a", "b"]}, "cost": {"type": "real", "bounds": [-10, 100]}}
    table = Table("t", source, columns, id="who", max_rows=5, max_groups=3, max_rows_per_group=2)
    engine = DuckDB(policy_of(table, Table("p", pa.table({"place": ["a"], "far": [2]}), public=True)))
    plan = parse(question, engine.catalog()).plan
    for bounded in candidate_bounded_plans(plan, ContributionLimits.from_table(table), 2):
        statement = bounded_totals.group_totals_statement(bounded, 7)
        written = Generator(Marked(), lambda table: table.name.upper()).statement(statement)  # type: ignore[arg-type]
        assert not OWN.search(written), (OWN.search(written), written)
        assert OWN.search(Generator(DuckDBSpelling(), engine._scan).statement(statement))


def test_public_values_have_no_word_of_a_dialect() -> None:
    key = read("CASE WHEN age > 3 THEN colour END")
    age, colour = (Field(0, "visits", name) for name in ("age", "colour"))
    world = ValueCombinations(((age, Domain("integer"), KeySpan(1, 10)), (colour, Domain("text"), ("a", "b"))), (key,))
    listed = reading_statements.distinct_results_statement(world)
    written = Generator(Marked(), lambda table: table.name.upper()).statement(listed)  # type: ignore[arg-type]
    assert not OWN.search(written), written


def test_every_operation_is_written() -> None:
    assert set(generator._WRITERS) == set(ScalarFunction)


def test_a_long_stage_is_kept_apart_from_what_reads_it() -> None:
    """Merged into every sum, the score of a hundred values takes DuckDB minutes to plan."""
    x = Column(Field(0, "t", "x"), Domain("integer", bounds=(0, 9)))
    for terms, ending in ((2, 0), (200, 1)):
        pairs = [
            part
            for value in range(terms)
            for part in (call("=", x, literal(Type.INTEGER, value)), literal(Type.INTEGER, value % 7))
        ]
        chosen = call("CAST", call("CASE", *pairs, literal(Type.INTEGER, 0)), literal(Type.TEXT, Type.REAL.value))
        text = selected([call("FLOOR", call("+", chosen, literal(Type.REAL, Fraction(1, 2))))], "(SELECT 3 AS x)")
        assert text.count(" OFFSET 0) AS r") == ending
        assert duckdb.sql(text).fetchall() == [(0.0 if terms == 2 else 3.0,)]
