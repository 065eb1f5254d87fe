"""Names are completed in the shell: commands, tables, columns and functions, from what the policy declares.

Texts are cut into pieces: statements that a semicolon ends, and commands of one line.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from sfumato.plan.sql.question_files import first_statement, is_blank
from sfumato.plan.values.functions import FUNCTIONS
from sfumato.plan.written_names import quoted

COMMAND = "\\"
_BARE = {"help": "\\help", "quit": "\\quit", "exit": "\\quit"}
"""Words that people type by themselves when they look for the way out, and the commands they mean."""


def pieces(text: str) -> tuple[list[str], str]:
    r"""Cut a text into whole pieces and the rest, in which a statement has begun and not ended.

    >>> pieces("SELECT 1; \\epsilon 0.5\nSELECT")
    (['SELECT 1', '\\epsilon 0.5'], 'SELECT')
    """
    found = []
    while text := text.lstrip():
        line, _, below = text.partition("\n")
        line = line.strip().rstrip("; ")
        if line.startswith(COMMAND) or line.lower() in _BARE:
            found.append(_BARE.get(line.lower(), line))
            text = below
            continue
        cut = first_statement(text)
        if cut is None:
            return found, "" if is_blank(text) else text
        statement, text = cut
        found += [statement.strip()] if statement.strip() else []
    return found, ""


def is_whole(text: str) -> bool:
    """Tell whether nothing in a text waits for its end."""
    return not pieces(text)[1]


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
    """A candidate is what may stand for the last letters before the cursor."""

    text: str
    letters: int
    """How many letters before the cursor it stands for."""
    kind: str


@dataclass(frozen=True)
class Completion:
    """A completion knows the names of one policy, all of which are public."""

    columns: Mapping[str, tuple[str, ...]]
    """The columns of every table."""
    commands: tuple[str, ...]
    about_tables: tuple[str, ...] = field(default=("describe",))
    """Commands that a table's name follows."""

    def candidates(self, before: str, after: str = "") -> list[Candidate]:
        """List what may stand at a cursor with this text before and after it: names that fit there come first."""
        begun = _WORD.search(before)
        word = begun.group() if begun else ""
        rest = before[: len(before) - len(word)]
        line = before[before.rfind("\n") + 1 :].lstrip()
        if line.startswith(COMMAND):
            name, _, given = line[len(COMMAND) :].partition(" ")
            return list(self._of_command(name, given, word))
        if "'" in _LITERAL.sub("", before):  # within a text that is open
            return []
        return list(self._of_statement(rest, word, before + after))

    def _of_command(self, name: str, given: str, word: str) -> Iterator[Candidate]:
        if not given and word == name:
            yield from _matching(self.commands, word, "command")
        elif name in self.about_tables:
            yield from _matching(map(quoted, self.columns), word, "table")
        elif name == "limit":
            yield from _matching(_LIMITS, word, "limit")
        elif name == "explain":
            yield from self._of_statement(given[: len(given) - len(word)], word, given)

    def _of_statement(self, rest: str, word: str, whole: str) -> Iterator[Candidate]:
        if _TABLE_NEXT.search(rest):
            yield from _matching(map(quoted, self.columns), word, "table")
            return
        yield from _matching(map(quoted, self._columns(whole)), word, "column")
        if rest.endswith(".") or not word:  # a table's own column; or all there is, which helps nobody
            return
        yield from _matching(map(quoted, self.columns), word, "table")
        functions = (f"{name}(" for name in (*AGGREGATES, *FUNCTIONS) if name[0].isalpha())
        yield from _matching(functions, word, "function")
        yield from _matching(KEYWORDS, word, "word")

    def _columns(self, whole: str) -> list[str]:
        """List the columns of the tables that a text names, or of all where it names none yet."""
        words = {each.lower() for each in re.findall(r'"[^"]*"|\w+', whole)}
        named = [name for name in self.columns if {name.lower(), quoted(name).lower()} & words]
        return list(dict.fromkeys(column for name in named or self.columns for column in self.columns[name]))


def common(candidates: list[Candidate]) -> tuple[int, str]:
    """Give what all candidates begin with, and how many letters it stands for; no text where that adds nothing."""
    shared = os.path.commonprefix([each.text for each in candidates])  # noqa: RUF071 (of letters, as is meant)
    letters = candidates[0].letters if candidates else 0
    return letters, shared if len(shared) > letters or len(candidates) == 1 else ""


def _matching(names: Iterable[str], word: str, kind: str) -> Iterator[Candidate]:
    """Keep the names that begin as the word does, with or without quotes, in whatever letters."""
    bare = word.lstrip('"').lower()
    for name in dict.fromkeys(names):
        if name.lstrip('"').lower().startswith(bare) and name != word:
            yield Candidate(_cased(name, word, kind), len(word), kind)


def _cased(name: str, word: str, kind: str) -> str:
    """Write functions and words of SQL in small letters where they were begun so."""
    return name.lower() if kind in ("function", "word") and word.islower() else name
