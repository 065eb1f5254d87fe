"""Trees of parts of a statement: parsing, name resolution, and composition.

Also here: conditions that a policy declares impossible for the rows of a table.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager

from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB

from sfumato.errors import InvalidPolicy, Unsupported
from sfumato.plan.sql.sql_expressions import lower_expression
from sfumato.plan.sql.text import MAX_TOKENS, parse_fragment
from sfumato.plan.sql.text_positions import fix_for_unknown_name
from sfumato.plan.values.expressions import Column, Expression, Field
from sfumato.plan.values.functions.declaring import require_boolean
from sfumato.policy import Table
from sfumato.policy.codings import CELLS_RULE
from sfumato.untrusted import escape_unprintable

Tree = exp.Expr
Names = Mapping[str, tuple[str, Tree]]
"""The definition of a name, by its lower-case form: the name as displayed, and its tree."""
_KEYWORDS = frozenset(DuckDB.Tokenizer.KEYWORDS)
_MAX_QUOTED = 100
"""The most letters of a user's text that are repeated in a message."""


@contextmanager
def step_in_refusals(step: str) -> Iterator[None]:
    """Add the builder step to a refusal, since there is no text to point at."""
    place = f'the step "{step}"'
    try:
        yield
    except RecursionError:
        raise Unsupported(
            "too-deep", "the question is nested too deeply", fix="split it into several questions", place=place
        ) from None
    except Unsupported as refusal:
        rule = refusal.rule.removesuffix(f" [{refusal.code}]")
        raise Unsupported(refusal.code, rule, fix=refusal.fix, place=place) from None


def one_line_excerpt(text: object) -> str:
    """Return a user's text on one line, truncated."""
    plain = escape_unprintable(" ".join(str(text).split()))
    return plain if len(plain) <= _MAX_QUOTED else f"{plain[: _MAX_QUOTED - 1]}…"


def parse_expression(text: object, names: Names | None = None) -> Tree:
    """Parse an expression or a condition; ``names`` are those that it may use."""
    column_names = () if names is None else [name for name, _ in names.values()]
    return parse_fragment(text, exp.Condition, column_names)


def substitute_names(node: Tree, names: Names, not_entered: Collection[int] = ()) -> Tree:
    """Substitute the definitions of names into a tree.

    Queries within it have their own names. Nodes whose ids are ``not_entered`` are not entered.
    """
    replacements = [
        (part, names[part.name.lower()][1])
        for part in nodes_outside_subqueries(node, not_entered)
        if isinstance(part, exp.Column) and not part.table and part.name.lower() in names
    ]
    if sum(node_count(tree) for _, tree in replacements) > MAX_TOKENS:
        raise Unsupported(
            "too-long", f"a question can have at most {MAX_TOKENS:,} SQL tokens", fix="split it into several questions"
        )
    for part, tree in replacements:
        if part is node:
            return tree.copy()
        part.replace(as_operand(tree))
    return node


def substitute_columns_in_place(pattern: Tree, arguments: Mapping[str, Tree]) -> Tree:
    """Replace the columns of a pattern by trees, in place."""
    for part in list(pattern.find_all(exp.Column)):
        part.replace(arguments[part.name].copy())
    return pattern


def nodes_outside_subqueries(node: Tree, not_entered: Collection[int] = ()) -> list[Tree]:
    """List a node and the nodes below it: nested queries and ``not_entered`` nodes too, but nothing in them."""

    def is_closed(part: Tree) -> bool:
        return (part is not node and isinstance(part, exp.Query)) or id(part) in not_entered

    return list(node.walk(prune=is_closed))


def node_count(node: Tree) -> int:
    return sum(1 for _ in node.walk())


def as_operand(tree: Tree) -> Tree:
    """Return a copy that can be an operand of any operator."""
    atomic = (exp.Column, exp.Literal, exp.Paren, exp.Count, exp.Sum, exp.Avg)
    return tree.copy() if isinstance(tree, atomic) else exp.Paren(this=tree.copy())


def conjunction(conditions: Sequence[Tree]) -> Tree | None:
    """Return the conjunction of the conditions: a AND b AND c, flat as it is typed."""
    joined: Tree | None = None
    for conjunct in (part for condition in conditions for part in _conjuncts(condition)):
        joined = conjunct if joined is None else exp.And(this=joined, expression=conjunct)
    return joined


def _conjuncts(condition: Tree) -> list[Tree]:
    if isinstance(condition, exp.And):
        return [*_conjuncts(condition.this), *_conjuncts(condition.expression)]
    return [exp.Paren(this=condition.copy()) if isinstance(condition, exp.Or) else condition.copy()]


def identifier(name: object) -> exp.Identifier:
    """Return a name as an SQL identifier, quoted where it needs to be."""
    if not isinstance(name, str) or not name or "\0" in name or any("\ud800" <= letter <= "\udfff" for letter in name):
        raise Unsupported("not-text", "a name must be plain text", fix="pass a name such as 'visits'")
    return exp.to_identifier(name, quoted=True if name.upper() in _KEYWORDS else None)


def identifier_sql(name: str) -> str:
    """Write a name as an SQL identifier."""
    return identifier(name).sql(dialect="duckdb")


def qualified_column(table: str, name: str) -> exp.Column:
    return exp.Column(this=identifier(name), table=identifier(table))


def with_alias(tree: Tree, name: str) -> Tree:
    """Return a column of SELECT under a name."""
    if isinstance(tree, exp.Column) and tree.name == name:
        return tree.copy()
    return exp.Alias(this=tree.copy(), alias=identifier(name))


def qualified_columns(alias: str, columns: Collection[str]) -> dict[str, tuple[str, Tree]]:
    """Return the names of a table's columns."""
    return {name.lower(): (name, qualified_column(alias, name)) for name in columns}


def drop_qualifier(select: exp.Select, alias: str) -> exp.Select:
    """Remove the qualifier from the columns of a statement about one table, except where an output's name could be
    meant.
    """
    if select.args.get("joins"):
        return select
    clauses = [*select.expressions, *(select.args[part] for part in ("where", "group") if select.args.get(part))]
    for part in (node for clause in clauses for node in nodes_outside_subqueries(clause)):
        if isinstance(part, exp.Column) and part.table == alias:
            part.set("table", None)
    return select


def impossible_row_conditions(table: Table) -> tuple[Expression, ...]:
    """Return the conditions that no row of a table meets; refuse anything but conditions on one row's coded columns."""
    return tuple(
        _lower_impossible_condition(table, text, f"tables.{table.name}.impossible[{index}]")
        for index, text in enumerate(table.impossible)
    )


def _lower_impossible_condition(table: Table, text: str, policy_path: str) -> Expression:
    try:
        tree = parse_expression(text)
        if any(isinstance(part, exp.Query) for part in nodes_outside_subqueries(tree)[1:]):
            raise Unsupported(
                "subquery", "this condition can only read columns of the same row", fix="leave out the subquery"
            )
        return require_boolean(lower_expression(tree, lambda qualifier, name: _coded_column(table, qualifier, name)))
    except Unsupported as refusal:
        rule, fix = refusal.rule.removesuffix(f" [{refusal.code}]"), refusal.fix
    raise InvalidPolicy(rule, place=policy_path, fix=fix)


def _coded_column(table: Table, qualifier: str | None, name: str) -> Expression:
    columns_by_name = {column.lower(): column for column in table.columns}
    if qualifier is not None and qualifier.lower() != table.name.lower():
        raise Unsupported(
            "unknown-alias",
            f"no table in this question is named '{qualifier[:60]}'",
            fix="write column names without a table",
        )
    if name.lower() not in columns_by_name:
        rule = f"the policy declares no column named '{name[:60]}'"
        raise Unsupported("unknown-column", rule, fix=fix_for_unknown_name(name, table.columns))
    column = columns_by_name[name.lower()]
    if not table.is_coded(column):
        rule = f'"{column}" cannot be counted by values or bins: {CELLS_RULE}'
        raise Unsupported("uncoded-column", rule, fix=f"add values or bins to {table.name}.{column} in the policy")
    return Column(Field(0, table.name, column), table.columns[column])
