"""Parts of a statement are trees: this says what their names stand for, how they are put together, where they are
refused.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager

from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB

from sfumato.errors import Unsupported
from sfumato.plan.sql.text import MOST_TOKENS, fragment
from sfumato.untrusted import printable

Tree = exp.Expr
Names = Mapping[str, tuple[str, Tree]]
"""What a name stands for, by its small letters: the name as it is shown, and its tree."""
_KEYWORDS = frozenset(DuckDB.Tokenizer.KEYWORDS)
_TOLD = 100
"""Letters of what somebody wrote that are repeated to them."""


@contextmanager
def refused_at(step: str) -> Iterator[None]:
    """Say at which step a statement that is put together is refused, since there is no text to point at."""
    try:
        yield
    except RecursionError:
        raise Unsupported("too-deep", "the question nests too deeply", fix="ask less at once", place=step) from None
    except Unsupported as refusal:
        rule = refusal.rule.removesuffix(f" [{refusal.code}]")
        raise Unsupported(refusal.code, rule, fix=refusal.fix, place=step) from None


def told(text: object) -> str:
    """Show what somebody wrote, on one line and cut short."""
    plain = printable(" ".join(str(text).split()))
    return plain if len(plain) <= _TOLD else f"{plain[: _TOLD - 1]}…"


def read(text: object) -> Tree:
    """Read an expression or a condition."""
    return fragment(text, exp.Condition)


def meant(node: Tree, names: Names, untouched: Collection[int] = ()) -> Tree:
    """Rewrite a part of a statement, with what its names stand for in their places.

    Queries within it have names of their own. Parts whose ids are ``untouched`` are not looked into.
    """
    named = [
        (part, names[part.name.lower()][1])
        for part in parts(node, untouched)
        if isinstance(part, exp.Column) and not part.table and part.name.lower() in names
    ]
    if sum(size(tree) for _, tree in named) > MOST_TOKENS:
        raise Unsupported("too-long", f"a question has at most {MOST_TOKENS:,} words", fix="ask less at once")
    for part, tree in named:
        if part is node:
            return tree.copy()
        part.replace(operand(tree))
    return node


def filled(pattern: Tree, arguments: Mapping[str, Tree]) -> Tree:
    """Fill a pattern of our own with trees in the places of its columns."""
    for part in list(pattern.find_all(exp.Column)):
        part.replace(arguments[part.name].copy())
    return pattern


def parts(node: Tree, untouched: Collection[int] = ()) -> list[Tree]:
    """List a node and all below it but what is within another query."""

    def closed(part: Tree) -> bool:
        return (part is not node and isinstance(part, exp.Query)) or id(part) in untouched

    return list(node.walk(prune=closed))


def size(node: Tree) -> int:
    return sum(1 for _ in node.walk())


def operand(tree: Tree) -> Tree:
    """Make a copy that can stand beside any operator."""
    whole = (exp.Column, exp.Literal, exp.Paren, exp.Count, exp.Sum, exp.Avg)
    return tree.copy() if isinstance(tree, whole) else exp.Paren(this=tree.copy())


def conjunction(conditions: Sequence[Tree]) -> Tree | None:
    """Join all of them by AND: a AND b AND c, flat as it is typed."""
    made: Tree | None = None
    for each in (one for condition in conditions for one in _conjuncts(condition)):
        made = each if made is None else exp.And(this=made, expression=each)
    return made


def _conjuncts(condition: Tree) -> list[Tree]:
    if isinstance(condition, exp.And):
        return [*_conjuncts(condition.this), *_conjuncts(condition.expression)]
    return [exp.Paren(this=condition.copy()) if isinstance(condition, exp.Or) else condition.copy()]


def identifier(name: object) -> exp.Identifier:
    """Write a name as SQL has it, in quotes where it needs them."""
    if not isinstance(name, str) or not name or "\0" in name or any("\ud800" <= each <= "\udfff" for each in name):
        raise Unsupported("not-text", "a name is plain text", fix="write letters, such as visits")
    return exp.to_identifier(name, quoted=True if name.upper() in _KEYWORDS else None)


def written(name: str) -> str:
    """Write a name as people write it in SQL."""
    return identifier(name).sql(dialect="duckdb")


def column(table: str, name: str) -> exp.Column:
    return exp.Column(this=identifier(name), table=identifier(table))


def called(tree: Tree, name: str) -> Tree:
    """Put a column of SELECT under a name."""
    if isinstance(tree, exp.Column) and tree.name == name:
        return tree.copy()
    return exp.Alias(this=tree.copy(), alias=identifier(name))


def owned(alias: str, columns: Collection[str]) -> dict[str, tuple[str, Tree]]:
    """List the names of a table's columns."""
    return {name.lower(): (name, column(alias, name)) for name in columns}


def plainly(select: exp.Select, alias: str) -> exp.Select:
    """A statement about one table names its columns without it, where no name of the answer could be meant."""
    if select.args.get("joins"):
        return select
    clauses = [*select.expressions, *(select.args[part] for part in ("where", "group") if select.args.get(part))]
    for part in (each for clause in clauses for each in parts(clause)):
        if isinstance(part, exp.Column) and part.table == alias:
            part.set("table", None)
    return select
