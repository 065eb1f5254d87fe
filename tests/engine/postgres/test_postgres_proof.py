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
from sfumato.engine import proving
from sfumato.engine.lowering.relational import Aggregation, Frame, Operation, Place, Select
from sfumato.engine.postgres.connection import Server
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


def _changed(operation: Operation, form: str) -> Wrong:
    """Write the right expression with something done to it."""
    right = generator._WRITERS[operation]
    return lambda *written: form.format(right(*written))


OPERATIONS: dict[Operation, tuple[Wrong, str]] = {
    Operation.EQUAL: (_instead("IS NOT DISTINCT FROM"), "equality of texts"),
    Operation.UNEQUAL: (_instead("IS DISTINCT FROM"), "<> of whole numbers"),
    Operation.LESS: (_instead("<="), "< of reals"),
    Operation.AT_MOST: (_instead("<"), "<= of reals"),
    Operation.GREATER: (_instead(">="), "> of reals"),
    Operation.AT_LEAST: (_instead(">"), ">= of reals"),
    Operation.AND: (lambda _, x, y: f"({x} AND COALESCE({y}, FALSE))", "AND"),
    Operation.OR: (lambda _, x, y: f"({x} OR COALESCE({y}, FALSE))", "OR"),
    Operation.NOT: (_around("({} IS NOT TRUE)"), "NOT"),
    Operation.BETWEEN: (lambda _, x, low, high: f"({x} > {low} AND {x} <= {high})", "BETWEEN"),
    Operation.IN: (lambda _, x, *all: f"COALESCE({x} IN ({', '.join(all)}), FALSE)", "IN"),
    Operation.IS_NULL: (_around("({} IS NOT TRUE)"), "IS NULL"),
    Operation.IS_TRUE: (_around("({} IS NOT FALSE)"), "IS TRUE"),
    Operation.IS_FALSE: (_around("({} IS NOT TRUE)"), "IS FALSE"),
    Operation.CASE: (lambda _, test, x, *__: f"CASE WHEN {test} IS NOT FALSE THEN {x} END", "CASE"),
    Operation.COALESCE: (_around("{}"), "COALESCE"),
    Operation.LEAST: (lambda _, *xs: f"NULLIF(LEAST({', '.join(xs)}), {xs[-1]})", "LEAST"),
    Operation.GREATEST: (lambda _, *xs: f"NULLIF(GREATEST({', '.join(xs)}), {xs[-1]})", "GREATEST"),
    Operation.ADD: (_instead("-"), "+"),
    Operation.SUBTRACT: (_instead("+"), "- of whole numbers"),
    Operation.MULTIPLY: (_instead("+"), "*"),
    Operation.DIVIDE: (_instead("*"), "/"),
    Operation.DIVIDE_WHOLE: (lambda _, x, y: f"CAST(FLOOR(CAST({x} AS NUMERIC) / {y}) AS BIGINT)", "//"),
    Operation.DIVIDE_WIDE: (lambda _, x, y: f"FLOOR({x} / {y})", "// of wide numbers"),
    Operation.REMAINDER: (lambda _, x, y: f"ABS({x} % {y})", "%"),
    Operation.NEGATE: (_around("ABS({})"), "the negative of a whole number"),
    Operation.ABS: (_around("{}"), "ABS of a whole number"),
    Operation.SIGN: (_around("ABS(SIGN({}))"), "SIGN of a whole number"),
    Operation.FLOOR: (_around("TRUNC({})"), "FLOOR"),
    Operation.CEILING: (_around("ROUND({})"), "CEIL"),
    Operation.TRUNCATE: (_around("FLOOR({})"), "TRUNC"),
    Operation.HALF_AWAY: (_around("ROUND({})"), "ROUND"),
    Operation.SQRT: (_around("CBRT({})"), "SQRT"),
    Operation.LN: (_around("LOG({})"), "LN"),
    Operation.EXP: (_around("(EXP({}) * 1.000000000000001)"), "EXP"),
    Operation.POWER: (lambda _, x, __: f"({x} * {x})", "POWER"),
    Operation.NEAREST: (_around("CAST(TRUNC({}) AS BIGINT)"), "the nearest whole number"),
    Operation.TOWARD_ZERO: (_around("CAST({} AS BIGINT)"), "the whole number toward zero"),
    Operation.CONVERT: (_changed(Operation.CONVERT, "NULLIF({0}, {0})"), "// of wide numbers"),
    Operation.LENGTH: (_around("CAST(OCTET_LENGTH({}) AS BIGINT)"), "LENGTH"),
    Operation.JOIN: (lambda _, *texts: f"CONCAT({', '.join(texts)})", "||"),
    Operation.REPLACE: (_around("{}"), "REPLACE"),
    Operation.SLICE: (lambda _, x, first, __: f"SUBSTR({x}, CAST(LEAST({first}, 1000) AS INTEGER))", "SUBSTR"),
    Operation.TRIM: (_around("BTRIM({})"), "TRIM"),
    Operation.LIKE: (lambda _, x, pattern: f"({x} LIKE '{pattern}')", "LIKE"),
    Operation.MATCHES: (
        lambda _, x, grammar: f"({x} ~ '(?n)^({grammar})$')",
        "a regular expression over lines",
    ),
    Operation.READ: (_changed(Operation.READ, "NULLIF({0}, {0})"), "CAST to a whole number"),
    Operation.CODE: (_around("UPPER({})"), "a code of a text"),
    Operation.DIGEST: (lambda _, *texts: f"MD5(CONCAT({', '.join(texts)}))", "MD5"),
    Operation.PART: (_changed(Operation.PART, "({} % 53)"), "EXTRACT(year)"),
    Operation.START: (_around("{}"), "DATE_TRUNC(year)"),
    Operation.MOVED: (_around("{}"), "a date and -1 day"),
    Operation.DAYS: (_changed(Operation.DAYS, "(-{})"), "DATE_DIFF of dates"),
    Operation.SECONDS: (lambda _, x: f"CAST(EXTRACT(EPOCH FROM {x}) AS BIGINT)", "seconds of a time"),
}
"""A spelling of each operation that some dialect or an inattentive writer might have, and what is told of it."""
LETTERS = {Operation.LOWER, Operation.UPPER}
"""What is proved by itself, under one collation after another."""
ROWS: dict[object, tuple[str, str, str]] = {
    Aggregation.SUM_OF_NARROW: (r"SUM\(", "-SUM(", "SUM"),
    Aggregation.MIN: (r"\bMIN\(", "MAX(", "MIN of whole numbers"),
    Aggregation.MAX: (r"\bMAX\(", "MIN(", "MAX of texts"),
    Place.ROW_NUMBER: (r"\bROW_NUMBER\(\)", "NTILE(3)", "ORDER BY of texts"),
    Place.RANK: (r"\bRANK\(\)", "DENSE_RANK()", "RANK"),
    Place.DENSE_RANK: (r"\bDENSE_RANK\(\)", "RANK()", "DENSE_RANK"),
    Frame.PEERS: ("RANGE BETWEEN", "ROWS BETWEEN", "a window up to its peers"),
    Frame.ROWS: (
        "ROWS (BETWEEN UNBOUNDED PRECEDING AND) CURRENT ROW",
        r"ROWS \1 1 PRECEDING",
        "a window up to its row",
    ),
    Frame.WHOLE: ("AND UNBOUNDED FOLLOWING", "AND CURRENT ROW", "SUM"),
    "LAG": (r"\bLAG\(", "LEAD(", "LAG"),
    "LEAD": (r"\bLEAD\(", "LAG(", "LEAD"),
    "ORDER": ("NULLS LAST", "NULLS FIRST", "ROW_NUMBER"),
    "PARTITION": (r'PARTITION BY r\."b"', "PARTITION BY 0::text", "PARTITION BY"),
}
STATEMENTS: dict[object, tuple[str, str, str]] = {
    Aggregation.COUNT: (r"COUNT\(\*\)", 'COUNT(r."i")', "COUNT"),
    Aggregation.UNITS: (r"COUNT\(DISTINCT ", "COUNT(", "COUNT DISTINCT"),
    Aggregation.SUM: (r"SUM\(", "SUM(DISTINCT ", "SUM of a group"),
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
def server(postgres: PostgresServer) -> Iterator[Server]:
    made = Server(postgres.address(), "tables")
    yield made
    made.close()


def _dialect(server: Server, pattern: str = "", instead: str = "") -> proving.Dialect:
    def run(statement: str, parameters: Sequence[object]) -> list[tuple[Any, ...]]:
        return server.run(re.sub(pattern, instead, statement) if pattern else statement, parameters)

    return proving.Dialect(PostgresSpelling(), carried_scan, run)


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
    selects: list[Select] = [case.select for case in statement_cases.cases()]
    proved = {each for one in (*(case.scalar for case in proving.cases()), *selects) for each in _within(one)}
    members = {*Operation, *Aggregation, *Place, *Frame} - LETTERS
    assert members - proved == set()
    assert members - {*OPERATIONS, *ROWS, *STATEMENTS} == set()


def test_a_wrong_operation_is_found_by_its_name(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    dialect, cases = _dialect(server), proving.cases()
    told = {}
    for operation, (wrong, _) in OPERATIONS.items():
        own = [case for case in cases if operation in _within(case.scalar)]
        with monkeypatch.context() as patch:
            patch.setitem(generator._WRITERS, operation, wrong)
            told[operation] = proving.wrong_of_rows(dialect, own)
    assert told == {operation: name for operation, (_, name) in OPERATIONS.items()}


def test_a_wrong_window_or_total_is_found_by_its_name(server: Server) -> None:
    told = {each: proving.wrong_of_rows(_dialect(server, *parts[:2])) for each, parts in ROWS.items()}
    assert told == {each: name for each, (*_, name) in ROWS.items()}


def test_a_wrong_statement_is_found_by_its_name(server: Server) -> None:
    told = {each: proving.wrong_of_statements(_dialect(server, *parts[:2])) for each, parts in STATEMENTS.items()}
    assert told == {each: name for each, (*_, name) in STATEMENTS.items()}


def test_a_server_as_it_is_proves_itself_in_two_statements(server: Server) -> None:
    server.statements.clear()
    proving.prove(_dialect(server), "tables.t.source")
    assert len(server.statements) == 2


def test_a_wrong_statement_is_a_refusal(server: Server) -> None:
    with pytest.raises(InvalidPolicy, match="computes HAVING in another way"):
        proving.prove(_dialect(server, *STATEMENTS["HAVING"][:2]), "tables.t.source")
