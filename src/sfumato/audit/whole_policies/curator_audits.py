"""A whole curator is audited on tables that are invented from its policy: does it keep its promise, whatever is asked?

Questions are the owner's own, templates of every kind, and ones that are drawn from the grammar of what can be asked.
Every question is tried in four ways. *Outcomes*: all that an analyst sees but the noise is compared between tables
that differ in one unit. *Replay*: the exact change between neighbours is divided by what the noise was made for, which
needs no samples. *Shared noise*: a release is drawn until no two of its noises would agree by accident. *Samples*: the
noise is drawn ten thousand times over the same totals, and releases of each kind of
question are bought one by one over the whole path, each with its charge.

False alarms: outcomes and replays are exact. All verdicts by samples of one audit share the chance of a mistake, so a
sound curator is doubted with probability at most 1 − confidence (Bonferroni; ``falsifying``). Power: each audit also
tries twins with a planted fault, and says of each try which true ε it would have refuted.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import islice
from typing import Any

from sfumato.audit.asked_questions.asked_worlds import (
    LEAST_PILOT,
    PILOT,
    AskedText,
    Job,
    SamplingProcesses,
    largest_pair,
)
from sfumato.audit.asked_questions.compared_outcomes import Coordinates, differences, forecast, outcome
from sfumato.audit.asked_questions.drawn_questions import DrawnQuestion, drawn_questions, questions_of, templates
from sfumato.audit.asked_questions.replayed_totals import replayed
from sfumato.audit.lower_bounds.falsifying import falsify, least_samples
from sfumato.audit.lower_bounds.verdicts import Verdict
from sfumato.audit.whole_policies.audit_stages import AuditStage, Paid, drawn_again, prepared, set_up
from sfumato.audit.whole_policies.curator_findings import DRAWN, OWN, TEMPLATE, CuratorAudit, Sampled, TriedQuestion
from sfumato.audit.whole_policies.planted_faults import CaughtFault, Planted, planted_faults
from sfumato.audit.whole_policies.shared_noise import compare_noise
from sfumato.curator import Question
from sfumato.curator.policy_account import read_policy
from sfumato.errors import InvalidParameter, InvalidPolicy, SfumatoError
from sfumato.mechanisms import bits
from sfumato.policy import Policy
from sfumato.privacy.numbers import POSITIVE, Number, Range, exact, whole
from sfumato.release.releasing import Progress, quietly

_DRAWS = 10_000
_BOUGHT_A_MINUTE = 60
"""Releases that are bought in each world, of each kind of question, for every minute that the audit may take."""
_KINDS = 6
"""Kinds of questions of which releases are bought."""
_LEAST_BOUGHT = 300
_GAUSSIAN = 5
"""Of the first questions, so many are tried with Gaussian noise, too."""
_DRAWN_A_MINUTE = 3
"""Questions that are drawn, beside all templates, for every minute that the audit may take."""
_LEAST_DRAWN = 2
_SEEDS = 1 << 32
_CONFIDENCES = Range("a number above 0 and at most 1 - 1e-9", Fraction(0), 1 - Fraction(1, 10**9), low_open=True)
"""Hundreds of verdicts share what is left of it, and each of them has to have a confidence below 1."""


def curator(
    policy: Policy | str | os.PathLike[str],
    minutes: Number = 5,
    questions: Sequence[str] | str | os.PathLike[str] | None = None,
    *,
    confidence: Number = "0.9999",
    seed: int | None = None,
    progress: Progress = quietly,
) -> CuratorAudit:
    """Find out whether a policy keeps its promise: outcomes, exact changes, noise and bought releases are compared on
    invented tables, and planted faults must be caught.

    No row of the owner is read and nothing of the owner's budget is spent; public tables are read as they are. It takes
    at most about so many ``minutes``, and more of them buy more releases. ``questions`` are the owner's own, as texts
    or a .sql file: they are tried beside templates of everything that can be asked, and beside questions that are drawn
    from its grammar. ``seed`` decides which ones are drawn, so that a doubt can be repeated; it is told.
    """
    declared, allowed = read_policy(policy), float(exact(minutes, "minutes", POSITIVE))
    if allowed > 24 * 60:
        raise InvalidParameter("minutes", minutes, "at most 1440, which is a day")
    _require_price(declared)
    level, begun = exact(confidence, "confidence", _CONFIDENCES), time.time()
    drawn_from = bits.below(_SEEDS) if seed is None else whole(seed, "seed")
    progress("inventing tables")
    with set_up(declared) as stage:
        asked = tuple(_asked(stage, questions, drawn_from, max(_LEAST_DRAWN, round(_DRAWN_A_MINUTE * allowed))))
        run = _AuditRun(stage, begun + 60 * allowed, _share(level, len(asked)), progress)
        planned = planted_faults(stage, tuple(each.text for each in asked if each.origin != DRAWN), run.level)
        faults, unplanted = run.faults(planned, (time.time() + run.until) / 2)
        tried, untried = run.questions(asked)
        faults, unplanted = run.faults(unplanted, run.until, faults)
        tried, unbought = run.with_bought(
            (*tried, *run.gaussian(asked)), max(_LEAST_BOUGHT, round(_BOUGHT_A_MINUTE * allowed))
        )
        notes = (*_notes(untried, unbought, tuple(unplanted)), *_capped(stage))
    return CuratorAudit(
        declared.account_name,
        str(declared.unit),
        declared.neighbours.value,
        float(level),
        tuple(each.name for each in stage.tables.larger),
        tried,
        faults,
        notes,
        time.time() - begun,
        drawn_from,
        tuple(unplanted),
    )


def _require_price(policy: Policy) -> None:
    """Refuse a budget that buys nothing: whatever is asked would be refused, and nothing could be tried."""
    if not policy.budget.epsilon:
        raise InvalidPolicy(
            "a policy is audited by what it answers, and with ε = 0 it answers nothing",
            place="budget.epsilon",
            fix="give the budget an ε above 0",
        )


@dataclass(frozen=True)
class _TriedQuestion:
    """This is a question that is tried."""

    ask: str | DrawnQuestion
    origin: str
    gaussian: bool
    """Whether it is tried with Gaussian noise, too."""

    @property
    def text(self) -> str:
        return str(self.ask)


def _asked(stage: AuditStage, questions: Any, seed: int, drawn: int) -> Iterator[_TriedQuestion]:
    """List the questions to be tried: the owner's own, templates of everything that can be asked, and drawn ones."""
    fixed = {**dict.fromkeys(questions_of(questions), OWN)}
    fixed = {**fixed, **{each: TEMPLATE for each in templates(stage.catalog) if each not in fixed}}
    delta = bool(stage.policy.budget.delta)
    for place, (text, origin) in enumerate(fixed.items()):
        yield _TriedQuestion(text, origin, delta and place < _GAUSSIAN)
    for each in islice(drawn_questions(stage.catalog, seed), drawn):
        yield _TriedQuestion(each, DRAWN, delta and each.gaussian)


def _share(level: Fraction, questions: int) -> Fraction:
    """Give the confidence of one verdict: each question has at most five (its noises compared and drawn, both with
    Laplace and with Gaussian noise, and releases bought), and faults have some of their own.
    """
    return 1 - (1 - level) / (5 * questions + 10)


def _notes(untried: tuple[str, ...], unbought: tuple[str, ...], unplanted: tuple[str, ...] = ()) -> Iterator[str]:
    """Say what there was no time for."""
    if unplanted:
        yield f"the time was up before these faults were planted: {', '.join(unplanted)}: give it more minutes"
    if untried:
        yield f"the time was up before {len(untried)} questions were tried: give it more minutes"
    if unbought:
        yield (
            f"too few releases were bought to tell anything of {len(unbought)} of the questions, "
            f"such as {unbought[0]}: give it more minutes"
        )


def _capped(stage: AuditStage) -> Iterator[str]:
    for name in stage.tables.capped:
        yield f"no invented unit reaches the limit of rows of {name}, which is beyond what is invented"


@dataclass(frozen=True)
class _AuditRun:
    stage: AuditStage
    until: float
    level: Fraction
    progress: Progress

    @property
    def _late(self) -> bool:
        return time.time() >= self.until

    def faults(
        self, planned: Mapping[str, Planted], until: float, found: tuple[CaughtFault, ...] = ()
    ) -> tuple[tuple[CaughtFault, ...], Mapping[str, Planted]]:
        """Try planted faults until then, one at least, beside those that were found before, and give also what is left
        to plant. An audit begins with them, without which nothing that is found later means anything, and takes at most
        half of its time, so that questions are tried, too.
        """
        for place, (name, plant) in enumerate(planned.items()):
            if found and time.time() >= until:
                return found, dict(islice(planned.items(), place, None))
            self.progress(f"planted fault: {name}")
            found += tuple(plant())
        return found, {}

    def questions(self, asked: Sequence[_TriedQuestion]) -> tuple[tuple[TriedQuestion, ...], tuple[str, ...]]:
        """Try every question there is time for."""
        found: list[TriedQuestion] = []
        for number, each in enumerate(asked):
            if self._late:
                return tuple(found), tuple(one.text for one in asked[number:])
            self.progress(f"question {number + 1} of {len(asked)}")
            question = self._understood(each)
            found.append(self._at(each, question, self.stage.paid(question)))
        return tuple(found), ()

    def gaussian(self, asked: Sequence[_TriedQuestion]) -> Iterator[TriedQuestion]:
        """Try some with Gaussian noise, after everything else that is compared: it changes what an account still pays,
        and is released over a few of the tables only.
        """
        for each in asked:
            question = self._understood(each) if each.gaussian else None
            if question is not None and _added_to_alone(question) and not self._late:
                self.progress(f"Gaussian noise: {each.text}")
                yield self._at(each, question, self.stage.paid(question, gaussian=True))

    def _understood(self, asked: _TriedQuestion) -> Any:
        try:
            return self.stage.question(asked.ask)
        except SfumatoError:
            return None

    def _at(self, asked: _TriedQuestion, question: Any, paid: Paid) -> TriedQuestion:
        populations = self.stage.tables.populations
        ends = (populations[0], *populations[-2:])  # of what needs no row, a few tables tell as much as all
        over = ends if paid.gaussian else populations
        seen = [(each, outcome(self.stage.curators[each.name], asked.ask, paid.keywords)) for each in over]
        answered = all("refusal" not in each for _, each in seen)
        before = [(each, forecast(self.stage.curators[each.name], asked.ask, paid.keywords)) for each in ends]
        tried = TriedQuestion(asked.text, asked.origin, str(paid), answered, (*differences(seen), *differences(before)))
        if not answered or not isinstance(question, Question):
            return tried
        recorded = self.stage.recorded(question, paid)
        reached = replayed(recorded, self.stage.tables.pairs)
        compared = compare_noise(question, prepared(question, paid), self.stage.engines[""], 1 - self.level)
        tried = replace(tried, replay=reached if recorded else None, noise=compared)
        if question.found or reached.telling is None:
            return tried
        drawn = drawn_again(recorded, reached.telling, paid.claim, _DRAWS, self.level)
        return replace(tried, drawn=None if drawn is None else _sampled(*drawn, paid))

    def with_bought(
        self, tried: tuple[TriedQuestion, ...], count: int
    ) -> tuple[tuple[TriedQuestion, ...], tuple[str, ...]]:
        """Buy releases of one question of each kind, as long as there is time: first where no noise was drawn, since
        there is nothing else that tells of a choice. Give also the questions of which too few were bought.
        """
        kinds: dict[tuple[Any, ...], int] = {}
        for place, each in enumerate(tried):
            fixed = each.answered and each.origin != DRAWN and "Gaussian" not in each.price
            kind = self._kind(each.question) if fixed else None
            if kind is not None:
                kinds.setdefault(kind, place)
        found = list(tried)
        places = sorted(kinds.values(), key=lambda each: found[each].drawn is not None)[:_KINDS]
        with SamplingProcesses() as processes:
            for place in places:
                if self._late:
                    break
                self.progress(f"buying releases: {found[place].question}")
                found[place] = replace(found[place], bought=self._bought(processes, found[place], count))
        return tuple(found), tuple(found[place].question for place in places if found[place].bought is None)

    def _kind(self, text: str) -> tuple[Any, ...] | None:
        """Tell questions apart by what is measured; None for what is not measured."""
        question = self.stage.question(text)
        if not isinstance(question, Question) or question.free:
            return None
        measured = tuple(type(each).__name__ for each in question.query.plan.measures)
        return measured, bool(question.found), bool(question.query.plan.keys) and not question.found

    def _bought(self, processes: SamplingProcesses, tried: TriedQuestion, count: int) -> Sampled | None:
        """Buy releases in two neighbouring worlds and try to refute the claim by them."""
        paid = self.stage.paid(self.stage.question(tried.question))
        telling = None if tried.replay is None else tried.replay.telling
        pair, pilot = telling or largest_pair(self.stage.tables), max(LEAST_PILOT, math.ceil(count * PILOT))
        policies = [self.stage.tables.opened(each) for each in pair]
        jobs = [Job(each, AskedText(tried.question), paid.keywords, count + pilot, self.until) for each in policies]
        first, second = processes.buy(jobs)
        many = min(len(first), len(second)) - pilot
        if many < max(_LEAST_BOUGHT, least_samples(paid.claim, self.level)):
            return None
        looked = Coordinates.of(first[:pilot], second[:pilot])
        numbers = looked.numbers(first[pilot:]), looked.numbers(second[pilot:])
        worlds: tuple[Callable[[int], Any], ...] = (lambda n: numbers[0][:n], lambda n: numbers[1][:n])
        return _sampled(falsify(worlds, paid.claim, many, self.level), many, paid)


def _added_to_alone(question: Any) -> bool:
    """Tell whether all that is measured of a question are totals of groups that the policy knows; a question that is
    understood and then refused, since no row can meet its conditions, has none.
    """
    try:
        return isinstance(question, Question) and not question.found and not question.others
    except SfumatoError:
        return False


def _sampled(verdict: Verdict, samples: int, paid: Paid) -> Sampled:
    return Sampled(verdict, samples, None if paid.gaussian else verdict.detectable)
