"""Questions to a server can be put together in Python: the steps are sent, and the server takes them.

A step that cannot be taken is refused by the server when the question is whole, with ``agg``, and is named there.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from sfumato.client.remote_proposals import Place, RemoteQuestion
from sfumato.client.sent_values import sent
from sfumato.errors import InvalidParameter
from sfumato.plan.sql.aggregations import Aggregation
from sfumato.plan.sql.histograms import Histogram

Asked = Aggregation | str
Wanted = Histogram | str


@dataclass(frozen=True, repr=False)
class RemoteTable:
    """This is a view of one table's rows: each method gives a new view with one step more, and asks nothing."""

    _place: Place = field(repr=False, compare=False)
    view: dict[str, Any]

    def where(self, condition: str) -> RemoteTable:
        """Keep the rows that meet a condition: ``where("year = 2024 AND age >= 18")``."""
        return self._then("where", given=[condition])

    def derive(self, **expressions: str) -> RemoteTable:
        """Add columns, each an expression over one row: ``derive(band="age // 10")``."""
        return self._then("derive", named=expressions)

    def join(self, other: RemoteTable | str, on: Any = None) -> RemoteTable:
        """Join another table, or a view of one, where the named columns are equal or a condition holds."""
        return self._then("join", other=other, on=on)

    def left_join(self, other: RemoteTable | str, on: Any = None) -> RemoteTable:
        """Join as ``join`` does, and keep rows without a match."""
        return self._then("left_join", other=other, on=on)

    def union_all(self, other: RemoteTable) -> RemoteTable:
        """Put the rows of another view about the same units below these, with the columns that both have."""
        return self._then("union_all", other=other)

    def per_unit(self, *keys: str, **asked: Asked) -> RemoteTable:
        """Make one row of each unit, or of each unit and key: ``per_unit(visits=sf.count())``."""
        return self._then("per_unit", given=keys, named=asked)

    def group_by(self, *keys: Wanted, **expressions: Wanted) -> RemoteGroups:
        """Group by columns, and by expressions under a name: ``group_by("region", band="age // 10")``."""
        return RemoteGroups(self._then("group_by", given=keys, named=expressions))

    def agg(self, **asked: Asked) -> RemoteTableQuestion:
        """Ask this of all rows together: ``agg(n=sf.count(), cost=sf.mean("cost"))``."""
        return self._then("agg", named=asked).asked()

    def asked(self) -> RemoteTableQuestion:
        """Let the server understand the question that the steps make."""
        found: RemoteTableQuestion = RemoteTableQuestion.at(self._place, "questions", {"view": self.view})
        return found

    def _then(self, step: str, **more: Any) -> RemoteTable:
        return replace(self, view={**self.view, "steps": [*self.view["steps"], _step(step, **more)]})

    def __repr__(self) -> str:
        steps = ", ".join(each["step"] for each in self.view["steps"])
        return f"<Table {self.view['table']}{f': {steps}' if steps else ''}>"


@dataclass(frozen=True, repr=False)
class RemoteGroups:
    """The rows of this view are grouped: ``agg`` says what to ask of every group."""

    _view: RemoteTable

    def agg(self, **asked: Asked) -> RemoteTableQuestion:
        """Ask this of every group: aggregations, or SQL over aggregates."""
        return self._view.agg(**asked)

    def __repr__(self) -> str:
        return repr(self._view)


@dataclass(frozen=True, repr=False)
class RemoteTableQuestion(RemoteQuestion):
    """This question was put together in Python: more may still be added, which works on noisy numbers and is free."""

    def having(self, condition: str) -> RemoteTableQuestion:
        """Keep the groups whose noisy numbers meet a condition: ``having("n > 100")``."""
        return self._then("having", given=[condition])

    def order_by(self, *columns: str) -> RemoteTableQuestion:
        """Sort the groups: ``order_by("n DESC", "region")``."""
        return self._then("order_by", given=columns)

    def head(self, rows: int, *, skip: int = 0) -> RemoteTableQuestion:
        """Keep the first so many groups, after so many that are skipped."""
        return self._then("head", given=[rows], named={"skip": skip})

    def select(self, *columns: str, **expressions: str) -> RemoteTableQuestion:
        """Choose the columns of the answer, and compute more: ``select("region", share="100.0 * late / n")``."""
        return self._then("select", given=columns, named=expressions)

    def _then(self, step: str, **more: Any) -> RemoteTableQuestion:
        view = self.spec["view"]
        return self._again({**self.spec, "view": {**view, "steps": [*view["steps"], _step(step, **more)]}})


def _step(step: str, *, given: Any = (), named: Any = None, other: Any = None, on: Any = None) -> dict[str, Any]:
    """Write one step, without what it does not have."""
    parts: dict[str, Any] = {
        "given": [_part(each, step) for each in given],
        "named": {name: _part(each, f"{step} {name}") for name, each in (named or {}).items()},
        "other": other.view if isinstance(other, RemoteTable) else other,
        "on": None if on is None else sent(on, "on"),
    }
    return {"step": step, **{name: each for name, each in parts.items() if each}}


def _part(given: Any, name: str) -> Any:
    """Write a part of a question: SQL, a whole number, or what Python says in its place."""
    if isinstance(given, Aggregation):
        own = {"name": given.name, "of": given.of, "where": given.where, "beside": given.beside, "at": given.at}
        return {"asks": "aggregate", **{key: each for key, each in {**own, "k": given.k}.items() if each is not None}}
    if isinstance(given, Histogram):
        return {"asks": "histogram", "of": given.of, "bins": given.bins}
    if isinstance(given, str) or (isinstance(given, int) and not isinstance(given, bool)):
        return given
    raise InvalidParameter(name, given, 'SQL, or what sf.count() and sf.histogram("cost") give')
