"""Survey forms: answers are randomised on the respondent's side, so there is no curator and no ledger.

Theorem. A report is ε-DP for replace neighbours: for any two sets of answers and any set of reports, P ≤ e^ε·P'. Split:
the answers are randomised independently, each at ε/m, and the losses add up to ε. Sampled: which question is asked does
not depend on the answers, and given that, one answer is randomised at ε (Warner 1965; Kasiviswanathan, Lee, Nissim,
Raskhodnikova & Smith 2011). Nothing else in a report depends on an answer, and no answer makes answering fail.

A question has finitely many cells, like a coded column: its listed answers, and a last one for everything else.

Coding an answer never fails: an error that depended on the answer would reveal it. A missing or unlisted answer is
coded as the last cell, and randomised like any other.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import field
from fractions import Fraction
from itertools import pairwise, product
from typing import Any

import numpy as np

from sfumato.caching import cached_property
from sfumato.errors import InvalidParameter, SfumatoError, SynopsisDamaged, ValueWords
from sfumato.mechanisms import bits
from sfumato.mechanisms.response import Response
from sfumato.policy.domains import Type, common_type, parse_value
from sfumato.privacy import Curve, codec
from sfumato.privacy.numbers import (
    CONFIDENCE,
    DEFAULT_CONFIDENCE,
    POSITIVE,
    Number,
    exact,
    exact_integer,
    format_exact,
    format_number,
)
from sfumato.publish.files import sealed_files
from sfumato.publish.files.sealed_files import (
    MANIFEST,
    FileKind,
    damaged_file_error,
    iterate_members,
    read_file_bytes,
    write_atomically,
)
from sfumato.publish.marginals.attributes import Attribute, Cell, ListedCell, OtherCell, RangeCell
from sfumato.quick_dataclass import dataclass
from sfumato.surveys import counts
from sfumato.surveys.counts import Counts, PairSupport, RefusedReport, SurveyEstimate
from sfumato.surveys.encodings import Encoding, Report, SupportProbabilities, is_possible_answer, randomise
from sfumato.untrusted import escape_unprintable, refuse_malformed

MAX_QUESTIONS = 100
MAX_CELLS = 4096
"""Cells of one question: estimation takes time proportional to reports × cells."""
_MAKE_FORM = 'make the form with collect({"smokes": ["yes", "no"]}, epsilon=1)'


def parse_questions(given: object) -> tuple[Attribute, ...]:
    """Parse the questions of a form: for each name a list of answers, ``{"bins": edges}``, or an Attribute."""
    if not isinstance(given, Mapping) or not 1 <= len(given) <= MAX_QUESTIONS:
        raise InvalidParameter(
            "questions",
            given,
            f"a mapping with 1 to {MAX_QUESTIONS} names, each with a list of answers",
            fix='for example, write {"smokes": ["yes", "no"]}',
        )
    return tuple(_parse_question(name, answers) for name, answers in given.items())


def checked_questions(questions: object) -> tuple[Attribute, ...]:
    """Check attributes as questions of one form: their number, their sizes, and distinct names."""
    if not isinstance(questions, (tuple, list)) or not 1 <= len(questions) <= MAX_QUESTIONS:
        raise InvalidParameter("questions", questions, f"a list of 1 to {MAX_QUESTIONS} questions", fix=_MAKE_FORM)
    for question in questions:
        if type(question) is not Attribute:
            raise InvalidParameter("questions", question, "a question of a form", each=True, fix=_MAKE_FORM)
        if not 2 <= question.size <= MAX_CELLS:
            rule = f'a question with 2 to {MAX_CELLS:,} possible answers, of which "other" is one'
            raise InvalidParameter("questions", question, rule, each=True, fix="merge rare answers, or use wider bins")
    if len({question.name for question in questions}) != len(questions):
        raise InvalidParameter(
            "questions", [question.name for question in questions], "a list of questions with different names"
        )
    return tuple(questions)


def _parse_question(name: object, answers: Any) -> Attribute:
    if type(name) is not str or not name:
        fix = 'write the name of each question in quotes, as in {"smokes": ["yes", "no"]}'
        raise InvalidParameter("questions", name, "a mapping whose keys are non-empty strings", fix=fix)
    if type(answers) is Attribute:
        if answers.name != name:
            fix = f'name the question "{answers.name}" too'
            raise InvalidParameter(name, answers.name, "an Attribute with the same name as the question", fix=fix)
        return answers.without_levels
    if isinstance(answers, Mapping) and set(answers) == {"bins"}:
        return _binned_question(name, answers["bins"])
    value_type = common_type(answers)
    if value_type is None:
        allowed = "a list of answers of one type, bins, or an Attribute"
        fix = 'for example, write ["yes", "no"], or {"bins": [0, 18, 65]} for numbers'
        raise InvalidParameter(name, answers, allowed, fix=fix)
    if len(set(answers)) != len(answers):
        raise InvalidParameter(name, answers, "a list of different answers")
    return Attribute(name, value_type, (*map(ListedCell, answers), OtherCell()))


def _binned_question(name: str, edges: Any) -> Attribute:
    """Return the question whose cells are the half-open ranges between edges; the last range is closed."""
    value_type = common_type(edges)
    rule = 'a mapping {"bins": edges} with at least two edges (numbers, dates or times) in increasing order'
    fix = 'for example, write {"bins": [0, 18, 65]}'
    if value_type is None or value_type in (Type.TEXT, Type.BOOLEAN) or len(edges) < 2:
        raise InvalidParameter(name, {"bins": edges}, rule, fix=fix)
    pairs: list[Any] = list(pairwise(parse_value(value_type, edge, name) for edge in edges))
    if not all(low < high for low, high in pairs):
        raise InvalidParameter(name, {"bins": edges}, rule, fix=fix)
    ranges = [RangeCell(low, high, closed=index == len(pairs) - 1) for index, (low, high) in enumerate(pairs)]
    return Attribute(name, value_type, (*ranges, OtherCell()))


def code_answer(question: Attribute, answer: object) -> int:
    """Return the index of the cell of an answer; the last cell holds whatever is in no other."""
    last = question.size - 1
    try:
        value = parse_value(question.type, answer, question.name)
    except InvalidParameter:
        return last
    matches = (index for index, cell in enumerate(question.cells[:-1]) if _cell_holds(cell, value))
    return next(matches, last)


def _cell_holds(cell: Cell, value: Any) -> bool:
    if isinstance(cell, ListedCell):
        return bool(cell.value == value)
    if isinstance(cell, RangeCell):
        return bool(cell.low <= value and (value < cell.high or (cell.closed and value == cell.high)))
    return False


def cell_label(cell: Cell) -> str:
    """Format a cell for display."""
    if isinstance(cell, ListedCell):
        return escape_unprintable(str(cell.value))
    if isinstance(cell, RangeCell):
        return f"{cell.low} to {'' if cell.closed else 'below '}{cell.high}"
    return "other or no answer"


_MAX_RESPONDENTS = 10**9
_OWN_REPORT = "make the report with form.answer(…), or with sfumato survey answer"
_MAX_LENGTH = 1 << 26
_FORMAT = 1
_KIND = FileKind("survey form", _FORMAT, _MAX_LENGTH)


@codec.serialisable("survey-form")
@dataclass(frozen=True)
class Form:
    """A public survey form: the questions and how their answers are randomised. It holds no answers.

    >>> Form.from_json(collect({"smokes": ["yes", "no"]}, 1).to_json()).epsilon
    Fraction(1, 1)
    """

    questions: tuple[Attribute, ...]
    epsilon: Fraction
    sampled: bool
    encodings: tuple[Encoding, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "questions", checked_questions(self.questions))
        object.__setattr__(self, "epsilon", exact(self.epsilon, "epsilon", POSITIVE))
        if type(self.sampled) is not bool:
            raise InvalidParameter("sampled", self.sampled, "True or False")
        if not isinstance(self.encodings, (tuple, list)) or len(self.encodings) != len(self.questions):
            fix = "make the form with collect(…), which chooses the encodings"
            raise InvalidParameter("encodings", self.encodings, "a list with one encoding for each question", fix=fix)
        object.__setattr__(self, "encodings", tuple(map(Encoding.parse, self.encodings)))
        _ = self.mechanisms  # built now, so that invalid parameters are refused here

    def __repr__(self) -> str:
        names = ", ".join(question.name for question in self.questions)
        how = "one is sampled" if self.sampled else "all are answered"
        return (
            f"<Form of {len(self.questions)} questions, of which {how}, at ε = "
            f"{format_exact(self.epsilon)}: {names[:400]}>"
        )

    @cached_property
    def mechanisms(self) -> tuple[Response, ...]:
        """The mechanism of each question. Their ε derive from the form's, so a file cannot state others."""
        question_epsilon = counts.epsilon_per_question(self.epsilon, len(self.questions), sampled=self.sampled)
        return tuple(
            encoding.mechanism(question_epsilon, question.size)
            for encoding, question in zip(self.encodings, self.questions, strict=True)
        )

    @cached_property
    def form_id(self) -> str:
        """The form's id, sixteen hexadecimal digits, which its reports carry."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()[:16]

    @property
    def guarantee(self) -> str:
        """The privacy guarantee in words, for respondents."""
        return (
            f"Each report is {format_exact(self.epsilon)}-differentially private for the person who "
            "sends it: no report is "
            f"more than {_format_rounded_up(math.exp(self.epsilon))} times as likely with that person's answers as "
            "with any others (replace neighbours). Nobody has to be trusted: answers are randomised before they are "
            "sent. That somebody took part is not hidden, and each further report of the same person costs the same ε "
            "again."
        )

    def curve(self) -> Curve:
        """Return the privacy curve of one report."""
        return Curve.pure(self.epsilon, "replace")

    # ── answering ──────────────────────────────────────────────────────────────────────────────

    def answer(self, answers: Mapping[str, object]) -> Report:
        """Randomise one person's answers. Run it once, on that person's device: a second report costs ε again."""
        cells = self._code_answers(answers)
        if self.sampled:
            sampled_question = bits.random_below(len(cells))
            randomised_answer = randomise(self.mechanisms[sampled_question], cells[sampled_question])
            return Report(self.form_id, (randomised_answer,), sampled_question)
        return Report(self.form_id, tuple(map(randomise, self.mechanisms, cells)))

    def _code_answers(self, answers: Mapping[str, object]) -> list[int]:
        """Code every answer; only the names of questions can be wrong, and they are public."""
        names = [question.name for question in self.questions]
        if not isinstance(answers, Mapping) or not set(answers) <= set(names):
            rule = "answers must be a mapping whose keys are names of this form's questions"
            raise SfumatoError(rule, place="answers", fix="use only these names as keys: " + ", ".join(names))
        return [code_answer(question, answers.get(question.name)) for question in self.questions]

    # ── estimating ─────────────────────────────────────────────────────────────────────────────

    def check(self, report: Report | str) -> Report:
        """Return a valid report of this form, parsed if it is JSON text; refuse anything else."""
        parsed = report if type(report) is Report else Report.from_json(report)  # type: ignore[arg-type]
        if parsed.form != self.form_id:
            raise InvalidParameter(
                "report",
                parsed.form,
                f"an answer to this form, whose id is {self.form_id}",
                fix="leave out reports that were made with another form",
            )
        if (parsed.question is not None) is not self.sampled or (parsed.question or 0) >= len(self.questions):
            raise InvalidParameter(
                "report",
                ValueWords(
                    "answers to all questions"
                    if parsed.question is None
                    else f"an answer to question {parsed.question + 1}"
                ),
                f"an answer to {'one question' if self.sampled else 'every question'} of this form, which has "
                f"{len(self.questions)}",
                fix=_OWN_REPORT,
            )
        answered_mechanisms = self.mechanisms if parsed.question is None else (self.mechanisms[parsed.question],)
        if len(parsed.answers) != len(answered_mechanisms) or not all(
            map(is_possible_answer, answered_mechanisms, parsed.answers)
        ):
            rule = "an answer that this form can produce"
            raise InvalidParameter("report", parsed.answers, rule, fix=_OWN_REPORT)
        return parsed

    def estimate(
        self,
        reports: Iterable[Report | str],
        *,
        confidence: Number = DEFAULT_CONFIDENCE,
        together: bool = False,
        pairs: Iterable[tuple[str, str]] = (),
    ) -> SurveyEstimate:
        """Estimate how many respondents gave each answer.

        Reports may be JSON texts; those that are not valid reports of this form are left out and listed under
        ``refused``. Reports do not show whether two came from the same person: the collector has to ensure that.
        """
        pair_indices = [self._pair_indices(pair) for pair in pairs]
        miss = self._miss_probability(confidence, pair_indices, together=together)
        accepted, refused = self._accept_reports(reports)
        tables = [self._question_counts(question, accepted, miss) for question in range(len(self.questions))]
        tables += [self._pair_counts(pair, accepted, miss) for pair in pair_indices]
        return SurveyEstimate(
            len(accepted), tuple(tables), refused, format_exact(exact(confidence, "confidence", CONFIDENCE)), together
        )

    def _accept_reports(self, reports: Iterable[Report | str]) -> tuple[list[Report], tuple[RefusedReport, ...]]:
        if isinstance(reports, (str, bytes, Report, Mapping)) or not isinstance(reports, Iterable):
            raise InvalidParameter("reports", reports, "a list of reports, from form.answer(…) or as JSON texts")
        accepted, refused = [], []
        for index, report in enumerate(reports):
            try:
                accepted.append(self.check(report))
            except InvalidParameter as error:
                refused.append(RefusedReport(index, error.rule))
        return accepted, tuple(refused)

    def _answers_to_question(self, question: int, reports: list[Report]) -> list[Any]:
        """Return the randomised answers to one question from the reports that have one."""
        if self.sampled:
            return [report.answers[0] for report in reports if report.question == question]
        return [report.answers[question] for report in reports]

    def _question_counts(self, question: int, reports: list[Report], miss: float) -> Counts:
        parts, respondents = self._answers_to_question(question, reports), len(reports)
        probabilities = self._support_probabilities[question]
        support = counts.support_counts(self.mechanisms[question], parts)
        ranges = tuple(
            counts.count_interval(int(count), len(parts), respondents, probabilities, miss) for count in support
        )
        estimates = counts.unbiased_counts(support, len(parts), respondents, probabilities)
        attribute = self.questions[question]
        answers = tuple((cell_label(cell),) for cell in attribute.cells)
        return Counts((attribute.name,), answers, tuple(estimates.tolist()), ranges, len(parts))

    def _pair_counts(self, pair: tuple[int, int], reports: list[Report], miss: float) -> Counts:
        first, second = (self.mechanisms[question] for question in pair)
        parts = [self._answers_to_question(question, reports) for question in pair]
        pair_counts = PairSupport(
            counts.support_counts(first, parts[0]),
            counts.support_counts(second, parts[1]),
            counts.pair_support_counts(first, second, parts),
            len(reports),
            (self._support_probabilities[pair[0]], self._support_probabilities[pair[1]]),
        )
        estimates, half_widths, respondents = (
            pair_counts.estimates().ravel(),
            pair_counts.half_widths(miss).ravel(),
            float(len(reports)),
        )
        lows, highs = (
            (estimates - half_widths).clip(0, respondents).tolist(),
            (estimates + half_widths).clip(0, respondents).tolist(),
        )
        attributes = [self.questions[question] for question in pair]
        answers = tuple(product(*(map(cell_label, attribute.cells) for attribute in attributes)))
        ranges = tuple(zip(lows, highs, strict=True))
        return Counts(
            (attributes[0].name, attributes[1].name), answers, tuple(estimates.tolist()), ranges, len(reports)
        )

    @cached_property
    def _support_probabilities(self) -> tuple[SupportProbabilities, ...]:
        return counts.support_probabilities_of(self.mechanisms)

    def _pair_indices(self, names: object) -> tuple[int, int]:
        if self.sampled:
            raise SfumatoError(
                "pairs of questions cannot be counted, because each respondent of this form answers one question only",
                place="pairs",
                fix="make a form in which everybody answers all questions: collect(questions, epsilon, split=True)",
            )
        index_by_name = {question.name: index for index, question in enumerate(self.questions)}
        if (
            not isinstance(names, (tuple, list))
            or len(names) != 2
            or not all(isinstance(name, str) and name in index_by_name for name in names)
            or names[0] == names[1]
        ):
            example = f"for example, write pairs=[{tuple(index_by_name)[:2]}]"
            fix = example if len(index_by_name) > 1 else "leave out pairs, since this form has one question only"
            rule = "a list of pairs, each with the names of two different questions"
            raise InvalidParameter("pairs", names, rule, fix=fix)
        return index_by_name[names[0]], index_by_name[names[1]]

    def _miss_probability(self, confidence: Number, pairs: list[tuple[int, int]], *, together: bool) -> float:
        """Return the failure probability of one interval, by the union bound if all shall hold at once."""
        if type(together) is not bool:
            raise InvalidParameter("together", together, "True or False")
        miss = float(1 - exact(confidence, "confidence", CONFIDENCE))
        sizes = [question.size for question in self.questions]
        interval_count = sum(sizes) + sum(sizes[first] * sizes[second] for first, second in pairs)
        return miss / interval_count if together else miss

    # ── planning ───────────────────────────────────────────────────────────────────────────────

    def error(
        self,
        respondents: int,
        *,
        confidence: Number = DEFAULT_CONFIDENCE,
        together: bool = False,
        pairs: Iterable[tuple[str, str]] = (),
    ) -> dict[str | tuple[str, str], float]:
        """Return the expected half-width of an interval for each question, and for pairs, among this many respondents,
        when all answers are equally frequent.
        """
        respondent_count = exact_integer(respondents, "respondents", at_least=1)
        if respondent_count > _MAX_RESPONDENTS:
            raise InvalidParameter("respondents", respondents, f"at most {_MAX_RESPONDENTS:,}")
        pair_indices = [self._pair_indices(pair) for pair in pairs]
        miss = self._miss_probability(confidence, pair_indices, together=together)
        respondents_per_question = (
            max(1, round(respondent_count / len(self.questions))) if self.sampled else respondent_count
        )
        widths: dict[str | tuple[str, str], float] = {}
        for question, probabilities in zip(self.questions, self._support_probabilities, strict=True):
            expected_support = round(respondents_per_question * (probabilities.q + probabilities.gap / question.size))
            low, high = counts.frequency_limits(expected_support, respondents_per_question, miss / 2)
            widths[question.name] = min(
                float(respondent_count), respondent_count * (high - low) / (2 * probabilities.gap)
            )
        for first, second in pair_indices:
            widths[self.questions[first].name, self.questions[second].name] = self._pair_error(
                first, second, respondent_count, miss
            )
        return widths

    def _pair_error(self, first: int, second: int, respondent_count: int, miss: float) -> float:
        """Return the half-width of a pair of answers, all answers being equally frequent."""
        pair_probabilities = self._support_probabilities[first], self._support_probabilities[second]
        sizes = self.questions[first].size, self.questions[second].size
        first_support, second_support = (
            np.array([float(round(respondent_count * (probabilities.q + probabilities.gap / size)))])
            for probabilities, size in zip(pair_probabilities, sizes, strict=True)
        )
        pair_counts = PairSupport(first_support, second_support, np.zeros((1, 1)), respondent_count, pair_probabilities)
        return min(float(respondent_count), float(pair_counts.half_widths(miss)[0, 0]))

    def explain(self, respondents: int = 1000) -> str:
        """Describe the form, and compare the standard errors of its counts with those of the alternatives."""
        respondent_count = exact_integer(respondents, "respondents", at_least=1)
        this_form = self._survey_design()
        alternatives = [counts.best_design(self.questions, self.epsilon, sampled=sampled) for sampled in (False, True)]
        width = max(8, *(len(question.name) for question in self.questions))
        lines = [
            f"{'question':<{width}}  answers  encoding  this form     split   sampled",
            *(
                f"{question.name:<{width}}  {question.size:>7}  {encoding.value:<8}"
                + "".join(f"  {format_number(math.sqrt(respondent_count * variance), 3):>8}" for variance in variances)
                for question, encoding, *variances in zip(
                    self.questions,
                    self.encodings,
                    *(design.variances for design in (this_form, *alternatives)),
                    strict=True,
                )
            ),
        ]
        return "\n".join([self._summary(respondent_count), *lines, self.guarantee])

    def _summary(self, respondents: int) -> str:
        question_epsilon = counts.epsilon_per_question(self.epsilon, len(self.questions), sampled=self.sampled)
        assignment = "each respondent answers one, drawn at random" if self.sampled else "each respondent answers all"
        questions = "1 question" if len(self.questions) == 1 else f"{len(self.questions)} questions"
        return (
            f"{questions} at ε = {format_exact(self.epsilon)}: {assignment}, at ε = "
            f"{format_exact(question_epsilon)} per question.\n"
            f"Standard errors of a count among {respondents:,} respondents, averaged over equally frequent answers:"
        )

    def _survey_design(self) -> counts.SurveyDesign:
        question_epsilon = counts.epsilon_per_question(self.epsilon, len(self.questions), sampled=self.sampled)
        one_of = len(self.questions) if self.sampled else 1
        variances = (
            counts.mean_count_variance(encoding, question.size, question_epsilon, one_of)
            for encoding, question in zip(self.encodings, self.questions, strict=True)
        )
        return counts.SurveyDesign(self.sampled, self.encodings, tuple(variances))

    # ── files ──────────────────────────────────────────────────────────────────────────────────

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save the form in the file format of synopses: a zip of one member, with its own hash inside."""
        write_atomically(form_bytes(self), path)

    def to_json(self) -> str:
        """Serialise the form as JSON text."""
        return codec.dumps(self)

    @classmethod
    def from_json(cls, source: str) -> Form:
        """Parse a form from its JSON text."""
        return codec.loads_as(cls, source, longest=_MAX_LENGTH)


def _format_rounded_up(number: float) -> str:
    """Format a number rounded up to four digits."""
    step = 10.0 ** (math.floor(math.log10(number)) - 3)
    return format_number(math.ceil(number / step) * step)


def collect(questions: Mapping[str, Any], epsilon: Number, *, split: bool | None = None) -> Form:
    """Create a survey form whose answers respondents randomise themselves.

    For each name, ``questions`` holds a list of answers, ``{"bins": [0, 18, 65]}`` for numbers, or an ``Attribute``.
    Each question gets one more cell for other or missing answers. ``split=True`` asks everybody every question, which
    also allows counts of pairs; ``split=False`` asks each respondent one question; the default is the more accurate.

    >>> collect({"smokes": ["yes", "no"], "age": {"bins": [0, 30, 60, 110]}}, epsilon=1).sampled
    True
    """
    attributes = checked_questions(parse_questions(questions))
    budget = exact(epsilon, "epsilon", POSITIVE)
    if split is not None and type(split) is not bool:
        raise InvalidParameter("split", split, "True, False or None")
    for sampled in (False, True):  # refuses an ε that is out of range before anything is compared
        Encoding.RESPONSE.mechanism(counts.epsilon_per_question(budget, len(attributes), sampled=sampled), 2)
    design = (
        counts.choose_design(attributes, budget)
        if split is None
        else counts.best_design(attributes, budget, sampled=not split)
    )
    return Form(attributes, budget, design.sampled, design.encodings)


@codec.serialisable("survey-file")
@dataclass(frozen=True)
class FormManifest:
    """The manifest of a form's file: format version, its own hash, and the form."""

    format: int
    members: Mapping[str, str] = field(metadata=codec.MAPPING)
    """SHA-256 of the manifest itself, computed with an empty text in this field."""
    form: Form

    def __post_init__(self) -> None:
        if type(self.format) is not int or self.format < 1:
            raise InvalidParameter("format", self.format, "a whole number ≥ 1")
        if not isinstance(self.members, Mapping) or set(self.members) != {MANIFEST}:
            raise sealed_files.unfit_members_error(self.members, [MANIFEST])
        if type(self.form) is not Form:
            raise InvalidParameter("form", self.form, "a survey form")


def form_bytes(form: Form) -> bytes:
    """Return the bytes of a form's file."""
    return sealed_files.to_bytes(FormManifest(_FORMAT, sealed_files.member_hashes(), form))


def form(path: str | os.PathLike[str]) -> Form:
    """Read a survey form from its file; an edited file is refused."""
    return parse_form(read_file_bytes(path), str(path))


def parse_form(content: bytes, place: str = "the file") -> Form:
    """Parse a form from the bytes of its file; accept only the bytes that ``form_bytes`` returns for it."""
    with refuse_malformed(lambda: damaged_file_error(place, f"{MANIFEST} does not hold a survey form")):
        return _read(content, place)


def _read(content: bytes, place: str) -> Form:
    if len(dict(iterate_members(content, place))) > 1:
        fix = "to read a synopsis or a model, use sf.synopsis(path) or sfumato ask"
        raise SynopsisDamaged(
            f"this is not a survey form, which is a zip file that contains only {MANIFEST}", place=place, fix=fix
        )
    manifest, _ = _KIND.read(FormManifest, content, place)
    if form_bytes(manifest.form) != content:
        raise damaged_file_error(place, f"{MANIFEST} is not as Sfumato writes it")
    return manifest.form
