"""Parts of a key can be countable though the column they read is not: whole steps of a bounded real.

A real has too many values to be listed, but FLOOR, ROUND or CAST(… AS INTEGER) of one within bounds has few. Where a
column is read only through such parts, each of them stands for a column of its own: what the key makes of their values
is evaluated on all of them.

*Claim.* Every value that the key has in some row is among its results on every combination of the parts' values and
NULL. A part's value lies in its domain, so it is listed or NULL, and the rest of the key reads nothing else. ∎
Combinations that no row has may be among them too: they are groups that stay empty.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from sfumato.plan.values.expressions import Call, Column, Expression, Field, Literal, Reference, columns
from sfumato.policy import Domain, Type

_LARGEST = 2**53
"""Steps up to this many are doubles of their own."""


def steps(part: Expression, domain: Domain) -> tuple[int, int, Fraction] | None:
    """Give the first and the last multiple, and of what, of a part that rounds a real within bounds; else None."""
    if not isinstance(part, Call) or domain.bounds is None or domain.type is not Type.REAL:
        return None
    if part.function in ("FLOOR", "CEIL", "TRUNC"):
        step = Fraction(1)
    elif part.function == "ROUND" and isinstance(part.arguments[1], Literal):
        step = Fraction(1, 10) ** int(part.arguments[1].value)  # type: ignore[arg-type]
    else:
        return None
    low, high = (Fraction(each) / step for each in domain.bounds)  # type: ignore[arg-type]
    first, last = math.floor(low), math.ceil(high)
    return (first, last, step) if max(abs(first), abs(last)) <= _LARGEST else None


Counts = Callable[[Expression], bool]
"""Whether the values of a part can be listed."""


def parted(
    expressions: tuple[Expression, ...], counts: Counts
) -> tuple[tuple[Expression, ...], dict[Expression, Column]]:
    """Rewrite the expressions with columns in the place of their countable parts, and these parts.

    It is done for every real without listed values that is read in no other way.
    """
    found: dict[Expression, Column] = {}
    for reference, domain in {name: each for made in expressions for name, each in columns(made).items()}.items():
        if domain.type is Type.REAL and domain.values is None:
            trial = dict(found)
            made = [_without(each, reference, counts, trial) for each in expressions]
            if None not in made:
                expressions, found = tuple(each for each in made if each is not None), trial
    return expressions, found


def _without(made: Expression, column: Reference, counts: Counts, found: dict[Expression, Column]) -> Expression | None:
    """Rewrite an expression so that the innermost countable parts that read the column are columns; None when it is
    read otherwise. ``found`` takes up the parts.
    """
    if column not in columns(made):
        return made
    if not isinstance(made, Call):
        return None
    arguments = [_without(each, column, counts, found) for each in made.arguments]
    if None not in arguments:
        return Call(made.function, tuple(each for each in arguments if each is not None), made.domain)
    if not made.domain.type.numeric or not counts(made):
        return None
    return found.setdefault(made, Column(Field(-1 - len(found), "", "part"), made.domain))
