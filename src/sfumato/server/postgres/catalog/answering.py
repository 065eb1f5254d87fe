"""Answer catalog statements: parse, look every name up, generate SQL, run it on a database without data."""

from __future__ import annotations

import pickle
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, TypeVar, cast

from sqlglot import exp

from sfumato.policy import Policy
from sfumato.server.postgres.catalog.engine import CatalogDatabase
from sfumato.server.postgres.catalog.parsing import (
    CATALOG_SCHEMAS,
    catalog_refusal,
    first_unknown_function,
    parse_single_query_or_none,
    refuse_unknown_constructs,
    require_type_name,
    table_references,
    table_schema,
)
from sfumato.server.postgres.catalog.policy_rows import DatabaseAndUser
from sfumato.server.postgres.catalog.relations import (
    CatalogColumn,
    CatalogRows,
    DescribedRelation,
    catalog_relations,
    type_oid,
)
from sfumato.server.postgres.catalog.result_columns import column_name, declared_oids
from sfumato.server.postgres.catalog.rewriting import NameMeanings, rewrite_for_duckdb

MAX_CACHED_BYTES, MAX_ENTRY_BYTES = 8 * 2**20, 65_536
"""The most bytes of the answers that are kept for one user, and of one of them."""
_MAX_CACHED_TREE = 8_000
"""The most letters of a statement whose syntax tree is kept."""
_T = TypeVar("_T")


class PolicyCatalog:
    """The catalog of one database as one user sees it, from the policy and what was published. Thread-safe, and cheap
    until used.
    """

    def __init__(self, policy: Policy, database: str, user: str, published: tuple[DescribedRelation, ...] = ()) -> None:
        self._policy = policy
        self._identity = DatabaseAndUser(database, user)
        self._shared = _shared_answers(_PolicyByIdentity(policy), self._identity, published)

    def covers(self, sql: str) -> bool:
        """Return whether a statement reads only the catalog, or only constants and known functions."""
        return self._shared.get_or_compute(("covers", sql), lambda: self._reads_catalog(sql))

    def describe(self, sql: str, parameter_count: int) -> tuple[CatalogColumn, ...]:
        """Return the columns of a statement's answer without running it."""
        return self._shared.get_or_compute(
            ("describe", sql, parameter_count),
            lambda: self._columns(sql, self._generate_duckdb_sql(sql, (None,) * parameter_count)),
        )

    def parameter_oids(self, sql: str, parameter_count: int) -> tuple[int, ...]:
        """Return the type of each parameter: that of a cast directly around it, or text, which fits any place here."""
        return self._shared.get_or_compute(
            ("parameters", sql, parameter_count), lambda: _parameter_oids(sql, parameter_count)
        )

    def run(self, sql: str, parameters: Sequence[str | None]) -> CatalogRows:
        """Answer a statement."""
        values = tuple(parameters)
        return self._shared.get_or_compute(("run", sql, values), lambda: self._answer(sql, values))

    def recall(self, act: str, sql: str, *details: object) -> Any | None:
        """Return what a method returned for these arguments before, from memory; None if that is not known any more."""
        return self._shared.recall((act, sql, *details))

    def interrupt(self) -> None:
        """End the engine in which a statement runs: that one fails, and the next starts another."""
        self._shared.interrupt()

    def _reads_catalog(self, sql: str) -> bool:
        tree = parse_query(sql)
        if tree is None:
            return False
        tables = [*table_references(tree)]
        if not tables:
            return not first_unknown_function(tree)
        policy_names = {name.lower() for name in self._policy.tables}
        return all(_is_catalog_table(table, policy_names) for table in tables)

    def _answer(self, sql: str, parameters: tuple[str | None, ...]) -> CatalogRows:
        generated = self._generate_duckdb_sql(sql, parameters)
        return CatalogRows(self._columns(sql, generated), tuple(self._shared.database.fetch_rows(generated)))

    def _generate_duckdb_sql(self, sql: str, parameters: tuple[str | None, ...]) -> str:
        tree = parse_query(sql)
        if tree is None:
            raise catalog_refusal(
                "statement", "a catalog statement must be a single SELECT", "send one SELECT at a time"
            )
        refuse_unknown_constructs(tree)
        database = self._shared.database
        names = NameMeanings(self._identity.database, database.relation_oids, database.type_oids)
        return rewrite_for_duckdb(tree.copy(), names, parameters).sql("duckdb", identify=True)

    def _columns(self, sql: str, generated: str) -> tuple[CatalogColumn, ...]:
        """Return the columns: named by PostgreSQL's rules, with declared types where the text tells them."""
        tree = parse_query(sql)
        assert tree is not None
        computed = self._shared.database.result_names_and_oids(generated)
        declared = declared_oids(tree)
        oids = declared if declared is not None and len(declared) == len(computed) else [None] * len(computed)
        projections = tree.selects
        has_star = any(projection.is_star for projection in projections) or len(projections) != len(computed)
        names = [name for name, _ in computed] if has_star else [*map(_folded_name, projections)]
        return tuple(
            CatalogColumn(name, oid if declared_oid is None else declared_oid)
            for name, (_, oid), declared_oid in zip(names, computed, oids, strict=True)
        )


def parse_query(sql: str) -> exp.Query | None:
    """Parse a text that is one SELECT, once for each text that is sent again; None for any other. Do not change it."""
    return _cached_tree(sql) if len(sql) <= _MAX_CACHED_TREE else parse_single_query_or_none(sql)


@lru_cache(maxsize=128)
def _cached_tree(sql: str) -> exp.Query | None:
    return parse_single_query_or_none(sql)


def _parameter_oids(sql: str, parameter_count: int) -> tuple[int, ...]:
    tree = parse_query(sql)
    casts = [] if tree is None else [node for node in tree.find_all(exp.Cast) if isinstance(node.this, exp.Parameter)]
    cast_types = {node.this.name: require_type_name(node.to) for node in casts}
    return tuple(type_oid(cast_types.get(str(number), "text")) for number in range(1, parameter_count + 1))


def _folded_name(projection: exp.Expr) -> str:
    """Return the name of a column, lowered where it is not quoted."""
    folded = projection.copy()
    for identifier in folded.find_all(exp.Identifier):
        if not identifier.args.get("quoted"):
            identifier.set("this", identifier.name.lower())
    return column_name(folded)


def _is_catalog_table(table: exp.Table, policy_names: set[str]) -> bool:
    """Return whether a name is one of the catalog's; a table of the policy hides a catalog relation of its name."""
    if table.db:
        return table_schema(table) in CATALOG_SCHEMAS
    name = table.name.lower()
    return name not in policy_names and (("pg_catalog", name) in catalog_relations() or name.startswith("pg_"))


class _PolicyByIdentity:
    """A policy as a key of the cache: the same object, since policies hold sources that cannot be compared."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _PolicyByIdentity) and other.policy is self.policy

    def __hash__(self) -> int:
        return id(self.policy)


class _SharedAnswers:
    """What the connections of one user to one policy share: the database, opened when first needed, and answers."""

    def __init__(
        self, policy: Policy, identity: DatabaseAndUser, published: tuple[DescribedRelation, ...] = ()
    ) -> None:
        self._open: Callable[[], CatalogDatabase] = lambda: CatalogDatabase(policy, identity, published)
        self._database: CatalogDatabase | None = None
        self._opening = threading.Lock()
        self._answers: OrderedDict[tuple[object, ...], tuple[object, int]] = OrderedDict()
        self._cached_bytes = 0
        self._lock = threading.Lock()

    @property
    def database(self) -> CatalogDatabase:
        with self._opening:
            if self._database is None:
                self._database = self._open()
            return self._database

    def interrupt(self) -> None:
        database = self._database
        if database is not None:
            database.interrupt()

    def recall(self, key: tuple[object, ...]) -> object | None:
        with self._lock:
            if key not in self._answers:
                return None
            self._answers.move_to_end(key)
            return self._answers[key][0]

    def get_or_compute(self, key: tuple[object, ...], compute: Callable[[], _T]) -> _T:
        """Return what was computed before for the same text: clients send the same statements at every connection.

        A refusal is not kept.
        """
        cached_value = self.recall(key)
        if cached_value is not None:
            return cast(_T, cached_value)
        computed = _refuse_deep_nesting(compute)
        size = len(pickle.dumps((key, computed)))
        if size <= MAX_ENTRY_BYTES:
            self._cache_answer(key, computed, size)
        return computed

    def _cache_answer(self, key: tuple[object, ...], answer: object, size: int) -> None:
        """Keep an answer, and forget those unused for longest beyond the limit of bytes."""
        with self._lock:
            if key not in self._answers:
                self._answers[key] = answer, size
                self._cached_bytes += size
            while self._cached_bytes > MAX_CACHED_BYTES:
                _, (_, freed) = self._answers.popitem(last=False)
                self._cached_bytes -= freed


def _refuse_deep_nesting(compute: Callable[[], _T]) -> _T:
    try:
        return compute()
    except RecursionError:
        raise catalog_refusal("depth", "this statement is nested too deeply", "write it with fewer levels") from None


@lru_cache(maxsize=16)
def _shared_answers(
    key: _PolicyByIdentity, identity: DatabaseAndUser, published: tuple[DescribedRelation, ...]
) -> _SharedAnswers:
    return _SharedAnswers(key.policy, identity, published)
