"""Guarantees: ε and δ, the privacy unit, and the neighbouring relation."""

from __future__ import annotations

from enum import Enum
from fractions import Fraction

from sfumato.errors import InvalidParameter
from sfumato.privacy import codec
from sfumato.privacy.numbers import BELOW_ONE, NONNEGATIVE, Number, exact, format_exact
from sfumato.quick_dataclass import dataclass


class Neighbours(Enum):
    """The neighbouring relation: which databases count as differing in one unit (unbounded and bounded DP)."""

    ADD_REMOVE = "add-remove"
    """One unit is added or removed (unbounded DP); the number of units is protected."""
    REPLACE = "replace"
    """One unit is replaced by another (bounded DP); the number of units is public."""

    @classmethod
    def of(cls, value: Neighbours | str) -> Neighbours:
        try:
            return cls(value)
        except ValueError:
            raise InvalidParameter("neighbours", value, "'add-remove' or 'replace'") from None


PERIODS = ("hour", "day", "week", "month", "quarter", "year")


@codec.serialisable("privacy-unit")
@dataclass(frozen=True)
class PrivacyUnit:
    """The unit whose presence is protected, in words that are printed with every release."""

    name: str
    """In the singular: "patient", "household", "visit"."""
    every_row: bool = False
    """Each row is a unit of its own; otherwise all rows that carry one id together."""
    period: str | None = None
    """Only the rows of one id within one such period: a patient-day instead of a patient."""
    path: tuple[str, ...] = ()
    """The foreign keys from the table's row to the id, outermost first; empty when the id is in the row."""
    period_column: str | None = None
    """The column that holds the time of a row: periods of another column would be other units."""

    def __post_init__(self) -> None:
        if (
            not isinstance(self.name, str)
            or not self.name.strip()
            or not self.name.isprintable()
            or len(self.name) > 100
        ):
            raise InvalidParameter(
                "name", self.name, "printable text of 1 to 100 characters that is not blank, such as 'patient'"
            )
        if not isinstance(self.every_row, bool):
            raise InvalidParameter("every_row", self.every_row, "True or False")
        if self.period is not None and (not isinstance(self.period, str) or self.period not in PERIODS):
            raise InvalidParameter("period", self.period, "one of " + ", ".join(PERIODS))
        if self.period_column is not None and not isinstance(self.period_column, str):
            raise InvalidParameter("period_column", self.period_column, "a column name")
        if self.period_column is not None and self.period is None:
            fix = "leave out period_column, or give a period too"
            raise InvalidParameter("period_column", self.period_column, "left out where no period is given", fix=fix)
        if self.every_row and (self.period or self.path):
            raise InvalidParameter(
                "every_row",
                True,
                "False where a period or a path is given",
                fix="leave out every_row, or leave out period and path",
            )
        if not isinstance(self.path, (tuple, list)) or not all(isinstance(step, str) and step for step in self.path):
            raise InvalidParameter("path", self.path, "a list of non-empty column names")
        object.__setattr__(self, "path", tuple(self.path))

    def __str__(self) -> str:
        if self.every_row:
            return f"one row (one {self.name})"
        path_words = f", found through {' → '.join(self.path)}" if self.path else ""
        if self.period is None:
            return f"all rows of one {self.name}{path_words}"
        column_words = f" of column {self.period_column}" if self.period_column else ""
        return (
            f"one {self.name}-{self.period} "
            f"(all rows of one {self.name} within one {self.period}{column_words}{path_words})"
        )


@codec.serialisable("guarantee")
@dataclass(frozen=True)
class Guarantee:
    """(ε, δ)-differential privacy: P(S) ≤ e^ε·Q(S) + δ for all neighbours, both ways (Dwork & Roth 2014, Def. 2.4).

    >>> Guarantee(0.1)
    Guarantee(epsilon=0.1, delta=0)
    """

    epsilon: Fraction
    delta: Fraction

    def __init__(self, epsilon: Number, delta: Number = 0) -> None:
        object.__setattr__(self, "epsilon", exact(epsilon, "epsilon", NONNEGATIVE))
        object.__setattr__(self, "delta", exact(delta, "delta", BELOW_ONE))

    @classmethod
    def of(cls, value: object, name: str = "guarantee") -> Guarantee:
        """Return the value if it is a Guarantee; refuse anything else by name."""
        if isinstance(value, Guarantee):
            return value
        raise InvalidParameter(name, value, "a Guarantee", fix=f"set {name} to Guarantee(epsilon, delta)")

    def __repr__(self) -> str:
        return f"Guarantee(epsilon={format_exact(self.epsilon)}, delta={format_exact(self.delta)})"

    def __str__(self) -> str:
        if not self.delta:
            return f"{float(self.epsilon):.6g}-DP"
        return f"({float(self.epsilon):.6g}, {float(self.delta):.3g})-DP"

    def implies(self, weaker: Guarantee) -> bool:
        """Return whether both ε and δ are at most those of the weaker guarantee."""
        weaker = Guarantee.of(weaker, "weaker")
        return self.epsilon <= weaker.epsilon and self.delta <= weaker.delta
