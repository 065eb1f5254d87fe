"""The rows that stand for an answer in forecasts: they follow from the question and its groups, whatever the price."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sfumato.plan.nodes import GroupValues, Query
from sfumato.plan.noisy_rows import Finish
from sfumato.quick_dataclass import dataclass
from sfumato.release.noisy_rows.key_functions import AnswerRows, answer_rows, extract_key_functions, one_row_per_set


@dataclass(frozen=True)
class ForecastRows:
    """Rows that are evaluated with hypothetical groups, and what they stand for."""

    query: Query
    """The question with functions of keys as further keys; where rows are not combined, without what selects them."""
    rows: AnswerRows
    groups: int
    """The number of groups that the rows sum."""
    candidates: int | None
    """The number of rows that they stand for; None: themselves."""
    largest_sum: int
    """The largest number of groups behind one number."""


def forecast_rows(query: Query, groups: Sequence[GroupValues], max_groups: int) -> ForecastRows | None:
    """Return the rows that stand for an answer. None where rows are combined by windows or an outer SELECT and groups
    are discovered: half-widths then depend on how many are shown.

    One group is enough, or one for each grouping set, unless rows are combined.
    """
    sets, is_rowwise, width = query.finish.sets, not (query.finish.windows or query.outer), len(query.plan.keys)
    if not is_rowwise and max_groups > len(groups):
        return None
    rows = one_row_per_set(sets, groups, width) if is_rowwise else answer_rows(sets, groups, width)
    row_count = len(answer_rows(sets, groups, width).keys) if sets else max_groups
    rewritten, parts = extract_key_functions(
        replace(query, finish=Finish(query.finish.outputs)) if is_rowwise else query
    )
    extended = replace(rows, keys=[(*key, *(None,) * len(parts)) for key in rows.keys], width=width + len(parts))
    if not is_rowwise:
        return ForecastRows(rewritten, extended, len(groups), None, 1 + len(rows.keys))
    return ForecastRows(
        rewritten, extended, int(rows.groups.max(initial=0)) + 1, row_count, int(rows.groups_per_row.max())
    )
