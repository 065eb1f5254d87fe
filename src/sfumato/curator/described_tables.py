"""Descriptions of tables are read without the engine that made them: what there is to ask, with questions to copy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from sfumato.errors import InvalidParameter, Unsupported
from sfumato.notebook_html import folded, paragraph, preformatted, table
from sfumato.privacy import codec
from sfumato.privacy.numbers import NONNEGATIVE, exact
from sfumato.untrusted import printable

_QUESTIONS = 3
"""Questions of each table that a curator shows when it is printed."""


@codec.value("suggestion")
@dataclass(frozen=True)
class Suggestion:
    """A suggestion is a question to copy: what it tells, how it is written, and what it costs."""

    tells: str
    sql: str
    delta: Fraction = Fraction(0)
    """The δ that it needs beside an ε."""
    error: str = ""
    price: str = ""
    """How wrong it will be, and at what price; empty until they were asked for."""

    def __post_init__(self) -> None:
        codec.check_fields(self)
        object.__setattr__(self, "delta", exact(self.delta, "delta", NONNEGATIVE))


@codec.value("table-description")
@dataclass(frozen=True, repr=False)
class TableDescription:
    """A description of a table says whose rows it holds, what its columns may hold, and what can be asked of it."""

    name: str
    about: str
    columns: Mapping[str, str] = field(metadata=codec.MAPPING)
    questions: tuple[Suggestion, ...] = ()

    def __post_init__(self) -> None:
        codec.check_fields(self)
        if not isinstance(self.columns, Mapping) or not {*map(type, self.columns.values())} <= {str}:
            raise InvalidParameter("columns", self.columns, "words by the names of columns")
        if type(self.questions) is not tuple or not {*map(type, self.questions)} <= {Suggestion}:
            raise InvalidParameter("questions", self.questions, "a list of questions to copy")

    @property
    def lines(self) -> list[str]:
        """Write the table and its columns."""
        width = max(map(len, self.columns), default=0)
        shown = [f"  {printable(name):<{width}}  {words}" for name, words in self.columns.items()]
        return [f"{printable(self.name)}: {self.about}", *shown]

    def copied(self, most: int | None = None) -> list[str]:
        """Write the questions to copy."""
        found = []
        for each in self.questions[:most]:
            error = f" ({each.error} at {each.price})" if each.error else ""
            found += [f"  -- {each.tells}{error}", f"  {each.sql}"]
        return found

    def __str__(self) -> str:
        asked = self.copied()
        return "\n".join([*self.lines, *(["", "Questions to copy:", *asked] if asked else [])])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return self.listed_html() + _copied_html(self.copied())

    def listed_html(self) -> str:
        """Write the table and its columns as HTML."""
        listed = table(("column", "what it may hold"), self.columns.items()) if self.columns else ""
        return paragraph(f"{self.name}: {self.about}", strong=True) + listed


@codec.written_as("tables")
@dataclass(frozen=True, repr=False)
class Tables(Mapping[str, TableDescription]):
    """The tables that can be asked about, by name: printed, they say all that the policy does."""

    heading: str
    tables: Mapping[str, TableDescription]

    def __getitem__(self, name: str) -> TableDescription:
        return self.tables[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.tables)

    def __len__(self) -> int:
        return len(self.tables)

    def _ipython_key_completions_(self) -> list[str]:
        return list(self.tables)

    def named(self, name: str) -> TableDescription:
        """Return one table by its name in letters of any case."""
        for each in self.tables.values():
            if each.name.lower() == name.lower():
                return each
        from sfumato.plan.sql.text_positions import nearest  # who only reads descriptions needs no parser

        rule = f"no declared table is called {printable(name[:60])}"
        raise Unsupported("unknown-table", rule, fix=nearest(name, self.tables))

    def to_json(self) -> str:
        """Write the descriptions as JSON text, with a kind and a version."""
        return codec.dumps(_WrittenTables(self.heading, tuple(self.tables), tuple(self.tables.values())))

    @classmethod
    def from_json(cls, source: str) -> Tables:
        """Read back what ``to_json`` wrote; any other text is refused."""
        found = codec.loads_as(_WrittenTables, source)
        return cls(found.heading, dict(zip(found.names, found.tables, strict=True)))

    def brief(self) -> str:
        """Write it all with a few questions of each table."""
        return self._written(_QUESTIONS)

    def _written(self, most: int | None) -> str:
        tables = ["\n".join(each.lines) for each in self.tables.values()]
        asked = [line for each in self.tables.values() for line in each.copied(most)]
        copied = "\n".join(["Questions to copy:", *asked])
        return "\n\n".join([self.heading, *tables, *([copied] if asked else [])])

    def __str__(self) -> str:
        return self._written(None)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        asked = [line for each in self.tables.values() for line in each.copied()]
        listed = "".join(each.listed_html() for each in self.tables.values())
        return paragraph(self.heading) + listed + _copied_html(asked)


@codec.value("tables")
@dataclass(frozen=True)
class _WrittenTables:
    """Descriptions are written so: the names beside them, in their order."""

    heading: str
    names: tuple[str, ...]
    tables: tuple[TableDescription, ...]

    def __post_init__(self) -> None:
        codec.check_fields(self)
        known = type(self.tables) is tuple and {*map(type, self.tables)} <= {TableDescription}
        if not known or len(self.tables) != len(self.names):
            raise InvalidParameter("tables", self.tables, "a description for each name")


def _copied_html(asked: list[str]) -> str:
    return folded("Questions to copy", preformatted("\n".join(asked))) if asked else ""
