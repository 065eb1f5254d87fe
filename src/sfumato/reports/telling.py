"""An account is told here, from its ledger and its policy: no row is read, and nothing is spent.

A question may name a person, so its text, its answer and the names in it are told only of lines that the owner chose.
Of every other line stands a salted hash of the question: whoever guesses the text cannot test the guess without the
salt, and the owner, who can compute it again, can show later what was asked. The names of analysts, the places of
sources and the hashes of data are told of no line.

A bought answer is made again from the ledger and the policy: no row is read, and nothing is spent.

The ledger keeps what was drawn, which is public, and the question; the policy says how both are read. A question is
understood over tables without rows, and what was drawn is shown for it only if the hash of what it measures is that of
the line. So an answer is never shown for another question, or under another policy, than the one it was drawn for.
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
from itertools import product
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
from sfumato.errors import AccountDiffers, InvalidParameter, LedgerDamaged, SfumatoError
from sfumato.ledger import Account, Ledger, Line
from sfumato.ledger.transaction import Terms
from sfumato.plan.catalog import Catalog
from sfumato.plan.limits import Limits, Strategy
from sfumato.plan.sql.statements import parse
from sfumato.policy import Policy
from sfumato.privacy import Budget, Guarantee, Neighbours, PrivacyUnit, codec
from sfumato.privacy.numbers import chance, shown
from sfumato.publish.marginals.measuring import Published, noise_words
from sfumato.publish.synopsis import Synopsis
from sfumato.release.answers.answer import Answer
from sfumato.release.answers.receipts import promise
from sfumato.release.measured import Measured
from sfumato.release.payers import Purchase
from sfumato.release.proposal import receipt
from sfumato.release.releasing import StoredResult, quietly
from sfumato.release.running_totals import RunningMeasured

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
