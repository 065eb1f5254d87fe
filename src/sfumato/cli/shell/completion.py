"""Tab completion of commands, tables, columns and functions, and splitting of input into statements and commands.

All completed names come from the policy, which is public.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from typing import NamedTuple

from sfumato.plan.quoting import quoted
from sfumato.plan.sql.text import has_open_quote, is_blank, split_first_statement
from sfumato.plan.values.functions import FUNCTIONS
from sfumato.quick_dataclass import dataclass

COMMAND_PREFIX = "\\"
_BARE_WORDS = {"help": "\\help", "quit": "\\quit", "exit": "\\quit"}
"""Words that work without a backslash where a statement may begin, and their commands."""
_DOT_COMMANDS = frozenset({"tables", "schema", "help", "quit", "exit", "reset"})
"""Commands of other shells that work with a dot within a statement too, where a line may begin with .column."""
_WAYS_OUT = frozenset({"\\q", "\\quit", "\\exit", "\\reset", "\\r"})
"""Commands that work even within an open quote, so that a forgotten one traps nobody."""


def split_input(text: str) -> tuple[list[str], str]:
    r"""Split a text into complete statements and commands, and an unfinished statement.

    A command on a line of its own works within an unfinished statement too, which stays unfinished.

    >>> split_input("SELECT 1; \\epsilon 0.5\nSELECT")
    (['SELECT 1', '\\epsilon 0.5'], 'SELECT')
    >>> split_input("SELECT COUNT(*)\n.tables\nFROM")
    (['\\tables'], 'SELECT COUNT(*)\nFROM')
    """
    complete: list[str] = []
    unfinished = ""
    for line in text.splitlines(keepends=True):
        command = _as_command(line, unfinished)
        if command is not None:
            complete.append(command)
            continue
        unfinished += line
        while (first_split := split_first_statement(unfinished)) is not None:
            statement, unfinished = first_split
            complete += [statement.strip()] if statement.strip() else []
            command = _as_command(unfinished, "")
            if command is not None:
                complete.append(command)
                unfinished = ""
    unfinished = unfinished.lstrip()
    return complete, "" if is_blank(unfinished) else unfinished


def _as_command(line: str, before: str) -> str | None:
    """Return the command on a line after an unfinished text, with a backslash; None for a line of SQL."""
    words = line.strip().rstrip("; ")
    name = words.split(" ")[0].lower()
    if not (name.startswith((COMMAND_PREFIX, ".")) or name in _BARE_WORDS) or name == ".":
        return None
    command = words if name.startswith(COMMAND_PREFIX) else COMMAND_PREFIX + words[1:]
    if not before.strip() or is_blank(before):
        return _BARE_WORDS.get(words.lower(), None if name in _BARE_WORDS else command)
    if name in _BARE_WORDS or (name.startswith(".") and name[1:] not in _DOT_COMMANDS):
        return None
    return command if command.lower() in _WAYS_OUT or not has_open_quote(before) else None


def is_complete(text: str) -> bool:
    """Return whether the text has no unfinished statement, or ends with a command."""
    complete, unfinished = split_input(text)
    last_line = text.rstrip().rpartition("\n")[2]
    return not unfinished or (bool(complete) and complete[-1] == _as_command(last_line, unfinished))


def is_command_inside_statement(line: str) -> bool:
    """Return whether a line within a statement is probably meant as a command: quit, exit or help."""
    return line.strip().rstrip("; ").lower() in _BARE_WORDS


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
        "SUMMARIZE",
        "DATE",
        "INTERVAL",
        "TRUE",
        "FALSE",
    ),
)
_LIMITS = ("rows=", "groups=", "rows_per_group=", "off")
_WORD = re.compile(r'"[^"]*$|[^\W\d]\w*$')
_TABLE_NEXT = re.compile(r"\b(FROM|JOIN|DESCRIBE|SUMMARIZE)\s+$", re.IGNORECASE)
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
        mentioned_tables = [name for name in self.columns if {name.lower(), quoted(name).lower()} & words]
        return list(dict.fromkeys(column for name in mentioned_tables or self.columns for column in self.columns[name]))


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
