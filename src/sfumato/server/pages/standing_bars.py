"""Budgets are shown as bars: one for each currency of an account, a share or a period."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from sfumato.curator import PeriodStandings, Standing
from sfumato.privacy.budget_pictures import WORDS
from sfumato.privacy.numbers import shown
from sfumato.server.pages.page_contexts import Bar, Bars

_PERIODS = 24
"""Periods that are shown, the last ones."""


def bars(standing: Standing) -> tuple[Bar, ...]:
    """Give a bar for each currency that has a limit."""
    found = []
    for name, allowed in standing.allowed.items():
        if not allowed:
            continue
        spent, left = standing.spent[name], standing.left.get(name)
        closed = left is None or spent is None
        part = 100.0 if spent is None else min(100.0, float(100 * spent / allowed))
        amounts = (_amount(allowed), _amount(spent), _amount(left))
        found.append(Bar(WORDS.get(name, name), *amounts, f"{part:.1f}", closed))
    return tuple(found)


def every_bar(standing: Standing | PeriodStandings, title: str) -> Iterator[Bars]:
    """Give the bars of an account, or those of each of its periods, the last ones first."""
    if isinstance(standing, Standing):
        yield Bars(title, bars(standing), tuple(standing.lines))
        return
    yield Bars(f"{title}, any other {standing.per}", bars(standing.fresh), (standing.promise,))
    last = list(zip(standing.periods, standing.standings, strict=True))[-_PERIODS:]
    for period, each in reversed(last):
        yield Bars(f"{title}, {period}", bars(each), (f"budget left for ordinary answers: {each.ordinary}",))


def first(standing: Standing | PeriodStandings) -> Standing:
    """Give the one standing, or that of a period of which nothing was asked."""
    return standing if isinstance(standing, Standing) else standing.fresh


def _amount(amount: Fraction | None) -> str:
    return "—" if amount is None else shown(float(amount), 4)
