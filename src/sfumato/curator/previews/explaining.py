"""Explain a question operator by operator: what one unit can change, the noise, and the cost.

For undeclared groups: what discovering them costs, how large they must be, and how to avoid a δ.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

from sfumato.errors import InvalidParameter, Unsupported
from sfumato.html_fragments import paragraphs, table
from sfumato.mechanisms import KeyThreshold
from sfumato.mechanisms.protocols import Additive
from sfumato.plan.bounding import BoundedPlan, ScaledMeasure
from sfumato.plan.catalog import Catalog
from sfumato.plan.descriptions import (
    column_names_by_level as table_names,
    count_with_noun,
    describe_bounds,
    describe_enforced_limits,
    describe_measure,
    expression_sql,
    typed_sql,
    unit_measure_sql,
    window_sql,
)
from sfumato.plan.limits import Strategy
from sfumato.plan.nodes import (
    AnySemiJoin,
    Filter,
    GroupValues,
    LimitRowsPerUnit,
    PerUnit,
    PublicJoin,
    Query,
    Scan,
    SemiJoin,
    Union,
    UnitJoin,
    Unnest,
    Window,
    relations,
)
from sfumato.plan.noisy_rows import Finish, OuterSelect
from sfumato.plan.values.expressions import Field, Reference, columns
from sfumato.policy import Domain, Policy
from sfumato.policy.domains import MAX_LETTERS
from sfumato.privacy import Budget, codec
from sfumato.privacy.numbers import (
    ACCEPT_DEFAULT,
    DEFAULT_CONFIDENCE,
    Number,
    format_exact as number,
    format_number,
    format_percent,
)
from sfumato.quick_dataclass import dataclass
from sfumato.release.noisy_rows.finishing import count_noises_behind_answer, selects_by_noise
from sfumato.release.noisy_rows.key_functions import AnswerRows, answer_rows
from sfumato.release.pricing import PricedRelease
from sfumato.release.requests import PriceRequest
from sfumato.untrusted import escape_unprintable

_LIKELY, _UNLIKELY = "0.95", "0.05"
"""The probabilities with which a group counts as shown, and as rarely shown."""


def keys_sql(query: Query, key_indices: tuple[int, ...]) -> str:
    """Format the keys whose values are discovered."""
    return ", ".join(expression_sql(query.plan.keys[index]) for index in key_indices)


def advice_without_delta(query: Query, key_indices: tuple[int, ...], catalog: Catalog) -> str:
    """Describe how to avoid a δ: by a public table that lists the values, if there is one."""
    key_fields = {
        reference.name
        for index in key_indices
        for reference in columns(query.plan.keys[index])
        if isinstance(reference, Field)
    }
    for listing in catalog.tables.values():
        fields = sorted(key_fields.intersection(listing.columns)) if listing.public else []
        if fields:
            return (
                f"join the public table {listing.name} and group by {listing.name}.{fields[0]}, which lists its values"
            )
    return "declare the values in the policy, or join a public table that lists them and group by its column"


def require_short_keys(query: Query, key_indices: tuple[int, ...]) -> None:
    """Refuse long text keys: all key values in the rows are read before some are selected."""
    for index in key_indices:
        key = query.plan.keys[index]
        if key.domain.max_letters > MAX_LETTERS:
            key_text = expression_sql(key)
            rule = (
                f'a group that is found in the data can have at most {MAX_LETTERS:,} characters, and "{key_text}" '
                "may have more"
            )
            fix = f"group by LEFT({key_text}, {MAX_LETTERS}), or declare a max_length of {MAX_LETTERS} in the policy"
            raise Unsupported("long-unknown-keys", rule, fix=fix)


DEFAULT_DELTA = Fraction(1, 10**9)
"""The δ that is offered for finding groups where the account has enough."""
_PART_OF_LEFT = 10
"""The offered δ is at most this part of what is left, so that more than one such question can be asked."""


def offered_delta(budgets: Sequence[Budget]) -> Fraction:
    """Return the δ to offer for finding groups: 1e-9, or the largest power of ten below a tenth of what is left.

    It is 0 where nothing is left: only what every budget can pay is offered.
    """
    left = min(budget.remaining.get("failure", Fraction(0)) for budget in budgets)
    largest = min(DEFAULT_DELTA, left / _PART_OF_LEFT)
    if not largest:
        return largest
    power = Fraction(1)
    while power > largest:
        power /= 10
    return power


def format_offered_delta(delta: Fraction) -> str:
    """Write an offered δ as it is typed: 1e-9."""
    return f"1e-{len(str(delta.denominator)) - 1}" if delta else "0"


def assumed_delta_note(delta: Fraction) -> str:
    """State that a forecast is for a δ that nobody gave, and how to give it."""
    text = format_offered_delta(delta)
    return (
        f"No δ was given: this assumes δ = {text}, which you have to give with the price (delta={text} or --delta "
        f"{text})."
    )


def offered_delta_notes(stated: PriceRequest, delta: Fraction) -> tuple[str, ...]:
    """State that a forecast assumes this δ to find groups, and how to accept it; nothing where one was given."""
    if stated.has_or_accepts_delta or not delta:
        return ()
    text = format_offered_delta(delta)
    return (f"No δ was given: this assumes δ = {text}. To release, accept it {_ACCEPTED}.",)


_ACCEPTED = f'with delta="{ACCEPT_DEFAULT}" (--delta {ACCEPT_DEFAULT}), or give a δ of your own'


def require_delta_for_discovery(
    keys_sql: str, is_given: bool, budgets: Sequence[Budget], advice_without_delta: str
) -> None:
    """Refuse a price, or an account, without a δ: showing a value that one unit may hold alone needs one."""
    budget = budgets[0]
    if not budget.delta:
        rule = f"the values of {keys_sql} are not declared, and an account without a δ cannot find them in the data"
        raise Unsupported("unknown-keys", rule, fix=f"{advice_without_delta}: that needs no δ")
    if not is_given:
        rule = f"the values of {keys_sql} are not declared, and finding them in the data needs an ε and a δ"
        offered = offered_delta(budgets)
        accept = f"accept δ = {format_offered_delta(offered)} {_ACCEPTED}; or "
        first = accept if offered else "no δ is left for undeclared groups: "
        raise Unsupported("unknown-keys", rule, fix=f"{first}{advice_without_delta}: that needs no δ")


def threshold_words(threshold: KeyThreshold) -> str:
    """Describe how large a group must be to be shown."""
    size = int(threshold.error(_LIKELY))
    return f"a group of {size:,} units is shown with {format_percent(_LIKELY)} probability, a smaller one less often"


def discovery_warning(
    threshold: KeyThreshold, threshold_for_one_group: KeyThreshold | None, declared_units: int | None
) -> str:
    """Warn before the purchase which groups will hardly be shown, that the price is charged even where none is.

    It also states what shows smaller groups. ``threshold_for_one_group`` is the threshold where a unit is in one group
    alone, if that can be requested; ``declared_units`` is the declared number of units. Nothing depends on the data.
    """
    rare_size = int(threshold.error(_UNLIKELY))
    sentences = (
        [] if rare_size < 2 else [f"A group of fewer than {rare_size:,} units is shown in fewer than 1 of 20 answers."]
    )
    if declared_units is not None and declared_units < int(threshold.error(_LIKELY)):
        sentences.append(f"The policy declares {declared_units:,} units in total, so there may be no group to show.")
    sentences.append("An answer that shows no group is charged as well.")
    one_group_text = (
        ""
        if threshold_for_one_group is None
        else f", or with .limit(groups=1), which nearly always shows groups of "
        f"{int(threshold_for_one_group.error(_LIKELY)):,} units or more"
    )
    return " ".join([*sentences, f"Smaller groups are shown with a larger ε or δ{one_group_text}."])


def combines_noisy_rows(query: Query) -> bool:
    """Return whether noisy rows are combined: notes then cover the shown groups alone."""
    finishes = (query.finish, *(outer.finish for outer in query.outer))
    return any(outer.totals for outer in query.outer) or any(outer.windows for outer in finishes)


def discovery_notes(threshold: KeyThreshold, group_count: int, max_groups: int, query: Query) -> tuple[str, ...]:
    """Return the notes of an answer with discovered groups."""
    sentences = [f"Groups are found in the data, and small ones may be missing: {threshold_words(threshold)}."]
    sentences += [_COMBINED_NOTE] if combines_noisy_rows(query) else []
    sentences += ["No group has enough units to be shown."] if not group_count else []
    sentences += (
        [f"An answer has at most {max_groups:,} groups; there may be more."] if group_count >= max_groups else []
    )
    return tuple(sentences)


_COMBINED_NOTE = "Totals over several groups, and their ranges, cover only the groups that are shown."


_SIGNIFICANT_DIGITS = 4
"""Significant digits of noise scales and sensitivities, as many as errors have."""


@codec.serialisable("operator")
@dataclass(frozen=True)
class PlanStep:
    """One step of an explained question."""

    name: str
    what: str
    effect: str

    def __post_init__(self) -> None:
        codec.check_simple_fields(self)


@codec.serialisable("explanation")
@dataclass(frozen=True)
class Explanation:
    """What a question would do at a price: as text, as a table in notebooks, as JSON."""

    question: str
    price: str
    operators: tuple[PlanStep, ...]
    reason: str
    warnings: tuple[str, ...]
    """What the answer may miss for lack of declarations."""
    advice: str = ""
    """What causes most of the error, and what a tighter limit or bound would give; empty if none does."""

    def __post_init__(self) -> None:
        codec.check_simple_fields(self)
        if type(self.operators) is not tuple or set(map(type, self.operators)) != {PlanStep}:
            fix = "pass the operators of an explanation: question.explain().operators"
            raise InvalidParameter("operators", self.operators, "a non-empty tuple of steps", fix=fix)

    def to_json(self) -> str:
        """Serialize the explanation as JSON text, with a kind and a version."""
        return codec.dumps(self)

    @classmethod
    def from_json(cls, source: str) -> Explanation:
        """Parse what ``to_json`` wrote; any other text is refused."""
        return codec.loads_as(cls, source)

    def __str__(self) -> str:
        width = max(len(operator.name) for operator in self.operators)
        lines = [f"at {self.price}:"]
        for operator in self.operators:
            lines += [f"{operator.name:<{width}}  {operator.what}", f"{'':<{width}}    {operator.effect}"]
        lines.append(f"{'chosen':<{width}}  {self.reason}")
        lines += [f"{'advice':<{width}}  {self.advice}"] if self.advice else []
        lines += [f"{'warning':<{width}}  {warning}" for warning in self.warnings]
        return "\n".join(map(escape_unprintable, lines))  # a text in the question starts no line of its own

    __repr__ = __str__

    def _repr_html_(self) -> str:
        rows = [(operator.name, operator.what, operator.effect) for operator in self.operators]
        notes = (f"chosen: {self.reason}", self.advice, *(f"warning: {warning}" for warning in self.warnings))
        return table((), rows, caption=f"at {self.price}") + paragraphs(notes)


def explain_release(
    text: str,
    query: Query,
    policy: Policy,
    groups: Sequence[GroupValues],
    max_groups: int,
    prepared: PricedRelease,
    confidence: Number = DEFAULT_CONFIDENCE,
    discovered_keys: tuple[str, str] | None = None,
) -> Explanation:
    """Explain what a question with at most ``max_groups`` groups does at a price.

    ``found`` holds the names of discovered keys, and how to avoid discovery.
    """
    operators = [
        *explain_source(query, policy),
        *_explain_limits(prepared),
        _explain_groups(query, max_groups, discovered_keys),
    ]
    operators += [] if discovered_keys is None else [_explain_key_selection(prepared, *discovered_keys)]
    rows = answer_rows(query.finish.sets, groups, len(query.plan.keys))
    selects_rows = selects_by_noise(query)
    joint_note = ", jointly since rows are selected by them" if selects_rows else ""
    coverage = f"with {format_percent(confidence)} confidence{joint_note}"
    shares = prepared.split.shares
    for scaled, mechanism, share in zip(
        prepared.bounded.noisy_measures, prepared.totals_mechanisms, shares[0], strict=False
    ):
        max_rows = len(rows.keys) if rows.has_sums else max_groups
        results_draws = max(member.coordinates for member in scaled.members(0))
        joint_draws = max(1, count_noises_behind_answer(query, max_rows) if selects_rows else results_draws)
        width = mechanism.error(confidence, joint_draws) * scaled.unit_value + scaled.rounding
        operators.append(PlanStep("measure", describe_measure(scaled.measure, typed_sql), _sensitivity_text(scaled)))
        per_sum = f" on each of its {scaled.coordinates} sums" if scaled.coordinates > 1 else ""
        operators.append(
            PlanStep(
                "noise",
                mechanism.words(scaled.unit_value, _SIGNIFICANT_DIGITS),
                f"±{format_number(float(width))}{per_sum} {coverage}, for {_share_text(share, 'the price')}",
            )
        )
        operators += _explain_subtotals(scaled, mechanism, rows, confidence, joint_draws)
    for part, measurements, part_shares in zip(prepared.others, prepared.measurements[1:], shares[1:], strict=True):
        description, effect = part.words(measurements, confidence)
        name, price = "noise" if part.noisy else "choice", _share_text(sum(part_shares, Fraction(0)), "the price")
        operators.append(PlanStep(name, description, f"{effect}, for {price}"))
    operators += _explain_split(query, prepared)
    first_names, *outer_names = table_names(query)
    operators.append(_explain_finish(query.finish, first_names))
    operators += [
        _explain_outer_select(outer, reference_names)
        for outer, reference_names in zip(query.outer, outer_names, strict=True)
    ]
    return Explanation(text, str(prepared.price), tuple(operators), prepared.reason, ())


def explain_source(query: Query, policy: Policy) -> list[PlanStep]:
    """Explain where the rows come from, step by step."""
    operators = []
    for node in reversed(list(relations(query.plan.source))):
        if isinstance(node, Scan):
            operators.append(
                PlanStep(
                    "scan",
                    node.table,
                    f"protects {policy.unit}, {policy.neighbours.value}",
                )
            )
        elif isinstance(node, PublicJoin):
            conditions = [*(("=", expression, column) for expression, column in node.pairs), *node.bands]
            join_text = ", ".join(
                f"{expression_sql(expression)} {test} {column}" for test, expression, column in conditions
            )
            max_rows = count_with_noun(node.multiplicity, "row")
            operators.append(
                PlanStep("join", f"{node.table} on {join_text}", f"public; one row becomes at most {max_rows}")
            )
        elif isinstance(node, Unnest):
            max_rows = count_with_noun(node.most, "row")
            operators.append(
                PlanStep("unnest", str(node.items), f"one row becomes at most {max_rows}, one for each item")
            )
        elif isinstance(node, Filter):
            operators.append(PlanStep("filter", expression_sql(node.predicate), "free: decided row by row"))
        elif isinstance(node, PerUnit):
            operators.append(_explain_per_unit(node))
        elif isinstance(node, Window):
            results = [f"{window_sql(function)}{_range_text(function.domain)}" for _, function in node.functions]
            operators.append(PlanStep("window", ", ".join(results), "free: computed from the unit's own rows"))
        elif isinstance(node, LimitRowsPerUnit):
            operators.append(
                PlanStep("cut", f"{count_with_noun(node.rows, 'row')} of one unit", "a secret hash drops the others")
            )
        elif isinstance(node, (UnitJoin, SemiJoin)):
            operators.append(_explain_private_join(node))
        elif isinstance(node, AnySemiJoin):
            operators.append(_explain_any_semi_join(node))
        elif isinstance(node, Union):
            operators.append(PlanStep("union", count_with_noun(len(node.members), "part"), "free: one after the other"))
    return operators


def _explain_private_join(node: UnitJoin | SemiJoin) -> PlanStep:
    """Explain a join of private tables: within one unit, and on further conditions."""
    equalities = [f"{expression_sql(first)} = {expression_sql(second)}" for first, second in node.pairs]
    condition = " and ".join(
        ["the unit", *equalities, *([] if node.condition is None else [expression_sql(node.condition)])]
    )
    if isinstance(node, SemiJoin):
        row_phrase = "rows without a match" if node.anti else "rows with a match"
        return PlanStep("test", f"{row_phrase} on {condition}", "free: computed from the unit's own rows")
    row_limit = (
        ""
        if node.max_rows_per_unit is None
        else f": at most {count_with_noun(node.max_rows_per_unit, 'row')} of one unit"
    )
    outer_phrase = ", rows without a match kept" if node.outer else ""
    return PlanStep("unit join", f"on {condition}{outer_phrase}", f"only rows of the same unit are joined{row_limit}")


def _explain_any_semi_join(node: AnySemiJoin) -> PlanStep:
    """Explain tests under OR, each as a test by itself."""
    tests = [SemiJoin(node.input, test.other, test.pairs, test.condition, test.anti) for test in node.tests]
    predicate = [] if node.predicate is None else [f"rows with {expression_sql(node.predicate)}"]
    words = [*predicate, *(_explain_private_join(test).what for test in tests)]
    return PlanStep("test", ", or ".join(words), "free: computed from the unit's own rows")


def _explain_per_unit(node: PerUnit) -> PlanStep:
    key_text = "".join(f" and {expression_sql(key)}" for _, key in node.keys)
    results = [f"{unit_measure_sql(measure)}{_range_text(measure.domain)}" for _, measure in node.results]
    return PlanStep("per unit", ", ".join(results) or "nothing", f"one row for each unit{key_text}; no row is dropped")


def _range_text(domain: Domain) -> str:
    if domain.range is None:
        return ""
    low, high = (number(end) if isinstance(end, Fraction) else str(end) for end in domain.range)
    return f" in [{low}, {high}]"


def _explain_limits(prepared: PricedRelease) -> list[PlanStep]:
    """Explain the contribution limits of totals and of other parts, each once."""
    return list(dict.fromkeys(map(explain_limit, prepared.measured_plans)))


def explain_limit(bounded_plan: BoundedPlan) -> PlanStep:
    """Explain how many rows of one unit count, and what happens to the others."""
    if bounded_plan.strategy is not Strategy.WHOLE or bounded_plan.every_row_is_unit:
        return PlanStep("limit", describe_enforced_limits(bounded_plan), _STRATEGY_EFFECTS[bounded_plan.strategy])
    return PlanStep("limit", describe_enforced_limits(bounded_plan), "every unit has one row: nothing to limit")


_STRATEGY_EFFECTS = {
    Strategy.WHOLE: "every row is a unit: nothing to limit",
    Strategy.REWEIGHT: "rows of a unit above the limit are weighted down to it",
    Strategy.CLIP_L1: "a unit's contributions are scaled down to the allowed sum of absolute values",
    Strategy.CLIP_L2: "a unit's contributions are scaled down to the allowed Euclidean norm",
    Strategy.SAMPLE: "of a unit above the limit, a secret hash selects the rows that count",
    Strategy.MATCH: "each unit is matched to values that no earlier unit has; the other values do not count",
}


def _explain_groups(query: Query, groups: int, discovered_keys: tuple[str, str] | None) -> PlanStep:
    keys = query.plan.keys
    if not keys:
        return PlanStep("group", "all rows", "one group")
    effect = f"{count_with_noun(groups, 'group')}, from the policy or public tables alone, empty ones too"
    if discovered_keys is not None:
        discovered_values = f"each value of {discovered_keys[0]} that is shown"
        effect = f"at most {count_with_noun(groups, 'group')}: {discovered_values}, with all values of the others"
    return PlanStep("group", ", ".join(expression_sql(key) for key in keys), effect)


def _explain_key_selection(prepared: PricedRelease, keys: str, otherwise: str) -> PlanStep:
    """Explain which values are shown, and the share of the price."""
    threshold = prepared.selection
    assert threshold is not None
    epsilon = _share_text(prepared.split.shares[0][-1], "ε", "all of ε")
    delta = "all of δ" if threshold.delta == prepared.price.delta else "half of δ"
    return PlanStep(
        "select",
        f"{keys}: {threshold.words()}",
        f"{threshold_words(threshold)}, for {epsilon} and {delta}; to need no δ, {otherwise}",
    )


def _share_text(share: Fraction, price: str, whole: str | None = None) -> str:
    """Format a share of a price: 1/3 of it, or 37 % of it."""
    if share == 1:
        return whole or f"the whole {price.removeprefix('the ')}"
    return f"{share} of {price}" if share.numerator == 1 else f"{format_number(100 * float(share), 3)} % of {price}"


def _explain_split(query: Query, prepared: PricedRelease) -> list[PlanStep]:
    """Explain an uneven split: the relative error of each result with it, and with an even one."""
    split = prepared.split
    if split.has_equal_shares:
        return []
    measures = [describe_measure(measure, typed_sql) for measure in query.plan.measures]
    errors = zip(measures, split.error_ratios, split.even_error_ratios, strict=True)
    error_text = "; ".join(
        f"{name} {format_number(times, 3)} times ({format_number(evenly, 3)} times if split evenly)"
        for name, times, evenly in errors
    )
    return [
        PlanStep(
            "split",
            "the price, for the smallest error of the requested numbers",
            f"error compared with buying each alone: {error_text}",
        )
    ]


def _explain_subtotals(
    scaled: ScaledMeasure, mechanism: Additive, rows: AnswerRows, confidence: Number, joint_draws: int
) -> list[PlanStep]:
    """Explain subtotals: their noise is the sum of their groups' noise."""
    if not rows.has_sums:
        return []
    longest_sum = int(rows.groups_per_row.max())
    width = (
        mechanism.sum_error(longest_sum, confidence, joint_draws) * scaled.unit_value + longest_sum * scaled.rounding
    )
    description = f"sums of up to {count_with_noun(longest_sum, 'group')}"
    return [
        PlanStep("subtotals", description, f"±{format_number(float(width))} on the longest; free: sums of noisy groups")
    ]


def _explain_outer_select(query: OuterSelect, reference_names: Mapping[Reference, str]) -> PlanStep:
    operator = _explain_finish(query.finish, reference_names)
    condition = [] if query.where is None else [f"where {expression_sql(query.where, reference_names)}"]
    return replace(operator, name="outer", what=", ".join([*condition, operator.what]))


def _sensitivity_text(scaled: ScaledMeasure) -> str:
    sensitivity = scaled.sensitivity
    bounds_text = describe_bounds(scaled)
    in_all, in_group = (
        format_number(float(norm * scaled.unit_value), _SIGNIFICANT_DIGITS)
        for norm in (sensitivity.l1, sensitivity.linf)
    )
    effect = f"one unit changes {scaled.measure.noised_phrase} by at most {in_all} in total, {in_group} in one group"
    return f"{bounds_text}; {effect}" if bounds_text else effect


def _explain_finish(finish: Finish, reference_names: Mapping[Reference, str]) -> PlanStep:
    clauses = [f"{output.name} = {expression_sql(output.expression, reference_names)}" for output in finish.outputs]
    clauses += [f"having {expression_sql(finish.having, reference_names)}"] if finish.having is not None else []
    clauses += [f"qualify {expression_sql(finish.qualify, reference_names)}"] if finish.qualify is not None else []
    clauses += ["ordered"] if finish.order else []
    clauses += [f"at most {finish.limit} rows"] if finish.limit is not None else []
    return PlanStep("finish", ", ".join(clauses), "free: computed from noisy numbers")
