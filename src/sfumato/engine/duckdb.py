"""Tables in DuckDB behind the engine's seam: check, totals, values, identity, close."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from fractions import Fraction
from operator import itemgetter
from threading import Event, Thread, get_ident
from typing import Any

import numpy as np
import pyarrow
import pyarrow.compute
from numpy.typing import NDArray

from sfumato.engine.expressions import TYPES, quoted, render
from sfumato.engine.literals import literal
from sfumato.engine.sources import Sources
from sfumato.engine.totals import statement
from sfumato.errors import EngineFailed, Unsupported
from sfumato.plan.bounding import Bounded
from sfumato.plan.catalog import Catalog, Described
from sfumato.plan.intervals import nearest
from sfumato.plan.keys import Span, World
from sfumato.plan.nodes import GroupKey
from sfumato.policy import Policy, Type, Value
from sfumato.policy.domains import LARGEST_INTEGER

Integers = NDArray[np.int64]

_REMEMBERED = 1000
_LARGEST_CODE = 1 << 62
FREE_SECONDS = 5
"""How long the keys of a question may be looked for: it costs nothing, so it may not take long."""


class DuckDB:
    """An engine: no SQL, type or hash of DuckDB's is seen outside."""

    def __init__(self, policy: Policy, memory: str | None = None) -> None:
        self._policy = policy
        self.sources = Sources(policy, memory_limit=memory)
        self._bound: set[str] = set()

    def catalog(self) -> Catalog:
        """What questions may refer to."""
        tables = {
            name: Described(name, self.sources.columns(name), table.public, None if table.every_row else table.id)
            for name, table in self._policy.tables.items()
        }
        return Catalog(tables, self.sources.multiplicity)

    def values(self, world: World) -> Sequence[GroupKey]:
        """The distinct results of expressions on every combination of declared values: reads no table."""
        tables, lists = [], []
        for index, (reference, domain, choices) in enumerate(world.choices):
            kind = TYPES[domain.type]
            if isinstance(choices, Span):
                listed = _span(choices, kind)
            else:
                lists.append([_parameter(value) for value in choices])
                listed = f"SELECT unnest(CAST(${len(lists)} AS {kind}[]))"
            missing = f"SELECT CAST(NULL AS {kind})"
            tables.append(f"({listed} UNION ALL {missing}) AS d{index}({quoted(reference)})")
        selected = ", ".join(render(each) for each in world.expressions)
        met = " AND ".join(f"({render(each)})" for each in world.conditions) or "TRUE"
        asked = f"SELECT DISTINCT {selected} FROM {', '.join(tables)} WHERE {met}"
        found = self._in_time(lambda: self.sources.run(asked, lists))
        kinds = [each.domain.type for each in world.expressions]
        if Type.REAL not in kinds:
            return found
        return [tuple(_exact(value, kind) for value, kind in zip(row, kinds, strict=True)) for row in found]

    def _in_time(self, action: Callable[[], list[Any]]) -> list[Any]:
        """What the action gives, unless it takes longer than what is free may take."""
        done, thread = Event(), get_ident()
        late: list[bool] = []

        def watch() -> None:
            wait: float = FREE_SECONDS
            while not done.wait(wait):  # again and again: what has not begun yet is not ended
                late.append(True)
                self.sources.interrupt(thread)
                wait = 0.01

        watcher = Thread(target=watch, daemon=True)
        watcher.start()
        try:
            return action()
        except EngineFailed:
            if not late:
                raise
        finally:
            done.set()
            watcher.join()  # so that nothing that runs later is ended by it
        rule = f"finding all groups may take at most {FREE_SECONDS} seconds"
        raise Unsupported("keys-too-costly", rule, fix="group by a simpler expression")

    def check(self, bounded: Bounded) -> None:
        """Bind the statement, and see that the engine is open and the sources are those that were opened.

        No row is read. Views are fixed at opening, so what was bound once stays bound; whether the engine still runs
        statements is seen each time, since it may have been closed, forked or broken after that.
        """
        self.sources.check_unchanged()
        text = statement(bounded, self.sources.scan, 0)
        self.sources.bind("SELECT 1" if text in self._bound else text)
        self._bound = {text} if len(self._bound) > _REMEMBERED else self._bound | {text}

    def totals(self, bounded: Bounded, groups: Sequence[GroupKey], key: int) -> Integers:
        """Exact totals for every group, in the order given; absent groups are zero."""
        kinds = [each.domain.type for each in bounded.plan.keys]
        width = sum(each.coordinates for each in bounded.measures)
        names = [f"k{index}" for index in range(len(kinds))], [f"v{index}" for index in range(width)]
        read = [f"CAST({name} AS {TYPES[kind]})" for name, kind in zip(names[0], kinds, strict=True)]
        read += [_held(name) for name in names[1]]
        exact = statement(bounded, self.sources.scan, key)
        asked = f"SELECT {', '.join(read)} FROM ({exact}) AS exact({', '.join((*names[0], *names[1]))})"
        found = self.sources.arrow(asked) if kinds else self.sources.run(asked)
        self.sources.check_unchanged()  # a file replaced while it was read is not the version that was charged
        if isinstance(found, list):
            return np.array(found, np.int64)
        values = np.stack([found.column(len(kinds) + index).to_numpy() for index in range(width)], axis=1)
        return _arranged(groups, [found.column(index) for index in range(len(kinds))], values)

    def addresses(self) -> tuple[tuple[str, str | None], ...]:
        """Where private rows come from: files, or the content of tables in memory."""
        private = [name for name, table in self._policy.tables.items() if not table.public]
        return tuple(found for name in private for found in self.sources.addresses(name))

    def identity(self) -> str:
        return self.sources.identity()

    def interrupt(self, thread: int | None = None) -> None:
        self.sources.interrupt(thread)

    def close(self) -> None:
        self.sources.close()


def _span(span: Span, kind: str) -> str:
    """Numbers, days or hours one after another, made by the engine itself."""
    first = literal(span.first)
    if isinstance(span.first, int):
        return f"SELECT CAST({first} + i AS {kind}) FROM range({span.count}) AS r(i)"
    step = "to_hours" if isinstance(span.first, dt.datetime) else "to_days"
    return f"SELECT CAST({first} + {step}(CAST(i AS INTEGER)) AS {kind}) FROM range({span.count}) AS r(i)"


def _parameter(value: Value) -> Any:
    """A real is the double nearest to it."""
    return nearest(value) if isinstance(value, Fraction) else value


def _held(total: str) -> str:
    """Within what 64 bits hold: cutting moves two totals no further apart."""
    return f"CAST(LEAST(GREATEST({total}, -{LARGEST_INTEGER}), {LARGEST_INTEGER}) AS BIGINT)"


def _arranged(groups: Sequence[GroupKey], keys: Sequence[pyarrow.ChunkedArray], values: Integers) -> Integers:
    """The values in the order of the groups; zeros for groups that have none."""
    codes: NDArray[np.int64] = np.zeros(len(groups) + len(values), np.int64)
    most = 1
    for index, found in enumerate(keys):
        own, many = _codes(list(map(itemgetter(index), groups)), found)
        if most * many > _LARGEST_CODE:
            codes, most = np.unique(codes, return_inverse=True)[1], len(codes)
        codes, most = codes * many + own, most * many
    ours, theirs = codes[: len(groups)], codes[len(groups) :]
    order = np.argsort(theirs)
    arranged = np.zeros((len(groups), values.shape[1]), np.int64)
    if order.size:
        place = order[np.searchsorted(theirs[order], ours).clip(max=order.size - 1)]
        known = theirs[place] == ours
        arranged[known] = values[place[known]]
    return arranged


def _codes(wanted: Sequence[Any], found: pyarrow.ChunkedArray) -> tuple[Integers, int]:
    """Small numbers for the values of one key, equal for equal values and for NULL, and how many there are.

    A real is the double nearest to it, and 0 has no sign.
    """
    if pyarrow.types.is_floating(found.type):
        wanted = [None if value is None else float(value) for value in wanted]
    both = pyarrow.chunked_array([pyarrow.array(wanted, found.type), *found.chunks], found.type).combine_chunks()
    if pyarrow.types.is_floating(found.type):
        both = pyarrow.compute.add(both, 0.0)
    coded = pyarrow.compute.dictionary_encode(both, null_encoding="encode")
    return coded.indices.to_numpy().astype(np.int64), len(coded.dictionary)


def _exact(value: Any, kind: Type) -> Any:
    """A key as it is declared: a double is the number it shows."""
    if value is None or kind is not Type.REAL:
        return value
    return Fraction(repr(float(value)))
