"""Explaining says, operator by operator, what one unit can do, what noise answers it, and what it costs.

Much is said of groups that nobody declared: what finding them costs, how large they must be, and what needs no δ.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from sfumato.errors import InvalidParameter, Unsupported
from sfumato.mechanisms import KeyThreshold
from sfumato.mechanisms.protocols import Additive
from sfumato.notebook_html import paragraphs, table
from sfumato.plan.bounding import BoundedPlan, ScaledMeasure
from sfumato.plan.catalog import Catalog
from sfumato.plan.limits import Strategy
from sfumato.plan.nodes import (
    Cut,
    Filter,
    GroupKey,
    Join,
    PerUnit,
    Query,
    Scan,
    SemiJoin,
    Union,
    UnitJoin,
    Unnest,
    Window,
    relations,
)
from sfumato.plan.noisy_rows import Finish, Outer
from sfumato.plan.values.expressions import Field, Reference, columns
from sfumato.plan.words import bounds, enforced, many, measured, names as table_names, unit_words, window_words, words
from sfumato.policy import Domain, Policy
from sfumato.policy.domains import MOST_LETTERS
from sfumato.privacy import Budget, codec
from sfumato.privacy.numbers import Number, percent, shown, text as number
from sfumato.release.noisy_rows.finishing import picks, simultaneous
from sfumato.release.noisy_rows.key_functions import AnswerRows, answer_rows
from sfumato.release.preparing import Prepared
from sfumato.release.prices import Price

_OFTEN, _RARELY = "0.95", "0.05"
"""How often a group is shown that is said to be shown, and one that is said to be shown rarely."""


def names(query: Query, found: tuple[int, ...]) -> str:
    """Name the keys whose values are found, as they are written."""
    return ", ".join(words(query.plan.keys[index]) for index in found)


def without_delta(query: Query, found: tuple[int, ...], catalog: Catalog) -> str:
    """Describe how to ask so that no δ is needed: by a public table that lists the values, if there is one."""
    read = {each.name for index in found for each in columns(query.plan.keys[index]) if isinstance(each, Field)}
    for listing in catalog.tables.values():
        named = sorted(read.intersection(listing.columns)) if listing.public else []
        if named:
            return (
                f"join the public table {listing.name} and group by {listing.name}.{named[0]}, which lists its values"
            )
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
    """Describe how large a group must be to be shown."""
    size = int(threshold.error(_OFTEN))
    return f"a group of {size:,} units is shown with {percent(_OFTEN)} confidence, a smaller one less often"


def foretold(threshold: KeyThreshold, in_one_group: KeyThreshold | None, size: int | None) -> str:
    """Describe before anything is spent which groups will hardly be shown, that the price is spent even where none is, and
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
    """Return whether noisy rows are put together: what is then said is of the groups that are shown alone."""
    finishes = (query.finish, *(each.finish for each in query.outer))
    return any(each.totals for each in query.outer) or any(each.windows for each in finishes)


def notes(threshold: KeyThreshold, shown: int, most: int, *, together: bool = False) -> tuple[str, ...]:
    """Describe what an answer says of the groups it shows, from those alone; ``together`` where it puts them together."""
    found = [f"Groups are found in the data: {appearing(threshold)}."]
    found += [_TOGETHER] if together else []
    found += ["No group has enough units to be shown."] if not shown else []
    found += [f"An answer has at most {most:,} groups, and there may be more than these."] if shown >= most else []
    return tuple(found)


_TOGETHER = (
    "Numbers over several groups, and their ranges, are of the groups that are shown: what others hold is left out."
)


_DIGITS = 4
"""Of the size of noise, and of what one unit changes, as an explanation tells them: as many as its errors have."""


@codec.value("operator")
@dataclass(frozen=True)
class Operator:
    """An operator is one step of a question."""

    name: str
    what: str
    effect: str

    def __post_init__(self) -> None:
        codec.check_fields(self)


@codec.value("explanation")
@dataclass(frozen=True)
class Explanation:
    """An explanation says what a question would do at a price: as text, as a table in notebooks, as JSON."""

    question: str
    price: str
    operators: tuple[Operator, ...]
    reason: str
    warnings: tuple[str, ...]
    """What the answer may miss because nobody declared it."""
    advice: str = ""
    """What makes most of the error, and what a tighter limit or bound would give; empty where none does."""

    def __post_init__(self) -> None:
        codec.check_fields(self)
        if type(self.operators) is not tuple or not set(map(type, self.operators)) == {Operator}:
            raise InvalidParameter("operators", self.operators, "a list of at least one operator")

    def to_json(self) -> str:
        """Write the explanation as JSON text, with a kind and a version."""
        return codec.dumps(self)

    @classmethod
    def from_json(cls, source: str) -> Explanation:
        """Read back what ``to_json`` wrote; any other text is refused."""
        return codec.loads_as(cls, source)

    def __str__(self) -> str:
        width = max(len(each.name) for each in self.operators)
        lines = [f"{each.name:<{width}}  {each.what}\n{'':<{width}}    {each.effect}" for each in self.operators]
        noted = [f"{'warning':<{width}}  {each}" for each in self.warnings]
        advice = [f"{'advice':<{width}}  {self.advice}"] if self.advice else []
        return "\n".join([f"at {self.price}:", *lines, f"{'chosen':<{width}}  {self.reason}", *advice, *noted])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        rows = [(each.name, each.what, each.effect) for each in self.operators]
        said = (f"chosen: {self.reason}", self.advice, *(f"warning: {each}" for each in self.warnings))
        return table((), rows, caption=f"at {self.price}") + paragraphs(said)


def explain(
    text: str,
    query: Query,
    policy: Policy,
    groups: Sequence[GroupKey],
    most: int,
    prepared: Prepared,
    confidence: Number = "0.95",
    found: tuple[str, str] | None = None,
) -> Explanation:
    """Explain what a question with at most so many groups does at a price; ``found`` says which keys are found in the
    data and how to do without.
    """
    operators = [*sources(query, policy), *_limits(prepared), _group(query, most, found)]
    operators += [] if found is None else [_select(prepared, *found)]
    rows = answer_rows(query.finish.sets, groups, len(query.plan.keys))
    picked = picks(query)
    sure = f"with {percent(confidence)} confidence{', all at once since rows are picked by them' if picked else ''}"
    shares = prepared.split.shares
    for scaled, mechanism, share in zip(prepared.bounded.noised, prepared.mechanisms, shares[0], strict=False):
        shown_rows = len(rows.keys) if rows.sums else most
        together = max(1, simultaneous(query, shown_rows) if picked else scaled.coordinates)
        width = mechanism.error(confidence, together) * scaled.unit_value + scaled.rounding
        operators.append(Operator("measure", measured(scaled.measure), _sensitivity(scaled)))
        on = f" on each of its {scaled.coordinates} sums" if scaled.coordinates > 1 else ""
        operators.append(
            Operator(
                "noise",
                mechanism.words(scaled.unit_value, _DIGITS),
                f"±{shown(float(width))}{on} {sure}, for {_share(share, 'the price')}",
            )
        )
        operators += _subtotals(scaled, mechanism, rows, confidence, together)
    for part, measurements, own in zip(prepared.others, prepared.measured[1:], shares[1:], strict=True):
        what, effect = part.words(measurements, confidence)
        name, price = "noise" if part.noisy else "choice", _share(sum(own, Fraction(0)), "the price")
        operators.append(Operator(name, what, f"{effect}, for {price}"))
    operators += _split(query, prepared)
    first, *others = table_names(query)
    operators.append(_finish(query.finish, first))
    operators += [_outer(each, meant) for each, meant in zip(query.outer, others, strict=True)]
    return Explanation(text, str(prepared.price), tuple(operators), prepared.reason, ())


def sources(query: Query, policy: Policy) -> list[Operator]:
    """Explain where the rows come from, step by step."""
    found = []
    for node in reversed(list(relations(query.plan.source))):
        if isinstance(node, Scan):
            found.append(
                Operator(
                    "scan",
                    node.table,
                    f"protects {policy.unit}, {policy.neighbours.value}",
                )
            )
        elif isinstance(node, Join):
            compared = [*(("=", made, column) for made, column in node.pairs), *node.bands]
            on = ", ".join(f"{words(made)} {test} {column}" for test, made, column in compared)
            most = many(node.multiplicity, "row")
            found.append(Operator("join", f"{node.table} on {on}", f"public; one row becomes at most {most}"))
        elif isinstance(node, Unnest):
            most = many(node.most, "row")
            found.append(Operator("unnest", str(node.items), f"one row becomes at most {most}, one for each item"))
        elif isinstance(node, Filter):
            found.append(Operator("filter", words(node.predicate), "free: decided row by row"))
        elif isinstance(node, PerUnit):
            found.append(_per_unit(node))
        elif isinstance(node, Window):
            results = [f"{window_words(made)}{_between(made.domain)}" for _, made in node.functions]
            found.append(Operator("window", ", ".join(results), "free: from the unit's own rows alone"))
        elif isinstance(node, Cut):
            found.append(Operator("cut", f"{many(node.rows, 'row')} of one unit", "more are left out by a secret hash"))
        elif isinstance(node, (UnitJoin, SemiJoin)):
            found.append(_meeting(node))
        elif isinstance(node, Union):
            found.append(Operator("union", many(len(node.members), "part"), "free: one after the other"))
    return found


def _meeting(node: UnitJoin | SemiJoin) -> Operator:
    """Explain how private tables meet: within one unit, and by what else."""
    by = [f"{words(first)} = {words(second)}" for first, second in node.pairs]
    on = " and ".join(["the unit", *by, *([] if node.condition is None else [words(node.condition)])])
    if isinstance(node, SemiJoin):
        kept = "rows without a match" if node.anti else "rows with a match"
        return Operator("test", f"{kept} on {on}", "free: from the unit's own rows alone")
    most = "" if node.most_rows is None else f": at most {many(node.most_rows, 'row')} of one unit"
    kept = ", rows without a match kept" if node.outer else ""
    return Operator("unit join", f"on {on}{kept}", f"a unit's rows beside its own alone{most}")


def _per_unit(node: PerUnit) -> Operator:
    by = "".join(f" and {words(key)}" for _, key in node.keys)
    results = [f"{unit_words(measure)}{_between(measure.domain)}" for _, measure in node.results]
    return Operator("per unit", ", ".join(results) or "nothing", f"one row for each unit{by}; no row is left out")


def _between(domain: Domain) -> str:
    if domain.range is None:
        return ""
    low, high = (number(end) if isinstance(end, Fraction) else str(end) for end in domain.range)
    return f" in [{low}, {high}]"


def _limits(prepared: Prepared) -> list[Operator]:
    """Explain how one unit is limited: in the totals, and in what is measured beside them."""
    return list(dict.fromkeys(map(limited, prepared.used)))


def limited(bounded: BoundedPlan) -> Operator:
    """Explain how many rows of one unit count, and what becomes of the others."""
    if bounded.strategy is not Strategy.WHOLE or bounded.every_row:
        return Operator("limit", enforced(bounded), _HOW[bounded.strategy])
    return Operator("limit", enforced(bounded), "every unit has one row: nothing to limit")


_HOW = {
    Strategy.WHOLE: "every row is a unit: nothing to limit",
    Strategy.REWEIGHT: "rows of a unit with more are weighted down, so that together they count as many as allowed",
    Strategy.CLIP_L1: "a unit's contributions are scaled down to the allowed sum of sizes",
    Strategy.CLIP_L2: "a unit's contributions are scaled down to the allowed length",
    Strategy.SAMPLE: "rows of a unit with more are kept by a secret hash",
}


def _group(query: Query, groups: int, found: tuple[str, str] | None) -> Operator:
    keys = query.plan.keys
    if not keys:
        return Operator("group", "all rows", "one group")
    listed = f"{many(groups, 'group')}, from the policy or public tables alone, empty ones too"
    if found is not None:
        listed = (
            f"at most {many(groups, 'group')}: each value of {found[0]} that is shown, with all values of the others"
        )
    return Operator("group", ", ".join(words(key) for key in keys), listed)


def _select(prepared: Prepared, keys: str, otherwise: str) -> Operator:
    """Explain which values are shown, for what part of the price."""
    threshold = prepared.selection
    assert threshold is not None
    epsilon = _share(prepared.split.shares[0][-1], "ε", "all of ε")
    delta = "all of δ" if threshold.delta == prepared.price.delta else "half of δ"
    return Operator(
        "select",
        f"{keys}: {threshold.words()}",
        f"{appearing(threshold)}, for {epsilon} and {delta}; to need no δ, {otherwise}",
    )


def _share(share: Fraction, price: str, whole: str | None = None) -> str:
    """Describe which part of a price is paid: 1/3 of it, or 37 % of it."""
    if share == 1:
        return whole or f"the whole {price.removeprefix('the ')}"
    return f"{share} of {price}" if share.numerator == 1 else f"{shown(100 * float(share), 3)} % of {price}"


def _split(query: Query, prepared: Prepared) -> list[Operator]:
    """Explain an uneven split: how wrong each number is with it, and would be with an even one."""
    split = prepared.split
    if split.even:
        return []
    asked = [measured(each) for each in query.plan.measures]
    told = zip(asked, split.times, split.evenly, strict=True)
    each = "; ".join(f"{name} {shown(times, 3)} times ({shown(same, 3)} times evenly)" for name, times, same in told)
    return [Operator("split", "the price, for the least error of what is asked", f"the error alone: {each}")]


def _subtotals(
    scaled: ScaledMeasure, mechanism: Additive, rows: AnswerRows, confidence: Number, together: int
) -> list[Operator]:
    """Explain what subtotals add: their noise is that of their groups together."""
    if not rows.sums:
        return []
    most = int(rows.terms.max())
    width = mechanism.sum_error(most, confidence, together) * scaled.unit_value + most * scaled.rounding
    what = f"sums of up to {many(most, 'group')}"
    return [Operator("subtotals", what, f"±{shown(float(width))} on the longest; free: made of the noisy groups")]


def _outer(query: Outer, meant: Mapping[Reference, str]) -> Operator:
    found = _finish(query.finish, meant)
    picked = [] if query.where is None else [f"where {words(query.where, meant)}"]
    return replace(found, name="outer", what=", ".join([*picked, found.what]))


def _sensitivity(scaled: ScaledMeasure) -> str:
    change = scaled.sensitivity
    known = bounds(scaled)
    most, once = (shown(float(each * scaled.unit_value), _DIGITS) for each in (change.l1, change.linf))
    size = f"one unit moves {scaled.measure.noised} by at most {most} in all, {once} in a group"
    return f"{known}; {size}" if known else size


def _finish(finish: Finish, meant: Mapping[Reference, str]) -> Operator:
    clauses = [f"{each.name} = {words(each.expression, meant)}" for each in finish.outputs]
    clauses += [f"having {words(finish.having, meant)}"] if finish.having is not None else []
    clauses += ["ordered"] if finish.order else []
    clauses += [f"at most {finish.limit} rows"] if finish.limit is not None else []
    return Operator("finish", ", ".join(clauses), "free: works on noisy numbers alone")
