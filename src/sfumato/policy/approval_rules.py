"""Approval rules: which releases of a policy wait for its owners, and how many of them must agree.

What needs approval is decided by the question, its price and the policy, never by rows.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields
from fractions import Fraction
from typing import Any

from sfumato.errors import InvalidPolicy
from sfumato.policy.codings import with_policy_path
from sfumato.policy.domains import check_keys
from sfumato.privacy.numbers import NONNEGATIVE, exact, format_exact, format_rounded_up
from sfumato.quick_dataclass import dataclass

MAX_APPROVALS = 20
MAX_DAYS = 3650
_PLACE = "approval"


@dataclass(frozen=True)
class ApprovalRules:
    """The ``[approval]`` section: with no condition at all, every release needs approval.

    >>> rules = ApprovalRules(above="0.5")
    >>> rules.reason_for_approval("questions", {"visits"}, discovers_groups=False, epsilon=Fraction(1))
    "its ε of 1 is above the policy's limit of 0.5"
    """

    approvals: int = 1
    """How many owners must approve, none of whom may be the requester."""
    above: Any = None
    """Releases whose ε is above this need approval; those that no ε bounds do too."""
    tables: tuple[str, ...] = ()
    """Releases that read one of these tables need approval."""
    kinds: tuple[str, ...] = ()
    """Kinds of release that need approval, such as "synthesis", and those that contain one of them."""
    discovered_groups: bool = False
    """Whether releases of groups that are discovered in the data need approval."""
    days: int = 30
    """How many days a request stays open, and what was approved can be released."""

    def __post_init__(self) -> None:
        _check_integer(self.approvals, "approvals", MAX_APPROVALS)
        _check_integer(self.days, "days", MAX_DAYS)
        if type(self.discovered_groups) is not bool:
            raise InvalidPolicy(
                "discovered_groups must be true or false",
                place=f"{_PLACE}.discovered_groups",
                fix="write discovered_groups = true, or remove it",
            )
        if self.above is not None:
            above = with_policy_path(_PLACE, lambda: exact(self.above, "above", NONNEGATIVE))
            object.__setattr__(self, "above", above)
        for name in ("tables", "kinds"):
            object.__setattr__(self, name, _check_names(getattr(self, name), name))

    @classmethod
    def parse(cls, section: Mapping[str, Any]) -> ApprovalRules:
        """Parse the section of a policy file."""
        check_keys(section, [field.name for field in fields(cls)], _PLACE)
        return cls(**section)

    @property
    def declared(self) -> dict[str, Any]:
        """The keys as a policy file writes them; what is not declared is left out."""
        keys = {field.name: getattr(self, field.name) for field in fields(self)}
        return {
            name: list(key) if isinstance(key, tuple) else key
            for name, key in keys.items()
            if key is not None and key is not False and key != ()
        }

    @property
    def is_unconditional(self) -> bool:
        return self.above is None and not (self.tables or self.kinds or self.discovered_groups)

    def reason_for_approval(
        self,
        kind: str,
        tables: Collection[str] | None,
        *,
        discovers_groups: bool | None,
        epsilon: Fraction | None,
        delta: Fraction | None = None,
        contained: Sequence[str] = (),
    ) -> str | None:
        """Return why a release needs approval; None if it needs none.

        ``epsilon`` is what it counts with, for Gaussian noise at ``delta``; ``contained`` are the kinds that its kind
        contains.
        Tables and groups are None where they are chosen later, as in a session: then any of them may be read.
        """
        if self.is_unconditional:
            return "every release of this policy needs it"
        if kind in self.kinds:
            return f"it is a release of the kind {kind}"
        declared_kinds = [contained_kind for contained_kind in contained if contained_kind in self.kinds]
        if declared_kinds:
            return f"it is a release of the kind {kind}, which can contain releases of the kind {declared_kinds[0]}"
        declared_tables = sorted(set(self.tables) & set(self.tables if tables is None else tables))
        if declared_tables:
            return f"it {'may read' if tables is None else 'reads'} the table {declared_tables[0]}"
        if self.discovered_groups and discovers_groups is not False:
            return "its groups are discovered in the data"
        if self.above is None or (epsilon is not None and epsilon <= self.above):
            return None
        if epsilon is None:
            return f"its ε is unbounded, and so above the policy's limit of {format_exact(self.above)}"
        at_delta = "" if delta is None else f" at δ = {format_rounded_up(delta)}"
        return (
            f"its ε of {format_rounded_up(epsilon)}{at_delta} is above the policy's limit of {format_exact(self.above)}"
        )

    def check_tables(self, tables: Collection[str]) -> None:
        """Refuse the name of a table that the policy does not have."""
        for name in self.tables:
            if name not in tables:
                raise InvalidPolicy(
                    f"there is no table {name[:60]!r}",
                    place=f"{_PLACE}.tables",
                    fix=f"name one of: {', '.join(tables)}",
                )


def _check_integer(value: object, name: str, max_value: int) -> None:
    if type(value) is not int or not 1 <= value <= max_value:
        raise InvalidPolicy(
            f"{name} must be a whole number between 1 and {max_value:,}",
            place=f"{_PLACE}.{name}",
            fix=f"write {name} = 2",
        )


def _check_names(names: object, key: str) -> tuple[str, ...]:
    if not isinstance(names, (list, tuple)) or not all(isinstance(name, str) and name for name in names):
        example = '["visits"]' if key == "tables" else '["synthesis"]'
        raise InvalidPolicy(f"{key} must be a list of names", place=f"{_PLACE}.{key}", fix=f"write {key} = {example}")
    return tuple(names)
