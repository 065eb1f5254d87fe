"""Refusals of statements with the position in the text, and the nearest name that works.

Also here: quantiles of the same rows, to type instead of NTILE, PERCENT_RANK and CUME_DIST over several people.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence

import sqlglot
from sqlglot import ErrorLevel, exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import TokenType

from sfumato.error_facts import join_with_or, quote_parameter
from sfumato.errors import Unsupported
from sfumato.plan.quoting import double_quotes_advice, quoted
from sfumato.plan.sql.dialect import DIALECT
from sfumato.plan.sql.sql_expressions import line_and_column
from sfumato.untrusted import escape_unprintable


def refusal_at(node: exp.Expr, code: str, rule: str, fix: str) -> Unsupported:
    """Return the refusal of a node at its position; of a text where a column was probably meant, say how to name it."""
    line, column = line_and_column(node)
    if code == "type-mismatch" and isinstance(node, exp.Literal) and node.is_string:
        fix = double_quotes_advice(node.name)
    return Unsupported(code, rule, fix=fix, line=line, column=column)


_NAME_CUTOFF = 0.65
"""The similarity at which a name is taken for a known one: hospital is not meant by total."""


def fix_for_unknown_name(word: str, valid_names: Iterable[str]) -> str:
    """Suggest a fix for an unknown name: the closest known one, or all of them."""
    names = sorted(valid_names)
    close = difflib.get_close_matches(word[:100].lower(), [name.lower() for name in names], n=1, cutoff=_NAME_CUTOFF)
    if close:
        return f"did you mean {quoted(next(name for name in names if name.lower() == close[0]))}?"
    listed = [quote_parameter(name) if len(name) > 1 else name for name in map(quoted, names[:20])]
    return f"use {join_with_or(listed)}" if names else "no names can be used here"


_KEYWORDS = ("SELECT", "FROM", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "DISTINCT", "BETWEEN", "JOIN", "UNION")
_SIMILARITY_CUTOFF = 0.75
"""The similarity at which a word is taken for a keyword: FORM and FROM just reach it."""


def suggest_keyword(text: str) -> str:
    """Suggest the keyword that a word of an unreadable text was perhaps meant to be; empty where none is close.

    >>> suggest_keyword("SELEC COUNT(*) FROM flights"), suggest_keyword("SELECT COUNT(* FROM flights")
    ('did you mean SELECT instead of SELEC?', '')
    """
    try:
        words = [token for token in sqlglot.tokenize(text, dialect="duckdb") if token.token_type is TokenType.VAR]
    except SqlglotError:  # a quote or a comment is open, and so is what was meant
        return ""
    for word in words:
        close = difflib.get_close_matches(word.text[:20].upper(), _KEYWORDS, n=1, cutoff=_SIMILARITY_CUTOFF)
        if close and close[0] != word.text.upper():
            return f"did you mean {close[0]} instead of {escape_unprintable(word.text[:20])}?"
    return ""


def suggest_quotes(word: str, column_names: Iterable[str]) -> str:
    """Suggest double quotes around a word of SQL that is also the name of a column; empty for any other word.

    >>> suggest_quotes("alter", ["age", "alter"]), suggest_quotes("age", ["age", "alter"])
    ('alter is a word of SQL: write the column in double quotes, "alter"', '')
    """
    for name in column_names:
        if name.lower() == word.lower() and quoted(name) != name:
            return f"{word} is a word of SQL: write the column in double quotes, {quoted(name)}"
    return ""


_MAX_LENGTH = 60


def node_text(node: exp.Expr) -> str:
    """Return the analyst's own text of a node, with functions as they were typed, truncated."""
    return _sql_excerpt(node, DIALECT).replace("LISTAGG(", "STRING_AGG(")


def full_sql_text(node: exp.Expr) -> str:
    """Return the analyst's own text of a node in full, to be typed again."""
    return _sql_excerpt(node, DIALECT, longest=None)


def _sql_excerpt(node: exp.Expr, dialect: DuckDB, longest: int | None = _MAX_LENGTH) -> str:
    try:
        node_sql = _with_typed_tuples(node).sql(dialect=dialect, unsupported_level=ErrorLevel.IGNORE)
        text = escape_unprintable(node.name if isinstance(node, exp.Literal) else node_sql)
    except (ValueError, RecursionError):
        return "this"
    return text if longest is None or len(text) <= longest else text[: longest - 1] + "…"


def _with_typed_tuples(node: exp.Expr) -> exp.Expr:
    """Keep DISTINCT a, b as it was typed: the dialect would write a CASE."""
    if all(len(counted.expressions) < 2 for counted in node.find_all(exp.Distinct)):
        return node
    typed = node.copy()
    for counted in list(typed.find_all(exp.Distinct)):
        parts = ", ".join(part.sql(dialect=DIALECT) for part in counted.expressions)
        counted.set("expressions", [exp.Var(this=parts)])
    return typed


def default_column_name(node: exp.Expr) -> str:
    """Name an unnamed column by its own text, as databases do: keywords in lower case, names and texts as written."""
    identifiers = {name_node.name for name_node in node.find_all(exp.Identifier)}

    def spell(word: re.Match[str]) -> str:
        is_verbatim = word[0][0] in "'\"" or (word[0] in identifiers and not word.string.startswith("(", word.end()))
        return word[0] if is_verbatim else word[0].lower()

    return _WORD_PATTERN.sub(spell, _sql_excerpt(node, DuckDB()))


_WORD_PATTERN = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|[^\W\d]\w*""")


MAX_LIMITS = 9
"""The most limits between groups that a question with released numbers reads: those of deciles."""
_MAX_PROPOSAL = 900
"""The longest statement that a fix repeats."""
_MARK = "ranked"


def rank_over_units_fix(node: exp.Window) -> str:
    """Propose the question with released quantiles in place of NTILE, or else the quantiles, as whole statements."""
    select, terms, levels = node.find_ancestor(exp.Select), _order_terms(node), _quantile_levels(node)
    is_grouping = isinstance(node.this, exp.Ntile) and len(levels) <= MAX_LIMITS
    if is_grouping and select is not None and len(terms) == 1 and not node.args.get("partition_by"):
        is_descending = bool(terms[0].args.get("desc"))
        groups = _groups_by_limits(select, full_sql_text(terms[0].this), levels, descending=is_descending)
        proposed = _with_groups(node, groups)
        if len(proposed) <= _MAX_PROPOSAL:
            return f"compare with quantiles, so that equal values share a group: {proposed}"
    return quantiles_instead_of_ranks_fix(node)


def quantiles_instead_of_ranks_fix(node: exp.Window) -> str:
    """Propose the quantiles of the rows of a window, as a whole statement."""
    select, terms = node.find_ancestor(exp.Select), _order_terms(node)
    if select is None or len(terms) != 1:
        return "order by one column, and compute its quantiles: QUANTILE_CONT(x, [0.25, 0.5, 0.75])"
    keys = "".join(f"{full_sql_text(key)}, " for key in node.args.get("partition_by") or [])
    item = f"{keys}QUANTILE_CONT({full_sql_text(terms[0].this)}, [{', '.join(_quantile_levels(node))}])"
    quantiles = _rows_with(select, item) + (f" GROUP BY {keys.removesuffix(', ')}" if keys else "")
    with_clause, enclosing_cte = node.root().args.get("with_"), select.find_ancestor(exp.CTE)
    others = (
        []
        if with_clause is None
        else [full_sql_text(cte) for cte in with_clause.expressions if cte is not enclosing_cte]
    )
    prefix = f"WITH {', '.join(others)} " if others else ""
    return f"compute quantiles, which are the limits between groups of rows: {prefix}{quantiles}"


def _order_terms(node: exp.Window) -> list[exp.Expr]:
    order = node.args.get("order")
    return [] if order is None else list(order.expressions)


def _quantile_levels(node: exp.Window) -> list[str]:
    """Return the shares of rows below the limits between groups: those of quarters where no number is written."""
    is_counted = isinstance(node.this, exp.Ntile) and node.this.name.isdecimal()
    count = int(node.this.name) if is_counted and 2 <= int(node.this.name) <= 100 else 4
    return [f"{index / count:.3g}" for index in range(1, count)]


def _groups_by_limits(select: exp.Select, value: str, levels: Sequence[str], *, descending: bool) -> str:
    """Write the number of a row's group: how many limits its value has reached, from 1."""
    comparison, ordered = (">", levels[::-1]) if descending else ("<", levels)
    limits = [_rows_with(select, f"QUANTILE_CONT({value}, {level})") for level in ordered]
    cases = [f"WHEN {value} {comparison} ({limit}) THEN {number}" for number, limit in enumerate(limits, 1)]
    return f"CASE {' '.join(cases)} ELSE {len(levels) + 1} END"


def _rows_with(select: exp.Select, item: str) -> str:
    """Write a SELECT of one item from the same rows."""
    rows = exp.Select(expressions=[exp.Var(this=item)])
    for part in ("from_", "joins", "where"):
        value = select.args.get(part)
        if value:
            rows.set(part, [join.copy() for join in value] if isinstance(value, list) else value.copy())
    return full_sql_text(rows)


def _with_groups(node: exp.Window, groups: str) -> str:
    """Write the whole question with the text of groups in place of a window."""
    node.meta[_MARK] = True
    question = node.root().copy()
    del node.meta[_MARK]
    for window in list(question.find_all(exp.Window)):
        if window.meta.get(_MARK):
            window.replace(exp.Var(this=groups))
    return full_sql_text(question)
