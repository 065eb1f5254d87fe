"""Conditions and constraints of rows that are drawn from a released model.

*Conditions* such as ``{"ward": "ICU"}`` fix the values of columns. Each multiplies the model by a factor on one column:
the share of the cell's values that are listed, which is 0 or 1 in a listed cell and k/count in a bin. One column lies
in a clique, so belief propagation gives exactly the law of rows given the conditions (Lauritzen & Spiegelhalter 1988);
nothing is rejected, however rare they are. In a bin, one of the listed values is drawn.

*Constraints* such as ``discharge >= admission`` hold as CHECK constraints of SQL do: a row may not make one false, and
NULL passes. The cells of which every row would break one get a factor 0; if no clique holds its columns, the tree
is built anew with them, as long as it fits the model's limit. What a constraint cuts within cells is decided row by
row: rows that break it are rejected as a whole and drawn again, so that accepted rows follow the model's law given all
constraints. Draws are bounded; beyond them the request is refused with the counts, and no row is bent to fit.
A constraint ``total = a + b`` with a binned column on one side is kept by construction: the column is computed from the
others, and the row is rejected where the result lies outside the column's drawn cell.

Where the policy's own impossible conditions cut cells, values are drawn again within their cells first, as for all rows
(``sampling``).

*Privacy.* Everything here is a function of the released model, of the policy and of the caller's request. No row of the
private table is read: post-processing, which costs nothing (Dwork & Roth 2014, prop. 2.1).
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sfumato.array_types import Floats
from sfumato.errors import InvalidParameter, Unsupported, ValueWords
from sfumato.mechanisms import bits
from sfumato.mechanisms.bits import ByteSource
from sfumato.plan.sql.fragments import one_line_excerpt, parse_expression
from sfumato.plan.sql.text_positions import fix_for_unknown_name
from sfumato.plan.values.expressions import Call, Column, Expression, Reference, columns as columns_of
from sfumato.policy import Type
from sfumato.policy.domains import parse_value
from sfumato.publish.cells.answering import CellCondition, QueryableTable, parse_condition
from sfumato.publish.cells.cell_values import as_ranges
from sfumato.publish.graph.models import GraphicalModel, Potential
from sfumato.publish.graph.trees import AttributeSet, predicted_cells
from sfumato.publish.marginals.attributes import Attribute, GroupCell, ListedCell, RangeCell
from sfumato.publish.sampling import (
    MAX_AT_ONCE,
    ColumnSampler,
    SampledRows,
    evaluate_rows,
    possibly_impossible_rows,
    row_truths,
    value_number,
)
from sfumato.publish.synthesis.released import ImpliedColumn
from sfumato.quick_dataclass import dataclass

if TYPE_CHECKING:
    import pyarrow

Mask = NDArray[np.bool_]
Factor = tuple[AttributeSet, Floats]
"""Columns of the model, and a weight ≥ 0 for every combination of their cells."""
Conditions = Mapping[str, Any]
Constraints = str | Sequence[str]

MAX_DRAWS_PER_ROW = 200
"""The most rows that are drawn for one that is kept, on average over a part of the rows."""
_MIN_DRAWS = 20_000
_MAX_EXPECTED_CELLS = 10**6
_METADATA = b"sfumato.sample"


@dataclass(frozen=True)
class SampleReport:
    """How rows with conditions or constraints were drawn."""

    rows: int
    drawn: int
    """The rows that were drawn for these, those rejected included."""
    conditioned: tuple[str, ...]
    """Conditions, and constraints that whole cells decide: the law of the rows is the model's, given these."""
    computed: tuple[str, ...]
    """Constraints that are kept by computing a column."""
    rejected: tuple[str, ...]
    """Constraints that cut cells: rows that broke them were drawn again."""
    expected_rows: float | None = None
    """The rows among n̂ that meet the conditions in the model; None if there is none, or too many cells to add up."""

    @classmethod
    def of(cls, table: pyarrow.Table) -> SampleReport:
        """Read the report from the metadata of sampled rows; a Parquet file keeps it."""
        stored = (table.schema.metadata or {}).get(_METADATA)
        if stored is None:
            fix = "draw the rows with conditions= or constraints=, and pass that table or its Parquet file"
            raise InvalidParameter(
                "table",
                ValueWords("a table that was drawn without them"),
                "a table of rows that were drawn with conditions= or constraints=",
                fix=fix,
            )
        fields: dict[str, Any] = json.loads(stored)
        texts = {name: tuple(fields[name]) for name in ("conditioned", "computed", "rejected")}
        return cls(**{**fields, **texts})

    def attach_to(self, table: pyarrow.Table) -> pyarrow.Table:
        """Add the report to a table's metadata."""
        metadata = {**(table.schema.metadata or {}), _METADATA: json.dumps(asdict(self)).encode()}
        return table.replace_schema_metadata(metadata)

    def __str__(self) -> str:
        lines = [f"{self.rows:,} rows, {self.drawn:,} drawn for them"]
        for label, texts in (
            ("given", self.conditioned),
            ("computed", self.computed),
            ("by rejection", self.rejected),
        ):
            lines += [f"{label:<13}{'; '.join(texts)}"] if texts else []
        if self.expected_rows is not None:
            lines.append(f"{'expected':<13}{self.expected_rows:,.1f} such rows among the estimated n̂, by the model")
        return "\n".join(lines)


@dataclass(frozen=True, eq=False)
class FixedColumn:
    """The values that a condition leaves to one column."""

    text: str
    attribute_index: int
    weights: Floats
    """For each cell, the share of its values that are allowed."""
    bin_values: Mapping[int, NDArray[Any]]
    """For each bin, the allowed values in it, as the sampler stores them."""

    def set_values(self, rows: SampledRows, source: ByteSource | None) -> None:
        """Draw one of the allowed values for every row in a bin."""
        for cell, values in self.bin_values.items():
            in_cell = np.flatnonzero(rows.codes[:, self.attribute_index] == cell)
            if in_cell.size:
                rows.values[self.attribute_index][in_cell] = values[
                    bits.random_array_below(len(values), in_cell.size, source)
                ]


@dataclass(frozen=True, eq=False)
class ComputedColumn:
    """A binned column that a constraint computes from others."""

    condition: CellCondition
    attribute_index: int
    expression: Expression

    def set_values(self, rows: SampledRows, face: QueryableTable) -> None:
        """Compute the column where it and all that it is computed from are present."""
        everywhere = np.arange(len(rows.codes))
        input_names = {*columns_of(self.expression)}
        inputs = [column for column in self.condition.columns if column[0] in input_names]
        ranges = as_ranges(evaluate_rows(rows, self.expression, inputs, face, everywhere))
        low, high = (np.broadcast_to(values, everywhere.shape) for values in (ranges.low, ranges.high))
        null = np.broadcast_to(ranges.null, everywhere.shape)
        present = ~null & ~rows.missing_mask(self.attribute_index) & np.isfinite(low) & np.isfinite(high)
        middle = low[present] + (high[present] - low[present]) / 2
        values = rows.values[self.attribute_index]
        values[present] = middle if values.dtype == np.float64 else np.rint(middle).astype(values.dtype)

    def rows_within_cells(self, rows: SampledRows) -> Mask:
        """Return which rows have a value of their drawn cell."""
        sampler, codes, values = (
            rows.columns[self.attribute_index],
            rows.codes[:, self.attribute_index],
            rows.values[self.attribute_index],
        )
        low, high = sampler.extremes(codes)
        outside = (values < low) | (values > high)
        for cell, step in sampler.spikes:
            outside |= (codes == cell) & (values == step * float(sampler.step))
        return np.asarray(rows.missing_mask(self.attribute_index) | ~outside)


@dataclass(frozen=True, eq=False)
class RowRules:
    """What a caller asks of drawn rows, parsed and checked."""

    fixed: tuple[FixedColumn, ...]
    constraints: tuple[tuple[str, CellCondition], ...]
    computed: tuple[tuple[str, ComputedColumn], ...]

    def accepted_rows(self, rows: SampledRows, face: QueryableTable, impossible: Sequence[CellCondition]) -> Mask:
        """Return which rows meet all conditions, break no constraint, and are possible by the policy."""
        everywhere = np.arange(len(rows.codes))
        accepted = np.ones(everywhere.size, bool)
        for column in self.fixed:
            accepted &= column.weights[rows.codes[:, column.attribute_index]] > 0
        for _, constraint in self.constraints:
            accepted &= ~row_truths(rows, constraint, face, everywhere).false
        for _, computed in self.computed:
            truths = row_truths(rows, computed.condition, face, everywhere)
            accepted &= (truths.true | truths.null) & computed.rows_within_cells(rows)
        accepted[possibly_impossible_rows(rows, impossible, face, everywhere)] = False
        return accepted

    def set_fixed_values(self, rows: SampledRows, source: ByteSource | None) -> None:
        """Set the values that conditions fix."""
        for column in self.fixed:
            column.set_values(rows, source)

    def compute_values(self, rows: SampledRows, face: QueryableTable) -> None:
        """Set the columns that constraints compute, in the order of the constraints."""
        for _, computed in self.computed:
            computed.set_values(rows, face)

    @property
    def texts(self) -> list[str]:
        """All conditions and constraints, as they were written."""
        return [*(column.text for column in self.fixed), *(text for text, _ in (*self.constraints, *self.computed))]

    @property
    def fixed_column_indices(self) -> set[int]:
        """The columns whose values may not be drawn again."""
        return {column.attribute_index for column in self.fixed if column.bin_values}


NO_RULES = RowRules((), (), ())


# ── parsing the request ────────────────────────────────────────────────────────────────────────


def parse_rules(
    face: QueryableTable,
    samplers: Sequence[ColumnSampler],
    conditions: Conditions | None,
    constraints: Constraints,
) -> RowRules:
    """Parse conditions and constraints on the columns of drawn rows; refuse what cannot be evaluated on them."""
    if conditions is not None and not isinstance(conditions, Mapping):
        fix = 'write conditions={"ward": "ICU"}; a condition in SQL is a constraint: constraints="age >= 65"'
        raise InvalidParameter("conditions", conditions, "a mapping of columns to values", fix=fix)
    fixed = tuple(_fixed_column(face, samplers, name, given) for name, given in (conditions or {}).items())
    if len({column.attribute_index for column in fixed}) < len(fixed):
        rule = "a mapping that names each column once, because names that differ only in case are one column"
        raise InvalidParameter("conditions", list(conditions or ()), rule, fix="remove one of the two names")
    texts = (constraints,) if isinstance(constraints, str) else constraints
    if not isinstance(texts, (list, tuple)):
        fix = 'write constraints="discharge >= admission", or a list of such texts'
        raise InvalidParameter("constraints", constraints, "a condition in SQL, or a list of them", fix=fix)
    rejecting, computed = [], []
    for text in texts:
        parse_expression(text)  # one expression, and nothing after it
        condition = parse_condition(face, f"({text}\n)")
        column = _computed_column(condition, samplers)
        if column is None:
            rejecting.append((one_line_excerpt(text), condition))
        else:
            computed.append((one_line_excerpt(text), column))
    return RowRules(fixed, tuple(rejecting), tuple(computed))


def _fixed_column(
    face: QueryableTable, samplers: Sequence[ColumnSampler], name: object, allowed_value: object
) -> FixedColumn:
    index_by_name = {
        attribute.name.lower(): attribute_index for attribute_index, attribute in enumerate(face.attributes)
    }
    if not isinstance(name, str) or name.lower() not in index_by_name:
        fix = fix_for_unknown_name(str(name), [attribute.name for attribute in face.attributes])
        raise InvalidParameter("conditions", name, "a mapping whose keys are columns of the model", fix=fix)
    attribute_index = index_by_name[name.lower()]
    values = list(allowed_value) if isinstance(allowed_value, (list, tuple, set, frozenset)) else [allowed_value]
    if not values:
        rule = "a value, or a list of values"
        raise InvalidParameter(f"the condition on {name}", allowed_value, rule, fix="give at least one value")
    sampler, attribute = samplers[attribute_index], face.attributes[attribute_index]
    weights, bin_values = np.zeros(attribute.size), {}
    by_cell: dict[int, set[Any]] = {}
    for value in values:
        plain = value.item() if isinstance(value, np.generic) else value
        parsed = None if plain is None else parse_value(attribute.type, plain, f"the condition on {name}")
        by_cell.setdefault(_declared_cell(attribute, parsed), set()).add(parsed)
    for cell, allowed in by_cell.items():
        is_bin = isinstance(attribute.cells[cell], (RangeCell, GroupCell))
        weights[cell] = _share_of_bin(sampler, cell, len(allowed)) if is_bin else 1.0
        if is_bin:
            bin_values[cell] = _stored_values(attribute, sampler, allowed)
    values_text = " or ".join("NULL" if value is None else str(value) for value in values[:5])
    text = f"{attribute.name} = {values_text}{' or …' if len(values) > 5 else ''}"
    return FixedColumn(one_line_excerpt(text), attribute_index, weights, bin_values)


def _declared_cell(attribute: Attribute, value: Any) -> int:
    """Return the cell of a declared value, or of NULL; refuse an undeclared one."""
    if value is None:
        return attribute.size - 1
    single_value_cells = [
        index
        for index, cell in enumerate(attribute.cells)
        if isinstance(cell, ListedCell) and type(cell.value) is type(value) and cell.value == value
    ]
    in_bins = [
        index
        for index, cell in enumerate(attribute.cells)
        if isinstance(cell, RangeCell) and (cell.low <= value < cell.high or (cell.closed and value == cell.high))
    ]
    in_bins += [
        index for index, cell in enumerate(attribute.cells) if isinstance(cell, GroupCell) and value in cell.values
    ]
    if not (single_value_cells or in_bins):
        fix = f"use a declared value of {attribute.name}, or None for a missing one"
        raise InvalidParameter(f"the condition on {attribute.name}", value, "a value that the policy declares", fix=fix)
    return (single_value_cells or in_bins)[0]


def _share_of_bin(sampler: ColumnSampler, cell: int, allowed: int) -> float:
    """Return the share of a bin's values that are allowed: of its steps, or of its length where it has no steps."""
    steps = int(sampler.step_counts[cell])
    length = float(sampler.ends[cell, 1] - sampler.ends[cell, 0]) if not steps else 0.0
    return allowed / (steps or length or 1.0)


def _stored_values(attribute: Attribute, sampler: ColumnSampler, allowed: set[Any]) -> NDArray[Any]:
    """Return values as the sampler stores them; refuse one that it would never draw."""
    if attribute.type is Type.TEXT:
        return np.array([number for number, text in enumerate(sampler.texts) if text in allowed], np.int64)
    numbers = sorted(value_number(value) for value in allowed)
    if attribute.type is Type.REAL:
        for number in numbers:
            if sampler.step and (number / sampler.step).denominator != 1:
                raise InvalidParameter(
                    f"the condition on {attribute.name}",
                    float(number),
                    f"a multiple of its grid, {sampler.step}",
                    fix="round the value to the grid",
                )
        return np.array([float(number) for number in numbers])
    return np.array(numbers, np.int64)


def _computed_column(condition: CellCondition, samplers: Sequence[ColumnSampler]) -> ComputedColumn | None:
    """Return the binned column that an equation computes from others; None for any other condition."""
    call = condition.expression
    if not isinstance(call, Call) or call.function != "=":
        return None
    index_by_reference = {
        reference: attribute_index for reference, attribute_index, level in condition.columns if level is None
    }
    for target, expression in (call.arguments, call.arguments[::-1]):
        reference = _column_or_cast(target)
        if reference not in index_by_reference or reference in columns_of(expression):
            continue
        sampler = samplers[index_by_reference[reference]]
        if sampler.has_bins and sampler.attribute.type is not Type.TEXT:
            return ComputedColumn(condition, index_by_reference[reference], expression)
    return None


def _column_or_cast(expression: Expression) -> Reference | None:
    """Return the column that an expression is, perhaps in another type."""
    if isinstance(expression, Call) and expression.function == "CAST":
        expression = expression.arguments[0]
    return expression.reference if isinstance(expression, Column) else None


# ── conditioning the model ─────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, eq=False)
class ConditionedModel:
    """The model given all that its cells can express."""

    model: GraphicalModel
    enforced_by_model: tuple[str, ...]
    """The rules that every row of the model obeys."""
    enforced_by_rejection: tuple[str, ...]
    """The rules for which rows that break them are drawn again."""
    expected_rows: float | None


def condition_model(
    model: GraphicalModel, rules: RowRules, implied: Sequence[ImpliedColumn], max_cells: int
) -> ConditionedModel:
    """Multiply a model by the factors of conditions and constraints; refuse a request that leaves no row."""
    fixed = [
        _express_by_model_columns((column.attribute_index,), column.weights, implied, len(model.sizes))
        for column in rules.fixed
    ]
    expected = _expected_rows(model, fixed)
    enforced_by_model, enforced_by_rejection = [column.text for column in rules.fixed], list[str]()
    for factor in fixed:
        model = _with_factor(model, factor)
    cell_conditions = [*rules.constraints, *((text, computed.condition) for text, computed in rules.computed)]
    for text, condition in cell_conditions:
        allowed = (condition.truths.true | condition.truths.null).astype(float)
        factor = _express_by_model_columns(condition.axes, allowed, implied, len(model.sizes))
        is_held = factor[1].all() or _can_hold_columns(model, factor[0], max_cells)
        if is_held and not factor[1].all():
            model = _with_factor(model, factor)
        is_decided = is_held and not (condition.truths.false & (allowed > 0)).any()
        (enforced_by_model if is_decided else enforced_by_rejection).append(text)
    computed_texts = {text for text, _ in rules.computed}
    try:
        model.conditionals()
    except InvalidParameter:
        raise _no_rows_refusal([*enforced_by_model, *enforced_by_rejection]) from None
    return ConditionedModel(
        model,
        tuple(text for text in enforced_by_model if text not in computed_texts),
        tuple(text for text in enforced_by_rejection if text not in computed_texts),
        expected,
    )


def _no_rows_refusal(texts: Sequence[str]) -> Unsupported:
    rule = f"no row can meet all these conditions: {'; '.join(texts)}"
    fix = "remove a condition, or use values that the policy allows together"
    return Unsupported("no-such-rows", rule, fix=fix, place="the conditions")


def _express_by_model_columns(
    attribute_set: AttributeSet, weights: Floats, implied: Sequence[ImpliedColumn], columns: int
) -> Factor:
    """Express a factor on implied columns, which are not in the model, by the columns that decide them."""
    axes = list(attribute_set)
    for axis, attribute_index in enumerate(axes):
        if attribute_index >= columns:
            column = implied[attribute_index - columns]
            weights, axes[axis] = weights.take(np.array(column.cells), axis=axis), column.by
    letters = dict(zip(dict.fromkeys(axes), "abcdefghijklmnopqrstuvwxyz", strict=False))
    inputs, ordered = "".join(letters[attribute_index] for attribute_index in axes), sorted(letters)
    return tuple(ordered), np.einsum(f"{inputs}->{''.join(letters[index] for index in ordered)}", weights)


def _can_hold_columns(model: GraphicalModel, attribute_set: AttributeSet, max_cells: int) -> bool:
    """Return whether a clique holds these columns, or the tree may be built anew with them."""
    sets = [*(potential.attribute_set for potential in model.potentials), attribute_set]
    return model.tree.clique_index_with(attribute_set) is not None or (
        predicted_cells(sets, model.sizes) <= sum(model.sizes) + max_cells
    )


def _with_factor(model: GraphicalModel, factor: Factor) -> GraphicalModel:
    attribute_set, weights = factor
    with np.errstate(divide="ignore"):
        potential = Potential(attribute_set, np.log(weights))
    if model.tree.clique_index_with(attribute_set) is not None:
        return replace(model, potentials=(*model.potentials, potential))
    return GraphicalModel.from_potentials(model.sizes, (*model.potentials, potential), model.total)


def _expected_rows(model: GraphicalModel, factors: Sequence[Factor]) -> float | None:
    """Return the number of rows of the model that meet the conditions, if their cells can be added up."""
    attribute_set = tuple(dict.fromkeys(attribute_index for factor_set, _ in factors for attribute_index in factor_set))
    if (
        not attribute_set
        or math.prod(model.sizes[attribute_index] for attribute_index in attribute_set) > _MAX_EXPECTED_CELLS
    ):
        return None
    counts = model.marginal(attribute_set)
    for (attribute_index,), weights in factors:
        counts = counts * np.moveaxis(
            weights.reshape(-1, *(1,) * (len(attribute_set) - 1)), 0, attribute_set.index(attribute_index)
        )
    return float(counts.sum())


# ── drawing ────────────────────────────────────────────────────────────────────────────────────


def draw_accepted(
    draw: Callable[[int], SampledRows], accept: Callable[[SampledRows], Mask], rows: int, texts: Sequence[str]
) -> tuple[pyarrow.Table, int]:
    """Draw until so many rows are accepted; return them, and the number that was drawn.

    Rejection keeps the law: an accepted row is distributed as a drawn one given that it is accepted. Refused beyond
    ``MAX_DRAWS_PER_ROW`` draws a row: rows are then too rare to be found this way.
    """
    import pyarrow

    parts: list[pyarrow.Table] = []
    accepted_count = drawn = 0
    most_drawn = max(_MIN_DRAWS, MAX_DRAWS_PER_ROW * rows)
    while accepted_count < rows:
        if drawn >= most_drawn:
            raise _rare_rows_refusal(texts, accepted_count, drawn, rows)
        share = max(accepted_count / drawn, 1 / MAX_DRAWS_PER_ROW) if drawn else 1.0
        batch = min(MAX_AT_ONCE, most_drawn - drawn, math.ceil(1.1 * (rows - accepted_count) / share) + 8)
        drawn_rows = draw(batch)
        accepted = np.flatnonzero(accept(drawn_rows))[: rows - accepted_count]
        parts.append(drawn_rows.to_arrow().take(pyarrow.array(accepted)))
        accepted_count, drawn = accepted_count + accepted.size, drawn + batch
    return pyarrow.concat_tables(parts), drawn


@dataclass
class RowDrawer:
    """Draws rows part by part, under rules if there are any; the report counts what was drawn."""

    draw: Callable[[int], SampledRows]
    rules: RowRules | None = None
    conditioned: ConditionedModel | None = None
    face: QueryableTable | None = None
    impossible: tuple[CellCondition, ...] = ()
    _accepted: int = 0
    _drawn: int = 0

    def draw_parts(self, rows: int) -> Iterator[pyarrow.Table]:
        """Iterate over tables of rows, of so many in all."""
        for start in range(0, rows, MAX_AT_ONCE):
            yield self._draw_part(min(MAX_AT_ONCE, rows - start))

    def _draw_part(self, rows: int) -> pyarrow.Table:
        rules, face = self.rules, self.face
        if rules is None or face is None:
            return self.draw(rows).to_arrow()
        table, drawn = draw_accepted(
            self.draw, lambda part: rules.accepted_rows(part, face, self.impossible), rows, rules.texts
        )
        self._accepted, self._drawn = self._accepted + rows, self._drawn + drawn
        return table

    @property
    def report(self) -> SampleReport | None:
        """How the rows were drawn; None without rules."""
        if self.rules is None or self.conditioned is None:
            return None
        computed = tuple(text for text, _ in self.rules.computed)
        conditioned = self.conditioned
        return SampleReport(
            self._accepted,
            self._drawn,
            conditioned.enforced_by_model,
            computed,
            conditioned.enforced_by_rejection,
            conditioned.expected_rows,
        )


def _rare_rows_refusal(texts: Sequence[str], accepted_count: int, drawn: int, rows: int) -> Unsupported:
    rule = f"only {accepted_count:,} of {drawn:,} drawn rows meet {'; '.join(texts)}, too few for {rows:,} rows"
    fix = "draw fewer rows, loosen a constraint, or fix its columns with conditions="
    return Unsupported("rare-rows", rule, fix=fix, place="the constraints")
