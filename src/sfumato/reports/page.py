"""The report of an account is one web page for its owner to publish: it needs nothing else, and names nobody."""

from __future__ import annotations

import os
from collections.abc import Iterator
from inspect import cleandoc
from itertools import groupby

from sfumato.errors import at_most
from sfumato.notebook_html import folded
from sfumato.policy import Policy
from sfumato.privacy.numbers import chance, percent, shown, text
from sfumato.privacy.pictures import History, Moment
from sfumato.publish.synopsis import Synopsis
from sfumato.release.answers.answer_pages import answer_parts, attacker, limits_of_it, protected
from sfumato.release.answers.web_pages import HtmlPage, block, escaped, facts, figure, listed, paragraph, table
from sfumato.reports.telling import AccountReport, Questions, ReportedQuestion, told
from sfumato.version import __version__

_SETS = 12
"""So many sets of columns of one synopsis are named."""
_KINDS = {"charge": "a question", "tab-open": "a series of questions", "step": "a question of a series"}


def report(
    policy: Policy | str | os.PathLike[str],
    ledger: str | os.PathLike[str] | None = None,
    *,
    questions: Questions = False,
    title: str | None = None,
) -> HtmlPage:
    """Tell an account as one web page: who is protected, what was asked, the answers, what they cost, what an attacker
    could gain at most, and how to verify it.

    ``questions`` shows all questions with their answers, or those of these lines. Without it every question is a salted
    hash: a WHERE may name a person.
    """
    return page(told(policy, ledger, questions=questions), title)


def page(found: AccountReport, title: str | None = None) -> HtmlPage:
    """Write the whole page."""
    name = title or f"What was asked about {_plural(found.unit.name)}, and what it could reveal"
    sections = [
        f"<h1>{escaped(name)}</h1>{_summary(found)}",
        f"<h2>Who is protected</h2>{protected(str(found.unit), found.neighbours.value)}{_periods(found)}",
        f"<h2>What was asked, and the answers</h2>{''.join(_asked(found))}",
        f"<h2>What it cost</h2>{''.join(_cost(found))}",
        f"<h2>What an attacker could gain at most</h2>{_gained(found)}",
        f"<h2>What this does not promise</h2>{limits_of_it()}",
        f"<h2>How to verify it</h2>{_verifying(found)}",
        f"<footer>Made by sfumato {__version__} on {found.made.strftime('%Y-%m-%d')}. "
        "This page loads nothing from anywhere.</footer>",
    ]
    return HtmlPage(name, "\n".join(sections))


def _plural(name: str) -> str:
    return name if name.endswith("s") else f"{name}s"


def _summary(found: AccountReport) -> str:
    answered = sum(each.answer_line is not None for each in found.asked)
    delta = f", δ = {chance(found.promised.delta)}" if found.promised.delta else ""
    return facts(
        [
            (str(found.unit), "is protected"),
            (f"ε = {text(found.promised.epsilon)}{delta}", "is the most that is ever spent" + _each(found)),
            (_left(found), "is left for ordinary answers" + _each(found)),
            (f"{answered:,}", "answer" if answered == 1 else "answers until now"),
        ]
    )


def _each(found: AccountReport) -> str:
    return ", in the account of each period" if found.periods else ""


def _left(found: AccountReport) -> str:
    if found.periods:
        return f"ε = {text(found.budget.epsilon)} of {text(found.budget.epsilon)} in a new one"
    return f"ε = {at_most(found.budget.largest_pure())} of {text(found.budget.epsilon)}"


def _periods(found: AccountReport) -> str:
    return paragraph(f"Every period has an account of its own. Promised is {found.periods}.") if found.periods else ""


def _asked(found: AccountReport) -> Iterator[str]:
    """Write the questions that are shown with their answers, then a line for each of the others."""
    shown_ones = [each for each in found.asked if each.question is not None]
    for is_part, some in groupby(shown_ones, lambda each: each.is_part):
        together = list(some)
        yield from [_parts(together)] if is_part else map(_card, together)
    hidden = [each for each in found.asked if each.question is None]
    if hidden:
        yield paragraph(
            ("Other questions" if len(hidden) < len(found.asked) else "Questions")
            + " are not shown, since a question may name a person. Each line below stands for one of them. Its hash "
            "is made from the text of the question and a secret salt: nobody can test a guess with it, and the owner "
            "can prove later what was asked.",
        )
        yield "".join(_hidden(hidden))
    if not found.asked:
        yield paragraph("Nothing was asked yet.")


def _card(each: ReportedQuestion) -> str:
    head = f"<h3>Line {each.number}, {each.day}: {escaped(each.cost)}</h3>"
    if each.answer is not None:
        shown_answer = "".join(answer_parts(each.answer))
    elif each.synopsis is not None:
        shown_answer = "".join(_synopsis(each.synopsis))
    elif each.answer_line is not None:
        shown_answer = paragraph(each.note)
    else:
        shown_answer = paragraph("There is no answer of its own on this line.", "quiet")
    return f'<section class="card">{head}{block(cleandoc(each.question or ""))}{shown_answer}{_proof(each)}</section>'


def _proof(each: ReportedQuestion) -> str:
    words = f"salt {each.salt}, SHA-256 of salt, NUL and question as the bundle has it {each.hash}"
    return f'<p class="quiet hash">{escaped(words)}</p>'


def _parts(several: list[ReportedQuestion]) -> str:
    """Write the steps of a model as one card, each of them folded away with its proof."""
    first, last = several[0].number, several[-1].number
    head = f"<h3>Lines {first} to {last}, {several[0].day}: {len(several):,} steps</h3>"
    if len(several) == 1:
        head = f"<h3>Line {first}, {several[0].day}: {escaped(several[0].cost)}</h3>"
    every = "".join(paragraph(f"Line {each.number}, {each.cost}: {each.question}") + _proof(each) for each in several)
    return f'<section class="card">{head}{paragraph(several[0].note)}{folded("each step", every)}</section>'


def _synopsis(published: Synopsis) -> Iterator[str]:
    """Write which columns were published together, and draw the counts of each."""
    sets = [" × ".join(published.columns[place] for place in places) for places in published.sets]
    more = f" and {len(sets) - _SETS:,} more" if len(sets) > _SETS else ""
    yield paragraph(f"Counts were published of {', '.join(sets[:_SETS])}{more}, to be asked for ever.")
    yield figure(published.plot())
    yield paragraph(
        f"Each range holds with {percent(published.receipt.confidence)} confidence, for the noise alone.", "quiet"
    )


def _hidden(hidden: list[ReportedQuestion]) -> Iterator[str]:
    yield "<ul>"
    for each in hidden:
        what = _KINDS[each.kind] + ("" if each.answer_line or each.kind == "tab-open" else ", not answered")
        words = escaped(f"Line {each.number}, {each.day}: {what}, {each.cost}")
        yield f"<li>{words}<br><code class=hash>{each.hash}</code></li>"
    yield "</ul>"


def _cost(found: AccountReport) -> Iterator[str]:
    if len(found.amended) > 1:
        changed = ", then ".join(text(each) for each in found.amended)
        yield paragraph(
            f"The owner changed the ε of the budget: {changed}. Promised is the largest ε that they would ever allow."
        )
    if found.periods:
        yield paragraph("Every answer is paid for in the account of each period that it reads.")
        return
    yield paragraph(
        f"Everything together may cost {_amount(found)}. What is left for ordinary answers is {_left(found)}. "
        "When it is used up, nothing more is answered."
    )
    budget = found.budget.told_by(History(lambda: _moments(found)))
    yield figure(budget.plot(), "A charge is written down before any row is read, and never taken back.")
    if any(each is None for each in budget.spent.values()):
        yield paragraph("Gaussian noise was used, which is paid for from a part of the budget of its own.", "quiet")


def _amount(found: AccountReport) -> str:
    delta = f" and δ = {chance(found.budget.delta)}" if found.budget.delta else ""
    return f"ε = {shown(float(found.budget.epsilon))}{delta}"


def _moments(found: AccountReport) -> list[Moment]:
    return [Moment(each.time, each.spent.amounts) for each in found.lines if not each.cost.nothing]


def _gained(found: AccountReport) -> str:
    what = "everything that this account has answered and will ever answer"
    return attacker(found.promised, found.neighbours.value, what)


def _verifying(found: AccountReport) -> str:
    last = found.last
    return (
        paragraph(
            "Every charge and every answer is a line of a ledger, and each line holds the hash of the line before. So "
            f"the hash of the last line stands for all of them: line {last.number}, {last.time.strftime('%Y-%m-%d')},"
        )
        + f'<pre class="hash">{last.hash}</pre>'
        + paragraph(
            "Keep this page. If the owner ever shows the ledger, or a newer page, this line must still be there with "
            "this hash: then nothing before it was changed or taken out."
        )
        + listed(
            [
                "Ask the owner for the signed bundle of the account, and for their public key over another way than "
                "the bundle came.",
                "Check it on your own computer, without a network:",
            ],
            ordered=True,
        )
        + block("sfumato verify bundle.zip --key owner.key.pub")
        + paragraph("It says what it has proved and what it has not. An auditor who may see the ledger checks more:")
        + block("sfumato ledger verify sfumato.ledger\nsfumato verify bundle.zip --policy policy.toml")
        + table(
            ("on this page", "is shown by"),
            [
                ("a salted hash", "the salt and the text of the question, which the owner has"),
                ("a cost", "the bundle: amounts add up line by line, and to what is left"),
                ("a number and its range", "the bundle, signed by the owner; the ledger, for an auditor"),
            ],
        )
    )
