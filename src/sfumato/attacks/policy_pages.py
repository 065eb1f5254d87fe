"""An attack on a policy is told as one web page, which an owner can take to a lawyer: it needs nothing else."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from sfumato.privacy import Guarantee, Neighbours
from sfumato.privacy.numbers import chance, text
from sfumato.release.answer_pages import attacker, limits_of_it, protected
from sfumato.release.web_pages import Page, block, escaped, facts, figure, listed, paragraph, table
from sfumato.version import __version__

if TYPE_CHECKING:
    from sfumato.attacks.findings import Finding
    from sfumato.attacks.policy_attacks import Attempt, PolicyAttack

_TITLE = "What could be found out about one of those who are protected"


def policy_page(found: PolicyAttack) -> Page:
    """Write the whole page."""
    sections = [
        f"<h1>{_TITLE}</h1>{_summary(found)}{_in_short(found)}",
        f"<h2>Who is protected</h2>{protected(found.unit, found.neighbours.value)}",
        f"<h2>What was tried</h2>{''.join(_tried(found))}",
        f"<h2>What anybody could gain at most</h2>{_by_theory(found)}",
        f"<h2>What this does not promise</h2>{limits_of_it()}",
        f"<h2>How it was tried</h2>{_how(found)}",
        f"<footer>Made by sfumato {__version__}. This page loads nothing from anywhere.</footer>",
    ]
    return Page(_TITLE, "\n".join(sections))


def _summary(found: PolicyAttack) -> str:
    best = max(found.attempts, key=lambda each: each.private.success)
    return facts(
        [
            (found.unit, "is protected"),
            (_promise(found.promise), "is the most that is ever spent"),
            (_of_hundred(best.exact), "right guesses of a hundred from exact answers"),
            (_of_hundred(best.private), "right guesses of a hundred from the answers of this policy, at worst"),
            (_up(best.private.ceiling or 1.0), "is what nobody can surpass, by proof"),
        ]
    )


def _promise(promise: Guarantee) -> str:
    return f"ε = {text(promise.epsilon)}" + (f", δ = {chance(promise.delta)}" if promise.delta else "")


def _in_short(found: PolicyAttack) -> str:
    worst = max(each.private.ceiling or 1.0 for each in found.attempts)
    return paragraph(
        "Suppose that an analyst is dishonest, spends everything that this policy allows on one victim, and knows "
        "all about everybody else already. One fact about the victim was decided by a coin; the analyst guesses it. "
        "Blind guesses are right 50 times of 100. Exact answers, as an ordinary database gives them, give the fact "
        f"away. With the answers of this policy no method whatever is right more than {_up(worst)} times of 100. What "
        "we tried came to what is written below."
    ) + paragraph(_judged(worst))


def _judged(worst: float) -> str:
    """Say in words how strong such a promise is, for the whole budget on one victim."""
    if worst <= 0.75:
        return "That is a strong promise: even this analyst stays in doubt."
    if worst <= 0.95:
        return "That is a fair promise: even this analyst is wrong now and then, and others are far more often."
    return (
        "That is a weak promise against such an analyst: whoever spends the whole budget on one victim is rarely wrong. "
        "It is stronger where budgets are shared among several analysts who do not work together. A smaller ε is "
        "written in the policy, under budget."
    )


def _tried(found: PolicyAttack) -> Iterator[str]:
    rows = [
        (_guessed(each), _of_hundred(each.exact), _of_hundred(each.private), _up(each.private.ceiling or 1.0))
        for each in found.attempts
    ]
    head = ("what was guessed", "exact answers", "this policy, as tried", "this policy, at most")
    yield paragraph("Right guesses of a hundred, where blind ones are 50:")
    yield table(head, rows, [False, True, True, True])
    yield figure(found.plot(), "Each pair of bars is one kind of guess.")
    if not found.holds:
        yield paragraph(
            "More guesses were right than the promise allows. That happens once in a million times by chance: do not "
            "open this policy, and report it."
        )
    for each in found.attempts:
        asked = f"<h3>{escaped(_guessed(each))}</h3>{block(each.question)}"
        yield f'<section class="card">{asked}{paragraph(_counted(each), "quiet")}</section>'


def _guessed(each: Attempt) -> str:
    if each.private.attack == "everybody":
        return each.guessed
    return f"whether the victim {each.guessed}"


def _counted(each: Attempt) -> str:
    own = each.private
    return (
        f"{own.right:,} of {own.trials:,} guesses were right from answers of this policy, and {each.exact.right:,} of "
        f"{each.exact.trials:,} from exact ones. Each answer cost the whole ε."
    )


def _by_theory(found: PolicyAttack) -> str:
    what = "everything that an account of this policy will ever answer"
    try:
        return attacker(found.promise, found.neighbours.value, what)
    except ValueError:
        return paragraph("At this ε and δ nothing can be said: beliefs may grow without a limit.")


def _how(found: PolicyAttack) -> str:
    relation = (
        "their rows replaced by others" if found.neighbours is Neighbours.REPLACE else "all their rows added or removed"
    )
    return listed(
        [
            "All people are invented, from what the policy declares. No table of the policy was opened, and its ledger "
            "was neither read nor written.",
            "The victim has as many rows as count of one. Questions went the whole way from SQL to noise, through an "
            "account that was thrown away.",
            f"The proof is about {found.unit}, {relation}. It holds for every question, every method and any amount of "
            "computing; what was tried is an illustration of it.",
            "What is said to be at most is rounded up. A count of right guesses that passes it by chance is reported "
            "once in a million times.",
        ]
    )


def _of_hundred(own: Finding) -> str:
    return f"{100 * own.success:.0f}"


def _up(share: float) -> str:
    """Write a share of a hundred, rounded up."""
    return f"{min(100.0, math.ceil(share * 1000) / 10):.1f}"
