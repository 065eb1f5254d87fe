"""A workload is several questions that are asked together: one price, one charge, one receipt.

It is a proposal. What all questions leak is composed as one release, which costs far less than the sum of what they
cost one by one; each answer is stored as its own question's, so that what was bought is never bought again, neither by
this workload nor by who asks one of its questions alone.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

from sfumato.caching import cached_property
from sfumato.curator.context import Context
from sfumato.curator.previews.explaining import Explanation, Operator
from sfumato.curator.previews.forecasts import Forecast
from sfumato.curator.previews.rehearsing import rehearsed
from sfumato.curator.proposals.questions import Question
from sfumato.curator.proposals.workload_answers import Answers, WorkloadForecast
from sfumato.errors import InvalidParameter, Unsupported, shorten
from sfumato.ledger import StoredAnswer, Tab
from sfumato.mechanisms import Gaussian
from sfumato.plan.canonical import digest
from sfumato.plan.sql.question_files import MOST_QUESTIONS, WrittenQuestion, placed, questions as questions_of
from sfumato.privacy import codec
from sfumato.privacy.numbers import POSITIVE, Number, exact, percent, shown
from sfumato.release import releasing
from sfumato.release.answers.answer_columns import Columns
from sfumato.release.answers.receipts import Receipt
from sfumato.release.batch_prices import MeasuredTogether, Offer, PricedBatch, Together, priced, within as priced_within
from sfumato.release.measured import Measured
from sfumato.release.parts.question_parts import Family, NamedNoise, rounded_down
from sfumato.release.payers import AllAtOnce, PaidQuestion, Purchase
from sfumato.release.preparing import Prepared
from sfumato.release.prices import Price, weak_words
from sfumato.release.proposal import ReleaseCall, is_stored, receipt, rehearse, warn
from sfumato.release.releasing import Progress, ReleaseRequest, StoredResult
from sfumato.release.requests import Request, RequestedSeries, given_again

Goals = Number | Mapping[str, Any]
"""A half-width for every number; or by the name of a question, a half-width or half-widths by column."""


@dataclass(frozen=True)
class Workload:
    """A proposal of several questions: only ``release`` spends."""

    _context: Context = field(repr=False)
    questions: Mapping[str, Question]
    """Every question by its name, in order."""

    @property
    def identity(self) -> str:
        """Return the hash of what is measured, of all questions together."""
        return digest("workload", *(each.identity for each in self.measured.values()))

    @property
    def columns(self) -> dict[str, Columns]:
        """List the columns of every answer, with their types, by the name of its question."""
        return {name: each.columns for name, each in self.questions.items()}

    @cached_property
    def measured(self) -> dict[str, Question]:
        """List what is measured, each once: the same question twice is measured and paid once."""
        found: dict[str, Question] = {}
        for each in self.questions.values():
            if not each.free:
                found.setdefault(each.identity, each)
        return found

    def explain(
        self,
        *,
        epsilon: Number | None = None,
        delta: Number = 0,
        rho: Number | None = None,
        within: Goals | None = None,
        confidence: Number = "0.95",
        mechanism: NamedNoise | None = None,
        weights: Mapping[str, Number] | None = None,
    ) -> Explanation:
        """Describe what is done for which question, at which part of the price; at ε = 1 when no price is named. Free."""
        named = not (epsilon is None and rho is None and within is None)
        found = self._priced(Request(epsilon if named else 1, delta, rho, None, confidence, mechanism), within, weights)
        together, policy = Together(self._kinds(found)), self._context.policy
        operators = [Operator("scan", self._tables, f"protects {policy.unit}, {policy.neighbours.value}")]
        for name, question in self.questions.items():
            operators.append(
                Operator(name, shorten(" ".join(question.text.split()), 80), self._effect(found, question, confidence))
            )
        statements = len(together.readings)
        read = f"{len(self.measured)} questions measured by {statements} statement{'s' if statements > 1 else ''}"
        sure = f"ranges hold with {percent(exact(confidence, 'confidence'))} confidence"
        saved = "" if found.pure else f"; one by one they would cost about ε = {shown(found.apart, 3)} in all"
        operators.append(Operator("together", read, f"{found.price}, {sure}{saved}"))
        said = (*self._warnings, *self._context.closing(found.curve))
        return Explanation(self.words, str(found.price), tuple(operators), found.reason, said)

    @property
    def _warnings(self) -> tuple[str, ...]:
        """Describe once what any of the answers may miss."""
        return tuple(dict.fromkeys(each for question in self.questions.values() for each in question.warnings))

    def error(
        self,
        *,
        epsilon: Number | None = None,
        delta: Number = 0,
        rho: Number | None = None,
        within: Goals | None = None,
        confidence: Number = "0.95",
        mechanism: NamedNoise | None = None,
        weights: Mapping[str, Number] | None = None,
        fresh: bool = False,
    ) -> WorkloadForecast:
        """Return the half-widths of every answer, the price, and whether the account would accept it now. Free.

        What is ``stored`` already, and as good, is not in the price.
        """
        found = self._priced(Request(epsilon, delta, rho, None, confidence, mechanism), within, weights)
        new = self._new(found, fresh)
        rest = found.only(new)
        accepted = not new or all(budget.affords(rest.curve) for budget in self._context.budgets)
        stored = {identity for place, identity in enumerate(self.measured) if place not in new}
        return WorkloadForecast(
            tuple(self.questions),
            tuple(self._forecast(found, each, confidence, stored) for each in self.questions.values()),
            str(rest.price) if new else "nothing: all of it was bought before",
            accepted,
            (*self._warnings, *(self._context.closing(rest.curve) if new else ())),
        )

    def price(self, within: Goals, *, delta: Number = 0, confidence: Number = "0.95") -> float:
        """Find the least ε, beside this δ, at which every question is this close: all of them together. Free."""
        found = self._priced(Request(None, delta, None, None, confidence), within, None)
        return float(found.price.epsilon or 0)

    def release(
        self,
        *,
        epsilon: Number | None = None,
        delta: Number = 0,
        rho: Number | None = None,
        within: Goals | None = None,
        confidence: Number = "0.95",
        mechanism: NamedNoise | None = None,
        weights: Mapping[str, Number] | None = None,
        fresh: bool = False,
        joint: bool = False,
        request_id: str | None = None,
        seconds: Number | None = None,
        progress: Progress | None = None,
    ) -> Answers:
        """Ask all questions. They are one charge, made before the first row is read; what was bought before, and is as
        good, is free and not in the price.

        ``weights`` give a question, by its name, so many times the share of the price. The same ``request_id`` gives
        what it bought again, for nothing.
        """
        call = ReleaseCall(fresh, request_id, seconds, progress)
        requested = RequestedSeries(self._context, self.words, self._named_identity, call)
        again = requested.known()
        if again is not None:
            return self._again(again)
        found = self._priced(Request(epsilon, delta, rho, None, confidence, mechanism), within, weights)
        new = self._new(found, fresh)
        known = self._stored(found, [place for place in range(len(self.measured)) if place not in new])
        bought = self._bought(found.only(new), new, requested, confidence, joint) if new else _NOTHING
        if isinstance(bought, StoredAnswer):
            return self._again(bought)
        with bought.tab or nullcontext():
            answers = {
                name: each.release(confidence=confidence)
                if each.free
                else each.answered((known | bought.each)[each.identity], confidence, joint)
                for name, each in self.questions.items()
            }
            made = Answers(tuple(answers), tuple(answers.values()), self._receipt(bought, confidence))
            if bought.tab is not None:
                requested.finish(bought.tab, made)
        return made

    @property
    def _named_identity(self) -> str:
        """Return the hash of the questions with their names: what a request id stands for."""
        named = (f"{len(name)}:{name}{each.identity}" for name, each in self.questions.items())
        return digest("named-workload", *named)

    def _again(self, found: StoredAnswer) -> Answers:
        """Return what the same request bought."""
        bought, here = codec.loads_as(Answers, found.body, longest=len(found.body)), self._context
        each = tuple(replace(one, receipt=given_again(one.receipt, here)) for one in bought.answers)
        own = None if bought.receipt is None else given_again(bought.receipt, here)
        return replace(bought, answers=each, receipt=own)

    def rehearse(
        self,
        *,
        epsilon: Number | None = None,
        delta: Number = 0,
        rho: Number | None = None,
        within: Goals | None = None,
        confidence: Number = "0.95",
        mechanism: NamedNoise | None = None,
        weights: Mapping[str, Number] | None = None,
        joint: bool = False,
    ) -> Answers:
        """Return answers of this shape with invented numbers, from the policy alone. This is free."""
        price: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "rho": rho, "within": within}
        how: dict[str, Any] = {"confidence": confidence, "mechanism": mechanism, "weights": weights, "joint": joint}
        return rehearsed(self, self._context, lambda there: there.release(**price, **how))

    # ── prices ──

    def _priced(self, request: Request, within: Goals | None, weights: Mapping[str, Number] | None) -> PricedBatch:
        if not self.measured:
            raise Unsupported(
                "nothing-measured", "a workload measures something", fix="ask each of these by itself: they are free"
            )
        offers, budget = self._offers(weights, request), self._context.account.budget
        if within is not None:
            if request.named:
                raise InvalidParameter("within", within, "given instead of epsilon or rho")
            return self._within(offers, request, within)
        price = request.price
        self._require_delta(price.delta)
        return priced(offers, price, request.family, budget)

    def _offers(self, weights: Mapping[str, Number] | None, request: Request) -> list[Offer]:
        """Assign each question a share by what it measures, times its weight."""
        weighed, own = self._weights(weights or {}), Request(confidence=request.confidence, joint=request.joint)
        parts = {identity: weighed[identity] * _shares(each) for identity, each in self.measured.items()}
        whole = sum(parts.values(), Fraction(0))
        return [
            Offer(_preparing(each, own), parts[identity] / whole, bool(each.found))
            for identity, each in self.measured.items()
        ]

    def _weights(self, weights: Mapping[str, Number]) -> dict[str, Fraction]:
        """Take the largest weight of those that ask the same."""
        for name in weights:
            if name not in self.questions:
                raise InvalidParameter("weights", name, f"a question of the workload: {_names(self.questions)}")
        found: dict[str, Fraction] = {}
        for name, question in self.questions.items():
            weight = exact(weights.get(name, 1), f"the weight of {name}", POSITIVE)
            if not question.free:
                found[question.identity] = max(weight, found.get(question.identity, weight))
        return found

    def _within(self, offers: list[Offer], request: Request, within: Goals) -> PricedBatch:
        goals, delta = self._goals(within), exact(request.delta, "delta")
        self._require_delta(delta)

        def prices(family: Family) -> list[Price]:
            known: dict[Any, Price] = {}
            found = ([self._least(request, family, wish, known) for wish in goals[each]] for each in self.measured)
            return [max(each, key=lambda price: price.epsilon or price.rho or 0) for each in found]

        return priced_within(offers, prices, delta, request.family, self._context.account.budget)

    def _least(
        self, request: Request, family: Family, wish: tuple[str, Question, Any], known: dict[Any, Price]
    ) -> Price:
        """Find the least price of one question. Those that differ only in which rows they count have the same."""
        name, question, goal = wish
        delta = exact(request.delta, "delta") / len(self.measured)

        def named(amount: Fraction) -> Price:
            if family is Gaussian and not question.found:
                return Price(rho=rounded_down(amount))
            return Price(amount, delta if question.found else 0)

        alike = (question.alike, repr(goal)) if question.alike is not None else name
        if alike not in known:
            own = Request(within=goal, confidence=request.confidence, mechanism=family)
            with _about(name):
                known[alike] = named(question.least_price(own, named))
        return known[alike]

    def _goals(self, within: Goals) -> dict[str, list[tuple[str, Question, Any]]]:
        """Find what is wanted of each question: of those that ask the same, every wish counts."""
        found: dict[str, list[tuple[str, Question, Any]]] = {identity: [] for identity in self.measured}
        if isinstance(within, Mapping):
            for name in within:
                if name not in self.questions:
                    raise InvalidParameter("within", name, f"a question of the workload: {_names(self.questions)}")
        for name, question in self.questions.items():
            if not question.free and not (isinstance(within, Mapping) and name not in within):
                goal = within[name] if isinstance(within, Mapping) else within
                found[question.identity].append((name, question, goal))
        missing = [name for name, each in self.questions.items() if not each.free and not found[each.identity]]
        if missing:
            have = "has" if len(missing) == 1 else "have"
            fix = (
                f"name one for each of them too, as in {missing[0]}=NUMBER; means and choices have none: "
                "ask those in a workload of their own, at an epsilon"
            )
            rule = f"half-widths for every question: {_names(missing)} {have} none"
            raise InvalidParameter("within", within, rule, fix=fix)
        return found

    def _require_delta(self, delta: Fraction) -> None:
        """Refuse before anything is spent what finds its groups in the data, without a δ."""
        for name, question in self.questions.items():
            if question.found and not delta:
                with _about(name):
                    question.error(epsilon=1)

    # ── what is bought, and what was ──

    def _kinds(self, found: PricedBatch) -> tuple[Any, ...]:
        return tuple(each.kind(own) for each, own in zip(self.measured.values(), found.prepared, strict=True))

    def _new(self, found: PricedBatch, fresh: bool) -> list[int]:
        """List the places of what is not stored as good as it would be bought."""
        kinds = zip(self.measured.items(), self._kinds(found), strict=True)
        return [
            place
            for place, ((identity, _), kind) in enumerate(kinds)
            if fresh or not is_stored(kind, identity, self._context)
        ]

    def _stored(self, found: PricedBatch, places: Sequence[int]) -> dict[str, StoredResult[Measured]]:
        kinds, identities, here = self._kinds(found), list(self.measured), self._context
        return {
            identities[place]: known
            for place in places
            if (known := releasing.stored(kinds[place], self._asked(identities[place]), here.account)) is not None
        }

    def _asked(self, plan: str) -> ReleaseRequest:
        return ReleaseRequest(self.words, plan, self._context.engine.identity(), self._context.analyst)

    def _bought(
        self, rest: PricedBatch, new: Sequence[int], requested: RequestedSeries, confidence: Number, joint: bool
    ) -> _Bought | StoredAnswer:
        here, call, identities = self._context, requested.call, [list(self.measured)[place] for place in new]
        asked = [self.measured[identity] for identity in identities]
        kind = Together(tuple(each.kind(own) for each, own in zip(asked, rest.prepared, strict=True)))
        for each, own in _unlike(asked, kind.kinds):
            rehearse(own, partial(each.answered, confidence=confidence, joint=joint))
        warn(rest.price, here)
        paid = [
            PaidQuestion(each.text, identity, own.good_enough)
            for identity, each, own in zip(identities, asked, kind.kinds, strict=True)
        ]
        more = call.request_id is not None
        payer = AllAtOnce(lambda entry: requested.open(entry, whole=True), paid, _bodies, more=more)
        with here.work.one():
            made: StoredResult[MeasuredTogether] = releasing.release(
                kind,
                self._asked(""),
                payer=payer,
                engine=here.engine,
                fresh=True,
                seconds=call.limit(here.seconds),
                progress=here.progress if call.progress is None else call.progress,
            )
        if payer.known is not None:
            return payer.known
        drawn = zip(identities, made.value.each, payer.lines, strict=True)
        each_one = {
            identity: StoredResult(value, line.number, line.time, line.hash, free=False)
            for identity, value, line in drawn
        }
        return _Bought(each_one, made, rest, payer.tab)

    def _receipt(self, bought: _Bought, confidence: Number) -> Receipt | None:
        if bought.made is None or bought.rest is None:
            return None
        measured = [each.value for each in bought.each.values()]
        terms = [each.purchase for each in measured]
        words = dict.fromkeys(scale.words() for each in measured for scale in each.scales)
        found = Purchase(
            str(bought.rest.price),
            _listed(each.strategy for each in terms),
            _listed(each.limits for each in terms),
            tuple(dict.fromkeys(bound for each in terms for bound in each.bounds)),
            self._context.version,
            weak_words(bought.rest.price),
        )
        return receipt(bought.made, found, tuple(words), question=self.words, here=self._context, confidence=confidence)

    # ── in words ──

    def _forecast(self, found: PricedBatch, question: Question, confidence: Number, stored: set[str]) -> Forecast:
        if question.free:
            return question.error(confidence=confidence)
        said = question.forecast(self._of(found, question), confidence)
        return replace(said, stored=question.identity in stored)

    def _effect(self, found: PricedBatch, question: Question, confidence: Number) -> str:
        if question.free:
            return "free: from the policy"
        own = self._of(found, question)
        return f"{'; '.join(question.forecast(own, confidence).parts())}; by itself {own.price}"

    def _of(self, found: PricedBatch, question: Question) -> Prepared:
        return found.prepared[list(self.measured).index(question.identity)]

    @property
    def _tables(self) -> str:
        return ", ".join(dict.fromkeys(each.query.plan.table for each in self.questions.values()))

    @property
    def words(self) -> str:
        """Describe what is asked."""
        return f"a workload of {len(self.questions)} questions: {shorten(', '.join(self.questions), 200)}"

    def __len__(self) -> int:
        return len(self.questions)

    def __repr__(self) -> str:
        return f"<Workload of {len(self)} questions: .explain() .error() .price() are free, .release() asks>"


@dataclass(frozen=True)
class _Bought:
    """What was bought now: what is of each question, and the charge of all."""

    each: dict[str, StoredResult[Measured]]
    made: StoredResult[MeasuredTogether] | None = None
    rest: PricedBatch | None = None
    tab: Tab | None = None


_NOTHING = _Bought({})


def workload(
    context: Context,
    ask: Callable[[str], Any],
    given: Sequence[Any] | Mapping[str, Any] | str | os.PathLike[str],
) -> Workload:
    """Understand all questions; one that cannot be asked is refused by its name, and nothing is asked then."""
    context.require_one_account("a workload")
    if isinstance(given, (str, os.PathLike)):
        written = questions_of(_file(given))
        named = {f"q{number}": each for number, each in enumerate(written, 1)}
        asked = {}
        for number, (name, each) in enumerate(named.items(), 1):
            with placed(number, each):
                asked[name] = _question(context, ask, each.text)
        return Workload(context, asked)
    mapped: Mapping[str, Any] = (
        given if isinstance(given, Mapping) else {f"q{number}": each for number, each in enumerate(given, 1)}
    )
    _require_moderate(mapped)
    asked = {}
    for number, (name, one) in enumerate(mapped.items(), 1):
        said = one.text if isinstance(one, Question) else one
        with placed(number, WrittenQuestion(str(said), 1), name):
            asked[name] = _question(context, ask, one)
    return Workload(context, asked)


def _question(context: Context, ask: Callable[[str], Any], given: Any) -> Question:
    asked = ask(given) if isinstance(given, str) else given
    if not isinstance(asked, Question):
        rule = "a workload holds questions that are measured: SELECT, not SHOW or DESCRIBE"
        raise Unsupported("listing", rule, fix="ask SHOW TABLES or DESCRIBE by itself: it is free")
    if not asked.is_of(context):
        raise InvalidParameter("questions", asked.text, "questions of the same curator")
    asked.options  # noqa: B018  what is refused is refused now, and by its name
    return asked


def _file(given: str | os.PathLike[str]) -> str:
    path = Path(given)
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError, ValueError):
        raise InvalidParameter(
            "questions",
            str(given),
            "a list of questions, a mapping from names to questions, or a file that can be read as UTF-8 text",
            fix='give a list, such as ["SELECT COUNT(*) FROM …"], or the path of a .sql file',
        ) from None


def _require_moderate(given: Mapping[str, Any]) -> None:
    if not 0 < len(given) <= MOST_QUESTIONS:
        rule = f"between one and {MOST_QUESTIONS:,} questions are asked at once"
        raise Unsupported("no-question" if not given else "too-many-questions", rule, fix="give a list of questions")
    for name in given:
        if not isinstance(name, str) or not name.strip():
            raise InvalidParameter("questions", name, "named by texts that are not empty")


def _preparing(question: Question, request: Request) -> Callable[[Price, Family], Prepared]:
    return lambda price, family: question.prepared_at(price, replace(request, mechanism=family))


def _shares(question: Question) -> int:
    """Count what is measured for a question, with the choice of its groups."""
    return max(1, len(question.options[0].measures) + sum(each.shares for each in question.others))


def _unlike(asked: Sequence[Question], kinds: Sequence[Any]) -> list[tuple[Question, Any]]:
    """Leave out what is shown just as another question is: at the ends of what totals can be they are the same."""
    found = {each.alike or each.identity: (each, kind) for each, kind in zip(asked, kinds, strict=True)}
    return list(found.values())


def _bodies(body: str) -> list[str]:
    together = codec.loads(body, longest=len(body))
    assert isinstance(together, MeasuredTogether)
    return [codec.dumps(each) for each in together.each]


def _about(name: str) -> Any:
    return placed(None, WrittenQuestion("", 0), name)


def _names(names: Any) -> str:
    return shorten(", ".join(names), 200)


def _listed(texts: Iterator[str]) -> str:
    return "; ".join(dict.fromkeys(texts))
