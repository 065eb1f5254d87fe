"""A form asks questions whose answers are randomised where they are given: there is no curator, and no ledger.

Theorem. A report is ε-DP for replace neighbours: for any two sets of answers and any set of reports, P ≤ e^ε·P'. Split:
the parts are drawn independently, each at ε/m, and the losses add up to ε. Sampled: which question is asked does not
depend on the answers, and given that, one part is drawn at ε (Warner 1965; Kasiviswanathan, Lee, Nissim, Raskhodnikova
& Smith 2011). Nothing else in a report depends on an answer, and no answer makes answering fail.

A question of a survey has finitely many cells, as a coded column has: its answers, and one for no answer or another.

Which cell an answer is in never fails: a refusal that depended on the answer would tell of it. Whoever does not answer,
or answers what is not listed, is in the last cell, and is randomised like everybody else.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise, product
from typing import Any

import numpy as np

from sfumato.caching import cached_property
from sfumato.errors import InvalidParameter, SfumatoError, SynopsisDamaged
from sfumato.mechanisms import bits
from sfumato.mechanisms.response import Response
from sfumato.policy.domains import Type, as_value, implied
from sfumato.privacy import Curve, codec
from sfumato.privacy.numbers import CONFIDENCE, POSITIVE, Number, exact, shown, text, whole
from sfumato.publish.files import sealed_files
from sfumato.publish.files.sealed_files import MANIFEST, FileKind, content_of, damaged, members_of, save
from sfumato.publish.marginals.attributes import Attribute, Cell, ListedCell, Other, RangeCell
from sfumato.surveys import counts
from sfumato.surveys.counts import Counts, PairCounts, Refused, SurveyEstimate
from sfumato.surveys.encodings import Chances, Encoding, Report, fits, randomised
from sfumato.untrusted import printable, refusing

MOST_QUESTIONS = 100
MOST_CELLS = 4096
"""Of one question: estimating takes time for each report and each cell."""


def questions_of(given: object) -> tuple[Attribute, ...]:
    """Read the questions of a form: for each name a list of answers, ``{"bins": edges}``, or an Attribute."""
    if not isinstance(given, Mapping) or not 1 <= len(given) <= MOST_QUESTIONS:
        raise InvalidParameter("questions", given, f"a mapping from 1 to {MOST_QUESTIONS} names to lists of answers")
    return tuple(_question(name, answers) for name, answers in given.items())


def check_questions(questions: object) -> tuple[Attribute, ...]:
    """Refuse attributes that are no questions of one form."""
    if not isinstance(questions, (tuple, list)) or not 1 <= len(questions) <= MOST_QUESTIONS:
        raise InvalidParameter("questions", questions, f"1 to {MOST_QUESTIONS} attributes")
    for each in questions:
        if type(each) is not Attribute or not 2 <= each.size <= MOST_CELLS:
            raise InvalidParameter("questions", each, f"attributes of 2 to {MOST_CELLS:,} cells")
    if len({each.name for each in questions}) != len(questions):
        raise InvalidParameter("questions", [each.name for each in questions], "a list in which no name stands twice")
    return tuple(questions)


def _question(name: object, answers: Any) -> Attribute:
    if type(name) is not str or not name:
        raise InvalidParameter("questions", name, "a mapping from names, which are texts")
    if type(answers) is Attribute:
        if answers.name != name:
            raise InvalidParameter(name, answers.name, "an Attribute of the same name")
        return answers.flat
    if isinstance(answers, Mapping) and set(answers) == {"bins"}:
        return _binned(name, answers["bins"])
    kind = implied(answers)
    if kind is None:
        allowed = 'a list of answers of one type, {"bins": [0, 18, 65]}, or an Attribute'
        raise InvalidParameter(name, answers, allowed)
    if len(set(answers)) != len(answers):
        raise InvalidParameter(name, answers, "a list of answers in which none stands twice")
    return Attribute(name, kind, (*map(ListedCell, answers), Other()))


def _binned(name: str, edges: Any) -> Attribute:
    """Make ranges between edges: each holds its lower edge, and the last both."""
    kind = implied(edges)
    rule = "at least two edges that rise: numbers, dates or times"
    if kind is None or kind in (Type.TEXT, Type.BOOLEAN) or len(edges) < 2:
        raise InvalidParameter(name, edges, rule)
    pairs: list[Any] = list(pairwise(as_value(kind, each, name) for each in edges))
    if not all(low < high for low, high in pairs):
        raise InvalidParameter(name, edges, rule)
    ranges = [RangeCell(low, high, closed=place == len(pairs) - 1) for place, (low, high) in enumerate(pairs)]
    return Attribute(name, kind, (*ranges, Other()))


def cell_of(question: Attribute, answer: object) -> int:
    """Find the number of the cell that an answer is in, the last one for all that is in no other."""
    last = question.size - 1
    try:
        value = as_value(question.type, answer, question.name)
    except InvalidParameter:
        return last
    found = (place for place, cell in enumerate(question.cells[:-1]) if _holds(cell, value))
    return next(found, last)


def _holds(cell: Cell, value: Any) -> bool:
    if isinstance(cell, ListedCell):
        return bool(cell.value == value)
    if isinstance(cell, RangeCell):
        return bool(cell.low <= value and (value < cell.high or (cell.closed and value == cell.high)))
    return False


def label(cell: Cell) -> str:
    """Write a cell for people."""
    if isinstance(cell, ListedCell):
        return printable(str(cell.value))
    if isinstance(cell, RangeCell):
        return f"{cell.low} to {'' if cell.closed else 'below '}{cell.high}"
    return "no answer or another"


_MOST_RESPONDENTS = 10**9
_LONGEST = 1 << 26
_FORMAT = 1
_KIND = FileKind("survey form", _FORMAT, _LONGEST)


@codec.value("survey-form")
@dataclass(frozen=True)
class Form:
    """A form says what is asked and how it is randomised; it holds no answers, and everybody may have it.

    >>> Form.from_json(collect({"smokes": ["yes", "no"]}, 1).to_json()).epsilon
    Fraction(1, 1)
    """

    questions: tuple[Attribute, ...]
    epsilon: Fraction
    sampled: bool
    encodings: tuple[Encoding, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "questions", check_questions(self.questions))
        object.__setattr__(self, "epsilon", exact(self.epsilon, "epsilon", POSITIVE))
        if type(self.sampled) is not bool:
            raise InvalidParameter("sampled", self.sampled, "True or False")
        if not isinstance(self.encodings, (tuple, list)) or len(self.encodings) != len(self.questions):
            raise InvalidParameter("encodings", self.encodings, "a list with one encoding for each question")
        object.__setattr__(self, "encodings", tuple(map(Encoding.of, self.encodings)))
        _ = self.mechanisms  # made now: what they refuse is refused here

    def __repr__(self) -> str:
        names = ", ".join(each.name for each in self.questions)
        how = "one is sampled" if self.sampled else "all are answered"
        return f"<Form of {len(self.questions)} questions, of which {how}, at ε = {text(self.epsilon)}: {names[:400]}>"

    @cached_property
    def mechanisms(self) -> tuple[Response, ...]:
        """Give the mechanism of each question: their ε follow from the form's, so no file can state others."""
        each = counts.share(self.epsilon, len(self.questions), sampled=self.sampled)
        return tuple(
            encoding.mechanism(each, question.size)
            for encoding, question in zip(self.encodings, self.questions, strict=True)
        )

    @cached_property
    def number(self) -> str:
        """Give the sixteen digits by which reports name the form they answer."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()[:16]

    @property
    def guarantee(self) -> str:
        """Say in words what a respondent is promised."""
        return (
            f"One report is {text(self.epsilon)}-differentially private for the person who sends it: no report is more "
            f"than {_above(math.exp(self.epsilon))} times as likely with that person's answers as with any others "
            "(replace neighbours). No one has to be trusted: answers are randomised before they are sent. That "
            "somebody took part is not hidden, and each further report of the same person costs as much again."
        )

    def curve(self) -> Curve:
        """Give the loss of one report."""
        return Curve.pure(self.epsilon, "replace")

    # ── answering ──────────────────────────────────────────────────────────────────────────────

    def answer(self, answers: Mapping[str, object]) -> Report:
        """Randomise one person's answers. Run this where the person is, once: a second report costs ε again."""
        cells = self._cells(answers)
        if self.sampled:
            asked = bits.below(len(cells))
            return Report(self.number, (randomised(self.mechanisms[asked], cells[asked]),), asked)
        return Report(self.number, tuple(map(randomised, self.mechanisms, cells)))

    def _cells(self, answers: Mapping[str, object]) -> list[int]:
        """Find the cell of every answer; only names can be wrong, and they are public."""
        names = [each.name for each in self.questions]
        if not isinstance(answers, Mapping) or not set(answers) <= set(names):
            rule = "answers must be a mapping from names of questions of this form"
            raise SfumatoError(rule, place="answers", fix="use the names " + ", ".join(names))
        return [cell_of(each, answers.get(each.name)) for each in self.questions]

    # ── estimating ─────────────────────────────────────────────────────────────────────────────

    def check(self, report: Report | str) -> Report:
        """Give a report of this form, also from its JSON text; anything else is refused."""
        found = report if type(report) is Report else Report.from_json(report)  # type: ignore[arg-type]
        if found.form != self.number:
            raise InvalidParameter("report", found.form, f"a report of this form, which is {self.number}")
        if (found.question is not None) is not self.sampled or (found.question or 0) >= len(self.questions):
            raise InvalidParameter("report", found.question, "one that answers what this form asks")
        asked = self.mechanisms if found.question is None else (self.mechanisms[found.question],)
        if len(found.answers) != len(asked) or not all(map(fits, asked, found.answers)):
            raise InvalidParameter("report", found.answers, "one that this form could have drawn")
        return found

    def estimate(
        self,
        reports: Iterable[Report | str],
        *,
        confidence: Number = "0.95",
        together: bool = False,
        pairs: Iterable[tuple[str, str]] = (),
    ) -> SurveyEstimate:
        """Estimate how many respondents gave each answer.

        Reports may be texts; those that are none of this form are left out and listed under ``refused``. Whether two
        came from one person cannot be seen in them: that is for whoever collects them.
        """
        wanted = [self._pair(each) for each in pairs]
        miss = self._miss(confidence, wanted, together=together)
        accepted, refused = self._accepted(reports)
        tables = [self._counts(place, accepted, miss) for place in range(len(self.questions))]
        tables += [self._pair_counts(pair, accepted, miss) for pair in wanted]
        return SurveyEstimate(
            len(accepted), tuple(tables), refused, text(exact(confidence, "confidence", CONFIDENCE)), together
        )

    def _accepted(self, reports: Iterable[Report | str]) -> tuple[list[Report], tuple[Refused, ...]]:
        if isinstance(reports, (str, bytes, Report, Mapping)) or not isinstance(reports, Iterable):
            raise InvalidParameter("reports", reports, "a list of reports")
        accepted, refused = [], []
        for place, each in enumerate(reports):
            try:
                accepted.append(self.check(each))
            except InvalidParameter as error:
                refused.append(Refused(place, error.rule))
        return accepted, tuple(refused)

    def _parts(self, place: int, reports: list[Report]) -> list[Any]:
        """Take the answers to one question from the reports that have one."""
        if self.sampled:
            return [each.answers[0] for each in reports if each.question == place]
        return [each.answers[place] for each in reports]

    def _counts(self, place: int, reports: list[Report], miss: float) -> Counts:
        parts, respondents = self._parts(place, reports), len(reports)
        chance = self._chances[place]
        found = counts.supported(self.mechanisms[place], parts)
        ranges = tuple(counts.interval(int(each), len(parts), respondents, chance, miss) for each in found)
        estimates = counts.estimated(found, len(parts), respondents, chance)
        question = self.questions[place]
        answers = tuple((label(cell),) for cell in question.cells)
        return Counts((question.name,), answers, tuple(estimates.tolist()), ranges, len(parts))

    def _pair_counts(self, pair: tuple[int, int], reports: list[Report], miss: float) -> Counts:
        first, second = (self.mechanisms[place] for place in pair)
        parts = [self._parts(place, reports) for place in pair]
        found = PairCounts(
            counts.supported(first, parts[0]),
            counts.supported(second, parts[1]),
            counts.supported_pairs(first, second, parts),
            len(reports),
            (self._chances[pair[0]], self._chances[pair[1]]),
        )
        estimates, reach, most = found.estimates().ravel(), found.half_widths(miss).ravel(), float(len(reports))
        lows, highs = (estimates - reach).clip(0, most).tolist(), (estimates + reach).clip(0, most).tolist()
        questions = [self.questions[place] for place in pair]
        answers = tuple(product(*(map(label, each.cells) for each in questions)))
        ranges = tuple(zip(lows, highs, strict=True))
        return Counts((questions[0].name, questions[1].name), answers, tuple(estimates.tolist()), ranges, len(reports))

    @cached_property
    def _chances(self) -> tuple[Chances, ...]:
        return counts.chances_of(self.mechanisms)

    def _pair(self, names: object) -> tuple[int, int]:
        if self.sampled:
            raise SfumatoError(
                "two questions can be counted together only if every respondent answers both",
                place="pairs",
                fix="make the form with collect(questions, epsilon, split=True)",
            )
        known = {each.name: place for place, each in enumerate(self.questions)}
        if (
            not isinstance(names, (tuple, list))
            or len(names) != 2
            or not all(isinstance(each, str) and each in known for each in names)
            or names[0] == names[1]
        ):
            raise InvalidParameter("pairs", names, "pairs of names of two questions")
        return known[names[0]], known[names[1]]

    def _miss(self, confidence: Number, pairs: list[tuple[int, int]], *, together: bool) -> float:
        """Give the probability with which one interval may miss: a share of all where they shall hold at once."""
        if type(together) is not bool:
            raise InvalidParameter("together", together, "True or False")
        miss = float(1 - exact(confidence, "confidence", CONFIDENCE))
        sizes = [each.size for each in self.questions]
        many = sum(sizes) + sum(sizes[first] * sizes[second] for first, second in pairs)
        return miss / many if together else miss

    # ── before anybody is asked ────────────────────────────────────────────────────────────────

    def error(
        self,
        respondents: int,
        *,
        confidence: Number = "0.95",
        together: bool = False,
        pairs: Iterable[tuple[str, str]] = (),
    ) -> dict[str | tuple[str, str], float]:
        """Give for each question, and for pairs of them, the half-width of an interval among so many respondents, for
        an answer that an even share of them gives.
        """
        many = whole(respondents, "respondents", at_least=1)
        if many > _MOST_RESPONDENTS:
            raise InvalidParameter("respondents", respondents, f"at most {_MOST_RESPONDENTS:,}")
        wanted = [self._pair(each) for each in pairs]
        miss = self._miss(confidence, wanted, together=together)
        asked = max(1, round(many / len(self.questions))) if self.sampled else many
        widths: dict[str | tuple[str, str], float] = {}
        for question, chance in zip(self.questions, self._chances, strict=True):
            expected = round(asked * (chance.q + chance.gap / question.size))
            low, high = counts.frequency_limits(expected, asked, miss / 2)
            widths[question.name] = min(float(many), many * (high - low) / (2 * chance.gap))
        for first, second in wanted:
            widths[self.questions[first].name, self.questions[second].name] = self._pair_error(
                first, second, many, miss
            )
        return widths

    def _pair_error(self, first: int, second: int, many: int, miss: float) -> float:
        """Give the half-width of a pair of answers, each of which an even share gives."""
        chances = self._chances[first], self._chances[second]
        sizes = self.questions[first].size, self.questions[second].size
        one, two = (
            np.array([float(round(many * (chance.q + chance.gap / size)))])
            for chance, size in zip(chances, sizes, strict=True)
        )
        found = PairCounts(one, two, np.zeros((1, 1)), many, chances)
        return min(float(many), float(found.half_widths(miss)[0, 0]))

    def explain(self, respondents: int = 1000) -> str:
        """Write what the form does, and how much the other ways would err: standard errors of a count."""
        many = whole(respondents, "respondents", at_least=1)
        own, ways = self._way(), [counts.best(self.questions, self.epsilon, sampled=way) for way in (False, True)]
        wide = max(8, *(len(each.name) for each in self.questions))
        lines = [
            f"{'question':<{wide}}  answers  encoding  this form     split   sampled",
            *(
                f"{question.name:<{wide}}  {question.size:>7}  {encoding.value:<8}"
                + "".join(f"  {shown(math.sqrt(many * each), 3):>8}" for each in found)
                for question, encoding, *found in zip(
                    self.questions, self.encodings, *(each.variances for each in (own, *ways)), strict=True
                )
            ),
        ]
        return "\n".join([self._said(many), *lines, self.guarantee])

    def _said(self, many: int) -> str:
        each = counts.share(self.epsilon, len(self.questions), sampled=self.sampled)
        how = "each respondent answers one, drawn evenly" if self.sampled else "each respondent answers all"
        many_asked = "1 question" if len(self.questions) == 1 else f"{len(self.questions)} questions"
        return (
            f"{many_asked} at ε {text(self.epsilon)}: {how}, at ε {text(each)} a question.\n"
            f"Standard errors of a count among {many:,} respondents, averaged over equally frequent answers:"
        )

    def _way(self) -> counts.Way:
        each = counts.share(self.epsilon, len(self.questions), sampled=self.sampled)
        one_of = len(self.questions) if self.sampled else 1
        found = (
            counts.variance(encoding, question.size, each, one_of)
            for encoding, question in zip(self.encodings, self.questions, strict=True)
        )
        return counts.Way(self.sampled, self.encodings, tuple(found))

    # ── keeping ────────────────────────────────────────────────────────────────────────────────

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the form to a file, the same kind as a synopsis has: a zip of one member, with its own hash inside."""
        save(written(self), path)

    def to_json(self) -> str:
        """Write the form as a JSON text."""
        return codec.dumps(self)

    @classmethod
    def from_json(cls, source: str) -> Form:
        """Read a form from its JSON text."""
        return codec.loads_as(cls, source, longest=_LONGEST)


def _above(number: float) -> str:
    """Write a number of four digits that is not below this one."""
    step = 10.0 ** (math.floor(math.log10(number)) - 3)
    return shown(math.ceil(number / step) * step)


def collect(questions: Mapping[str, Any], epsilon: Number, *, split: bool | None = None) -> Form:
    """Make a survey form that respondents randomise themselves.

    For each name, ``questions`` has a list of answers, ``{"bins": [0, 18, 65]}`` for numbers, or an ``Attribute``. Each
    question has one more cell for no answer or another. ``split=True`` asks everybody everything, which also tells of
    pairs; ``split=False`` asks each respondent one question; by default whichever errs less.

    >>> collect({"smokes": ["yes", "no"], "age": {"bins": [0, 30, 60, 110]}}, epsilon=1).sampled
    True
    """
    asked = check_questions(questions_of(questions))
    budget = exact(epsilon, "epsilon", POSITIVE)
    if split is not None and type(split) is not bool:
        raise InvalidParameter("split", split, "True, False or None")
    for sampled in (False, True):  # refuse an ε that is out of range before anything is compared
        Encoding.RESPONSE.mechanism(counts.share(budget, len(asked), sampled=sampled), 2)
    way = counts.better(asked, budget) if split is None else counts.best(asked, budget, sampled=not split)
    return Form(asked, budget, way.sampled, way.encodings)


@codec.value("survey-file")
@dataclass(frozen=True)
class FormManifest:
    """A manifest of a form says its format, its own hash, and the form."""

    format: int
    members: Mapping[str, str] = field(metadata=codec.MAPPING)
    """SHA-256 of the manifest itself, with an empty text in this place."""
    form: Form

    def __post_init__(self) -> None:
        if type(self.format) is not int or self.format < 1:
            raise InvalidParameter("format", self.format, "a whole number ≥ 1")
        if not isinstance(self.members, Mapping) or set(self.members) != {MANIFEST}:
            raise InvalidParameter("members", self.members, f"the hash of {MANIFEST}")
        if type(self.form) is not Form:
            raise InvalidParameter("form", self.form, "a form")


def written(form: Form) -> bytes:
    """Give the bytes of the file of a form."""
    return sealed_files.written(FormManifest(_FORMAT, sealed_files.hashes(), form))


def form(path: str | os.PathLike[str]) -> Form:
    """Read a survey form from its file; whatever was edited is refused."""
    return read(content_of(path), str(path))


def read(content: bytes, place: str = "the file") -> Form:
    """Read a form from the bytes of its file: only those that writing it gives."""
    with refusing(lambda: damaged(place, f"{MANIFEST} does not say a survey form")):
        return _read(content, place)


def _read(content: bytes, place: str) -> Form:
    if len(dict(members_of(content, place))) > 1:
        fix = "read a synopsis or a model with sf.synopsis, or sfumato ask"
        raise SynopsisDamaged(f"a survey form is a zip of {MANIFEST} alone", place=place, fix=fix)
    found, _ = _KIND.read(FormManifest, content, place)
    if written(found.form) != content:
        raise damaged(place, f"{MANIFEST} does not say a survey form as it is written")
    return found.form
