"""PostgreSQL proves every member of the relational form at its opening: one wrong spelling of each is refused."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

import pytest

pytest.importorskip("psycopg", reason="psycopg is not installed: PostgreSQL is NOT tested")

from postgres_server import PostgresServer
from sfumato.engine import self_test
from sfumato.engine.lowering.relational_form import AggregateFunction, RowNumber, ScalarFunction, Select, WindowFrame
from sfumato.engine.postgres.connection import ServerSessions
from sfumato.engine.postgres.driver import carried_scan
from sfumato.engine.proofs import statement_cases
from sfumato.engine.spellings import generator
from sfumato.engine.spellings.postgres import PostgresSpelling
from sfumato.errors import InvalidPolicy

Wrong = Callable[..., str]


def _instead(operator: str) -> Wrong:
    return lambda _, *written: f"({f' {operator} '.join(written[:2])})"


def _around(form: str) -> Wrong:
    """Write another expression of the first argument."""
    return lambda _, x, *__: form.format(x)


def _changed(operation: ScalarFunction, form: str) -> Wrong:
    """Write the right expression with something done to it."""
    right = generator._WRITERS[operation]
    return lambda *written: form.format(right(*written))


OPERATIONS: dict[ScalarFunction, tuple[Wrong, str]] = {
    ScalarFunction.EQUAL: (_instead("IS NOT DISTINCT FROM"), "equality of texts"),
    ScalarFunction.UNEQUAL: (_instead("IS DISTINCT FROM"), "<> of whole numbers"),
    ScalarFunction.LESS: (_instead("<="), "< of reals"),
    ScalarFunction.AT_MOST: (_instead("<"), "<= of reals"),
    ScalarFunction.GREATER: (_instead(">="), "> of reals"),
    ScalarFunction.AT_LEAST: (_instead(">"), ">= of reals"),
    ScalarFunction.AND: (lambda _, x, y: f"({x} AND COALESCE({y}, FALSE))", "AND"),
    ScalarFunction.OR: (lambda _, x, y: f"({x} OR COALESCE({y}, FALSE))", "OR"),
    ScalarFunction.NOT: (_around("({} IS NOT TRUE)"), "NOT"),
    ScalarFunction.BETWEEN: (lambda _, x, low, high: f"({x} > {low} AND {x} <= {high})", "BETWEEN"),
    ScalarFunction.IN: (lambda _, x, *all: f"COALESCE({x} IN ({', '.join(all)}), FALSE)", "IN"),
    ScalarFunction.IS_NULL: (_around("({} IS NOT TRUE)"), "IS NULL"),
    ScalarFunction.IS_TRUE: (_around("({} IS NOT FALSE)"), "IS TRUE"),
    ScalarFunction.IS_FALSE: (_around("({} IS NOT TRUE)"), "IS FALSE"),
    ScalarFunction.CASE: (lambda _, test, x, *__: f"CASE WHEN {test} IS NOT FALSE THEN {x} END", "CASE"),
    ScalarFunction.COALESCE: (_around("{}"), "COALESCE"),
    ScalarFunction.LEAST: (lambda _, *xs: f"NULLIF(LEAST({', '.join(xs)}), {xs[-1]})", "LEAST"),
    ScalarFunction.GREATEST: (lambda _, *xs: f"NULLIF(GREATEST({', '.join(xs)}), {xs[-1]})", "GREATEST"),
    ScalarFunction.ADD: (_instead("-"), "+"),
    ScalarFunction.SUBTRACT: (_instead("+"), "- of whole numbers"),
    ScalarFunction.MULTIPLY: (_instead("+"), "*"),
    ScalarFunction.DIVIDE: (_instead("*"), "/"),
    ScalarFunction.DIVIDE_WHOLE: (lambda _, x, y: f"CAST(FLOOR(CAST({x} AS NUMERIC) / {y}) AS BIGINT)", "//"),
    ScalarFunction.DIVIDE_WIDE: (lambda _, x, y: f"FLOOR({x} / {y})", "// of wide numbers"),
    ScalarFunction.REMAINDER: (lambda _, x, y: f"ABS({x} % {y})", "%"),
    ScalarFunction.MEMBERS_BELOW: (
        lambda _, x, limit: f"BIT_COUNT(CAST({x} >> CAST({limit} AS INTEGER) AS BIT(64)))",
        "the members of a set of numbers",
    ),
    ScalarFunction.NEGATE: (_around("ABS({})"), "the negative of a whole number"),
    ScalarFunction.ABS: (_around("{}"), "ABS of a whole number"),
    ScalarFunction.SIGN: (_around("ABS(SIGN({}))"), "SIGN of a whole number"),
    ScalarFunction.FLOOR: (_around("TRUNC({})"), "FLOOR"),
    ScalarFunction.CEILING: (_around("ROUND({})"), "CEIL"),
    ScalarFunction.TRUNCATE: (_around("FLOOR({})"), "TRUNC"),
    ScalarFunction.HALF_AWAY: (_around("ROUND({})"), "ROUND"),
    ScalarFunction.SQRT: (_around("CBRT({})"), "SQRT"),
    ScalarFunction.LN: (_around("LOG({})"), "LN"),
    ScalarFunction.EXP: (_around("(EXP({}) * 1.000000000000001)"), "EXP"),
    ScalarFunction.POWER: (lambda _, x, __: f"({x} * {x})", "POWER"),
    ScalarFunction.NEAREST: (_around("CAST(TRUNC({}) AS BIGINT)"), "the nearest whole number"),
    ScalarFunction.TOWARD_ZERO: (_around("CAST({} AS BIGINT)"), "the whole number toward zero"),
    ScalarFunction.CONVERT: (_changed(ScalarFunction.CONVERT, "NULLIF({0}, {0})"), "// of wide numbers"),
    ScalarFunction.LENGTH: (_around("CAST(OCTET_LENGTH({}) AS BIGINT)"), "LENGTH"),
    ScalarFunction.JOIN: (lambda _, *texts: f"CONCAT({', '.join(texts)})", "||"),
    ScalarFunction.REPLACE: (_around("{}"), "REPLACE"),
    ScalarFunction.SLICE: (lambda _, x, first, __: f"SUBSTR({x}, CAST(LEAST({first}, 1000) AS INTEGER))", "SUBSTR"),
    ScalarFunction.TRIM: (_around("BTRIM({})"), "TRIM"),
    ScalarFunction.LIKE: (lambda _, x, pattern: f"({x} LIKE '{pattern}')", "LIKE"),
    ScalarFunction.MATCHES: (
        lambda _, x, grammar: f"({x} ~ '(?n)^({grammar})$')",
        "a regular expression over lines",
    ),
    ScalarFunction.GROUP: (_changed(ScalarFunction.GROUP, "({} || '0')"), "a group of a regular expression"),
    ScalarFunction.READ: (_changed(ScalarFunction.READ, "NULLIF({0}, {0})"), "CAST to a whole number"),
    ScalarFunction.GROUP_CODE: (_around("UPPER({})"), "the conversion of a text to its number in a list, and back"),
    ScalarFunction.ORDINAL: (_changed(ScalarFunction.ORDINAL, "({} - 1)"), "the position of a text in a list"),
    ScalarFunction.UNIT_TEXT: (_around("('0' || {})"), "the conversion of a unit's id to text"),
    ScalarFunction.FINGERPRINT: (_around("CAST(CAST('x' || LEFT(MD5({}), 14) AS BIT(56)) AS BIGINT)"), "MD5"),
    ScalarFunction.HASH: (lambda _, x: f"LEFT(ENCODE(SHA224(CONVERT_TO({x}, 'UTF8')), 'hex'), 16)", "SHA-256"),
    ScalarFunction.PART: (_changed(ScalarFunction.PART, "({} % 53)"), "EXTRACT(year)"),
    ScalarFunction.START: (_around("{}"), "DATE_TRUNC(year)"),
    ScalarFunction.MOVED: (_around("{}"), "a date and -1 day"),
    ScalarFunction.DAYS: (_changed(ScalarFunction.DAYS, "(-{})"), "DATE_DIFF of dates"),
    ScalarFunction.SECONDS: (lambda _, x: f"CAST(EXTRACT(EPOCH FROM {x}) AS BIGINT)", "seconds of a time"),
    ScalarFunction.MOMENT: (_changed(ScalarFunction.MOMENT, "({} + INTERVAL '1 day')"), "the time of a second"),
}
"""A spelling of each operation that some dialect or an inattentive writer might have, and what is told of it."""
LETTERS = {ScalarFunction.LOWER, ScalarFunction.UPPER}
"""What is proved by itself, under one collation after another."""
ROWS: dict[object, tuple[str, str, str]] = {
    AggregateFunction.SUM_OF_NARROW: (r"SUM\(", "-SUM(", "SUM"),
    AggregateFunction.MIN: (r"\bMIN\(", "MAX(", "MIN of whole numbers"),
    AggregateFunction.MAX: (r"\bMAX\(", "MIN(", "MAX of texts"),
    RowNumber.ROW_NUMBER: (r"\bROW_NUMBER\(\)", "NTILE(3)", "ORDER BY of texts"),
    RowNumber.RANK: (r"\bRANK\(\)", "DENSE_RANK()", "RANK"),
    RowNumber.DENSE_RANK: (r"\bDENSE_RANK\(\)", "RANK()", "DENSE_RANK"),
    WindowFrame.PEERS: ("RANGE BETWEEN", "ROWS BETWEEN", "a window up to its peers"),
    WindowFrame.ROWS: (
        "ROWS (BETWEEN UNBOUNDED PRECEDING AND) CURRENT ROW",
        r"ROWS \1 1 PRECEDING",
        "a window up to its row",
    ),
    WindowFrame.WHOLE: ("AND UNBOUNDED FOLLOWING", "AND CURRENT ROW", "SUM"),
    "LAG": (r"\bLAG\(", "LEAD(", "LAG"),
    "LEAD": (r"\bLEAD\(", "LAG(", "LEAD"),
    "ORDER": ("NULLS LAST", "NULLS FIRST", "ROW_NUMBER"),
    "PARTITION": (r'PARTITION BY r\."b"', "PARTITION BY 0::text", "PARTITION BY"),
}
STATEMENTS: dict[object, tuple[str, str, str]] = {
    AggregateFunction.COUNT: (r"COUNT\(\*\)", 'COUNT(r."i")', "COUNT"),
    AggregateFunction.UNITS: (r"COUNT\(DISTINCT ", "COUNT(", "COUNT DISTINCT"),
    AggregateFunction.SUM: (r"SUM\(", "SUM(DISTINCT ", "SUM of a group"),
    AggregateFunction.RESIDUES: ("BIT_OR", "BIT_XOR", "the number of different remainders"),
    AggregateFunction.NUMBER_SET: (" BIT_OR", " BIT_AND", "a set of whole numbers"),
    "the MIN of a group": (r"\bMIN\(", "MAX(", "MIN of a group"),
    "the MAX of a group": (r"\bMAX\(", "MIN(", "MAX of a group"),
    "GROUP BY": (r"GROUP BY k", 'GROUP BY k COLLATE "C", n', "COUNT"),
    "HAVING": ("HAVING ", "HAVING NOT ", "HAVING"),
    "INNER": ("INNER JOIN", "LEFT JOIN", "INNER JOIN"),
    "LEFT": ("LEFT JOIN", "INNER JOIN", "LEFT JOIN"),
    "CROSS": ("CROSS JOIN p AS o", "INNER JOIN p AS o ON o.n > 3", "CROSS JOIN"),
    "EXISTS": (r"\(EXISTS", "(NOT EXISTS", "EXISTS"),
    "NOT EXISTS": ("NOT EXISTS", "EXISTS", "NOT EXISTS"),
    "UNION": ("UNION ALL", "UNION", "UNION ALL"),
    "items": (r'unnest\("l"\)', 'unnest("l"[1:1])', "items of a list"),
    "a list": (r"UNNEST(?=\(CAST\(\$17)", "-UNNEST", "a list of values"),
    "a list of texts": (r"(UNNEST\(CAST\(\$18 AS TEXT\[\]\)\))", r"LOWER(\1)", "a list of values"),
    "a list of dates": (r"(UNNEST\(CAST\(\$19 AS DATE\[\]\)\))", r"\1 - 1", "a list of values"),
    "a span": (r"GENERATE_SERIES\(0, 2\)", "GENERATE_SERIES(1, 3)", "a span of whole numbers"),
    "a span of hours": ("INTERVAL '1 hour'", "INTERVAL '1 day'", "a span of hours"),
    "staged": (" OFFSET 0", " OFFSET 1", "COUNT"),
}
"""What is written otherwise in the statement of rows or of whole statements, and what is told of it."""


@pytest.fixture(scope="module")
def server(postgres: PostgresServer) -> Iterator[ServerSessions]:
    made = ServerSessions(postgres.address(), "tables")
    yield made
    made.close()


def _dialect(server: ServerSessions, pattern: str = "", instead: str = "") -> self_test.Dialect:
    def run(statement: str, parameters: Sequence[object]) -> list[tuple[Any, ...]]:
        return server.run(re.sub(pattern, instead, statement) if pattern else statement, parameters)

    return self_test.Dialect(PostgresSpelling(), carried_scan, run)


def _within(value: object) -> Iterator[object]:
    """Give the members of the relational form that a value of it is made of."""
    if isinstance(value, Enum):
        yield value
    elif isinstance(value, tuple):
        for each in value:
            yield from _within(each)
    elif is_dataclass(value):
        for each in fields(value):
            yield from _within(getattr(value, each.name))


def test_every_member_of_the_form_is_proved_or_told_why_not() -> None:
    """No server is sent the element of a list: samples by thresholds read it (``test_sample_thresholds``)."""
    selects: list[Select] = [case.select for case in statement_cases.cases()]
    proved = {each for one in (*(case.scalar for case in self_test.cases()), *selects) for each in _within(one)}
    members = {*ScalarFunction, *AggregateFunction, *RowNumber, *WindowFrame} - LETTERS - {ScalarFunction.ELEMENT}
    assert members - proved == set()
    assert members - {*OPERATIONS, *ROWS, *STATEMENTS} == set()


def test_a_wrong_operation_is_found_by_its_name(server: ServerSessions, monkeypatch: pytest.MonkeyPatch) -> None:
    dialect, cases = _dialect(server), self_test.cases()
    told = {}
    for operation, (wrong, _) in OPERATIONS.items():
        own = [case for case in cases if operation in _within(case.scalar)]
        with monkeypatch.context() as patch:
            patch.setitem(generator._WRITERS, operation, wrong)
            told[operation] = self_test.wrong_row_case(dialect, own)
    assert told == {operation: name for operation, (_, name) in OPERATIONS.items()}


def test_a_wrong_window_or_total_is_found_by_its_name(server: ServerSessions) -> None:
    told = {each: self_test.wrong_row_case(_dialect(server, *parts[:2])) for each, parts in ROWS.items()}
    assert told == {each: name for each, (*_, name) in ROWS.items()}


def test_a_wrong_statement_is_found_by_its_name(server: ServerSessions) -> None:
    told = {each: self_test.wrong_statement_case(_dialect(server, *parts[:2])) for each, parts in STATEMENTS.items()}
    assert told == {each: name for each, (*_, name) in STATEMENTS.items()}


def test_a_server_as_it_is_proves_itself_in_two_statements(server: ServerSessions) -> None:
    server.statements.clear()
    self_test.require_correct_results(_dialect(server), "tables.t.source")
    assert len(server.statements) == 2


def test_a_wrong_statement_is_a_refusal(server: ServerSessions) -> None:
    with pytest.raises(InvalidPolicy, match="computes HAVING differently from Sfumato's SQL"):
        self_test.require_correct_results(_dialect(server, *STATEMENTS["HAVING"][:2]), "tables.t.source")
