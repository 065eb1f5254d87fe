"""Descriptions of tables, with example questions; they can be read without an engine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from fractions import Fraction

from sfumato.errors import InvalidParameter, Unsupported
from sfumato.html_fragments import collapsed, paragraph, preformatted, table
from sfumato.privacy import codec
from sfumato.privacy.numbers import NONNEGATIVE, exact
from sfumato.quick_dataclass import dataclass
from sfumato.untrusted import escape_unprintable

_QUESTIONS = 3
"""Example questions per table in a curator's printed form."""


@codec.serialisable("suggestion")
@dataclass(frozen=True)
class ExampleQuestion:
    """An example question: what it tells, its SQL, and its cost."""

    tells: str
    sql: str
    delta: Fraction = Fraction(0)
    """The δ that it needs in addition to an ε."""
    error: str = ""
    price: str = ""
    """The error and the price; empty until they are computed."""

    def __post_init__(self) -> None:
        codec.check_simple_fields(self)
        object.__setattr__(self, "delta", exact(self.delta, "delta", NONNEGATIVE))


@codec.serialisable("table-description")
@dataclass(frozen=True, repr=False)
class TableDescription:
    """A table's privacy unit, its columns' domains, and example questions."""

    name: str
    about: str
    columns: Mapping[str, str] = field(metadata=codec.MAPPING)
    questions: tuple[ExampleQuestion, ...] = ()

    def __post_init__(self) -> None:
        codec.check_simple_fields(self)
        if not isinstance(self.columns, Mapping) or not {*map(type, self.columns.values())} <= {str}:
            raise InvalidParameter("columns", self.columns, "a mapping from column names to descriptions")
        if type(self.questions) is not tuple or not {*map(type, self.questions)} <= {ExampleQuestion}:
            raise InvalidParameter("questions", self.questions, "a tuple of ExampleQuestion values")

    @property
    def lines(self) -> list[str]:
        """The table and its columns, as lines of text."""
        width = max(map(len, self.columns), default=0)
        column_lines = [f"  {escape_unprintable(name):<{width}}  {words}" for name, words in self.columns.items()]
        return [f"{escape_unprintable(self.name)}: {self.about}", *column_lines]

    def example_lines(self, max_questions: int | None = None) -> list[str]:
        """Return the example questions as lines of text."""
        lines = []
        for suggestion in self.questions[:max_questions]:
            error = f" ({suggestion.error} at {suggestion.price})" if suggestion.error else ""
            lines += [f"  -- {suggestion.tells}{error}", f"  {suggestion.sql}"]
        return lines

    def __str__(self) -> str:
        question_lines = self.example_lines()
        return "\n".join([*self.lines, *(["", "Questions to copy:", *question_lines] if question_lines else [])])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return self.columns_html() + _questions_html(self.example_lines())

    def columns_html(self) -> str:
        """Render the table and its columns as HTML."""
        column_table = table(("column", "what it may hold"), self.columns.items()) if self.columns else ""
        return paragraph(f"{self.name}: {self.about}", strong=True) + column_table


@codec.written_as("tables")
@dataclass(frozen=True, repr=False)
class Tables(Mapping[str, TableDescription]):
    """The tables that can be asked about, by name; printed, they state all that the policy declares."""

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

    def find(self, name: str) -> TableDescription:
        """Return one table by its case-insensitive name."""
        for description in self.tables.values():
            if description.name.lower() == name.lower():
                return description
        from sfumato.plan.sql.text_positions import fix_for_unknown_name  # reading descriptions needs no parser

        rule = f"no declared table is called {escape_unprintable(name[:60])}"
        raise Unsupported("unknown-table", rule, fix=fix_for_unknown_name(name, self.tables))

    def to_json(self) -> str:
        """Serialize the descriptions as JSON text, with a kind and a version."""
        return codec.dumps(_WrittenTables(self.heading, tuple(self.tables), tuple(self.tables.values())))

    @classmethod
    def from_json(cls, source: str) -> Tables:
        """Parse what ``to_json`` wrote; any other text is refused."""
        written = codec.loads_as(_WrittenTables, source)
        return cls(written.heading, dict(zip(written.names, written.tables, strict=True)))

    def brief(self) -> str:
        """Return all descriptions, with a few example questions per table."""
        return self._format_all(_QUESTIONS)

    def _format_all(self, max_questions: int | None) -> str:
        tables = ["\n".join(description.lines) for description in self.tables.values()]
        question_lines = [
            line for description in self.tables.values() for line in description.example_lines(max_questions)
        ]
        questions = "\n".join(["Questions to copy:", *question_lines])
        return "\n\n".join([self.heading, *tables, *([questions] if question_lines else [])])

    def __str__(self) -> str:
        return self._format_all(None)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        question_lines = [line for description in self.tables.values() for line in description.example_lines()]
        tables_html = "".join(description.columns_html() for description in self.tables.values())
        return paragraph(self.heading) + tables_html + _questions_html(question_lines)


@codec.serialisable("tables")
@dataclass(frozen=True)
class _WrittenTables:
    """The serialized form of ``Tables``: the names beside the descriptions, in their order."""

    heading: str
    names: tuple[str, ...]
    tables: tuple[TableDescription, ...]

    def __post_init__(self) -> None:
        codec.check_simple_fields(self)
        is_typed = type(self.tables) is tuple and {*map(type, self.tables)} <= {TableDescription}
        if not is_typed or len(self.tables) != len(self.names):
            raise InvalidParameter("tables", self.tables, "a tuple with one description for each table name")


def _questions_html(question_lines: list[str]) -> str:
    return collapsed("Questions to copy", preformatted("\n".join(question_lines))) if question_lines else ""
