"""The results of auditing a whole policy, query by query: tests, their power, and doubts; also as one HTML page."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from sfumato.audit.asked_questions.neighbouring_outcomes import OutcomeDifference, ReplayResult
from sfumato.audit.lower_bounds.verdicts import Verdict
from sfumato.audit.whole_policies.audit_testbeds import NoiseComparison
from sfumato.audit.whole_policies.planted_faults import FaultResult
from sfumato.html_fragments import paragraphs, table
from sfumato.plan.descriptions import count_with_noun
from sfumato.privacy.numbers import format_number, format_percent
from sfumato.quick_dataclass import dataclass
from sfumato.release.answers.web_pages import (
    HtmlPage,
    bullet_list,
    escape_html,
    fact_boxes,
    paragraph,
    table as html_table,
)
from sfumato.version import __version__

TEMPLATE, OWNER, RANDOM = "template", "the owner's", "drawn"
"""Where a query comes from."""
COLUMNS = ("question", "price", "outcome", "exact change", "noise drawn", "bought")
"""The columns of the table of results."""


@dataclass(frozen=True)
class SamplingResult:
    """The verdict of samples on one query, and their power."""

    verdict: Verdict
    samples: int
    detectable: float | None
    """The least true ε that these samples would usually refute; None with Gaussian noise, whose tail few samples reach:
    there the exact changes are the test."""


@dataclass(frozen=True)
class QuestionResult:
    """One query with the results of all tests on it."""

    question: str
    origin: str
    price: str
    answered: bool
    differences: tuple[OutcomeDifference, ...]
    replay: ReplayResult | None = None
    noise_draws: SamplingResult | None = None
    releases: SamplingResult | None = None
    noise: NoiseComparison | None = None
    """Whether any two numbers of a release share a noise draw."""

    @property
    def doubts(self) -> tuple[str, ...]:
        """Return the evidence against the privacy promise; empty if it holds."""
        doubts = [str(difference) for difference in self.differences[:3]]
        if self.replay is not None and not self.replay.holds and self.replay.worst_pair is not None:
            first, second = self.replay.worst_pair
            doubts.append(
                f"{self.replay.norm} reaches {self.replay.share:.4g} times the claim between {first} and {second}"
            )
        if self.noise is not None and not self.noise.holds:
            doubts.append(str(self.noise))
        doubts += [
            str(sampled.verdict)
            for sampled in (self.noise_draws, self.releases)
            if sampled and not sampled.verdict.holds
        ]
        return tuple(doubts)


@dataclass(frozen=True)
class CuratorAudit:
    """The audit of one policy: its tests, their power, and all doubts."""

    policy: str
    protects: str
    neighbours: str
    confidence: float
    """The probability, at least, that samples raise no doubt about a sound curator."""
    tables: tuple[str, ...]
    """Descriptions of the units that were added."""
    tried: tuple[QuestionResult, ...]
    faults: tuple[FaultResult, ...]
    notes: tuple[str, ...]
    """What was not tested, and why."""
    seconds: float
    seed: int | None = None
    """The seed of the random queries; the same seed draws the same queries."""
    untested_faults: tuple[str, ...] = ()
    """Names of the faults that there was no time to inject."""

    @property
    def missed_faults(self) -> tuple[FaultResult, ...]:
        """Return the injected faults that were not detected."""
        return tuple(fault for fault in self.faults if not fault.caught)

    @property
    def caught_summary(self) -> str:
        """Return the number of detected faults of all, including those there was no time for."""
        return f"{len(self.faults) - len(self.missed_faults)} of {len(self.faults) + len(self.untested_faults)}"

    @property
    def doubt_summary(self) -> str:
        return "1 doubt" if len(self.doubts) == 1 else f"{len(self.doubts)} doubts" if self.doubts else "no doubt"

    @property
    def has_power(self) -> bool:
        """Return whether at least one fault was injected and all injected faults were detected."""
        return bool(self.faults) and not self.missed_faults

    @property
    def doubts(self) -> tuple[str, ...]:
        """Return all evidence against the privacy promise, or against the audit itself."""
        all_doubts = [f"{result.question}: {doubt}" for result in self.tried for doubt in result.doubts]
        all_doubts += [
            f"a planted fault was not caught, so this audit has no power: {fault.name}" for fault in self.missed_faults
        ]
        if not self.faults:
            all_doubts.append("no fault was planted, so this audit has no power: allow more minutes")
        if not any(result.answered for result in self.tried):
            all_doubts.append("no question was answered, so nothing was tested")
        return tuple(all_doubts)

    @property
    def holds(self) -> bool:
        """Return whether there is no doubt."""
        return not self.doubts

    def __str__(self) -> str:
        answered = [result for result in self.tried if result.answered]
        compared = sum(result.replay.comparisons for result in answered if result.replay)
        untested = f", and there was no time for {', '.join(self.untested_faults)}" if self.untested_faults else ""
        finding = "No violation was found" if self.holds else f"DOUBTS: {len(self.doubts)}"
        return (
            f"{finding} in {count_with_noun(len(self.tried), 'question')} ({len(answered):,} answered) over "
            f"{len(self.tables) + 1:,} generated tables; {compared:,} pairs of totals were compared; "
            f"{self.caught_summary} planted faults were caught{untested}"
        )

    @property
    def seed_summary(self) -> str:
        """Return the number of random queries and their seed; empty if there were none."""
        query_count = len({result.question for result in self.tried if result.origin == RANDOM})
        question_words = "1 random question" if query_count == 1 else f"{query_count} random questions"
        return (
            "" if self.seed is None else f"{question_words} from seed {self.seed}; the same seed draws the same again"
        )

    def to_json(self) -> str:
        """Serialise all results as JSON."""
        results = {
            "kind": "curator-audit/1",
            "policy": self.policy,
            "protects": self.protects,
            "neighbours": self.neighbours,
            "confidence": self.confidence,
            "holds": self.holds,
            "doubts": self.doubts,
            "tables": self.tables,
            "tried": [_question_json(result) for result in self.tried],
            "faults": [asdict(fault) for fault in self.faults],
            "unplanted": self.untested_faults,
            "notes": self.notes,
            "seconds": self.seconds,
            "seed": self.seed,
        }
        return json.dumps(results, ensure_ascii=False, allow_nan=False)

    def _repr_html_(self) -> str:
        faults = [(fault.name, "caught" if fault.caught else "MISSED", fault.evidence) for fault in self.faults]
        results = table(COLUMNS, [result_row(result) for result in self.tried])
        return (
            paragraphs([str(self), *self.doubts, *self.notes, *filter(None, [self.seed_summary])])
            + results
            + table(("fault", "result", "evidence"), faults)
        )


def _question_json(result: QuestionResult) -> dict[str, Any]:
    """Return one query's results as JSON values."""
    return {
        "question": result.question,
        "origin": result.origin,
        "price": result.price,
        "answered": result.answered,
        "differences": [str(difference) for difference in result.differences],
        "exact_change": None if result.replay is None else result.replay.share,
        "shared_noise": None if result.noise is None else not result.noise.holds,
        "drawn": _sampling_json(result.noise_draws),
        "bought": _sampling_json(result.releases),
        "doubts": result.doubts,
    }


def _sampling_json(sampled: SamplingResult | None) -> dict[str, Any] | None:
    """Return the samples' bound as JSON values; ``would_refute`` is null if infinite or unknown."""
    if sampled is None:
        return None
    detectable = sampled.detectable
    return {
        "lower_bound": sampled.verdict.lower_bound,
        "holds": sampled.verdict.holds,
        "event": sampled.verdict.event,
        "samples": sampled.samples,
        "would_refute": detectable if detectable is not None and math.isfinite(detectable) else None,
    }


def result_row(result: QuestionResult) -> tuple[str, ...]:
    """Return the table row of one query."""
    outcome = ("same answer shape" if result.answered else "same refusal") if not result.differences else "DIFFERS"
    unread = "no totals" if result.answered else "not read"
    change = unread if result.replay is None else format_number(result.replay.share)
    return (
        " ".join(result.question.split()),
        result.price,
        outcome,
        change,
        sampling_phrase(result.noise_draws),
        sampling_phrase(result.releases),
    )


def sampling_phrase(sampled: SamplingResult | None) -> str:
    """Return the samples' bound, and in parentheses the least true ε they would have refuted."""
    if sampled is None:
        return ""
    if sampled.verdict.holds and sampled.detectable == math.inf:
        return f"{sampled.samples:,} are too few"
    doubt = "" if sampled.verdict.holds else "REFUTED, "
    power = "" if sampled.detectable is None else f" (would detect {format_number(sampled.detectable)})"
    proven = f"ε ≥ {format_number(sampled.verdict.lower_bound)}" if sampled.verdict.lower_bound else "no difference"
    return f"{doubt}{proven} from {sampled.samples:,}{power}"


def page(audit: CuratorAudit) -> HtmlPage:
    """Return the report page."""
    name = f"An audit of {audit.policy}"
    sections = [
        f"<h1>{escape_html(name)}</h1>{_summary_section(audit)}",
        f"<h2>Findings</h2>{''.join(_doubts_section(audit))}",
        f"<h2>Planted faults</h2>{_faults_section(audit)}",
        f"<h2>Tests by question</h2>{_results_section(audit)}",
        f"<h2>Generated tables</h2>{_tables_section(audit)}",
        f"<h2>What this does not show</h2>{_scope_section()}",
        f"<footer>Made by sfumato {__version__}. This page loads nothing from other servers.</footer>",
    ]
    return HtmlPage(name, "\n".join(sections))


def _summary_section(audit: CuratorAudit) -> str:
    answered = sum(result.answered for result in audit.tried)
    return fact_boxes(
        [
            (audit.doubt_summary, "about the privacy promise or about this audit"),
            (audit.protects, f"is protected, {audit.neighbours} neighbours"),
            (f"{len(audit.tried)} tests", f"of questions, of which {answered} are answered"),
            (audit.caught_summary, "planted faults were caught"),
        ]
    )


def _doubts_section(audit: CuratorAudit) -> Iterator[str]:
    if audit.holds:
        yield paragraph("No test found evidence against the privacy promise.")
    else:
        yield bullet_list(audit.doubts)
    yield paragraph(
        "None of the owner's rows were read and no budget was spent: every table was generated from the policy."
    )
    if audit.notes:
        yield bullet_list(audit.notes)


def _faults_section(audit: CuratorAudit) -> str:
    introduction = paragraph(
        "An audit without power proves nothing. So faulty twins were tested in the same way as the policy's own "
        "questions, and each of them has to be caught."
    )
    rows = [(fault.name, "caught" if fault.caught else "MISSED", fault.evidence) for fault in audit.faults]
    return introduction + html_table(("fault", "result", "evidence"), rows)


def _results_section(audit: CuratorAudit) -> str:
    introduction = paragraph(
        "Outcome: everything visible about a question except its noise is the same whoever is in the table. Exact "
        "change: the largest change by one unit as a share of the claimed sensitivity; above 1 the claim is broken, "
        "and 1 means that it is tight. Noise drawn and bought: the lower bound on ε that samples prove, which has to "
        "stay below the price, and in brackets the smallest true ε that they would have refuted. A sound curator "
        f"passes all tests with {format_percent(audit.confidence)} confidence."
    )
    random_queries = paragraph(f"{audit.seed_summary}.") if audit.seed_summary else ""
    return introduction + random_queries + html_table(COLUMNS, [result_row(result) for result in audit.tried])


def _tables_section(audit: CuratorAudit) -> str:
    return paragraph("A few units well within every limit, and one further unit that has:") + bullet_list(audit.tables)


def _scope_section() -> str:
    return bullet_list(
        [
            "An audit can refute a promise but never prove it; the proofs are in the documentation.",
            "The questions are a sample of all that can be asked.",
            "How long an answer takes is not compared here.",
            "The owner's files are not read, so an audit does not show whether the policy fits them.",
        ]
    )
