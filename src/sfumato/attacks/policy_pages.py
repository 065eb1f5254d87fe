"""The report page of attacks on a policy: one self-contained HTML page for readers without a technical background."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sfumato.attacks.ceilings import account_guess_ceiling, format_percent_up, max_correct
from sfumato.attacks.findings import Finding, Findings
from sfumato.errors import InvalidParameter
from sfumato.privacy import Guarantee, Neighbours
from sfumato.privacy.numbers import format_exact, format_probability
from sfumato.quick_dataclass import dataclass
from sfumato.release.answers.answer_pages import render_belief_changes, render_limitations, render_protection
from sfumato.release.answers.web_pages import (
    HtmlPage,
    bullet_list,
    escape_html,
    fact_boxes,
    figure,
    paragraph,
    preformatted_block,
    table,
)
from sfumato.version import __version__


@dataclass(frozen=True)
class Attempt:
    """One guess about a simulated target, from exact answers and from the policy's."""

    target: str
    """The queried table, with the guessed column if there was one."""
    fact: str
    """The guessed fact, in words."""
    price: str
    """The price: a whole account, as ε or ρ."""
    question: str
    """The SQL of the question."""
    exact: Finding
    private: Finding

    @property
    def ceiling(self) -> float:
        """Return the largest share of correct guesses that theory allows."""
        return 1.0 if self.private.ceiling is None else self.private.ceiling

    @property
    def lacks_power(self) -> bool:
        """Return whether this many guesses could not have exceeded the ceiling even if all were correct."""
        return max_correct(self.private.trials, self.ceiling) == self.private.trials


def power_words(attempts: Sequence[Attempt]) -> tuple[str, ...]:
    """Name the attempts whose guesses could not have refuted the promise; empty if all could."""
    powerless = [attempt.private.answers for attempt in attempts if attempt.lacks_power]
    if not powerless:
        return ()
    return (
        f"In {len(powerless)} of {len(attempts)} attempts there were too few guesses to refute the promise, even if "
        f"all had been right: {'; '.join(powerless)}. An audit tests whether the software keeps the promise.",
    )


def undeclared_words(undeclared: Sequence[str]) -> tuple[str, ...]:
    """Return a note that names the columns that cannot be attacked."""
    if not undeclared:
        return ()
    return (f"Not tried, because they declare neither two values nor a range, or hold lists: {', '.join(undeclared)}.",)


_TITLE = "What an attacker could find out about one of the protected"


def policy_page(
    guarantee: Guarantee,
    neighbours: Neighbours,
    unit: str,
    attempts: Sequence[Attempt],
    findings: Findings,
    untried: Sequence[str] = (),
    undeclared: Sequence[str] = (),
) -> HtmlPage:
    """Return the report page."""
    notes = (*_untried_notes(untried, account_guess_ceiling(guarantee, neighbours)), *undeclared_words(undeclared))
    sections = [
        f"<h1>{_TITLE}</h1>{_summary_section(guarantee, neighbours, attempts)}"
        f"{_overview_section(guarantee, neighbours)}",
        f"<h2>Who is protected</h2>{render_protection(unit, neighbours.value)}",
        f"<h2>What was tried</h2>{''.join(_attempts_section(attempts, findings, notes))}",
        f"<h2>What anybody could gain at most</h2>{_ceiling_section(guarantee, neighbours)}",
        f"<h2>What this does not promise</h2>{render_limitations()}",
        f"<h2>How it was tested</h2>{_method_section(unit, neighbours, attempts)}",
        f"<footer>Made by sfumato {__version__}. This page loads nothing from other servers.</footer>",
    ]
    return HtmlPage(_TITLE, "\n".join(sections))


def _summary_section(guarantee: Guarantee, neighbours: Neighbours, attempts: Sequence[Attempt]) -> str:
    sides = zip(*map(_exact_and_private, attempts), strict=True)
    exact, private = (max(findings, key=lambda finding: finding.success) for findings in sides)
    delta = f", δ = {format_probability(guarantee.delta)}" if guarantee.delta else ""
    return fact_boxes(
        [
            (f"ε = {format_exact(guarantee.epsilon)}{delta}", "is the most that is ever spent"),
            (f"{_share_of_hundred(exact)} of 100", "guesses were right from exact answers"),
            (f"{_share_of_hundred(private)} of 100", "were right from the answers of this policy"),
            (
                f"{_percent_up(account_guess_ceiling(guarantee, neighbours))} of 100",
                "is the proven limit of every method",
            ),
        ]
    )


def _exact_and_private(attempt: Attempt) -> tuple[Finding, Finding]:
    return attempt.exact, attempt.private


def _overview_section(guarantee: Guarantee, neighbours: Neighbours) -> str:
    worst = account_guess_ceiling(guarantee, neighbours)
    return (
        paragraph(
            "Suppose that an analyst is dishonest, spends everything that this policy allows on one victim, and knows "
            "all about everybody else already. One fact about the victim was decided by a coin, and the analyst "
            "guesses it. Blind guesses are right 50 times out of 100. Exact answers, as an ordinary database gives "
            "them, give the fact away."
        )
        + paragraph(
            f"With the answers of this policy, no method whatever is right more than {_percent_up(worst)} times out of "
            "100 in the long run. It makes no difference how the budget is divided into questions: asking again is "
            f"paid for again, and when the budget is spent nothing more is answered. {_describe_promise(worst)}"
        )
        + paragraph(
            "This is the worst that can happen to one of them. An analyst who spends the budget on statistics about "
            "everybody has less of it left for any one."
        )
    )


def _describe_promise(worst_success: float) -> str:
    """Return in words how strong the promise is against the whole budget on one victim."""
    if worst_success <= 0.75:
        return "That is a strong promise: even this analyst stays in doubt."
    if worst_success <= 0.95:
        return "That is a fair promise: even this analyst is wrong now and then."
    return (
        "That is a weak promise against such an analyst, who is rarely wrong. To promise more, write a smaller ε "
        "into the budget of the policy."
    )


def _untried_notes(untried: Sequence[str], worst_success: float) -> Iterator[str]:
    """Name what there was no time for, with its ceiling."""
    if untried:
        yield (
            f"There was no time to try: {', '.join(untried)}. That no method is right more than "
            f"{_percent_up(worst_success)} times out of 100 holds for these too: it is the ceiling of everything that "
            "this policy allows."
        )


def _attempts_section(attempts: Sequence[Attempt], findings: Findings, notes: Sequence[str]) -> Iterator[str]:
    rows = [
        (
            attempt.target,
            _guess_words(attempt),
            attempt.price,
            *map(_share_of_hundred, _exact_and_private(attempt)),
            _percent_up(attempt.ceiling),
        )
        for attempt in attempts
    ]
    header = ("asked about", "what was guessed", "spent", "exact answers", "answers of this policy", "at most")
    yield paragraph("Right guesses out of 100, where blind ones score 50:")
    yield table(header, rows, [False, False, False, True, True, True])
    if any(attempt.price.startswith("ρ") for attempt in attempts):
        yield paragraph(
            "The budget is kept in two measures and can be spent in either: ε buys one precise answer, ρ many rougher "
            "ones."
        )
    yield from map(paragraph, notes)
    yield figure(findings.plot())
    if not findings.holds:
        yield paragraph(
            "More guesses were right than the promise allows. That happens once in a million times by chance: do not "
            "open this policy, and report it."
        )
    for attempt in attempts:
        heading = f"<h3>{escape_html(f'{attempt.target}: {_guess_words(attempt)}')}</h3>"
        heading += preformatted_block(attempt.question)
        yield f'<section class="card">{heading}{paragraph(_count_words(attempt), "quiet")}</section>'


def _guess_words(attempt: Attempt) -> str:
    about_everybody = attempt.private.attack == "everybody"
    return attempt.fact if about_everybody else f"whether the victim {attempt.fact}"


def _count_words(attempt: Attempt) -> str:
    finding = attempt.private
    words = (
        f"{finding.right:,} of {finding.trials:,} guesses were right from answers of this policy, and "
        f"{attempt.exact.right:,} of {attempt.exact.trials:,} from exact ones. Each answer cost all of {attempt.price}."
    )
    return f"{words} {finding.note}" if finding.note else words


def _ceiling_section(guarantee: Guarantee, neighbours: Neighbours) -> str:
    what = "everything that an account of this policy will ever answer"
    try:
        return render_belief_changes(guarantee, neighbours.value, what)
    except InvalidParameter:
        return paragraph("At this ε and δ there is no bound on what an attacker may learn.")


def _method_section(unit: str, neighbours: Neighbours, attempts: Sequence[Attempt]) -> str:
    replaced = neighbours is Neighbours.REPLACE
    relation = "replaced by others" if replaced else "added or removed"
    return bullet_list(
        [
            "All people are simulated from what the policy declares. No table of the policy was opened, and its ledger "
            "was neither read nor written.",
            "The victim has as many rows as the policy counts for one. Questions ran the whole path from SQL to noise, "
            "on an account that was discarded.",
            f"The proof is about {unit}, {relation}. It holds for every question and every method, with any computer "
            "that cannot break AES-256; what was tried is an illustration of it.",
            "Ceilings are rounded up. Right guesses that exceed the ceiling by chance alone are reported "
            f"once in a million times, for each of {len(attempts)} counts.",
            *power_words(attempts),
        ]
    )


def _share_of_hundred(finding: Finding) -> str:
    """Format a share out of 100 to a tenth; 100 only if every guess was correct."""
    tenths = round(1000 * finding.success)
    return f"{min(tenths, 999 if finding.right < finding.trials else 1000) / 10:g}"


def _percent_up(share: float) -> str:
    """Format a share out of 100, rounded up."""
    return format_percent_up(share).removesuffix(" %")
