"""The steps of a synthesis on a tab: what is held, and how steps are charged, interrupted and ended by a time limit.

The columns that a synthesis models, of a table or of a SELECT: coded by the policy, derived from others, or with
cells that are bought.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Protocol

from sfumato.caching import cached_property
from sfumato.curator.context import Context
from sfumato.curator.proposals.marginals import MarginalsProposal, propose_marginals, propose_select_marginals
from sfumato.curator.proposals.mwem import Sets
from sfumato.curator.proposals.selected_columns import require_all_coded
from sfumato.curator.proposals.tab_releases import TabSeries
from sfumato.errors import InvalidParameter, Unanswered, Unsupported
from sfumato.ledger import Account, Charged
from sfumato.plan.catalog import Catalog
from sfumato.plan.readings.cell_rows import MAX_COLUMN_CELLS
from sfumato.policy import Table
from sfumato.privacy import Cost, Curve
from sfumato.privacy.curve import ROUNDED_UP
from sfumato.privacy.numbers import POSITIVE, Number, exact, units_rounded_up
from sfumato.publish.marginals.attributes import Attributes, measurable_column_names
from sfumato.publish.marginals.estimating import MeasuredMarginal
from sfumato.publish.synthesis.candidates import Outcome, Step, implied_column, implied_columns
from sfumato.publish.synthesis.private_cells import (
    CellPlan,
    ColumnOrigin,
    buys_cells,
    fine_codings,
    has_many_values,
    plan_cells,
    plan_selected_cells,
)
from sfumato.publish.synthesis.released import ImpliedColumn, SynthesisRound
from sfumato.publish.synthesis.state import StepGenerator
from sfumato.publish.tab_steps import MeasureStep
from sfumato.quick_dataclass import dataclass
from sfumato.release.releasing import ReleaseStrategy

_MEMORY_UNITS = {"b": 1, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "kb": 10**3, "mb": 10**6, "gb": 10**9}
_MEMORY_PATTERN = re.compile(rf"\s*(\d+(?:\.\d+)?)\s*({'|'.join(_MEMORY_UNITS)})\s*", re.IGNORECASE)


@dataclass(frozen=True)
class SynthesisOptions:
    """What is asked of a synthesis; its kind says what each of them means."""

    table: str
    method: str = "aim"
    ways: int | Sets = 3
    columns: Sequence[str] | None = None
    weights: Mapping[str | tuple[str, ...], Number] | None = None
    where: str | None = None
    rows: int | None = None
    one_row_per: str | None = None
    order: str | None = None
    target: str | None = None
    memory: str | int = "1 GiB"


@dataclass(frozen=True, eq=False)
class ModelColumns:
    """The columns of a model, those derived from them, and the columns whose cells are bought."""

    coded: MarginalsProposal
    derived_columns: tuple[ImpliedColumn, ...] = ()
    cell_plan: CellPlan | None = None

    @property
    def name(self) -> str:
        return self.coded.query.plan.table

    @cached_property
    def attributes(self) -> Attributes:
        if self.cell_plan is not None:
            return self.cell_plan.attributes
        return tuple(attribute.without_levels for attribute in self.coded.attributes)

    @property
    def sizes(self) -> list[int]:
        return [attribute.size for attribute in self.attributes]

    @property
    def bought_column_indices(self) -> set[int]:
        return set() if self.cell_plan is None else {*self.cell_plan.cells}


@dataclass(frozen=True, eq=False)
class SelectedCells:
    """Cells of the columns of a SELECT that are bought: the tables with their fine cells, and where columns come
    from.
    """

    tables: Mapping[str, Table]
    origins: Mapping[str, ColumnOrigin]


def code_select(
    context: Context, catalog: Catalog, spec: SynthesisOptions, cells: SelectedCells | None = None
) -> ModelColumns:
    if spec.where is not None or spec.order is not None:
        rule, fix = "left out, because the table is a SELECT", "write WHERE or QUALIFY in the SELECT"
        raise InvalidParameter("where", spec.where, rule, fix=fix)
    tables = None if cells is None else cells.tables
    coded = propose_select_marginals(context, catalog, spec.table, spec.columns, spec.rows, tables)
    return ModelColumns(
        coded, cell_plan=None if cells is None else plan_selected_cells(coded.attributes, cells.origins)
    )


def code_table(context: Context, catalog: Catalog, spec: SynthesisOptions) -> ModelColumns:
    table, columns = context.policy.tables.get(spec.table), spec.columns
    is_buying = table is not None and buys_cells(table)
    codings = fine_codings(table) if table is not None and is_buying else None
    fine_table = table if table is None or codings is None else replace(table, codings=codings)
    if columns is None and fine_table is not None:
        require_all_coded(fine_table)
    determined = {} if fine_table is None else _source_and_mapping_by_determined_column(fine_table, columns, spec.ways)
    if fine_table is not None and determined:
        columns = [name for name in columns or measurable_column_names(fine_table) if name not in determined]
    coded = propose_marginals(
        context,
        catalog,
        spec.table,
        1,
        columns=columns,
        where=spec.where,
        rows=spec.rows,
        order=spec.order,
        codings=codings,
    )
    if table is None:
        return ModelColumns(coded)
    index_by_name = {attribute.name: index for index, attribute in enumerate(coded.attributes)}
    derived = tuple(
        implied_column(table, name, index_by_name[by], mapping) for name, (by, mapping) in determined.items()
    )
    return ModelColumns(coded, derived, plan_cells(table, coded.attributes) if is_buying else None)


def refuse_too_many_cells(names: Sequence[str], sizes: Sequence[int]) -> None:
    for name, size in zip(names, sizes, strict=True):
        if size > MAX_COLUMN_CELLS:
            raise Unsupported(
                "too-many-cells",
                f"a column of a synthetic table can have at most {MAX_COLUMN_CELLS:,} cells (values or bins); "
                f"{name} has {size:,}",
                fix=f"give {name} coarser bins, or name only the other columns in columns=[…]",
            )


def _source_and_mapping_by_determined_column(
    table: Table, columns: Sequence[str] | None, ways: Sets
) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Return the columns that others determine, except those that the workload names: these are measured."""
    is_list = columns is None or (
        isinstance(columns, (list, tuple)) and all(isinstance(column, str) for column in columns)
    )
    workload_names = (
        set() if isinstance(ways, int) else {str(name).lower() for column_set in ways for name in column_set}
    )
    implied = implied_columns(table, list(columns or measurable_column_names(table))) if is_list else {}
    return {
        name: source
        for name, source in implied.items()
        if name.lower() not in workload_names and not has_many_values(table.columns[source[0]])
    }


def amount_to_hold(account: Account, curve: Curve, columns: int) -> Cost:
    """Return the amount to hold: slightly more than the leakage of all steps.

    The ledger rounds each step's charge up, by far more than a small step leaks, most at orders near 1. The guarantee
    rests on the exact sum of all steps, and the unspent rest is freed.
    """
    cost, order = account.cost(curve), account.budget.order
    if cost.renyi is None or order is None:
        return cost
    steps = 10 * (columns + 1)  # above the steps of any method
    rounded_up = steps * 2 * Fraction(ROUNDED_UP) / (order - 1)
    return replace(cost, renyi=cost.renyi + cost.renyi // 10**6 + units_rounded_up(rounded_up))


def run_steps(steps: StepGenerator, release: Callable[[Step], Outcome]) -> None:
    """Release every step that a method requests, and send it the outcome."""
    step = next(steps, None)
    while step is not None:
        outcome = release(step)
        try:
            step = steps.send(outcome)
        except StopIteration:
            return


class SynthesisProgress(Protocol):
    """What was measured so far, and its model."""

    @property
    def marginals(self) -> Sequence[MeasuredMarginal]: ...

    @property
    def rounds(self) -> Sequence[SynthesisRound]: ...

    @property
    def has_model(self) -> bool:
        """Whether what was measured is enough to return."""
        ...

    def finish(self) -> None: ...


def step_phase_text(state: SynthesisProgress, step: Step) -> str:
    """Return the progress message of a step: rounds, never scores."""
    if not state.marginals:
        return "counting rows"
    return f"round {len(state.rounds) + 1}: {'measuring' if isinstance(step, MeasureStep) else 'choosing'}"


@dataclass
class SynthesisStepRunner:
    """Runs the steps on a tab, one after the other."""

    tab_series: TabSeries
    question: str
    synthesis: SynthesisProgress

    def __post_init__(self) -> None:
        self.tab = self.tab_series.tab
        self.paid: list[Charged] = []
        limit = self.tab_series.call.time_limit(self.tab_series.context.seconds)
        self._deadline = None if limit is None else time.monotonic() + limit

    def charge_and_run(self, steps: StepGenerator) -> bool:
        """Run all steps; return whether all were run. After an early end, the model so far is used."""
        try:
            run_steps(steps, self._release_step)
            self.synthesis.finish()
        except KeyboardInterrupt:  # between steps, each complete: stopping reveals only what was released
            self.tab.stop()
            if not self.synthesis.has_model:
                raise
        except _TimeLimitReached:
            self._end_at_time_limit()
        except Unsupported:  # a step could not be checked in the remaining time, and was not charged
            if not self.paid:
                self.tab.stop()  # no row was read
                raise
            self._end_at_time_limit()
        except Unanswered:
            if self._remaining_seconds() is None or self._remaining_seconds() > 0 or not self.synthesis.has_model:  # type: ignore[operator]
                raise
        else:
            return True
        return False

    def _end_at_time_limit(self) -> None:
        """End at the time limit and free nothing: how long the steps took may depend on private rows, and so would what
        is freed. Without a model, that is all that is said.
        """
        self.tab.forfeit()
        if not self.synthesis.has_model:
            raise Unanswered(self.tab.opening.number) from None

    def _remaining_seconds(self) -> float | None:
        """Return the remaining time in seconds; delays by the progress callback do not count."""
        return None if self._deadline is None else self._deadline + self.tab_series.delayed_seconds - time.monotonic()

    def _release_step(self, step: Step) -> Outcome:
        remaining = self._remaining_seconds()
        self.tab_series.raise_if_pending()
        if remaining is not None and remaining <= 0 and self.paid:
            raise _TimeLimitReached
        phase = step_phase_text(self.synthesis, step)
        self.tab_series.progress(phase)
        seconds = None if remaining is None else max(remaining, 1e-3)
        strategy: ReleaseStrategy[Outcome] = step
        outcome = self.tab_series.release_step(strategy, f"{phase}, for {self.question}", seconds)
        self.paid += step.batch.mechanism_charges
        return outcome


class _TimeLimitReached(Exception):
    """The time limit was reached between two steps."""


def parse_memory(memory: object) -> int:
    """Parse an amount of memory: bytes, or a text such as 1 GiB."""
    if type(memory) is int and memory > 0:
        return memory
    match = _MEMORY_PATTERN.fullmatch(memory) if isinstance(memory, str) else None
    if match is not None:
        return max(1, math.floor(exact(match[1], "memory", POSITIVE) * _MEMORY_UNITS[match[2].lower()]))
    raise InvalidParameter("memory", memory, 'an amount such as "1 GiB" or "500 MB"')
