"""An audit of a whole curator keeps here what it found, question by question, and what it would have found.

The page of an audit says what was tried, what was found, and what would have been found: one file, for an owner.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from sfumato.audit.asked_questions.compared_outcomes import OutcomeDifference
from sfumato.audit.asked_questions.replayed_totals import Replayed
from sfumato.audit.lower_bounds.verdicts import Verdict
from sfumato.audit.whole_policies.planted_faults import CaughtFault
from sfumato.audit.whole_policies.shared_noise import ComparedNoise
from sfumato.notebook_html import paragraphs, table
from sfumato.privacy.numbers import percent, shown
from sfumato.release.answers.web_pages import HtmlPage, escaped, facts, listed, paragraph, table as html_table
from sfumato.version import __version__

TEMPLATE, OWN, DRAWN = "template", "the owner's", "drawn"
"""Where a question comes from."""
COLUMNS = ("question", "price", "outcome", "exact change", "noise drawn", "bought")
"""What is told of each question."""


@dataclass(frozen=True)
class Sampled:
    """This is what samples say of one question, and what they could have said."""

    verdict: Verdict
    samples: int
    detectable: float | None
    """The least true ε that these samples would, as a rule, have refuted; None with Gaussian noise, whose tail few
    samples see: there, exact changes are what tells."""


@dataclass(frozen=True)
class TriedQuestion:
    """This is one question with everything that was tried on it."""

    question: str
    origin: str
    price: str
    answered: bool
    differences: tuple[OutcomeDifference, ...]
    replay: Replayed | None = None
    drawn: Sampled | None = None
    bought: Sampled | None = None
    noise: ComparedNoise | None = None
    """Whether any two numbers of a release share a noise."""

    @property
    def doubts(self) -> tuple[str, ...]:
        """Say what speaks against the promise; nothing, as it should be."""
        found = [str(each) for each in self.differences[:3]]
        if self.replay is not None and not self.replay.holds and self.replay.where is not None:
            first, second = self.replay.where
            found.append(
                f"{self.replay.norm} reaches {self.replay.share:.4g} times the claim between {first} and {second}"
            )
        if self.noise is not None and not self.noise.holds:
            found.append(str(self.noise))
        found += [str(each.verdict) for each in (self.drawn, self.bought) if each and not each.verdict.holds]
        return tuple(found)


@dataclass(frozen=True)
class CuratorAudit:
    """This is what was tried on a policy, what was found, and what would have been found."""

    policy: str
    protects: str
    neighbours: str
    confidence: float
    """With this probability at least, a sound curator is not doubted by samples."""
    tables: tuple[str, ...]
    """The units that were added, by what they are like."""
    tried: tuple[TriedQuestion, ...]
    faults: tuple[CaughtFault, ...]
    notes: tuple[str, ...]
    """What was not tried, and why."""
    seconds: float
    seed: int | None = None
    """What decided which questions were drawn: the same seed draws the same."""
    unplanted: tuple[str, ...] = ()
    """The faults that there was no time to plant, by name."""

    @property
    def missed(self) -> tuple[CaughtFault, ...]:
        """List the planted faults that were not caught."""
        return tuple(each for each in self.faults if not each.caught)

    @property
    def caught_words(self) -> str:
        """Say how many of all faults were caught: those that there was no time to plant were not."""
        return f"{len(self.faults) - len(self.missed)} of {len(self.faults) + len(self.unplanted)}"

    @property
    def doubt_words(self) -> str:
        """Say how many doubts there are."""
        return "1 doubt" if len(self.doubts) == 1 else f"{len(self.doubts)} doubts" if self.doubts else "no doubt"

    @property
    def has_power(self) -> bool:
        """Tell whether the audit would have seen a fault: it caught all that were planted, and some were."""
        return bool(self.faults) and not self.missed

    @property
    def doubts(self) -> tuple[str, ...]:
        """List everything that speaks against the promise, or against the audit itself."""
        found = [f"{each.question}: {doubt}" for each in self.tried for doubt in each.doubts]
        found += [f"a planted fault was not caught, so this audit has no power: {each.name}" for each in self.missed]
        if not self.faults:
            found.append("no fault was planted, so this audit has no power: give it more minutes")
        if not any(each.answered for each in self.tried):
            found.append("no question was answered, so nothing was tried")
        return tuple(found)

    @property
    def holds(self) -> bool:
        """Tell whether nothing speaks against the promise."""
        return not self.doubts

    def __str__(self) -> str:
        answered = [each for each in self.tried if each.answered]
        compared = sum(each.replay.compared for each in answered if each.replay)
        left = f", and there was no time for {', '.join(self.unplanted)}" if self.unplanted else ""
        what = "No doubt was found" if self.holds else f"DOUBTS: {len(self.doubts)}"
        return (
            f"{what} in {len(self.tried)} questions, of which {len(answered)} are answered, over "
            f"{len(self.tables) + 1} invented tables; {compared:,} pairs of totals were compared; "
            f"{self.caught_words} planted faults were caught{left}"
        )

    @property
    def drawn_words(self) -> str:
        """Say how many questions were drawn, and how they are drawn again; nothing where none were."""
        many = len({each.question for each in self.tried if each.origin == DRAWN})
        drawn = "1 question was drawn" if many == 1 else f"{many} questions were drawn"
        return "" if self.seed is None else f"{drawn}, with seed {self.seed}, which draws the same again"

    def to_json(self) -> str:
        """Write everything that was tried and found as JSON text, for programs."""
        told = {
            "kind": "curator-audit/1",
            "policy": self.policy,
            "protects": self.protects,
            "neighbours": self.neighbours,
            "confidence": self.confidence,
            "holds": self.holds,
            "doubts": self.doubts,
            "tables": self.tables,
            "tried": [_as_values(each) for each in self.tried],
            "faults": [asdict(each) for each in self.faults],
            "unplanted": self.unplanted,
            "notes": self.notes,
            "seconds": self.seconds,
            "seed": self.seed,
        }
        return json.dumps(told, ensure_ascii=False, allow_nan=False)

    def _repr_html_(self) -> str:
        faults = [(each.name, "caught" if each.caught else "MISSED", each.evidence) for each in self.faults]
        found = table(COLUMNS, [row(each) for each in self.tried])
        return (
            paragraphs([str(self), *self.doubts, *self.notes, *filter(None, [self.drawn_words])])
            + found
            + table(("fault", "result", "by what"), faults)
        )


def _as_values(tried: TriedQuestion) -> dict[str, Any]:
    """Put down one question in terms that JSON has."""
    return {
        "question": tried.question,
        "origin": tried.origin,
        "price": tried.price,
        "answered": tried.answered,
        "differences": [str(each) for each in tried.differences],
        "exact_change": None if tried.replay is None else tried.replay.share,
        "shared_noise": None if tried.noise is None else not tried.noise.holds,
        "drawn": _as_bound(tried.drawn),
        "bought": _as_bound(tried.bought),
        "doubts": tried.doubts,
    }


def _as_bound(sampled: Sampled | None) -> dict[str, Any] | None:
    """Put down what samples prove; what they would have refuted is null where that is nothing, or cannot be said."""
    if sampled is None:
        return None
    seen = sampled.detectable
    return {
        "lower_bound": sampled.verdict.lower_bound,
        "holds": sampled.verdict.holds,
        "event": sampled.verdict.event,
        "samples": sampled.samples,
        "would_refute": seen if seen is not None and math.isfinite(seen) else None,
    }


def row(tried: TriedQuestion) -> tuple[str, ...]:
    """Tell one question in a line of the table."""
    same = ("answered alike" if tried.answered else "refused alike") if not tried.differences else "DIFFERS"
    unread = "no total is told" if tried.answered else "none is read"
    change = unread if tried.replay is None else shown(tried.replay.share)
    return " ".join(tried.question.split()), tried.price, same, change, told(tried.drawn), told(tried.bought)


def told(sampled: Sampled | None) -> str:
    """Tell what samples proved, and what they would have refuted."""
    if sampled is None:
        return ""
    if sampled.verdict.holds and sampled.detectable == math.inf:
        return f"{sampled.samples:,} are too few to tell"
    doubt = "" if sampled.verdict.holds else "REFUTED, "
    power = "" if sampled.detectable is None else f" (would see {shown(sampled.detectable)})"
    proven = f"ε ≥ {shown(sampled.verdict.lower_bound)}" if sampled.verdict.lower_bound else "nothing told apart"
    return f"{doubt}{proven} of {sampled.samples:,}{power}"


def page(audit: CuratorAudit) -> HtmlPage:
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
    return HtmlPage(name, "\n".join(sections))


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
    return words + html_table(("fault", "result", "by what"), rows)


def _tried(audit: CuratorAudit) -> str:
    words = paragraph(
        "Outcomes: all that is seen of a question but its noise is the same whoever is in the table. Exact change: the "
        "largest share of a claim that one unit changes; above 1 it would be broken, and 1 means that the claim is no "
        "larger than it has to be. Noise drawn and bought: the ε that samples prove, which has to stay below the "
        f"price, and in brackets the least true ε that they would have refuted. A sound curator passes all of it with "
        f"{percent(audit.confidence)} confidence."
    )
    drawn = paragraph(f"{audit.drawn_words}.") if audit.drawn_words else ""
    return words + drawn + html_table(COLUMNS, [row(each) for each in audit.tried])


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
