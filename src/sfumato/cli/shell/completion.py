"""Tab completion of commands, tables, columns and functions, and splitting of input into statements and commands.

All completed names come from the policy, which is public.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from sfumato.plan.quoting import quoted
from sfumato.plan.sql.question_files import first_statement, is_blank
from sfumato.plan.values.functions import FUNCTIONS

COMMAND_PREFIX = "\\"
_BARE_WORDS = {"help": "\\help", "quit": "\\quit", "exit": "\\quit"}
"""Words that work without a backslash, and their commands."""


def split_input(text: str) -> tuple[list[str], str]:
    r"""Split a text into complete statements and commands, and an unfinished rest.

    >>> split_input("SELECT 1; \\epsilon 0.5\nSELECT")
    (['SELECT 1', '\\epsilon 0.5'], 'SELECT')
    """
    complete = []
    while text := text.lstrip():
        line, _, below = text.partition("\n")
        line = line.strip().rstrip("; ")
        if line.startswith(COMMAND_PREFIX) or line.lower() in _BARE_WORDS:
            complete.append(_BARE_WORDS.get(line.lower(), line))
            text = below
            continue
        first_split = first_statement(text)
        if first_split is None:
            return complete, "" if is_blank(text) else text
        statement, text = first_split
        complete += [statement.strip()] if statement.strip() else []
    return complete, ""


def is_complete(text: str) -> bool:
    """Return whether the text has no unfinished statement."""
    return not split_input(text)[1]


AGGREGATES = (
    *("COUNT", "COUNT_IF", "SUM", "AVG", "MEDIAN", "MIN", "MAX", "MODE", "APPROX_TOP_K", "APPROX_COUNT_DISTINCT"),
    *("QUANTILE_CONT", "QUANTILE_DISC", "PERCENTILE_CONT", "PERCENTILE_DISC", "STDDEV", "STDDEV_POP", "STDDEV_SAMP"),
    *("VARIANCE", "VAR_POP", "VAR_SAMP", "CORR", "COVAR_POP", "COVAR_SAMP", "REGR_SLOPE", "REGR_INTERCEPT", "REGR_R2"),
)
KEYWORDS = (
    *("SELECT", "FROM", "WHERE", "GROUP BY", "HAVING", "ORDER BY", "LIMIT", "AS", "DISTINCT", "FILTER", "JOIN"),
    *("LEFT JOIN", "ON", "USING", "AND", "OR", "NOT", "IN", "BETWEEN", "LIKE", "IS NULL", "CASE", "WHEN", "THEN"),
    *(
        "ELSE",
        "END",
        "WITH",
        "UNION ALL",
        "ASC",
        "DESC",
        "SHOW TABLES",
        "DESCRIBE",
        "DATE",
        "INTERVAL",
        "TRUE",
        "FALSE",
    ),
)
_LIMITS = ("rows=", "groups=", "rows_per_group=", "off")
_WORD = re.compile(r'"[^"]*$|[^\W\d]\w*$')
_TABLE_NEXT = re.compile(r"\b(FROM|JOIN|DESCRIBE)\s+$", re.IGNORECASE)
_LITERAL = re.compile(r"'(?:[^']|'')*'|--[^\n]*")


class Candidate(NamedTuple):
    """A completion for the last letters before the cursor."""

    text: str
    replaced_letters: int
    """The number of letters before the cursor that it replaces."""
    kind: str


@dataclass(frozen=True)
class Completion:
    """The completer of one policy: its public table and column names, and the shell's commands."""

    columns: Mapping[str, tuple[str, ...]]
    """Column names by table."""
    commands: tuple[str, ...]
    table_commands: tuple[str, ...] = field(default=("describe",))
    """Commands that take the name of a table."""

    def candidates(self, before: str, after: str = "") -> list[Candidate]:
        """Return the completions at a cursor with this text before and after it, best matches first."""
        word_match = _WORD.search(before)
        word = word_match.group() if word_match else ""
        preceding = before[: len(before) - len(word)]
        line = before[before.rfind("\n") + 1 :].lstrip()
        if line.startswith(COMMAND_PREFIX):
            name, _, argument = line[len(COMMAND_PREFIX) :].partition(" ")
            return list(self._complete_command(name, argument, word))
        if "'" in _LITERAL.sub("", before):  # inside an unclosed string literal
            return []
        return list(self._complete_statement(preceding, word, before + after))

    def _complete_command(self, name: str, argument: str, word: str) -> Iterator[Candidate]:
        if not argument and word == name:
            yield from _matching(self.commands, word, "command")
        elif name in self.table_commands:
            yield from _matching(map(quoted, self.columns), word, "table")
        elif name == "limit":
            yield from _matching(_LIMITS, word, "limit")
        elif name == "explain":
            yield from self._complete_statement(argument[: len(argument) - len(word)], word, argument)

    def _complete_statement(self, preceding: str, word: str, statement: str) -> Iterator[Candidate]:
        if _TABLE_NEXT.search(preceding):
            yield from _matching(map(quoted, self.columns), word, "table")
            return
        yield from _matching(map(quoted, self._columns_in_scope(statement)), word, "column")
        if (
            preceding.endswith(".") or not word
        ):  # after a table's dot only columns fit; without a letter everything would match
            return
        yield from _matching(map(quoted, self.columns), word, "table")
        functions = (f"{name}(" for name in (*AGGREGATES, *FUNCTIONS) if name[0].isalpha())
        yield from _matching(functions, word, "function")
        yield from _matching(KEYWORDS, word, "word")

    def _columns_in_scope(self, statement: str) -> list[str]:
        """Return the columns of the tables that a statement names, or of all tables if it names none yet."""
        words = {word.lower() for word in re.findall(r'"[^"]*"|\w+', statement)}
        named_tables = [name for name in self.columns if {name.lower(), quoted(name).lower()} & words]
        return list(dict.fromkeys(column for name in named_tables or self.columns for column in self.columns[name]))


def common_prefix(candidates: list[Candidate]) -> tuple[int, str]:
    """Return the number of letters to replace and the common prefix of all candidates, empty if it adds nothing."""
    prefix = os.path.commonprefix([candidate.text for candidate in candidates])  # noqa: RUF071 (of characters, as intended)
    letters = candidates[0].replaced_letters if candidates else 0
    return letters, prefix if len(prefix) > letters or len(candidates) == 1 else ""


def _matching(names: Iterable[str], word: str, kind: str) -> Iterator[Candidate]:
    """Yield the names that start with the word, ignoring case and quotes."""
    unquoted = word.lstrip('"').lower()
    for name in dict.fromkeys(names):
        if name.lstrip('"').lower().startswith(unquoted) and name != word:
            yield Candidate(_match_case(name, word, kind), len(word), kind)


def _match_case(name: str, word: str, kind: str) -> str:
    """Return SQL functions and keywords in lower case if the word is in lower case."""
    return name.lower() if kind in ("function", "word") and word.islower() else name
