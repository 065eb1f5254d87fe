"""Hypothesis tests of answers that were bought: free post-processing, with p-values that are valid under the noise."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import field, fields, replace
from fractions import Fraction
from statistics import NormalDist
from typing import Any

import numpy as np

from sfumato.array_types import Floats
from sfumato.errors import InvalidParameter, Unsupported
from sfumato.html_fragments import paragraphs, preformatted, table
from sfumato.inference import score_tests
from sfumato.inference.names_of_tests import TEST_NAMES
from sfumato.inference.noise_laws import NoiseLaw, SeededDraws
from sfumato.inference.released_numbers import ReleasedNumbers, group_labels
from sfumato.inference.score_tests import GroupSums, ScoreTest
from sfumato.privacy import codec
from sfumato.privacy.numbers import DEFAULT_CONFIDENCE, Number, exact, exact_integer, format_number
from sfumato.quick_dataclass import dataclass
from sfumato.release.answers.receipts import Receipt
from sfumato.untrusted import escape_unprintable

_LARGEST_VARIANCE = (
    "the values are assumed to vary as much as their range allows; add VARIANCE(…) to the question for more power"
)
MAX_GROUPS = 500
"""The most groups of a tested answer."""
_ASYMPTOTIC = "asymptotic: row and column totals are estimated from the noisy numbers"


@codec.serialisable("hypothesis-test")
@dataclass(frozen=True)
class HypothesisTest:
    """The result of a test: what was tested, the statistic and the p-value, and how far it can be trusted."""

    test: str
    hypothesis: str
    """The null hypothesis in words."""
    statistic: float
    p_value: float
    draws: int = 0
    """How many tables were simulated under the null, with the noise; 0 for an exact p-value."""
    estimate: float | None = None
    """For a test of two groups, the second mean or share minus the first."""
    low: float | None = None
    high: float | None = None
    """The ends of the estimate's range, for noise and sampling, at the answer's confidence."""
    notes: tuple[str, ...] = ()
    receipt: Receipt | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        codec.check_simple_fields(self)
        for name in ("statistic", "p_value", "estimate", "low", "high"):
            number = getattr(self, name)
            object.__setattr__(self, name, None if number is None else codec.parse_float(number, name))
        if self.test not in TEST_NAMES:
            raise InvalidParameter("test", self.test, f"one of {', '.join(TEST_NAMES)}")
        if not 0 < self.p_value <= 1:
            raise InvalidParameter("p_value", self.p_value, "above 0 and at most 1")

    @property
    def is_preview(self) -> bool:
        """Whether it was computed from invented numbers."""
        return self.receipt is not None and self.receipt.is_preview

    @property
    def p_text(self) -> str:
        """The p-value as it is printed: no smaller than the number of draws can show."""
        least = 1 / (self.draws + 1) if self.draws else 0.0
        if self.p_value <= least:
            return f"p < {format_number(2 * least)}"
        return f"p = {format_number(self.p_value, 3)}"

    def lines(self) -> list[tuple[str, str]]:
        """Return the result as pairs of a label and a text."""
        rows = [("test", self.test), ("null", escape_unprintable(self.hypothesis))]
        rows.append(("result", f"statistic {format_number(self.statistic, 4)}, {self.p_text}"))
        if self.estimate is not None:
            ends = (
                f" ({format_number(self.low, 3)} to {format_number(self.high, 3)})"
                if self.low is not None and self.high is not None
                else ""
            )
            rows.append(("difference", f"{format_number(self.estimate, 3)}{ends}"))
        rows += [("note", escape_unprintable(note)) for note in self.notes]
        return rows

    def __str__(self) -> str:
        return "\n".join(f"{name:<10}  {text}" for name, text in self.lines())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        receipt = "" if self.receipt is None else preformatted(self.receipt.short())
        return table((), self.lines()) + paragraphs(()) + receipt

    def to_json(self) -> str:
        """Write the result as JSON text, with a kind and a version."""
        return codec.dumps(self)

    @classmethod
    def from_json(cls, source: str) -> HypothesisTest:
        """Read back what ``to_json`` wrote; any other text is refused."""
        return codec.loads_as(cls, source)


@dataclass(frozen=True)
class TestOptions:
    """What a test needs besides the answer."""

    __test__ = False  # a value, which pytest must not collect

    column: str | None = None
    """The column to test, where the answer has several."""
    outcome: Any = None
    """For shares by group: the value of the second key that is counted; the last declared one if none is given."""
    shares: Mapping[Any, Number] | Sequence[Number] | None = None
    """For a test of fit: the share of each value, which add up to 1; equal ones if none are given."""
    scores: Sequence[Number] | None = None
    """For a trend: a number for each group; 0, 1, 2 … if none are given."""
    of: int | None = None
    """For a share: the public number of all units."""
    equals: Number = Fraction(1, 2)
    """For a share: its value under the null."""


def parse_options(given: Mapping[str, Any]) -> TestOptions:
    """Return the options of a test; one with an unknown name is refused."""
    option_names = [option.name for option in fields(TestOptions)]
    for name in given:
        if name not in option_names:
            raise InvalidParameter("option", name, f"one of {', '.join(option_names)}")
    return TestOptions(**given)


def run_test(
    name: str, numbers: ReleasedNumbers, options: TestOptions, receipt: Receipt | None = None
) -> HypothesisTest:
    """Run a test by name on released numbers; without their receipt, at 95 % confidence."""
    if name not in TEST_NAMES:
        raise InvalidParameter("test", name, f"one of {', '.join(TEST_NAMES)}")
    tests = {
        "independence": _test_independence,
        "fit": _test_fit,
        "difference": _test_difference,
        "anova": _test_anova,
        "trend": _test_trend,
        "correlation": _test_correlation,
        "share": _test_share,
    }
    return replace(tests[name](numbers, options, receipt), receipt=receipt)


def _build_result(name: str, hypothesis: str, test: ScoreTest, **more: Any) -> HypothesisTest:
    notes = [f"null simulated {test.draws:,} times with the noise; {_ASYMPTOTIC}"] if test.draws else []
    if test is score_tests.UNTESTABLE:
        notes.append("the noisy total is not positive, so nothing can be concluded at this price")
    if test.small:
        notes.append(
            f"{test.small} expected counts are below {score_tests.SMALL_COUNT:g}: power is low, and the p-value is "
            "rough"
        )
    notes += more.pop("notes", [])
    return HypothesisTest(name, hypothesis, test.statistic, test.p_value, test.draws, **more, notes=tuple(notes))


def independence_counts(numbers: ReleasedNumbers, options: TestOptions) -> tuple[Floats, NoiseLaw]:
    """Return counts by two keys, with their noise."""
    numbers.require_key_count(2, "independence", "counts by two keys")
    cells, law = numbers.counts_and_noise_law(options.column)
    _require_two_values_per_key(numbers, cells)
    return cells, law


def _test_independence(numbers: ReleasedNumbers, options: TestOptions, _: Receipt | None) -> HypothesisTest:
    cells, law = independence_counts(numbers, options)
    return _build_result(
        "independence", " and ".join(numbers.key_names) + " are independent", score_tests.independence(cells, law)
    )


def _require_two_values_per_key(numbers: ReleasedNumbers, cells: Floats) -> None:
    _require_few_groups(cells.size)
    for name, count in zip(numbers.key_names, cells.shape, strict=True):
        if count < 2:
            raise InvalidParameter(
                "answer",
                name,
                "grouped by keys with at least two values each",
                fix="group by columns with two or more values",
            )


def _require_few_groups(groups: int) -> None:
    """Refuse a test whose simulated tables would not fit into memory."""
    if groups > MAX_GROUPS:
        rule = f"a test can compare at most {MAX_GROUPS} groups; this answer has {groups:,}"
        raise Unsupported("test-of-many-groups", rule, fix="group by a column with fewer values, or by coarser values")


def fit_counts_and_shares(numbers: ReleasedNumbers, options: TestOptions) -> tuple[Floats, NoiseLaw, Floats]:
    """Return counts by one key with their noise, and the share of each value under the null."""
    numbers.require_key_count(1, "fit", "counts by one key")
    cells, law = numbers.counts_and_noise_law(options.column)
    _require_two_values_per_key(numbers, cells)
    return cells, law, parse_shares(options.shares, group_labels(numbers.key_values(0)))


def _test_fit(numbers: ReleasedNumbers, options: TestOptions, _: Receipt | None) -> HypothesisTest:
    cells, law, shares = fit_counts_and_shares(numbers, options)
    words = "equal shares" if options.shares is None else "the given shares"
    return _build_result("fit", f"{numbers.key_names[0]} has {words}", score_tests.goodness_of_fit(cells, shares, law))


def parse_shares(shares_by_group: Mapping[Any, Number] | Sequence[Number] | None, group_names: Sequence[str]) -> Floats:
    if shares_by_group is None:
        return np.full(len(group_names), 1 / len(group_names))
    given_shares = (
        [shares_by_group.get(name) for name in group_names]
        if isinstance(shares_by_group, Mapping)
        else list(shares_by_group)
    )
    rule = f"{len(group_names)} positive shares that add up to 1, one for each of the values {', '.join(group_names)}"
    extra = isinstance(shares_by_group, Mapping) and set(map(str, shares_by_group)) - set(group_names)
    if extra or len(given_shares) != len(group_names) or any(share is None for share in given_shares):
        raise InvalidParameter("shares", shares_by_group, rule, fix="give one share for each of these values")
    shares = [exact(share, "shares") for share in given_shares if share is not None]
    if min(shares) <= 0 or sum(shares) != 1:
        raise InvalidParameter("shares", shares_by_group, rule)
    return np.array([float(share) for share in shares])


def group_sums(
    numbers: ReleasedNumbers, options: TestOptions, test: str
) -> tuple[GroupSums, list[str], str, list[str]]:
    """Return the sums of each group, the groups' names, what is compared, and notes."""
    _require_few_groups(len(numbers.groups))
    if len(numbers.key_names) == 2:
        cells, law = numbers.counts_and_noise_law(options.column)
        outcomes = group_labels(numbers.key_values(1))
        outcome = outcomes[-1] if options.outcome is None else str(options.outcome)
        if len(outcomes) < 2 or outcome not in outcomes:
            rule = (
                f"one of two values, but the second key '{numbers.key_names[1]}' has fewer"
                if len(outcomes) < 2
                else f"one of {', '.join(outcomes)}"
            )
            raise InvalidParameter("outcome", options.outcome, rule)
        chosen = outcomes.index(outcome)
        if len(outcomes) > 2:
            rule = f"one of two values, but the second key '{numbers.key_names[1]}' has {len(outcomes)} values"
            fix = f"group by {numbers.key_names[1]} = '{outcome}' instead, or use test(\"independence\")"
            raise InvalidParameter("outcome", outcome, rule, fix=fix)
        sums = GroupSums(cells[:, chosen], cells[:, 1 - chosen], law)
        return sums, group_labels(numbers.key_values(0)), f"the share of {numbers.key_names[1]} = {outcome}", []
    numbers.require_key_count(1, test, "means by one key, or counts by two keys of which the second is the outcome")
    sums, estimator = numbers.group_sums_and_estimate(options.column)
    name = numbers.column_to_test(options.column, type(estimator), "AVG(…)")
    notes = [] if sums.variances is not None else [_LARGEST_VARIANCE]
    return sums, group_labels(numbers.key_values(0)), f"the mean {name}", notes


def _test_difference(numbers: ReleasedNumbers, options: TestOptions, receipt: Receipt | None) -> HypothesisTest:
    sums, names, words, notes = group_sums(numbers, options, "difference")
    if len(names) != 2:
        raise InvalidParameter("answer", ", ".join(names), "grouped by a key with two values", fix='use test("anova")')
    ends = _difference_with_interval(sums, float((receipt and receipt.confidence) or DEFAULT_CONFIDENCE))
    hypothesis = f"{words} is the same for {names[0]} and {names[1]}"
    estimates = {} if ends is None else dict(zip(("estimate", "low", "high"), ends, strict=True))
    return _build_result("difference", hypothesis, score_tests.equal_means(sums), notes=notes, **estimates)


def _difference_with_interval(sums: GroupSums, confidence: float) -> tuple[float, float, float] | None:
    """Return the second mean minus the first with the ends of its range; None where a group is lost in its noise."""
    sizes = sums.sizes
    if sizes.min() * sums.width < 4 * math.sqrt(2 * sums.law.variance):
        return None
    positions = np.clip(sums.above / (sizes * sums.width), 0.0, 1.0)
    noise = sums.law.variance * ((1 - positions) ** 2 + positions**2)
    variance = (sizes * sums.value_variances(positions) + noise) / sizes**2
    estimate = float(positions[1] - positions[0]) * sums.width
    half = NormalDist().inv_cdf((1 + confidence) / 2) * math.sqrt(float(variance.sum()))
    return estimate, estimate - half, estimate + half


def _test_anova(numbers: ReleasedNumbers, options: TestOptions, _: Receipt | None) -> HypothesisTest:
    sums, names, words, notes = group_sums(numbers, options, "anova")
    if len(names) < 2:
        raise InvalidParameter(
            "answer",
            ", ".join(names),
            "grouped by a key with at least two values",
            fix="group by a column with two or more values",
        )
    hypothesis = f"{words} is the same for all {numbers.key_names[0]}"
    return _build_result("anova", hypothesis, score_tests.equal_means(sums), notes=notes)


def _test_trend(numbers: ReleasedNumbers, options: TestOptions, _: Receipt | None) -> HypothesisTest:
    sums, names, words, notes = group_sums(numbers, options, "trend")
    contrast = trend_contrast(options.scores, names)
    hypothesis = f"{words} does not rise or fall with {numbers.key_names[0]}"
    return _build_result("trend", hypothesis, score_tests.equal_means(sums, contrast), notes=notes)


def trend_contrast(group_scores: Sequence[Number] | None, group_names: Sequence[str]) -> Floats:
    """Return the scores of ordered groups about their mean: 0, 1, 2 … if none are given."""
    scores = [exact(score, "scores") for score in (range(len(group_names)) if group_scores is None else group_scores)]
    if len(scores) != len(group_names) or len(set(scores)) < 2:
        raise InvalidParameter(
            "scores",
            group_scores,
            f"a list of numbers, not all equal, one for each of {', '.join(group_names)}",
            fix=f"for example, write scores={list(range(min(len(group_names), 9)))}",
        )
    contrast = np.array([float(score) for score in scores])
    return np.asarray(contrast - contrast.mean())


def _test_correlation(numbers: ReleasedNumbers, options: TestOptions, _: Receipt | None) -> HypothesisTest:
    numbers.require_key_count(0, "correlation", "CORR(y, x) without groups")
    name = options.column or "the correlation"
    return _build_result(
        "correlation", f"{name} is 0", score_tests.correlation(numbers.pair_totals(options.column).sums)
    )


_MAX_UNITS = 10**9
"""The law of a share's count has up to 40 times the root of this as many numbers."""


def parse_unit_count(of: Number) -> int:
    """Parse the public number of units that a share is of."""
    unit_count = exact_integer(of, "of", at_least=1)
    if unit_count > _MAX_UNITS:
        raise InvalidParameter("of", of, f"at most {_MAX_UNITS:,}")
    return unit_count


def _test_share(numbers: ReleasedNumbers, options: TestOptions, receipt: Receipt | None) -> HypothesisTest:
    numbers.require_key_count(0, "share", "one count without groups")
    if options.of is None:
        rule = "the public number of all units"
        fix = 'write for example of=1000; if the number is not public, group by the condition and use test("fit")'
        raise InvalidParameter("of", options.of, rule, fix=fix)
    unit_count, equals = parse_unit_count(options.of), exact(options.equals, "equals")
    if not 0 < equals < 1:
        raise InvalidParameter("equals", options.equals, "a share above 0 and below 1")
    count, law = numbers.counts_and_noise_law(options.column)
    if law.noises > 1:
        rule = (
            "a test of a share needs a count to which noise was added once; this count is the sum of "
            f"{law.noises} noisy numbers"
        )
        raise Unsupported("test-of-summed-count", rule, fix="ask for COUNT(*) in a separate question")
    uniform = float(
        SeededDraws("share", "" if receipt is None else receipt.hash, float(count), unit_count).uniforms(1)[0]
    )
    p_value = min(1.0, 2 * min(score_tests.share_p_values(float(count), unit_count, float(equals), law, uniform)))
    statistic = (float(count) - unit_count * float(equals)) / math.sqrt(
        unit_count * float(equals * (1 - equals)) + law.variance
    )
    test = ScoreTest(statistic, max(p_value, 5e-324), 0)
    note = "exact, for both sides: the binomial law of the count and the law of the noise"
    return _build_result(
        "share", f"the share of {unit_count:,} units is {format_number(float(equals))}", test, notes=[note]
    )
