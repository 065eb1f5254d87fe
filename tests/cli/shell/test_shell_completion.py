"""What Tab offers in the shell: names that the policy declares, functions, words and commands."""

from __future__ import annotations

import pytest

import sfumato as sf
from sfumato.cli.shell.completion import AGGREGATES, Candidate, Completion, common_prefix
from sfumato.errors import Unsupported

NAMES = Completion(
    {"flights": ("day", "origin", "delay"), "Air lines": ("carrier", "Full name")}, ("describe", "delta")
)


def _offered(before: str, after: str = "") -> list[str]:
    return [each.text for each in NAMES.candidates(before, after)]


@pytest.mark.parametrize(
    ("before", "after", "offered"),
    [
        ("SELECT COUNT(*) FROM ", "", ["flights", '"Air lines"']),
        ("SELECT COUNT(*) FROM a", "", ['"Air lines"']),
        ('SELECT COUNT(*) FROM "ai', "", ['"Air lines"']),
        ("SELECT COUNT(*) from fl", "", ["flights"]),
        ("SELECT COUNT(*) FROM flights JOIN ", "", ["flights", '"Air lines"']),
        ("SELECT ", " FROM flights", ["day", "origin", "delay"]),
        ("SELECT ", ' FROM "Air lines"', ["carrier", '"Full name"']),
        ("SELECT f.", " FROM flights f", ["day", "origin", "delay"]),
        ("SELECT ori", "", ["origin"]),
        ("SELECT * FROM flights WHERE origin = 'or", "", []),
        ("SELECT 1 -- it's\n, ori", "", ["origin"]),
        ("\\de", "", ["describe", "delta"]),
        ("\\describe ", "", ["flights", '"Air lines"']),
        ("\\limit r", "", ["rows=", "rows_per_group="]),
        ("\\explain SELECT ori", "", ["origin"]),
        ("\\plot fl", "", []),
        ("SELECT APPROX_T", "", ["APPROX_TOP_K("]),
        ("select approx_t", "", ["approx_top_k("]),
        ("SELEC", "", ["SELECT"]),
    ],
)
def test_what_fits_is_offered(before: str, after: str, offered: list[str]) -> None:
    assert _offered(before, after) == offered


def test_columns_come_before_functions_and_words() -> None:
    kinds = [each.kind for each in NAMES.candidates("SELECT d", " FROM flights")]
    assert kinds == sorted(kinds, key=["column", "table", "function", "word"].index)
    assert {"column", "function", "word"} <= set(kinds)


def test_what_all_begin_with_is_typed() -> None:
    assert common_prefix(NAMES.candidates("\\d")) == (1, "de")
    assert common_prefix(NAMES.candidates("\\de")) == (2, "")
    assert common_prefix([]) == (0, "")
    assert common_prefix([Candidate("origin", 6, "column")]) == (6, "origin")


def test_every_function_that_is_offered_is_known() -> None:
    with sf.open(sf.example()) as flights:
        for name in AGGREGATES:
            assert "is not a supported function" not in _refused(
                flights, f"SELECT {name}(delay, distance) FROM flights"
            )


def _refused(flights: sf.Curator, question: str) -> str:
    try:
        flights.sql(question)
    except Unsupported as refused:
        return refused.rule
    return ""
