"""The public report of an account, from its ledger and its policy: no row is read, and nothing is spent.

A question may name a person, so its text and its answer are published only for lines that the owner chose. Every other
line has a salted hash of its question: a guess of the text cannot be tested without the salt, and the owner, who can
compute the salt again, can show later what was asked. The names of analysts, the locations of sources and the hashes of
data are never published.

A stored answer is rebuilt from the ledger and the policy. The ledger stores the noisy result, which is public, and the
question; the policy says how both are read. The question is parsed over tables without rows, and the stored result is
shown for it only if the hash of its plan is the line's. So an answer is never shown for another question, or under
another policy, than it was drawn for.

The report is one self-contained web page that names nobody.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from fractions import Fraction
from inspect import cleandoc
from itertools import groupby, product
from pathlib import Path
from typing import TypeVar

from sfumato.curator.context import Context
from sfumato.curator.policy_account import account_lines, ledger_address, ledger_may_exist, read_policy
from sfumato.curator.proposals.questions import Question
from sfumato.curator.proposals.running_counts import RunningTotalsProposal, propose_running_totals
from sfumato.curator.proposals.stored_answers import Bounds
from sfumato.engine.opening import open_engine
from sfumato.engine.protocols import Engine
from sfumato.engine.public_tables import policy_over_empty_tables
from sfumato.errors import AccountDiffers, InvalidParameter, LedgerDamaged, SfumatoError
from sfumato.html_fragments import collapsed
from sfumato.ledger import Account, Ledger, Line
from sfumato.ledger.approval_requests import IsOwner, PublicationReview, RequestState, count_everyone_as_owner
from sfumato.ledger.transaction import Terms
from sfumato.number_formats import format_rounded_down
from sfumato.plan.catalog import Catalog
from sfumato.plan.limits import ContributionLimits, Strategy
from sfumato.plan.sql.statements import parse
from sfumato.policy import Policy
from sfumato.privacy import Budget, Guarantee, Neighbours, PrivacyUnit, codec
from sfumato.privacy.numbers import DEFAULT_CONFIDENCE, format_exact, format_number, format_percent, format_probability
from sfumato.privacy.pictures import History, SpendingPoint
from sfumato.publish.marginals.measuring import PublishedMarginals, noise_words
from sfumato.publish.synopsis import Synopsis
from sfumato.quick_dataclass import dataclass
from sfumato.release.answers.answer import Answer
from sfumato.release.answers.answer_pages import (
    render_answer_sections,
    render_belief_changes,
    render_limitations,
    render_protection,
)
from sfumato.release.answers.receipts import describe_period_guarantee
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
from sfumato.release.measured import NoisyMeasurements
from sfumato.release.payers import PurchaseTerms
from sfumato.release.proposal import make_receipt
from sfumato.release.releasing import StoredResult
from sfumato.release.running_totals import NoisyRunningTotals
from sfumato.release.running_work import ignore_progress
from sfumato.version import __version__

T = TypeVar("T")
P = TypeVar("P", Question, RunningTotalsProposal)
STEP_OF_RELEASE = (
    "This result is one step of a larger release, such as a model. The whole release has a file of its own."
)
POLICY_CHANGED = (
    "The policy has changed since this was answered, so the answer cannot be rebuilt: to show it, make the report with "
    "the policy as it was then."
)
_NUMBER = re.compile(r"\d[\d,]*\b")


@dataclass(frozen=True)
class Rebuilder:
    """Rebuilds the stored answers of one policy's account, without rows."""

    ledger: Ledger
    context: Context
    catalog: Catalog

    def answer(self, question: str, line: Line) -> Answer | None:
        """Rebuild the answer that a line holds to this question; None where the line holds something else, or the
        policy has changed since.
        """
        measured = self._read_result(line, NoisyMeasurements)
        if measured is not None:
            proposal = self._rebuild_proposal(question, line.plan, measured.value.purchase, lambda parsed: parsed)
            return None if proposal is None else proposal.build_answer(measured, DEFAULT_CONFIDENCE, joint=False)
        running = self._read_result(line, NoisyRunningTotals)
        if running is None:
            return None
        totals = self._rebuild_proposal(
            question, line.plan, running.value.purchase, lambda parsed: propose_running_totals(self.context, parsed)
        )
        return None if totals is None else totals.build_answer(running, DEFAULT_CONFIDENCE, joint=False)

    def synopsis(self, question: str, line: Line) -> Synopsis | None:
        """Rebuild the synopsis that a line holds; None where it holds something else."""
        published = self._read_result(line, PublishedMarginals)
        if published is None:
            return None
        words = (noise_words(published.value.plan),)
        its_receipt = make_receipt(
            published,
            published.value.purchase,
            words,
            question=question,
            context=self.context,
            confidence=DEFAULT_CONFIDENCE,
        )
        return Synopsis(published.value, its_receipt)

    def describe_line(self, line: Line) -> str:
        """Describe what a line holds that is neither an answer nor a synopsis, or why its answer cannot be rebuilt."""
        bounds = self._read_result(line, Bounds)
        if bounds is not None:
            return f"Private bounds: {bounds.value.words()}."
        if self._read_result(line, NoisyMeasurements) is None and self._read_result(line, NoisyRunningTotals) is None:
            return STEP_OF_RELEASE
        return POLICY_CHANGED

    def _read_result(self, line: Line, kind: type[T]) -> StoredResult[T] | None:
        """Read the stored result of a line, if it is of this type; otherwise None."""
        body = self.ledger.body(line)
        if not body or json.loads(body).get("kind") != codec.kind_of_class(kind):
            return None
        value = codec.loads_as(kind, body, longest=len(body))
        return StoredResult(value, line.number, line.time, line.hash, free=False)

    def _rebuild_proposal(
        self, text: str, plan: str, purchase: PurchaseTerms, propose: Callable[[Question], P]
    ) -> P | None:
        """Parse the question with the limits it was bought under; return the proposal whose plan hash is the line's."""
        try:
            query = parse(text, self.catalog)
            candidates = product(
                _candidate_limits(query.plan.limits, purchase.limits), _candidate_strategies(purchase.strategy)
            )
            for limits, strategy in candidates:
                proposal = propose(Question(self.context, text, query, limits, strategy))
                if plan in proposal.plan_key:
                    return proposal
        except SfumatoError:
            return None  # the policy no longer has a table or column of the question
        return None


def _candidate_limits(default: ContributionLimits, limits_text: str) -> Iterator[ContributionLimits]:
    """Yield the default limits of a question, and those that its purchase states in words; the plan's hash decides
    which of them it was bought under.
    """
    yield default
    numbers = [int(digits.replace(",", "")) for digits in _NUMBER.findall(limits_text)]
    choices = [(None, number) for number in numbers[:3]]
    for rows, groups, rows_per_group in product(*choices, *[(None,)] * (3 - len(choices))):
        with suppress(InvalidParameter):  # larger than the policy allows now
            yield default.tighten(rows, groups, rows_per_group)


def _candidate_strategies(strategy_name: str) -> tuple[Strategy | None, ...]:
    by_name = {strategy.value: strategy for strategy in Strategy if strategy.is_selectable}
    return (None, by_name[strategy_name]) if strategy_name in by_name else (None,)


@contextmanager
def open_rebuilder(policy: Policy, ledger: Ledger, account: Account) -> Iterator[Rebuilder]:
    """Open a policy without the data of its private tables; public tables are opened if they are available."""
    engine = _open_without_data(policy)
    try:
        empty_policy = replace(policy_over_empty_tables(policy), per=policy.per)
        context = Context(empty_policy, engine, account, ignore_progress, "no version", reported_policy=policy)
        yield Rebuilder(ledger, context, engine.catalog())
    finally:
        engine.close()


def _open_without_data(policy: Policy) -> Engine:
    empty = policy_over_empty_tables(policy)
    public = {name: table for name, table in policy.tables.items() if table.public}
    try:
        return open_engine(replace(empty, tables={**empty.tables, **public}))
    except SfumatoError:
        return open_engine(empty)


Questions = bool | Collection[int]
"""All questions, none, or those of these lines."""
QUESTION_KINDS = ("charge", "tab-open", "step")
"""The kinds of ledger lines that have a question."""


@dataclass(frozen=True)
class ReportedQuestion:
    """A line with a question, as the report shows it."""

    number: int
    time: datetime
    kind: str
    cost: str
    """The cost in words."""
    hash: str
    """The salted hash of the question's text (``salted``)."""
    answer_line: int | None = None
    question: str | None = None
    """The text, and its salt, if the owner chose to show them."""
    salt: str | None = None
    answer: Answer | None = None
    synopsis: Synopsis | None = None
    """The synopsis published on this line, if it is one."""
    note: str = ""
    """For a line with neither: what it holds, or why it is not shown."""

    @property
    def day(self) -> str:
        return self.time.strftime("%Y-%m-%d")

    @property
    def cannot_be_rebuilt(self) -> bool:
        """Whether the answer cannot be rebuilt, since the policy has changed."""
        return self.note == POLICY_CHANGED

    @property
    def is_step(self) -> bool:
        """Whether the line is one step of a larger release."""
        return self.note == STEP_OF_RELEASE


@dataclass(frozen=True)
class AccountReport:
    """The content of an account's report."""

    unit: PrivacyUnit
    neighbours: Neighbours
    lifetime_guarantee: Guarantee
    """The lifetime guarantee: the largest ε and δ that the account ever had."""
    epsilons: tuple[Fraction, ...]
    """Every ε that the account has had, oldest first."""
    period_guarantee: str
    """The guarantee of period accounts in words; empty where there is one account."""
    budget: Budget
    questions: tuple[ReportedQuestion, ...]
    lines: tuple[Line, ...]
    """All lines of the account."""
    created: datetime
    budgets: tuple[Budget, ...]
    """Every budget that the account has had, oldest first, each as if nothing were spent."""
    hashes: tuple[str, ...]
    """The hashes of all ledger lines up to the last one here: lines of other accounts are links of the same chain."""

    @property
    def newest_line(self) -> Line:
        """The newest line: its hash covers all lines before it."""
        return self.lines[-1]


def salted_hash(salt: str, question: str) -> str:
    """Hash a question with the salt of its line: SHA-256 of the salt, a NUL and the text."""
    return hashlib.sha256(f"{salt}\0{question}".encode(errors="surrogatepass")).hexdigest()


def parse_questions_option(option: str | None) -> Questions:
    """Parse the command-line option for the questions to show: "all", or line numbers such as 4,7."""
    if option is None:
        return False
    if option == "all":
        return True
    if not re.fullmatch(r"\d{1,18}(\s*,\s*\d{1,18})*", option):
        raise InvalidParameter(
            "questions",
            option,
            "line numbers separated by commas, or left without a value to show all lines",
            fix="for example, write --questions=4,7",
        )
    return tuple(int(number) for number in option.split(","))


def reviewed_lines(
    policy: Policy,
    ledger: str | os.PathLike[str] | None = None,
    is_owner: IsOwner = count_everyone_as_owner,
    people: str = "",
) -> Questions:
    """List the lines that were marked for publication and approved by owners, in requests that have not expired: those
    of one people file, or of all.
    """
    path = ledger_address(policy, ledger)
    if not ledger_may_exist(path):
        raise _no_answers_error(path)
    with Ledger.open(path) as open_ledger:
        requests = open_ledger.account(policy.account_name).requests.decided_by(is_owner, people)
        now, records = requests.now(), requests.list()
    approved = [record.subject for record in records if record.state(now) is RequestState.APPROVED]
    lines = sorted({number for review in approved if isinstance(review, PublicationReview) for number in review.lines})
    if not lines:
        raise SfumatoError(
            "no answer is both marked for publication and approved",
            place=f"account {policy.account_name!r}",
            fix="mark answers with sfumato requests publish, and ask an owner to approve them; or choose lines "
            "with --questions=4,7",
        )
    return tuple(lines)


def collect_report(
    policy: Policy | str | os.PathLike[str],
    ledger: str | os.PathLike[str] | None = None,
    *,
    questions: Questions = False,
    last_line: int | None = None,
) -> AccountReport:
    """Collect the report of a policy's account, up to a line; refuse a damaged ledger."""
    parsed_policy = read_policy(policy)
    path = ledger_address(parsed_policy, ledger)
    if not ledger_may_exist(path):
        raise _no_answers_error(path)
    with Ledger.open(path) as open_ledger:
        _require_intact(open_ledger)
        if parsed_policy.account_name not in open_ledger.accounts:
            raise (
                _no_such_account_error(path, parsed_policy.account_name, open_ledger.accounts)
                if open_ledger.accounts
                else _no_answers_error(path)
            )
        account = open_ledger.account(parsed_policy.account_name)
        _require_same_unit(parsed_policy, account)
        return _collect_report(parsed_policy, open_ledger, account, questions, last_line)


def _collect_report(
    policy: Policy, ledger: Ledger, account: Account, questions: Questions, until: int | None
) -> AccountReport:
    lines = tuple(line for line in account_lines(ledger, policy, None) if until is None or line.number <= until)
    budgets = [terms.budget for terms in _account_terms(lines, account.name)]
    reported = tuple(_reported_questions(policy, ledger, account, lines, questions))
    lifetime = Guarantee(max(budget.epsilon for budget in budgets), max(budget.delta for budget in budgets))
    newest = next(line for line in reversed(lines) if line.account == account.name)
    return AccountReport(
        unit=account.unit,
        neighbours=account.budget.neighbours,
        lifetime_guarantee=lifetime,
        epsilons=tuple(budget.epsilon for budget in budgets),
        period_guarantee=describe_period_guarantee(policy),
        budget=budgets[-1].with_spent(newest.spent + newest.held),
        questions=reported,
        lines=lines,
        created=datetime.now(UTC),
        budgets=tuple(budgets),
        hashes=tuple(line.hash for line in ledger.lines() if line.number <= lines[-1].number),
    )


def _account_terms(lines: Collection[Line], account: str) -> list[Terms]:
    """List the terms that an account has had, oldest first."""
    stating = [line for line in lines if line.account == account and line.kind in ("account-open", "amend")]
    return [codec.loads_as(Terms, line.detail) for line in stating]


def _reported_questions(
    policy: Policy, ledger: Ledger, account: Account, lines: Collection[Line], questions: Questions
) -> Iterator[ReportedQuestion]:
    charges = [line for line in lines if line.kind in QUESTION_KINDS]
    answers = {line.about: line for line in lines if line.kind == "answer" and line.about}
    visible = _visible_lines(questions, charges, answers)
    with ExitStack() as stack:
        rebuilding = stack.enter_context(open_rebuilder(policy, ledger, account)) if visible else None
        for line in charges:
            answer_line, salt = answers.get(line.number), ledger.salt(line.number)
            hidden = ReportedQuestion(
                line.number,
                line.time,
                line.kind,
                format_cost(line, account.budget.delta),
                salted_hash(salt, line.question),
                None if answer_line is None else answer_line.number,
            )
            if rebuilding is None or line.number not in visible:
                yield hidden
                continue
            visible_question = replace(hidden, question=line.question, salt=salt)
            if answer_line is None:
                yield visible_question
                continue
            answer, synopsis = (
                rebuilding.answer(line.question, answer_line),
                rebuilding.synopsis(line.question, answer_line),
            )
            note = rebuilding.describe_line(answer_line) if answer is None and synopsis is None else ""
            yield replace(visible_question, answer=answer, synopsis=synopsis, note=note)


def _visible_lines(questions: Questions, charges: Collection[Line], answers: Mapping[int, Line]) -> set[int]:
    """Return the lines whose questions are shown, chosen by their own numbers or those of their answers."""
    all_numbers = {line.number for line in charges}
    if isinstance(questions, bool):
        return all_numbers if questions else set()
    by_answer = {answer.number: number for number, answer in answers.items()}
    chosen_numbers = {by_answer.get(number, number) for number in questions}
    if not chosen_numbers <= all_numbers:
        wrong = ", ".join(map(str, sorted(chosen_numbers - all_numbers)))
        raise InvalidParameter(
            "questions",
            wrong,
            "the line numbers of questions in the ledger",
            fix="choose from the line numbers that sfumato history POLICY lists",
        )
    return chosen_numbers


def format_cost(line: Line, delta: Fraction) -> str:
    """Format the cost of a line: its ε, or for Gaussian noise its ε at the account's δ."""
    amounts = line.cost.amounts
    if line.cost.is_zero or (not any(amounts.values()) and None not in amounts.values()):
        return "nothing more" if line.kind == "step" else "nothing yet" if line.kind == "tab-open" else "nothing"
    failure = f", δ = {format_number(float(amounts['failure'] or 0))}" if amounts.get("failure") else ""
    if amounts.get("pure") is not None:
        return f"ε = {format_number(float(amounts['pure'] or 0))}{failure}"
    curve = line.curve
    if curve is None:
        return "in another currency"
    return f"ε = {format_number(curve.epsilon(delta))} at δ = {format_probability(delta)}"


def _require_intact(ledger: Ledger) -> None:
    verification = ledger.verify()
    if not verification.holds:
        raise LedgerDamaged(verification.bad, verification.why)


def _require_same_unit(policy: Policy, account: Account) -> None:
    if account.unit != policy.unit:
        raise AccountDiffers(
            f"the account protects {account.unit}, but this policy protects {policy.unit}",
            place=f"account {account.name!r}",
            fix="give the policy that the account was opened with",
        )


def _no_such_account_error(path: Path | str, name: str, account_names: Sequence[str]) -> SfumatoError:
    return SfumatoError(
        f"this ledger has no account named {name!r}; an account is named after the file of its policy",
        place=str(path),
        fix=f"give the policy of an account: {', '.join(f'{account}.toml' for account in account_names[:5])}",
    )


def _no_answers_error(path: Path | str) -> SfumatoError:
    return SfumatoError(
        "nothing has been asked yet, so there is nothing to report",
        place=str(path),
        fix="ask a question first, or name another ledger with --ledger",
    )


_MAX_SET_NAMES = 12
"""The most sets of columns of one synopsis that are named."""
_KINDS = {"charge": "a question", "tab-open": "a series of questions", "step": "a question of a series"}


def report(
    policy: Policy | str | os.PathLike[str],
    ledger: str | os.PathLike[str] | None = None,
    *,
    questions: Questions = False,
    title: str | None = None,
) -> HtmlPage:
    """Render the report of an account as one web page: who is protected, what was asked, the answers, what they cost,
    what an attacker could gain at most, and how to verify it.

    ``questions`` shows all questions with their answers, or those of these lines. Without it every question is a salted
    hash, since a WHERE may name a person.
    """
    return report_page(collect_report(policy, ledger, questions=questions), title)


def report_page(account_report: AccountReport, title: str | None = None) -> HtmlPage:
    """Render the page of a report."""
    name = title or f"What was asked about {_plural(account_report.unit.name)}, and what it could reveal"
    protection = render_protection(str(account_report.unit), account_report.neighbours.value)
    sections = [
        f"<h1>{escape_html(name)}</h1>{_summary_facts(account_report)}",
        f"<h2>Who is protected</h2>{protection}{_period_paragraph(account_report)}",
        f"<h2>What was asked, and the answers</h2>{''.join(_question_section(account_report))}",
        f"<h2>What it cost</h2>{''.join(_cost_section(account_report))}",
        f"<h2>What an attacker could gain at most</h2>{_attacker_section(account_report)}",
        f"<h2>What this does not promise</h2>{render_limitations()}",
        f"<h2>How to verify it</h2>{_verification_section(account_report)}",
        f"<footer>Made by sfumato {__version__} on {account_report.created.strftime('%Y-%m-%d')}. This page loads "
        "nothing from other servers.</footer>",
    ]
    return HtmlPage(name, "\n".join(sections))


def _plural(name: str) -> str:
    return name if name.endswith("s") else f"{name}s"


def _summary_facts(account: AccountReport) -> str:
    answered = sum(question.answer_line is not None for question in account.questions)
    delta = f", δ = {format_probability(account.lifetime_guarantee.delta)}" if account.lifetime_guarantee.delta else ""
    return fact_boxes(
        [
            (str(account.unit), "is protected"),
            (
                f"ε = {format_exact(account.lifetime_guarantee.epsilon)}{delta}",
                "is the most that will ever be spent" + _per_period_suffix(account),
            ),
            (_remaining_words(account), "is left for ordinary answers" + _per_period_suffix(account)),
            (f"{answered:,}", "answer so far" if answered == 1 else "answers so far"),
        ]
    )


def _per_period_suffix(account: AccountReport) -> str:
    return ", in each period's account" if account.period_guarantee else ""


def _remaining_words(account: AccountReport) -> str:
    if account.period_guarantee:
        return f"ε = {format_exact(account.budget.epsilon)} of {format_exact(account.budget.epsilon)} in a new one"
    return f"ε = {format_rounded_down(account.budget.largest_pure())} of {format_exact(account.budget.epsilon)}"


def _period_paragraph(account: AccountReport) -> str:
    return (
        paragraph(f"Every period has its own account. The guarantee: {account.period_guarantee}.")
        if account.period_guarantee
        else ""
    )


def _question_section(account: AccountReport) -> Iterator[str]:
    """Render the shown questions with their answers, then a line for each hidden one."""
    visible = [question for question in account.questions if question.question is not None]
    for is_part, group in groupby(visible, lambda question: question.is_step):
        consecutive = list(group)
        yield from [_steps_card(consecutive)] if is_part else map(_question_card, consecutive)
    hidden = [question for question in account.questions if question.question is None]
    if hidden:
        yield paragraph(
            ("Other questions" if len(hidden) < len(account.questions) else "Questions")
            + " are not shown, since a question may name a person. Each line below stands for one of them, with a hash "
            "of its text and a secret salt: nobody can test a guess with it, and the owner can prove later what was "
            "asked.",
        )
        yield "".join(_hidden_list(hidden))
    if not account.questions:
        yield paragraph("Nothing has been asked yet.")


def _question_card(question: ReportedQuestion) -> str:
    heading = f"<h3>Line {question.number}, {question.day}: {escape_html(question.cost)}</h3>"
    if question.answer is not None:
        rendered = "".join(render_answer_sections(question.answer))
    elif question.synopsis is not None:
        rendered = "".join(_synopsis_section(question.synopsis))
    elif question.answer_line is not None:
        rendered = paragraph(question.note)
    else:
        rendered = paragraph("This line has no answer of its own.", "quiet")
    text_block = preformatted_block(cleandoc(question.question or ""))
    return f'<section class="card">{heading}{text_block}{rendered}{_salt_paragraph(question)}</section>'


def _salt_paragraph(question: ReportedQuestion) -> str:
    words = f"salt {question.salt}; SHA-256 of the salt, a NUL and the question as the bundle has it: {question.hash}"
    return f'<p class="quiet hash">{escape_html(words)}</p>'


def _steps_card(steps: list[ReportedQuestion]) -> str:
    """Render the steps of a model as one card, with each step and its proof folded away."""
    first, last = steps[0].number, steps[-1].number
    heading = f"<h3>Lines {first} to {last}, {steps[0].day}: {len(steps):,} steps</h3>"
    if len(steps) == 1:
        heading = f"<h3>Line {first}, {steps[0].day}: {escape_html(steps[0].cost)}</h3>"
    step_list = "".join(
        paragraph(f"Line {step.number}, {step.cost}: {step.question}") + _salt_paragraph(step) for step in steps
    )
    return f'<section class="card">{heading}{paragraph(steps[0].note)}{collapsed("each step", step_list)}</section>'


def _synopsis_section(published: Synopsis) -> Iterator[str]:
    """Render the published marginals of a synopsis, and a plot of their counts."""
    sets = [" × ".join(published.columns[column] for column in columns) for columns in published.sets]
    more = f" and {len(sets) - _MAX_SET_NAMES:,} more" if len(sets) > _MAX_SET_NAMES else ""
    yield paragraph(f"Counts by {', '.join(sets[:_MAX_SET_NAMES])}{more} were published; any use of them is free.")
    yield figure(published.plot())
    yield paragraph(
        f"Each range covers the noise with {format_percent(published.receipt.confidence)} confidence.", "quiet"
    )


def _hidden_list(hidden: list[ReportedQuestion]) -> Iterator[str]:
    yield "<ul>"
    for question in hidden:
        noun = _KINDS[question.kind]
        status = "" if question.answer_line or question.kind == "tab-open" else ", not answered"
        words = escape_html(f"Line {question.number}, {question.day}: {noun}{status}, {question.cost}")
        yield f"<li>{words}<br><code class=hash>{question.hash}</code></li>"
    yield "</ul>"


def _cost_section(account: AccountReport) -> Iterator[str]:
    if len(account.epsilons) > 1:
        changed = ", then ".join(format_exact(epsilon) for epsilon in account.epsilons)
        yield paragraph(f"The owner changed the ε of the budget: {changed}. The guarantee is for the largest of these.")
    if account.period_guarantee:
        yield paragraph("Every answer is paid for in the account of each period that it reads.")
        return
    yield paragraph(
        f"All answers together may cost at most {_budget_words(account)}. Left for ordinary answers: "
        f"{_remaining_words(account)}. When it is used up, nothing more is answered."
    )
    budget = account.budget.with_history(History(lambda: _spending_history(account)))
    yield figure(budget.plot(), "A charge is written to the ledger before any row is read, and never taken back.")
    if any(amount is None for amount in budget.spent.values()):
        yield paragraph(
            "Gaussian noise was used: since then all answers are charged in Rényi divergence, and the plain ε total "
            "can no longer be quoted.",
            "quiet",
        )


def _budget_words(account: AccountReport) -> str:
    delta = f" and δ = {format_probability(account.budget.delta)}" if account.budget.delta else ""
    return f"ε = {format_number(float(account.budget.epsilon))}{delta}"


def _spending_history(account: AccountReport) -> list[SpendingPoint]:
    return [SpendingPoint(line.time, line.spent.amounts) for line in account.lines if not line.cost.is_zero]


def _attacker_section(account: AccountReport) -> str:
    scope = "everything that this account has answered and will ever answer"
    return render_belief_changes(account.lifetime_guarantee, account.neighbours.value, scope)


def _verification_section(account: AccountReport) -> str:
    last = account.newest_line
    return (
        paragraph(
            "Every charge and every answer is a line of a ledger, and each line holds the hash of the line before it. "
            f"So the hash of the last line covers all of them: line {last.number}, {last.time.strftime('%Y-%m-%d')},"
        )
        + f'<pre class="hash">{last.hash}</pre>'
        + paragraph(
            "Keep this page. If the owner ever shows the ledger, or a newer page, this line must still be there with "
            "this hash: then nothing before it was changed or removed."
        )
        + bullet_list(
            [
                "Ask the owner for the signed bundle of the account, and for their public key over another channel.",
                "Verify it on your own computer, offline:",
            ],
            ordered=True,
        )
        + preformatted_block("sfumato verify bundle.zip --key owner.key.pub")
        + paragraph("It reports what is proved and what is not. An auditor with access to the ledger can check more:")
        + preformatted_block("sfumato ledger verify sfumato.ledger\nsfumato verify bundle.zip --policy policy.toml")
        + table(
            ("on this page", "is proved by"),
            [
                ("a salted hash", "the salt and the text of the question, which the owner has"),
                ("a cost", "the bundle: costs add up line by line, to the remaining budget"),
                ("a number and its range", "the bundle, signed by the owner; the ledger, for an auditor"),
            ],
        )
    )
