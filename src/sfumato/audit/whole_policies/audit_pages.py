"""The page of an audit says what was tried, what was found, and what would have been found: one file, for an owner."""

from __future__ import annotations

from collections.abc import Iterator

from sfumato.audit.whole_policies.curator_findings import COLUMNS, CuratorAudit, row
from sfumato.privacy.numbers import percent
from sfumato.release.answers.web_pages import Page, escaped, facts, listed, paragraph, table
from sfumato.version import __version__


def page(audit: CuratorAudit) -> Page:
    """Write the whole page."""
    name = f"An audit of {audit.policy}"
    sections = [
        f"<h1>{escaped(name)}</h1>{_summary(audit)}",
        f"<h2>What was found</h2>{''.join(_found(audit))}",
        f"<h2>Planted faults</h2>{_faults(audit)}",
        f"<h2>What was tried</h2>{_tried(audit)}",
        f"<h2>On which tables</h2>{_tables(audit)}",
        f"<h2>What this does not show</h2>{_limits()}",
        f"<footer>Made by sfumato {__version__}. This page loads nothing from anywhere.</footer>",
    ]
    return Page(name, "\n".join(sections))


def _summary(audit: CuratorAudit) -> str:
    answered = sum(each.answered for each in audit.tried)
    return facts(
        [
            (audit.doubt_words, "about the promise, or about this audit"),
            (audit.protects, f"is protected, {audit.neighbours} neighbours"),
            (f"{len(audit.tried)} tries", f"of questions, of which {answered} are answered"),
            (audit.caught_words, "planted faults were caught"),
        ]
    )


def _found(audit: CuratorAudit) -> Iterator[str]:
    if audit.holds:
        yield paragraph("Nothing that was tried speaks against the promise.")
    else:
        yield listed(audit.doubts)
    yield paragraph(
        "No row of the owner was read and nothing of the budget was spent: every table was invented from the policy."
    )
    if audit.notes:
        yield listed(audit.notes)


def _faults(audit: CuratorAudit) -> str:
    words = paragraph(
        "An auditor without power proves nothing. So twins with a fault were tried in the same way as the policy's own "
        "questions, and each of them has to be caught."
    )
    rows = [(each.name, "caught" if each.caught else "MISSED", each.evidence) for each in audit.faults]
    return words + table(("fault", "result", "by what"), rows)


def _tried(audit: CuratorAudit) -> str:
    words = paragraph(
        "Outcomes: all that is seen of a question but its noise is the same whoever is in the table. Exact change: the "
        "largest share of a claim that one unit changes; above 1 it would be broken, and 1 means that the claim is no "
        "larger than it has to be. Noise drawn and bought: the ε that samples prove, which has to stay below the "
        f"price, and in brackets the least true ε that they would have refuted. A sound curator passes all of it with "
        f"{percent(audit.confidence)} confidence."
    )
    drawn = paragraph(f"{audit.drawn_words}.") if audit.drawn_words else ""
    return words + drawn + table(COLUMNS, [row(each) for each in audit.tried])


def _tables(audit: CuratorAudit) -> str:
    return paragraph("A few units that are well within every limit, and one more that has:") + listed(audit.tables)


def _limits() -> str:
    return listed(
        [
            "An audit can refute a promise and never prove it: the proofs stand in the documentation.",
            "What was asked is a sample of what can be asked.",
            "How long an answer takes is not compared here.",
            "The owner's files are not opened, so an audit says nothing about whether the policy fits them.",
        ]
    )
