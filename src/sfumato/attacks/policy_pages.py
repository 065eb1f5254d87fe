"""An attack on a policy is told as one web page, which an owner can take to a lawyer: it needs nothing else.

An attempt is one thing that was guessed about an invented target, from exact answers and from those of a policy.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sfumato.attacks.ceilings import account_ceiling, most_right, percent_up
from sfumato.attacks.findings import Finding, Findings
from sfumato.errors import InvalidParameter
from sfumato.privacy import Guarantee, Neighbours
from sfumato.privacy.numbers import chance, text
from sfumato.release.answers.answer_pages import attacker, limits_of_it, protected
from sfumato.release.answers.web_pages import HtmlPage, block, escaped, facts, figure, listed, paragraph, table
from sfumato.version import __version__


@dataclass(frozen=True)
class Attempt:
    """An attempt is one thing that was guessed, from exact answers and from the policy's."""

    where: str
    """The table that was asked about, and the column whose value was guessed, if there was one."""
    guessed: str
    """What was guessed, in words."""
    paid: str
    """What was spent on it: all of an account, in one of its currencies."""
    question: str
    """The SQL that was asked."""
    exact: Finding
    private: Finding

    @property
    def most(self) -> float:
        """Give the largest share of right guesses that theory allows."""
        return 1.0 if self.private.ceiling is None else self.private.ceiling

    @property
    def powerless(self) -> bool:
        """Tell whether so few guesses could not have passed the ceiling, even if all had been right."""
        return most_right(self.private.trials, self.most) == self.private.trials


def power_words(attempts: Sequence[Attempt]) -> tuple[str, ...]:
    """Name the attempts whose right guesses could not have refuted the promise; nothing where all could have."""
    without = [each.private.answers for each in attempts if each.powerless]
    if not without:
        return ()
    return (
        f"In {len(without)} of {len(attempts)} attempts so few guesses could not have refuted the promise, even if all "
        f"had been right: {'; '.join(without)}. Whether the software keeps it is what an audit looks for.",
    )


def undeclared_words(undeclared: Sequence[str]) -> tuple[str, ...]:
    """Name the columns that cannot be attacked."""
    if not undeclared:
        return ()
    return (f"Not tried, since no two values and no range are declared, or they hold lists: {', '.join(undeclared)}.",)


_TITLE = "What could be found out about one of those who are protected"


def policy_page(
    promise: Guarantee,
    neighbours: Neighbours,
    unit: str,
    attempts: Sequence[Attempt],
    findings: Findings,
    untried: Sequence[str] = (),
    undeclared: Sequence[str] = (),
) -> HtmlPage:
    """Write the whole page."""
    left = (*_no_time(untried, account_ceiling(promise, neighbours)), *undeclared_words(undeclared))
    sections = [
        f"<h1>{_TITLE}</h1>{_summary(promise, neighbours, attempts)}{_in_short(promise, neighbours)}",
        f"<h2>Who is protected</h2>{protected(unit, neighbours.value)}",
        f"<h2>What was tried</h2>{''.join(_tried(attempts, findings, left))}",
        f"<h2>What anybody could gain at most</h2>{_by_theory(promise, neighbours)}",
        f"<h2>What this does not promise</h2>{limits_of_it()}",
        f"<h2>How it was tried</h2>{_how(unit, neighbours, attempts)}",
        f"<footer>Made by sfumato {__version__}. This page loads nothing from anywhere.</footer>",
    ]
    return HtmlPage(_TITLE, "\n".join(sections))


def _summary(promise: Guarantee, neighbours: Neighbours, attempts: Sequence[Attempt]) -> str:
    exact, private = (max(each, key=lambda own: own.success) for each in zip(*map(_both, attempts), strict=True))
    delta = f", δ = {chance(promise.delta)}" if promise.delta else ""
    return facts(
        [
            (f"ε = {text(promise.epsilon)}{delta}", "is the most that is ever spent"),
            (f"{_of_hundred(exact)} of 100", "guesses were right from exact answers"),
            (f"{_of_hundred(private)} of 100", "were right from the answers of this policy"),
            (f"{_up(account_ceiling(promise, neighbours))} of 100", "is what no method surpasses, by proof"),
        ]
    )


def _both(each: Attempt) -> tuple[Finding, Finding]:
    return each.exact, each.private


def _in_short(promise: Guarantee, neighbours: Neighbours) -> str:
    worst = account_ceiling(promise, neighbours)
    return (
        paragraph(
            "Suppose that an analyst is dishonest, spends everything that this policy allows on one victim, and knows "
            "all about everybody else already. One fact about the victim was decided by a coin, and the analyst "
            "guesses it. Blind guesses are right 50 times of 100. Exact answers, as an ordinary database gives them, "
            "give the fact away."
        )
        + paragraph(
            f"With the answers of this policy, no method whatever is right more than {_up(worst)} times of 100 in "
            "the long run. It makes no difference how the budget is divided into questions: asking again is paid for "
            f"again, and when the budget is spent nothing more is answered. {_judged(worst)}"
        )
        + paragraph(
            "This is the worst that can happen to one of them. An analyst who spends the budget on statistics of all "
            "has less of it for each."
        )
    )


def _judged(worst: float) -> str:
    """Say in words how strong such a promise is, against the whole budget on one victim."""
    if worst <= 0.75:
        return "That is a strong promise: even this analyst stays in doubt."
    if worst <= 0.95:
        return "That is a fair promise: even this analyst is wrong now and then."
    return (
        "That is a weak promise against such an analyst, who is rarely wrong. To promise more, write a smaller ε "
        "into the budget of the policy."
    )


def _no_time(untried: Sequence[str], worst: float) -> Iterator[str]:
    """Say what there was no time for, and which ceiling it has all the same."""
    if untried:
        yield (
            f"There was no time for: {', '.join(untried)}. That no method is right more than {_up(worst)} times of 100 "
            "holds for these, too: it is the ceiling of everything that this policy allows."
        )


def _tried(attempts: Sequence[Attempt], findings: Findings, left: Sequence[str]) -> Iterator[str]:
    rows = [
        (each.where, _guessed(each), each.paid, *map(_of_hundred, _both(each)), _up(each.most)) for each in attempts
    ]
    head = ("asked about", "what was guessed", "spent", "exact answers", "this policy, as tried", "at most")
    yield paragraph("Right guesses of 100, where blind ones are 50:")
    yield table(head, rows, [False, False, False, True, True, True])
    if any(each.paid.startswith("ρ") for each in attempts):
        yield paragraph(
            "The budget is kept in two measures and can be spent in either: ε buys one precise answer, ρ many rougher "
            "ones."
        )
    yield from map(paragraph, left)
    yield figure(findings.plot())
    if not findings.holds:
        yield paragraph(
            "More guesses were right than the promise allows. That happens once in a million times by chance: do not "
            "open this policy, and report it."
        )
    for each in attempts:
        asked = f"<h3>{escaped(f'{each.where}: {_guessed(each)}')}</h3>{block(each.question)}"
        yield f'<section class="card">{asked}{paragraph(_counted(each), "quiet")}</section>'


def _guessed(each: Attempt) -> str:
    many = each.private.attack == "everybody"
    return each.guessed if many else f"whether the victim {each.guessed}"


def _counted(each: Attempt) -> str:
    own = each.private
    words = (
        f"{own.right:,} of {own.trials:,} guesses were right from answers of this policy, and {each.exact.right:,} of "
        f"{each.exact.trials:,} from exact ones. Each answer cost all of {each.paid}."
    )
    return f"{words} {own.note}" if own.note else words


def _by_theory(promise: Guarantee, neighbours: Neighbours) -> str:
    what = "everything that an account of this policy will ever answer"
    try:
        return attacker(promise, neighbours.value, what)
    except InvalidParameter:
        return paragraph("At this ε and δ nothing can be said: beliefs may grow without a limit.")


def _how(unit: str, neighbours: Neighbours, attempts: Sequence[Attempt]) -> str:
    replaced = neighbours is Neighbours.REPLACE
    relation = "replaced by others" if replaced else "added or removed"
    return listed(
        [
            "All people are invented, from what the policy declares. No table of the policy was opened, and its ledger "
            "was neither read nor written.",
            "The victim has as many rows as count of one. Questions went the whole way from SQL to noise, through an "
            "account that was thrown away.",
            f"The proof is about {unit}, {relation}. It holds for every question, every method and any amount of "
            "computing; what was tried is an illustration of it.",
            "What is said to be at most is rounded up. A count of right guesses that passes it by chance is reported "
            f"once in a million times, for each of {len(attempts)} counts.",
            *power_words(attempts),
        ]
    )


def _of_hundred(own: Finding) -> str:
    """Write a share of a hundred to a tenth; all of them only where every guess was right."""
    tenths = round(1000 * own.success)
    return f"{min(tenths, 999 if own.right < own.trials else 1000) / 10:g}"


def _up(share: float) -> str:
    """Write a share of a hundred, rounded up."""
    return percent_up(share).removesuffix(" %")
