"""An account is told here, from its ledger and its policy: no row is read, and nothing is spent.

A question may name a person, so its text, its answer and the names in it are told only of lines that the owner chose.
Of every other line stands a salted hash of the question: whoever guesses the text cannot test the guess without the
salt, and the owner, who can compute it again, can show later what was asked. The names of analysts, the places of
sources and the hashes of data are told of no line.

A bought answer is made again from the ledger and the policy: no row is read, and nothing is spent.

The ledger keeps what was drawn, which is public, and the question; the policy says how both are read. A question is
understood over tables without rows, and what was drawn is shown for it only if the hash of what it measures is that of
the line. So an answer is never shown for another question, or under another policy, than the one it was drawn for.

The report of an account is one web page for its owner to publish: it needs nothing else, and names nobody.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from fractions import Fraction
from inspect import cleandoc
from itertools import groupby, product
from pathlib import Path
from typing import TypeVar

from sfumato.curator.context import Context
from sfumato.curator.policy_account import is_there, ledger_address, lines_of, read_policy
from sfumato.curator.proposals.found_bounds import Bounds
from sfumato.curator.proposals.questions import Question
from sfumato.curator.proposals.running_counts import RunningTotals, running_totals
from sfumato.engine.carried_tables import without_data
from sfumato.engine.opening import open_engine
from sfumato.engine.seam import Engine
from sfumato.errors import AccountDiffers, InvalidParameter, LedgerDamaged, SfumatoError, at_most
from sfumato.ledger import Account, Ledger, Line
from sfumato.ledger.transaction import Terms
from sfumato.notebook_html import folded
from sfumato.plan.catalog import Catalog
from sfumato.plan.limits import Limits, Strategy
from sfumato.plan.sql.statements import parse
from sfumato.policy import Policy
from sfumato.privacy import Budget, Guarantee, Neighbours, PrivacyUnit, codec
from sfumato.privacy.numbers import chance, percent, shown, text
from sfumato.privacy.pictures import History, Moment
from sfumato.publish.marginals.measuring import Published, noise_words
from sfumato.publish.synopsis import Synopsis
from sfumato.release.answers.answer import Answer
from sfumato.release.answers.answer_pages import answer_parts, attacker, limits_of_it, protected
from sfumato.release.answers.receipts import promise
from sfumato.release.answers.web_pages import HtmlPage, block, escaped, facts, figure, listed, paragraph, table
from sfumato.release.measured import Measured
from sfumato.release.payers import Purchase
from sfumato.release.proposal import receipt
from sfumato.release.releasing import StoredResult, quietly
from sfumato.release.running_totals import RunningMeasured
from sfumato.version import __version__

T = TypeVar("T")
P = TypeVar("P", Question, RunningTotals)
_CONFIDENCE = "0.95"
OF_A_MODEL = "What was drawn here is a part of something larger, such as a model, which is in a file of its own."
CHANGED = (
    "The policy has changed since this was answered, so that the answer cannot be made again: to show it, report with "
    "the policy as it was then."
)
_NUMBER = re.compile(r"\d[\d,]*\b")


@dataclass(frozen=True)
class Rebuilder:
    """This makes answers again for the questions of one policy's account."""

    ledger: Ledger
    context: Context
    catalog: Catalog

    def answer(self, question: str, line: Line) -> Answer | None:
        """Make the answer that a line holds to this question; None where the line holds something else, or the policy
        has changed since.
        """
        found = self._released(line, Measured)
        if found is not None:
            asked = self._asked(question, line.plan, found.value.purchase, lambda each: each)
            return None if asked is None else asked.answered(found, _CONFIDENCE, joint=False)
        drawn = self._released(line, RunningMeasured)
        if drawn is None:
            return None
        totals = self._asked(question, line.plan, drawn.value.purchase, lambda each: running_totals(self.context, each))
        return None if totals is None else totals.answered(drawn, _CONFIDENCE, joint=False)

    def synopsis(self, question: str, line: Line) -> Synopsis | None:
        """Make the synopsis that a line holds; None where it holds something else. It says itself what it is of."""
        found = self._released(line, Published)
        if found is None:
            return None
        words = (noise_words(found.value.plan),)
        told = receipt(found, found.value.purchase, words, question=question, here=self.context, confidence=_CONFIDENCE)
        return Synopsis(found.value, told)

    def note(self, line: Line) -> str:
        """Say what a line holds that is neither rows nor a synopsis, or why its rows cannot be made again."""
        bounds = self._released(line, Bounds)
        if bounds is not None:
            return f"Found were bounds of {bounds.value.words()}."
        if self._released(line, Measured) is None and self._released(line, RunningMeasured) is None:
            return OF_A_MODEL
        return CHANGED

    def _released(self, line: Line, kind: type[T]) -> StoredResult[T] | None:
        """Read what a line holds, if it is of this kind."""
        body = self.ledger.body(line)
        if not body or json.loads(body).get("kind") != codec.kind(kind):
            return None
        value = codec.loads_as(kind, body, longest=len(body))
        return StoredResult(value, line.number, line.time, line.hash, free=False)

    def _asked(self, text: str, plan: str, bought: Purchase, made: Callable[[Question], P]) -> P | None:
        """Understand the question with the limits that it was bought under, if what is made of it then is what the line
        measured.
        """
        try:
            query = parse(text, self.catalog)
            every = product(_limits(query.plan.limits, bought.limits), _strategies(bought.strategy))
            for limits, strategy in every:
                asked = made(Question(self.context, text, query, limits, strategy))
                if asked.identity == plan:
                    return asked
        except SfumatoError:
            return None  # the policy no longer has what it asks about
        return None


def _limits(usual: Limits, words: str) -> Iterator[Limits]:
    """Give the limits that a question has by itself, and those that its purchase says in words; which of them it was
    bought under, the hash of what it measures decides.
    """
    yield usual
    numbers = [int(each.replace(",", "")) for each in _NUMBER.findall(words)]
    named = [(None, number) for number in numbers[:3]]
    for rows, groups, rows_per_group in product(*named, *[(None,)] * (3 - len(named))):
        with suppress(InvalidParameter):  # larger than the policy allows now
            yield usual.tighten(rows, groups, rows_per_group)


def _strategies(words: str) -> tuple[Strategy | None, ...]:
    known = {each.value: each for each in Strategy}
    return (None, known[words]) if words in known else (None,)


@contextmanager
def rebuilder(policy: Policy, ledger: Ledger, account: Account) -> Iterator[Rebuilder]:
    """Open a policy without its private tables; public ones are opened as far as they are there."""
    engine = _opened(policy)
    try:
        opened = replace(without_data(policy), per=policy.per)
        context = Context(opened, engine, account, quietly, "no version", told=policy)
        yield Rebuilder(ledger, context, engine.catalog())
    finally:
        engine.close()


def _opened(policy: Policy) -> Engine:
    empty = without_data(policy)
    public = {name: each for name, each in policy.tables.items() if each.public}
    try:
        return open_engine(replace(empty, tables={**empty.tables, **public}))
    except SfumatoError:
        return open_engine(empty)


Questions = bool | Collection[int]
"""All questions, none, or those of these lines."""
ASKING = ("charge", "tab-open", "step")
"""Kinds of lines that hold a question."""


@dataclass(frozen=True)
class ReportedQuestion:
    """This is one line that asked something, as it is told."""

    number: int
    time: datetime
    kind: str
    cost: str
    """In words."""
    hash: str
    """Of the question's text, salted (``salted``)."""
    answer_line: int | None = None
    question: str | None = None
    """The text, and its salt, where the owner chose to show them."""
    salt: str | None = None
    answer: Answer | None = None
    synopsis: Synopsis | None = None
    """What was published on this line, where that is not an answer made of rows."""
    note: str = ""
    """What the line holds, or why it is not shown, where that is neither."""

    @property
    def day(self) -> str:
        return self.time.strftime("%Y-%m-%d")

    @property
    def is_lost(self) -> bool:
        """Tell whether there is an answer that cannot be made again, since the policy has changed."""
        return self.note == CHANGED

    @property
    def is_part(self) -> bool:
        """Tell whether what was drawn on this line is told elsewhere, with other lines."""
        return self.note == OF_A_MODEL


@dataclass(frozen=True)
class AccountReport:
    """This is all that is told of an account."""

    unit: PrivacyUnit
    neighbours: Neighbours
    promised: Guarantee
    """For life: the largest ε and δ that the account ever had."""
    amended: tuple[Fraction, ...]
    """Every ε that the account has had, oldest first."""
    periods: str
    """What accounts of periods promise, in words; empty where there is one account."""
    budget: Budget
    asked: tuple[ReportedQuestion, ...]
    lines: tuple[Line, ...]
    """All lines of the account."""
    made: datetime
    budgets: tuple[Budget, ...]
    """Every budget that the account has had, oldest first; nothing is spent of these."""
    hashes: tuple[str, ...]
    """Of every line of the ledger from the first to the last one here: those of other accounts are links of the same
    chain."""

    @property
    def last(self) -> Line:
        """Give the newest line: its hash stands for all lines before it."""
        return self.lines[-1]


def salted(salt: str, question: str) -> str:
    """Hash a question under the salt of its line: SHA-256 of the salt, a NUL and the text."""
    return hashlib.sha256(f"{salt}\0{question}".encode(errors="surrogatepass")).hexdigest()


def chosen(written: str | None) -> Questions:
    """Read which questions are shown, as a command line says it: all, or the numbers of lines."""
    if written is None:
        return False
    if written == "all":
        return True
    if not re.fullmatch(r"\d{1,18}(\s*,\s*\d{1,18})*", written):
        raise InvalidParameter("questions", written, "left alone to show all, or the numbers of lines such as 4,7")
    return tuple(int(each) for each in written.split(","))


def told(
    policy: Policy | str | os.PathLike[str],
    ledger: str | os.PathLike[str] | None = None,
    *,
    questions: Questions = False,
    until: int | None = None,
) -> AccountReport:
    """Collect what is told of a policy's account, up to a line; of a ledger that does not hold nothing is told."""
    declared = read_policy(policy)
    path = ledger_address(declared, ledger)
    if not is_there(path):
        raise _nothing(path)
    with Ledger.open(path) as opened:
        _require_whole(opened)
        if declared.account_name not in opened.accounts:
            raise _other_account(path, declared.account_name, opened.accounts) if opened.accounts else _nothing(path)
        account = opened.account(declared.account_name)
        _require_same_unit(declared, account)
        return _told(declared, opened, account, questions, until)


def _told(policy: Policy, ledger: Ledger, account: Account, questions: Questions, until: int | None) -> AccountReport:
    lines = tuple(each for each in lines_of(ledger, policy, None) if until is None or each.number <= until)
    every = [each.budget for each in _terms(lines, account.name)]
    asked = tuple(_asked(policy, ledger, account, lines, questions))
    most = Guarantee(max(each.epsilon for each in every), max(each.delta for each in every))
    spent = next(each for each in reversed(lines) if each.account == account.name)
    return AccountReport(
        unit=account.unit,
        neighbours=account.budget.neighbours,
        promised=most,
        amended=tuple(each.epsilon for each in every),
        periods=promise(policy),
        budget=every[-1].at(spent.spent + spent.held),
        asked=asked,
        lines=lines,
        made=datetime.now(UTC),
        budgets=tuple(every),
        hashes=tuple(each.hash for each in ledger.lines() if each.number <= lines[-1].number),
    )


def _terms(lines: Collection[Line], account: str) -> list[Terms]:
    """List every terms that an account has had."""
    found = [each for each in lines if each.account == account and each.kind in ("account-open", "amend")]
    return [codec.loads_as(Terms, each.detail) for each in found]


def _asked(
    policy: Policy, ledger: Ledger, account: Account, lines: Collection[Line], questions: Questions
) -> Iterator[ReportedQuestion]:
    asking = [each for each in lines if each.kind in ASKING]
    answers = {each.about: each for each in lines if each.kind == "answer" and each.about}
    visible = _shown(questions, asking, answers)
    with ExitStack() as opened:
        again = opened.enter_context(rebuilder(policy, ledger, account)) if visible else None
        for line in asking:
            found, salt = answers.get(line.number), ledger.salt(line.number)
            hidden = ReportedQuestion(
                line.number,
                line.time,
                line.kind,
                cost_words(line, account.budget.delta),
                salted(salt, line.question),
                None if found is None else found.number,
            )
            if again is None or line.number not in visible:
                yield hidden
                continue
            chosen_line = replace(hidden, question=line.question, salt=salt)
            if found is None:
                yield chosen_line
                continue
            answer, synopsis = again.answer(line.question, found), again.synopsis(line.question, found)
            note = again.note(found) if answer is None and synopsis is None else ""
            yield replace(chosen_line, answer=answer, synopsis=synopsis, note=note)


def _shown(questions: Questions, asked: Collection[Line], answers: Mapping[int, Line]) -> set[int]:
    """Find the lines whose questions are shown: by their own numbers, or those of their answers."""
    every = {each.number for each in asked}
    if isinstance(questions, bool):
        return every if questions else set()
    by_answer = {answer.number: number for number, answer in answers.items()}
    found = {by_answer.get(number, number) for number in questions}
    if not found <= every:
        wrong = ", ".join(map(str, sorted(found - every)))
        raise InvalidParameter(
            "questions", wrong, "lines that ask something", fix="sfumato history POLICY lists the numbers of all lines"
        )
    return found


def cost_words(line: Line, delta: Fraction) -> str:
    """Say what a line cost in words: an ε, or where noise was Gaussian the ε at the account's δ."""
    amounts = line.cost.amounts
    if line.cost.nothing or (not any(amounts.values()) and None not in amounts.values()):
        return "nothing more" if line.kind == "step" else "nothing yet" if line.kind == "tab-open" else "nothing"
    failure = f", δ = {shown(float(amounts['failure'] or 0))}" if amounts.get("failure") else ""
    if amounts.get("pure") is not None:
        return f"ε = {shown(float(amounts['pure'] or 0))}{failure}"
    curve = line.curve
    if curve is None:
        return "in another currency"
    return f"ε = {shown(curve.epsilon(delta))} at δ = {chance(delta)}"


def _require_whole(ledger: Ledger) -> None:
    found = ledger.verify()
    if not found.holds:
        raise LedgerDamaged(found.bad, found.why)


def _require_same_unit(policy: Policy, account: Account) -> None:
    if account.unit != policy.unit:
        raise AccountDiffers(
            f"the account protects {account.unit}, and the policy {policy.unit}",
            place=f"account {account.name!r}",
            fix="give the policy that the account was opened with",
        )


def _other_account(path: Path | str, name: str, known: Sequence[str]) -> SfumatoError:
    return SfumatoError(
        f"an account is called as the file of its policy, and this ledger has none that is called {name}",
        place=str(path),
        fix=f"give the policy that it was opened with: {', '.join(f'{each}.toml' for each in known[:5])}",
    )


def _nothing(path: Path | str) -> SfumatoError:
    return SfumatoError(
        "nothing has been asked yet, so there is nothing to tell",
        place=str(path),
        fix="ask a question first, or name the ledger with --ledger",
    )


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
        f"<h2>What was asked, and the answers</h2>{''.join(_question_section(found))}",
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


def _question_section(found: AccountReport) -> Iterator[str]:
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
