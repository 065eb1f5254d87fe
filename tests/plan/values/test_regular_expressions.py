"""Patterns mean what RE2 makes of them, and no way of matching takes more steps than are declared."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product
from random import Random

import duckdb
import pytest

from engine.lowered import selected
from sfumato.errors import Unsupported
from sfumato.plan import costs
from sfumato.plan.values.expressions import Column, Field
from sfumato.plan.values.functions import call, literal
from sfumato.plan.values.regular_expressions import (
    Alternatives,
    Concatenation,
    Letters,
    Part,
    Repetition,
    Search,
    parse_pattern,
    python_pattern,
)
from sfumato.policy import Domain, Type

PATTERNS = [
    "",
    "abc",
    "^a",
    "c$",
    "^$",
    "a.c",
    "a*",
    "^a*b+c?$",
    "(a|b)c",
    "^(ab|a)c",
    "(?:ab){2}",
    "a{2,3}b",
    "a{2,}$",
    "^[a-c]{1,2}[^a]$",
    r"\d\d-\d",
    r"^\w+\s\w",
    r"[\d.]{3}",
    r"\.\*\(",
    "[]a]b",
    "[^]a]b",
    "[a-]-",
    r"[\-\]\\^]",
    "^a|b$|^c.$",
    "é[ß-ü]",
    "😀+",
    "a?b?c",
    r"\Aab\z",
    "a+?b",
    "x{0,2}y",
    "a\nb",
    "a|",
    "(a|bc|)d",
    "a#b c",
    r"\D\W\S",
    "&&[&&a]",
]
REFUSED = [
    "^(a+)+$",
    "^(a|a)*b",
    "^(a*)*$",
    "^(a|b|ab)*y",
    "(a?|b?)c",
    "xa*a*a*a*a*b",
    r"(a)\1",
    "(?=a)b",
    "(?i)a",
    r"\bword\b",
    "a**",
    "*a",
    "(a",
    "a)",
    "[a",
    "[z-a]",
    "[[:alpha:]]",
    "a{3,2}",
    "a{500}",
    "(a{100}){100}",
    "(^a)",
    "a$b",
    "a\\",
    "a" * 201,
    r"[\s\S]",
]
LETTERS = "abc]-^\\.*(&é ßü😀\n0_"


def texts(random: Random, count: int) -> list[str]:
    short = ["".join(letters) for length in range(4) for letters in product("abc", repeat=length)]
    long = ["".join(random.choices(LETTERS, k=random.randrange(1, 12))) for _ in range(count)]
    return [*short, *long, "12-3", "1.2", "foo bar", "a\nb", ".*(", "a#b c", "&&&", "abab", "aaab", "x\ny", "éß"]


def matched(pattern: str, column: Domain) -> str:
    node = call("REGEXP_MATCHES", Column(Field(0, "t", "s"), column), literal(Type.TEXT, pattern))
    return selected([node], "t")


@pytest.fixture(scope="module")
def engine() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        yield connection


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_pattern_means_what_the_engine_makes_of_it(engine: duckdb.DuckDBPyConnection, pattern: str) -> None:
    rows = texts(Random(pattern), 300)
    engine.execute("CREATE OR REPLACE TABLE t AS SELECT unnest(?::VARCHAR[]) AS s", [rows])
    assert engine.execute("SELECT s FROM t").fetchall() == [(text,) for text in rows]
    ours = engine.execute(matched(pattern, Domain("text"))).fetchall()
    theirs = engine.execute("SELECT regexp_matches(s, ?) FROM t", [pattern]).fetchall()
    assert ours == theirs
    in_python = re.compile(python_pattern(parse_pattern(pattern)))
    assert [bool(in_python.search(text)) for text in rows] == [matches for (matches,) in theirs]


@pytest.mark.parametrize("pattern", REFUSED)
def test_other_patterns_are_refused_with_what_to_write(pattern: str) -> None:
    with pytest.raises(Unsupported) as refused:
        call("REGEXP_MATCHES", Column(Field(0, "t", "s"), Domain("text")), literal(Type.TEXT, pattern))
    assert refused.value.code == "regex"
    assert refused.value.fix


def backtracking_steps(search: Search, text: str) -> tuple[bool, int]:
    """Match by trying every way, in the order of an engine that backtracks; count the letters that are compared."""
    steps = 0

    def ways(part: Part, at: int, count: int = 0):  # type: ignore[no-untyped-def]
        nonlocal steps
        match part:
            case Letters(ranges):
                steps += 1
                if at < len(text) and any(low <= ord(text[at]) <= high for low, high in ranges):
                    yield at + 1
            case Concatenation(parts):
                if not parts:
                    yield at
                    return
                for reached in ways(parts[0], at):
                    yield from ways(Concatenation(parts[1:]), reached)
            case Alternatives(options):
                for option in options:
                    yield from ways(option, at)
            case Repetition(repeated, low, high):
                if high is None or count < high:
                    for reached in ways(repeated, at):
                        yield from ways(part, reached, count + 1)
                if count >= low:
                    yield at

    for start in range(1 if search.at_start else len(text) + 1):
        for reached in ways(search.part, start):
            if not search.at_end or reached == len(text):
                return True, steps
    return False, steps


HARD = ["a+b", "^a*b*c$", "(ab|a)(bc|c)x", "^(a|b)*c", "a{2,5}b", "^(a{1,3}b)+c$", "[ab]+c", "(a|b|ab)c", "^a+[ab]+c"]
EXPLOSIVE = ["^(a+)+$", "^(a|a)*b", "^a*a*a*b", "x?(a|b|ab)*y$"]
"""Refused for long texts, and bounded for short ones."""


@pytest.mark.parametrize("pattern", [*PATTERNS, *HARD, *EXPLOSIVE])
def test_no_way_of_matching_takes_more_steps_than_are_declared(pattern: str) -> None:
    """On texts that match nearly to the end, which make an engine try again and again."""
    random = Random(pattern)
    for search in parse_pattern(pattern):
        for _ in range(60):
            letters = random.choice(["a", "ab", "abc", LETTERS])
            text = "".join(random.choices(letters, k=random.choice((1, 8) if pattern in EXPLOSIVE else (1, 8, 25))))
            _, steps = backtracking_steps(search, text)
            assert steps <= search.steps(len(text)), text


@pytest.mark.parametrize("pattern", HARD)
def test_the_declared_cost_of_a_row_covers_the_search(pattern: str) -> None:
    """What a question is charged in steps is at least what its searches take on the longest text of the column."""
    column = Column(Field(0, "t", "s"), Domain("text", max_length=50))
    declared = costs.max_evaluation_steps([call("REGEXP_MATCHES", column, literal(Type.TEXT, pattern))])
    worst = max(
        sum(backtracking_steps(search, letters * (50 // len(letters)))[1] for search in parse_pattern(pattern))
        for letters in ("a", "ab", "b", "aab")
    )
    assert worst <= declared
    longer = Column(Field(0, "t", "s"), Domain("text", max_length=100))
    assert costs.max_evaluation_steps([call("REGEXP_MATCHES", longer, literal(Type.TEXT, pattern))]) > 1.5 * declared


def test_the_count_of_ways_sees_an_explosion() -> None:
    """Its own twin: what is refused would take more steps than any declaration of a text of 20 letters."""
    a = Letters(((97, 97),))
    nested = Search(Concatenation((Repetition(Repetition(a, 1, None), 1, None), Letters(((98, 98),)))), True, True)
    assert backtracking_steps(nested, "a" * 16)[1] > 2**15
