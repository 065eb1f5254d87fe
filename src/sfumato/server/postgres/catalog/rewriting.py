"""Generate DuckDB's SQL for a parsed catalog statement: one named rule after another, over its syntax tree.

Nothing of a client's text reaches DuckDB: tables and functions come from the lists, names are quoted, and parameters
become literals, which like PostgreSQL's untyped literals take the type of what they are compared with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from sqlglot import exp

from sfumato.quick_dataclass import dataclass
from sfumato.server.postgres.catalog.parsing import (
    CATALOG_SCHEMAS,
    EMPTY_TABLE_FUNCTIONS,
    MACRO_PREFIX,
    SETTABLE,
    catalog_refusal,
    find_relation,
    printable_name,
    require_type_name,
    table_references,
)
from sfumato.server.postgres.catalog.relations import (
    FUNCTION_SCHEMA,
    SCHEMA,
    CatalogRelation,
    catalog_relations,
    duckdb_type,
)
from sfumato.server.postgres.catalog.result_columns import column_name

NAME_TYPES = ("text", "varchar", "name", "bpchar", "char")
"""Types whose values are texts."""
_OBJECT_TYPES = ("regclass", "regtype", "regnamespace", "regrole")
"""Types whose values are OIDs that are shown as names."""
_PROCEDURE_TYPES = ("regproc", "regprocedure", "regoper", "regoperator", "regconfig", "regdictionary", "regcollation")
"""Types whose values the catalog stores as names."""
_REGPROC_COLUMNS = frozenset(
    name for relation in catalog_relations().values() for name, kind in relation.columns.items() if kind == "regproc"
)
_ARRAY_COLUMNS = frozenset(
    name for relation in catalog_relations().values() for name, kind in relation.columns.items() if kind.startswith("_")
)


_Node = TypeVar("_Node", bound=exp.Expr)


@dataclass(frozen=True)
class NameMeanings:
    """What the names in a statement mean: the database, and the OIDs of relations and types by their spellings."""

    database: str
    relation_oids: Mapping[str, int]
    type_oids: Mapping[str, int]


def rewrite_for_duckdb(tree: exp.Query, names: NameMeanings, parameters: Sequence[str | None]) -> exp.Query:
    """Apply every rule to a checked statement; its tree is changed."""
    bind_parameters_in_place(tree, parameters)
    fold_identifiers(tree)
    unqualify_functions(tree)
    alias_unnamed_columns(tree)
    replace_system_columns(tree, names)
    replace_tables(tree, names)
    rename_with_queries(tree)
    replace_table_functions(tree)
    replace_literals(tree)
    replace_operators(tree)
    replace_quantifiers(tree)
    replace_casts(tree, names)
    replace_functions(tree)
    return tree


def _inner_nodes_first(tree: exp.Expr, *kinds: type[_Node]) -> Iterable[_Node]:
    """Return the nodes of some kinds, inner ones first, so that a rule may wrap what an earlier step made."""
    return reversed([*tree.find_all(*kinds)])


def _function_call(name: str, *arguments: exp.Expr) -> exp.Anonymous:
    return exp.Anonymous(this=name, expressions=[*arguments])


# ── names and parameters ───────────────────────────────────────────────────────────────────────


def bind_parameters_in_place(tree: exp.Expr, parameters: Sequence[str | None]) -> None:
    for node in _inner_nodes_first(tree, exp.Parameter):
        number = node.name
        if not number.isdigit() or not 1 <= int(number) <= len(parameters):
            raise catalog_refusal(
                "parameter", f"there is no parameter ${printable_name(number)}", "bind a value for each parameter"
            )
        value = parameters[int(number) - 1]
        is_count = isinstance(node.parent, (exp.Limit, exp.Offset))
        if value is None:
            node.replace(exp.Null())
        elif is_count and value.isdigit():
            node.replace(exp.Literal.number(value))
        else:
            node.replace(exp.Literal.string(value))


def fold_identifiers(tree: exp.Expr) -> None:
    """Lower the case of unquoted names, and quote all of them."""
    for identifier in tree.find_all(exp.Identifier):
        if not identifier.args.get("quoted"):
            identifier.set("this", identifier.name.lower())
            identifier.set("quoted", True)
    for text in _inner_nodes_first(tree, exp.ByteString):
        text.replace(exp.Literal.string(text.name))


def unqualify_functions(tree: exp.Expr) -> None:
    """Drop the schema of functions; one of another schema than the catalog's is not known."""
    for dot in _inner_nodes_first(tree, exp.Dot):
        if isinstance(dot.expression, exp.Func) and isinstance(dot.this, exp.Identifier):
            if dot.this.name not in CATALOG_SCHEMAS:
                qualified = f"{dot.this.name}.{dot.expression.name}"
                raise catalog_refusal(
                    "function",
                    f"the function {printable_name(qualified)} is not known",
                    "call a function of the schema pg_catalog",
                )
            dot.replace(dot.expression)


def alias_unnamed_columns(tree: exp.Expr) -> None:
    """Give unnamed columns the names that PostgreSQL would, since later rules change their expressions."""
    for select in tree.find_all(exp.Select):
        for projection in select.expressions:
            if not isinstance(projection, exp.Alias) and not projection.is_star:
                alias = exp.to_identifier(column_name(projection), quoted=True)
                projection.replace(exp.Alias(this=projection.copy(), alias=alias))


def replace_system_columns(tree: exp.Expr, names: NameMeanings) -> None:
    """Drop the schema of columns, and replace ``tableoid`` by the OID of the relation."""
    oids = {table.alias_or_name: find_relation(table, names.database).oid for table in table_references(tree)}
    for column in _inner_nodes_first(tree, exp.Column):
        column.set("db", None)
        column.set("catalog", None)
        if column.name == "tableoid" and column.table in oids:
            column.replace(_oid_literal(oids[column.table]))


def _oid_literal(value: int) -> exp.Expr:
    return exp.cast(exp.Literal.number(value), "UINTEGER", dialect="duckdb")


# ── relations ──────────────────────────────────────────────────────────────────────────────────


def replace_tables(tree: exp.Expr, names: NameMeanings) -> None:
    """Read each relation from the schema that holds the catalog, under the alias it had."""
    for table in [*table_references(tree)]:
        relation = find_relation(table, names.database)
        if not table.alias:
            table.set("alias", exp.TableAlias(this=exp.to_identifier(table.name, quoted=True)))
        table.set("this", exp.to_identifier(relation.stored_table_name, quoted=True))
        table.set("db", exp.to_identifier(SCHEMA, quoted=True))
        table.set("catalog", None)


_WITH_PREFIX = "with query "
"""No relation or function of DuckDB begins so: a WITH query that it does not find where we do is found nowhere."""


def rename_with_queries(tree: exp.Expr) -> None:
    """Give WITH queries names that nothing else has, and read them under the names they had."""
    for table in tree.find_all(exp.Table):
        if isinstance(table.this, exp.Identifier) and not table.db:
            if not table.alias:
                table.set("alias", exp.TableAlias(this=exp.to_identifier(table.name, quoted=True)))
            table.set("this", exp.to_identifier(_WITH_PREFIX + table.name, quoted=True))
    for query in tree.find_all(exp.CTE):
        query.args["alias"].set("this", exp.to_identifier(_WITH_PREFIX + query.alias, quoted=True))


def replace_table_functions(tree: exp.Expr) -> None:
    """Read a function in FROM as a subquery: ``unnest(x) AS s(n)`` is ``(SELECT unnest(x) AS n) AS s``."""
    for table in _inner_nodes_first(tree, exp.Table, exp.Unnest):
        if isinstance(table, exp.Unnest) or not isinstance(table.this, exp.Identifier):
            table.replace(_function_subquery(table))


def _function_subquery(table: exp.Expr) -> exp.Expr:
    """Return what is read in place of a function: its rows where it is stored, or else a subquery."""
    function = exp.Explode(this=table.expressions[0]) if isinstance(table, exp.Unnest) else table.this
    name = column_name(function)
    alias = table.args.get("alias") or exp.TableAlias()
    if (FUNCTION_SCHEMA, name) in catalog_relations():
        return _stored_function_table(catalog_relations()[FUNCTION_SCHEMA, name], alias)
    columns = [column.name for column in alias.args.get("columns") or ()]
    values = _function_columns(function, columns or [alias.name or name])
    offset = table.args.get("offset")
    if offset:
        series = _subscripts_of_array(function.this.copy())
        values.append(exp.alias_(series, offset.name if isinstance(offset, exp.Identifier) else "ordinality"))
    select = exp.Select(expressions=values)
    if name in EMPTY_TABLE_FUNCTIONS:
        select.set("where", exp.Where(this=exp.false()))
    return exp.Subquery(this=select, alias=exp.TableAlias(this=exp.to_identifier(alias.name or name, quoted=True)))


def _stored_function_table(relation: CatalogRelation, alias: exp.Expr) -> exp.Table:
    table_alias = exp.TableAlias(this=exp.to_identifier(alias.name or relation.name, quoted=True))
    stored_table = exp.to_identifier(relation.stored_table_name, quoted=True)
    return exp.Table(this=stored_table, db=exp.to_identifier(SCHEMA, quoted=True), alias=table_alias)


def _function_columns(function: exp.Expr, columns: list[str]) -> list[exp.Expr]:
    name = column_name(function)
    if name in EMPTY_TABLE_FUNCTIONS:
        column_names = [*columns, *EMPTY_TABLE_FUNCTIONS[name][len(columns) :]] if len(columns) > 1 else None
        return [
            exp.alias_(exp.cast(exp.Null(), "VARCHAR"), column, quoted=True)
            for column in column_names or EMPTY_TABLE_FUNCTIONS[name]
        ]
    return [exp.alias_(function.copy(), columns[0], quoted=True)]


# ── operators ──────────────────────────────────────────────────────────────────────────────────

_QUALIFIED_OPERATORS: Mapping[str, Callable[[exp.Expr, exp.Expr], exp.Expr]] = {
    "~": lambda left, right: exp.RegexpLike(this=left, expression=right),
    "!~": lambda left, right: exp.Not(this=exp.RegexpLike(this=left, expression=right)),
    "~*": lambda left, right: exp.RegexpILike(this=left, expression=right),
    "!~*": lambda left, right: exp.Not(this=exp.RegexpILike(this=left, expression=right)),
    "~~": lambda left, right: exp.Like(this=left, expression=right),
    "!~~": lambda left, right: exp.Not(this=exp.Like(this=left, expression=right)),
    "~~*": lambda left, right: exp.ILike(this=left, expression=right),
    "=": lambda left, right: exp.EQ(this=left, expression=right),
    "<>": lambda left, right: exp.NEQ(this=left, expression=right),
    "||": lambda left, right: exp.DPipe(this=left, expression=right),
}


def replace_literals(tree: exp.Expr) -> None:
    """Give an empty array its form, and compare functions, which are stored as names, with OIDs by their OIDs."""
    for coalesce in tree.find_all(exp.Coalesce):
        for argument in coalesce.expressions:
            if isinstance(argument, exp.Literal) and argument.name == "{}":
                argument.replace(exp.Array(expressions=[]))
    for comparison in tree.find_all(exp.EQ, exp.NEQ):
        sides = comparison.this, comparison.expression
        for side, other in (sides, sides[::-1]):
            if isinstance(side, exp.Column) and side.name in _REGPROC_COLUMNS and _looks_like_oid(other):
                side.replace(_function_call("procedure_oid", side.copy()))


def _looks_like_oid(value: exp.Expr) -> bool:
    is_number = isinstance(value, exp.Literal) and not value.is_string
    return is_number or (isinstance(value, exp.Column) and value.name == "oid")


def replace_operators(tree: exp.Expr) -> None:
    """Drop collations, since all texts are compared by their bytes, and write ``OPERATOR(pg_catalog.~)`` plainly."""
    for node in _inner_nodes_first(tree, exp.Collate, exp.Operator, exp.DPipe):
        if isinstance(node, exp.Collate):
            node.replace(node.this)
        elif isinstance(node, exp.DPipe):
            _concatenate_arrays(node)
        elif isinstance(node, exp.Operator):
            node.replace(_plain_operator(node))
    for pattern in _inner_nodes_first(tree, exp.Like, exp.ILike):
        if not isinstance(pattern.parent, exp.Escape):  # PostgreSQL's default; DuckDB has none
            pattern.replace(exp.Escape(this=pattern.copy(), expression=exp.Literal.string("\\")))


def _concatenate_arrays(node: exp.Expr) -> None:
    """Join arrays with a function that takes NULL for an empty one, as PostgreSQL does."""
    sides = [node.this, node.expression]
    if any(isinstance(side, exp.Array) or side.name in _ARRAY_COLUMNS for side in sides):
        node.replace(_function_call("list_concat", *sides))


def _plain_operator(node: exp.Expr) -> exp.Expr:
    symbol = str(node.args["operator"]).lower().removeprefix("pg_catalog.")
    if symbol not in _QUALIFIED_OPERATORS:
        raise catalog_refusal(
            "operator", f"the operator {printable_name(symbol)} is not known to this catalog", "write = or ~"
        )
    return _QUALIFIED_OPERATORS[symbol](node.this, node.expression)


def replace_quantifiers(tree: exp.Expr) -> None:
    """Write ``x = ANY (array)`` as a search in the list; over a subquery it stays."""
    for comparison in _inner_nodes_first(tree, exp.EQ, exp.NEQ):
        operand = comparison.expression
        is_all = isinstance(operand, exp.Anonymous) and operand.name.lower() == "all"
        if not is_all and not isinstance(operand, (exp.Any, exp.All)):
            continue
        array = operand.expressions[0] if is_all else operand.this.unnest()
        if isinstance(array, exp.Query):
            continue
        searches = isinstance(comparison, exp.EQ) == isinstance(operand, exp.Any)
        if not searches:
            raise catalog_refusal(
                "operator", "only = ANY (…) and <> ALL (…) are supported here", "use x = ANY (…) or x <> ALL (…)"
            )
        search = _function_call("list_contains", _as_array(array), comparison.this)
        comparison.replace(search if isinstance(comparison, exp.EQ) else exp.Not(this=search))


def _as_array(value: exp.Expr) -> exp.Expr:
    """Return an array literal (``'{a,b}'``) as its items."""
    if not isinstance(value, exp.Literal) or not value.is_string:
        return value
    return exp.Array(expressions=[_array_item(item) for item in split_array(value.name)])


def _array_item(item: str | None) -> exp.Expr:
    return exp.Null() if item is None else exp.Literal.string(item)


def split_array(text: str) -> list[str | None]:
    """Parse PostgreSQL's text form of a one-dimensional array."""
    inner = text.strip()
    if not (inner.startswith("{") and inner.endswith("}")):
        raise catalog_refusal("array", "this array literal does not have the form {a,b}", "write it as ARRAY['a', 'b']")
    items: list[str | None] = []
    current, quoted, was_quoted, escaped = "", False, False, False
    for letter in inner[1:-1] + ",":
        if escaped:
            current, escaped = current + letter, False
        elif letter == "\\":
            escaped = True
        elif letter.isspace() and not quoted and (was_quoted or not current):
            continue  # beside an item
        elif letter == '"':
            quoted, was_quoted = not quoted, True
        elif letter == "," and not quoted:
            bare = current if was_quoted else current.strip()
            items.append(None if bare.upper() == "NULL" and not was_quoted else bare)
            current, was_quoted = "", False
        else:
            current += letter
    return [] if items == [""] and inner == "{}" else items


# ── casts ──────────────────────────────────────────────────────────────────────────────────────


def replace_casts(tree: exp.Query, names: NameMeanings) -> None:
    """Cast to DuckDB's types; an object identifier is looked up by name, and shown as a name where it is a text."""
    outermost = _result_column_ids(tree)
    for cast in _inner_nodes_first(tree, exp.Cast):
        if not cast.args.get("to") or _is_oid_cast(cast):
            continue
        target = require_type_name(cast.args["to"])
        if target in _PROCEDURE_TYPES:
            cast.replace(_procedure_name_expression(cast.this))
        elif target in _OBJECT_TYPES:
            oid_expression = _object_oid_expression(cast.this, target, names)
            cast.replace(
                _function_call(f"{target}_name", oid_expression) if _shows_name(cast, outermost) else oid_expression
            )
        elif target in ("oid", "int4", "int8") and cast.this.name in _REGPROC_COLUMNS:
            cast.replace(_function_call("procedure_oid", cast.this.copy()))
        elif target in NAME_TYPES and isinstance(cast.this, exp.Column) and cast.this.name in _ARRAY_COLUMNS:
            cast.replace(_array_text_expression(cast.this))
        else:
            value = _as_array(cast.this) if target.startswith("_") else cast.this
            cast.replace(exp.cast(value.copy(), duckdb_type(target), dialect="duckdb"))


def _is_oid_cast(cast: exp.Expr) -> bool:
    return cast.args["to"].sql("duckdb") == "UINTEGER"


def _result_column_ids(tree: exp.Query) -> frozenset[int]:
    """Return the identities of the columns of the result, whose values a client reads as texts."""
    branches = [tree]
    projections: set[int] = set()
    while branches:
        branch = branches.pop()
        if isinstance(branch, exp.SetOperation):
            branches += [branch.left, branch.right]
        elif isinstance(branch, exp.Subquery):
            branches.append(branch.this)
        else:
            projections |= {id(projection) for projection in branch.expressions}
    return frozenset(projections)


_TEXT_PARENTS = (exp.DPipe, exp.Concat, exp.RegexpLike, exp.Like, exp.Lower, exp.Upper, exp.Replace)


def _shows_name(cast: exp.Expr, outermost: frozenset[int]) -> bool:
    """Return whether an object identifier stands where a text does: cast to one, concatenated, or in the result."""
    parent = cast.parent
    while isinstance(parent, exp.Paren):
        parent = parent.parent
    if isinstance(parent, exp.Cast):
        return require_type_name(parent.args["to"]) in NAME_TYPES
    return isinstance(parent, _TEXT_PARENTS) or (isinstance(parent, exp.Alias) and id(parent) in outermost)


def _object_oid_expression(value: exp.Expr, target: str, names: NameMeanings) -> exp.Expr:
    """Return the OID of an object: of a literal's name now, of a computed name by a lookup, of an OID itself."""
    inner = value.unnest()
    if isinstance(inner, exp.Literal) and inner.is_string and not inner.name.isdigit():
        spellings = {"regclass": names.relation_oids, "regtype": names.type_oids}.get(target)
        if spellings is None:
            return _function_call(f"to_{target}", inner.copy())
        return _oid_literal(_oid_by_name(inner.name, spellings, target))
    if _is_text_expression(inner):
        return _function_call(f"to_{target}", inner.copy())
    return exp.cast(inner.copy(), "UINTEGER", dialect="duckdb")


def _oid_by_name(name: str, spellings: Mapping[str, int], target: str) -> int:
    folded = ".".join(part if part.startswith('"') else part.lower() for part in name.strip().split("."))
    plain = folded.replace('"', "")
    oid = spellings.get(folded, spellings.get(plain) if plain == plain.lower() else None)
    if oid is None:
        kind = {"regclass": "relation", "regtype": "type"}[target]
        raise catalog_refusal(
            kind, f"there is no {kind} {printable_name(name)}", "list the relations with SELECT relname FROM pg_class"
        )
    return oid


def _is_text_expression(value: exp.Expr) -> bool:
    if isinstance(value, exp.Cast):
        return value.args["to"].is_type("varchar", "text")
    if isinstance(value, exp.Format):
        return True
    is_text_function = isinstance(value, exp.Anonymous) and value.name.lower() in ("format", "quote_ident", "concat")
    return is_text_function or isinstance(value, (exp.DPipe, exp.Concat))


def _procedure_name_expression(value: exp.Expr) -> exp.Expr:
    if isinstance(value, exp.Literal):
        return exp.Literal.string(value.name.removeprefix("pg_catalog."))
    return exp.cast(value.copy(), "VARCHAR")


def _array_text_expression(array: exp.Expr) -> exp.Expr:
    """Return the text of an array as PostgreSQL writes it."""
    items = _function_call("array_to_string", array.copy(), exp.Literal.string(","))
    opened = exp.DPipe(this=exp.Literal.string("{"), expression=items)
    return exp.Paren(this=exp.DPipe(this=opened, expression=exp.Literal.string("}")))


# ── functions ──────────────────────────────────────────────────────────────────────────────────

_CURRENT: Mapping[type[exp.Expr], str] = {
    exp.CurrentDatabase: "current_database",
    exp.CurrentCatalog: "current_database",
    exp.CurrentSchema: "current_schema",
    exp.CurrentUser: "current_user",
    exp.SessionUser: "current_user",
    exp.CurrentRole: "current_user",
    exp.CurrentVersion: "version",
}


def replace_functions(tree: exp.Expr) -> None:
    """Call our own definitions, under the prefix that no function of DuckDB has."""
    for node in _inner_nodes_first(tree, exp.CurrentSchemas, exp.ArraySize, exp.ArrayToString, exp.Format, *_CURRENT):
        if isinstance(node, exp.Format):
            node.replace(_function_call("format", node.this, *node.expressions))
        elif type(node) in _CURRENT:
            node.replace(_function_call(MACRO_PREFIX + _CURRENT[type(node)]))
        elif isinstance(node, exp.CurrentSchemas):
            node.replace(_function_call(f"{MACRO_PREFIX}current_schemas", node.this))
        elif isinstance(node, exp.ArrayToString):
            node.replace(_function_call(f"{MACRO_PREFIX}array_to_string", node.this, node.expression))
        else:
            node.replace(_function_call(f"{MACRO_PREFIX}array_length", node.this, exp.Literal.number(1)))
    for function in _inner_nodes_first(tree, exp.Anonymous):
        name = function.name.lower()
        if name in _REWRITERS:
            function.replace(_REWRITERS[name](function))
        elif not name.startswith(MACRO_PREFIX) and name not in _DUCKDB_FUNCTIONS:
            function.set("this", MACRO_PREFIX + name)


_DUCKDB_FUNCTIONS = frozenset(("generate_series", "list_concat", "list_contains"))
"""Functions of DuckDB that the rules above call; no name of a statement gets here without being listed."""


def _subscripts_of_array(array: exp.Expr) -> exp.Expr:
    last = exp.cast(_function_call(f"{MACRO_PREFIX}cardinality", array), "BIGINT")
    series = _function_call("generate_series", exp.Literal.number(1), last)
    return exp.Explode(this=exp.cast(series, "INTEGER[]", dialect="duckdb"))


def _expand_array(function: exp.Anonymous) -> exp.Expr:
    """Return the items of an array as records of value x and position n."""
    return exp.Explode(this=_function_call(f"{MACRO_PREFIX}expandarray", function.expressions[0].copy()))


def _rewrite_format(function: exp.Anonymous) -> exp.Expr:
    """Write ``format('%I.%I', a, b)`` as a concatenation."""
    template, *values = function.expressions
    if not isinstance(template, exp.Literal):
        raise catalog_refusal("function", "the template of format must be a literal", "write format('%I.%I', a, b)")
    pieces = template.name.split("%")
    parts: list[exp.Expr] = [exp.Literal.string(pieces[0])]
    for piece, value in zip(pieces[1:], values, strict=False):
        quoting = {"I": "quote_ident", "s": "", "L": "quote_literal"}.get(piece[:1])
        if quoting is None:
            break
        parts.append(
            _function_call(MACRO_PREFIX + quoting, value.copy()) if quoting else exp.cast(value.copy(), "VARCHAR")
        )
        parts.append(exp.Literal.string(piece[1:]))
    if len(parts) != 2 * len(pieces) - 1 or len(values) != len(pieces) - 1:
        raise catalog_refusal(
            "function",
            "format supports only %I, %s and %L here, with one value for each",
            "write format('%I.%I', a, b)",
        )
    return _concatenate(parts)


def _concatenate(parts: Sequence[exp.Expr]) -> exp.Expr:
    joined = parts[0]
    for part in parts[1:]:
        joined = exp.DPipe(this=joined, expression=part)
    return exp.Paren(this=joined)


def _rewrite_set_config(function: exp.Anonymous) -> exp.Expr:
    name = function.expressions[0]
    if not isinstance(name, exp.Literal) or name.name.lower() not in SETTABLE or len(function.expressions) != 3:
        raise catalog_refusal(
            "setting", f"set_config can only set {', '.join(SETTABLE)} here", "write SET name = value"
        )
    return exp.cast(function.expressions[1].copy(), "VARCHAR")


def _rewrite_regexp_split(function: exp.Anonymous) -> exp.Expr:
    split = _function_call("regexp_split_to_array", *(argument.copy() for argument in function.expressions[:2]))
    return exp.Explode(this=split)


_REWRITERS: Mapping[str, Callable[[exp.Anonymous], exp.Expr]] = {
    "_pg_expandarray": _expand_array,
    "concat": lambda function: _function_call("concat", *(argument.copy() for argument in function.expressions)),
    "format": _rewrite_format,
    "generate_subscripts": lambda function: _subscripts_of_array(function.expressions[0].copy()),
    "json_build_object": lambda function: _function_call(
        "json_object", *(argument.copy() for argument in function.expressions)
    ),
    "regexp_split_to_table": _rewrite_regexp_split,
    "pg_partition_ancestors": lambda _: exp.Explode(
        this=exp.cast(exp.Array(expressions=[]), "UINTEGER[]", dialect="duckdb")
    ),
    "set_config": _rewrite_set_config,
    "unnest": lambda function: exp.Explode(this=function.expressions[0].copy()),
}
