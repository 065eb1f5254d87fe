"""Much is said of groups that nobody declared: what finding them costs, how large they must be, and what needs no δ."""

from __future__ import annotations

from sfumato.errors import Unsupported
from sfumato.mechanisms import KeyThreshold
from sfumato.plan.catalog import Catalog
from sfumato.plan.nodes import Query
from sfumato.plan.values.expressions import Field, columns
from sfumato.plan.words import words
from sfumato.policy.domains import MOST_LETTERS
from sfumato.privacy import Budget
from sfumato.privacy.numbers import percent
from sfumato.release.prices import Price

_OFTEN, _RARELY = "0.95", "0.05"
"""How often a group is shown that is said to be shown, and one that is said to be shown rarely."""


def names(query: Query, found: tuple[int, ...]) -> str:
    """Name the keys whose values are found, as they are written."""
    return ", ".join(words(query.plan.keys[index]) for index in found)


def without_delta(query: Query, found: tuple[int, ...], catalog: Catalog) -> str:
    """Say how to ask so that no δ is needed: by a public table that lists the values, if there is one."""
    read = {each.name for index in found for each in columns(query.plan.keys[index]) if isinstance(each, Field)}
    for table in catalog.tables.values():
        named = sorted(read.intersection(table.columns)) if table.public else []
        if named:
            return f"join the public table {table.name} and group by {table.name}.{named[0]}, which lists its values"
    return "declare the values in the policy, or join a public table that lists them and group by its column"


def require_short(query: Query, found: tuple[int, ...]) -> None:
    """Refuse keys of long texts: every one that rows hold is handed over before some of them are chosen."""
    for index in found:
        key = query.plan.keys[index]
        if key.domain.letters > MOST_LETTERS:
            shown = words(key)
            rule = f"a group that is found in the data has at most {MOST_LETTERS:,} letters, and {shown} may have more"
            fix = f"group by LEFT({shown}, {MOST_LETTERS}), or declare a max_length of {MOST_LETTERS} in the policy"
            raise Unsupported("long-unknown-keys", rule, fix=fix)


def require_delta(keys: str, price: Price, budget: Budget, other: str) -> None:
    """Refuse a price, or an account, without a δ: to show a value that one unit may hold alone needs one."""
    if not budget.delta:
        rule = f"the values of {keys} are not declared, and an account without a δ cannot find them in the data"
        raise Unsupported("unknown-keys", rule, fix=f"{other}: that needs no δ")
    if price.epsilon is None or not price.delta:
        rule = f"the values of {keys} are not declared, and to find them in the data takes an ε and a δ"
        example = "give a delta, such as release(epsilon=1, delta=1e-9) or --delta 1e-9"
        raise Unsupported("unknown-keys", rule, fix=f"{example}; or {other}: that needs no δ")


def appearing(threshold: KeyThreshold) -> str:
    """Say how large a group must be to be shown."""
    size = int(threshold.error(_OFTEN))
    return f"a group of {size:,} units is shown with {percent(_OFTEN)} confidence, a smaller one less often"


def foretold(threshold: KeyThreshold, in_one_group: KeyThreshold | None, size: int | None) -> str:
    """Say before anything is spent which groups will hardly be shown, that the price is spent even where none is, and
    what shows smaller ones.

    ``in_one_group`` is the threshold where a unit is in one group alone, if that can be asked; ``size`` is the number
    of all units, where the policy declares it. Nothing here is of the data.
    """
    least = int(threshold.error(_RARELY))
    found = [] if least < 2 else [f"A group of fewer than {least:,} units is shown less than 1 time in 20."]
    if size is not None and size < int(threshold.error(_OFTEN)):
        found.append(f"The policy declares {size:,} units in all, so there may be no group to show.")
    found.append("An answer without any group has cost its price, too.")
    lower = (
        ""
        if in_one_group is None
        else f", and so does .limit(groups=1): from {int(in_one_group.error(_OFTEN)):,} units on"
    )
    return " ".join([*found, f"A larger ε or δ shows smaller groups{lower}."])


def adds_up(query: Query) -> bool:
    """Tell whether noisy rows are put together: what is then said is of the groups that are shown alone."""
    finishes = (query.finish, *(each.finish for each in query.outer))
    return any(each.totals for each in query.outer) or any(each.windows for each in finishes)


def notes(threshold: KeyThreshold, shown: int, most: int, *, together: bool = False) -> tuple[str, ...]:
    """Say what an answer says of the groups it shows, from those alone; ``together`` where it puts them together."""
    found = [f"Groups are found in the data: {appearing(threshold)}."]
    found += [_TOGETHER] if together else []
    found += ["No group has enough units to be shown."] if not shown else []
    found += [f"An answer has at most {most:,} groups, and there may be more than these."] if shown >= most else []
    return tuple(found)


_TOGETHER = (
    "Numbers over several groups, and their ranges, are of the groups that are shown: what others hold is left out."
)
