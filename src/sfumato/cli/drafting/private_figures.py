"""Sentences with exact figures about rows, printed for the owner alone while a policy is drafted. PRIVATE."""

from __future__ import annotations

from sfumato.cli.drafting.rule_words import format_rules, format_words
from sfumato.curator.cell_proposals import CellProposal, SampledMarkers
from sfumato.curator.draft_figures import BoundsFigures, RowsKept, UnreadCells
from sfumato.untrusted import escape_unprintable

_PRIVATE = "PRIVATE, for you alone:"
_CONFIRM = "What you confirm becomes public; these figures do not."
_MAX_SHOWN = 40
"""The most letters of a cell that are shown."""
_LIMITS_BEFORE, _LIMITS_AFTER = 2, 2
"""How many limits below and above the proposed one are shown."""


def limits_note(table: str, unit: str, kept: RowsKept) -> str:
    """Say what limits around the proposed one keep of a table's rows."""
    limits = list(kept.shares)
    center = len(limits) - 1 if kept.proposed_limit is None else limits.index(kept.proposed_limit)
    first_complete = next((index for index, limit in enumerate(limits) if kept.shares[limit] == 1), len(limits) - 1)
    shown = limits[max(0, center - _LIMITS_BEFORE) : min(center + _LIMITS_AFTER, first_complete) + 1]
    phrases = ", ".join(f"{limit:,} keeps {format_share(kept.shares[limit])}" for limit in shown)
    return f"{_PRIVATE} of the rows of {table}, a limit per {unit} of {phrases}. {_CONFIRM}"


def bounds_note(column: str, figures: BoundsFigures) -> str:
    """Say how many cells of a column are beyond round bounds."""
    phrases = ", ".join(f"{format_share(each.share_beyond)} beyond {each.text}" for each in figures.choices)
    return f"{_PRIVATE} of the cells of {column}, {phrases}. {_CONFIRM}"


def markers_note(table: str, markers: SampledMarkers) -> str:
    """Say which cells of a table look missing, and how many of the sampled ones they are."""
    count = f"{sum(markers.counts.values()):,} of the {markers.cells:,} cells that were sampled would be missing"
    words = format_words(list(markers.counts))
    return f"{_PRIVATE} cells of {table} that look missing are {words}; {count}. {_CONFIRM}"


def rules_note(column: str, proposal: CellProposal, unread: UnreadCells | None) -> str:
    """Show a few cells of a column with what they are read as, and say how many cannot be read so."""
    examples = ", ".join(f"{_cell(text)} → {value}" for text, value in proposal.examples)
    lost = "" if unread is None else f" {unread.unread:,} of {unread.cells:,} cells fit no rule and would be missing."
    rivals = " or ".join(dict.fromkeys(format_rules(rival.rules) for rival in proposal.rivals))
    other = f" Too few cells decide against {rivals}: type that if it is right." if rivals else ""
    return f"{_PRIVATE} cells of {column} would be read as {examples}.{lost}{other}"


def _cell(text: str) -> str:
    shown = escape_unprintable(text[:_MAX_SHOWN]) + ("…" if len(text) > _MAX_SHOWN else "")
    return f'"{shown}"' if shown != shown.strip() else shown


def format_share(share: float) -> str:
    """Write a share in percent, rounded so that neither none nor all is said of a part.

    >>> [format_share(share) for share in (0, 1e-9, 0.0123, 0.99999, 1)]
    ['none', '0.1 %', '1.2 %', '99.9 %', 'all']
    """
    if share in (0, 1):
        return "all" if share else "none"
    return f"{min(max(100 * share, 0.1), 99.9):.1f} %"
