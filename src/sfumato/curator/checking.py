"""A check compares a policy with its sources: what is public about them, and what only their owner may see."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from sfumato.curator.policy_account import PathOrText, read_policy
from sfumato.engine.opening import misquoted_lines, open_inspector
from sfumato.engine.seam import Inspection, Inspector
from sfumato.errors import InvalidPolicy
from sfumato.plan.words import many
from sfumato.policy import Domain, Policy, Table
from sfumato.policy.codings import cell_words
from sfumato.privacy import Guarantee
from sfumato.privacy.numbers import text
from sfumato.release.promises import promise
from sfumato.safe_text import printable

_LONGEST = 60
"""Letters that the values of one column may take on a line."""


@dataclass(frozen=True)
class CheckedTable:
    """A checked table shows what the policy says of it, and what limits and bounds cost."""

    table: Table
    columns: Mapping[str, Domain]
    """Those that questions may name."""
    content: str | None
    """A hash of the rows. PRIVATE unless the table is public: it lets whoever reads it test a guess of them."""
    costs: Inspection | None
    """Exact figures. PRIVATE; None for a public table, and when only what is public was asked for."""

    @property
    def whose_rows(self) -> str:
        """Say whose a row is, in words."""
        table = self.table
        return "public" if table.public else "every row a unit" if table.every_row else f"id {table.id}"

    @property
    def declared(self) -> dict[str, str]:
        """Say what the policy declares of each column that questions may name, in words."""
        cells = {name: cell_words(self.table.codings.get(name)) for name in self.columns}
        return {name: "; ".join([_words(domain), *cells[name]]) for name, domain in self.columns.items()}


@dataclass(frozen=True)
class CheckReport:
    """A report says what was found of a policy and its sources. What is PRIVATE in it is exact, protected by no noise,
    and the owner's.
    """

    policy: Policy
    tables: tuple[CheckedTable, ...]
    """Empty when a source was refused."""
    refusal: InvalidPolicy | None = None
    misquoted: tuple[tuple[str, int], ...] = ()
    """Files with the first line that is not one record: why a source may have been refused. PRIVATE."""

    @property
    def guarantee(self) -> Guarantee:
        """Give what the policy promises for life."""
        return Guarantee(self.policy.budget.epsilon, self.policy.budget.delta)

    @property
    def promise(self) -> str:
        """Say in words what the policy promises: for life, or of each unit in its period."""
        return promise(self.policy) or f"{self.guarantee} for life"


def check(policy: Policy | PathOrText, *, private: bool = True) -> CheckReport:
    """Open a policy's sources and compare them with what it declares; ``private`` adds exact figures for the owner.

    A policy that is wrong by itself is refused; a source that is wrong is refused in the report, because only the
    owner may be told in which line.
    """
    declared = read_policy(policy)
    try:
        with open_inspector(declared) as sources:
            return CheckReport(declared, tuple(_checked(sources, each, private) for each in declared.tables.values()))
    except InvalidPolicy as refusal:
        return CheckReport(declared, (), refusal, tuple(misquoted_lines(declared)) if private else ())


def _checked(sources: Inspector, table: Table, private: bool) -> CheckedTable:
    content = sources.fingerprint(table.name)[:16] if table.public or private else None
    costs = sources.inspect(table.name) if private and not table.public else None
    return CheckedTable(table, sources.columns(table.name), content, costs)


def _words(domain: Domain) -> str:
    """Say in words what may be in a column, and what happens to anything else."""
    kind = domain.type.value
    if domain.values is not None:
        kind += f": {_listed(domain.values)}"
    elif domain.bounds is not None:
        kind += " from {} to {}".format(*map(_value, domain.bounds))
    parts = [
        "" if domain.grid is None else f"in steps of {text(domain.grid)}",
        "" if domain.max_length is None else f"cut at {many(domain.max_length, 'letter')}",
        "" if domain.other is None else f"anything else counts as {_value(domain.other)}",
        "a missing value is a group of its own" if domain.nullable else "",
    ]
    return "; ".join([kind, *filter(None, parts)])


def _listed(values: tuple[object, ...]) -> str:
    """Name as many values as fit on a line, and say how many more there are."""
    words = [_value(each) for each in values[:_LONGEST]]
    while len(", ".join(words)) > _LONGEST and len(words) > 1:
        words.pop()
    more = len(values) - len(words)
    return ", ".join(words) + (f" and {more:,} more" if more else "")


def _value(value: object) -> str:
    words = text(value) if isinstance(value, Fraction) else printable(str(value))
    return words if len(words) <= _LONGEST // 2 else words[: _LONGEST // 2 - 1] + "…"
