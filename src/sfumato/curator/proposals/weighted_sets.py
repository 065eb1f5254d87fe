"""The sets of columns that a synthetic table's model is to have right, and how much each of them counts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction

from sfumato.curator.proposals.mwem import Sets, sets_of
from sfumato.errors import InvalidParameter, Unsupported
from sfumato.privacy.numbers import POSITIVE, Number, exact
from sfumato.publish.marginals.blocks import Set
from sfumato.publish.synthesis.candidates import BYTES_PER_CELL

ColumnWeights = Mapping[str | tuple[str, ...], Number]
"""How much columns, or sets of columns of the workload, count; 1 for all others."""
_MOST_SETS = 200_000


def workload_sets(ways: Sets, names: Sequence[str], sizes: Sequence[int], most_cells: int) -> tuple[list[Set], int]:
    """Find the marginals that the model is to have right: named sets all, of so many columns those that can be held."""
    if type(ways) is int and 1 <= ways <= len(names) and math.comb(len(names), ways) > _MOST_SETS:
        rule = f"at most {_MOST_SETS:,} sets; of {len(names)} columns {ways} at a time there are more"
        raise InvalidParameter("ways", ways, rule, fix="take fewer ways, or name the sets")
    sets = sets_of(min(ways, len(names)) if type(ways) is int else ways, names)
    most = sum(sizes) + most_cells
    cells = {each: math.prod(sizes[place] for place in each) for each in sets}
    fitting = [each for each in sets if cells[each] <= most or len(each) == 1]
    if len(fitting) == len(sets) or (type(ways) is int and fitting):
        return fitting, len(sets) - len(fitting)
    largest = max(sets, key=lambda each: cells[each])
    told = " and ".join(names[place] for place in largest)
    need = -(-cells[largest] * BYTES_PER_CELL // (1 << 20))
    raise Unsupported(
        "too-many-cells",
        f"a model has at most {most:,} cells in the memory that is allowed; {told} have {cells[largest]:,} together",
        fix=f'write memory="{need:,} MiB"'.replace(",", "") + ", take coarser bins, or leave the set out",
    )


def set_weight(places: Set, names: Sequence[str], weights: ColumnWeights) -> Fraction:
    """Multiply the weights of the columns of a set, and the set's own."""
    own = {names[place].lower() for place in places}
    found = Fraction(1)
    for named, weight in weights.items():
        if _texts(named) == own if not isinstance(named, str) else named.lower() in own:
            found *= exact(weight, "weights", POSITIVE)
    return found


def check_weights(weights: ColumnWeights, names: Sequence[str], sets: Sequence[Set]) -> None:
    if not isinstance(weights, Mapping):
        raise InvalidParameter("weights", weights, 'weights by columns such as {"income": 3}')
    known = {name.lower() for name in names}
    asked = [{names[place].lower() for place in each} for each in sets]
    for named, weight in weights.items():
        exact(weight, "weights", POSITIVE)
        fits = named.lower() in known if isinstance(named, str) else _texts(named) in asked
        if not fits:
            rule = f"columns among {', '.join(names)}, or sets of them that the workload has"
            raise InvalidParameter("weights", named, rule)


def _texts(names: object) -> set[str]:
    return {str(each).lower() for each in names} if isinstance(names, (tuple, list, frozenset)) else set()
