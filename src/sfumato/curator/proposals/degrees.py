"""A histogram of degrees says how many nodes have how many edges: a proposal over a table whose rows are edges, each a
unit of its own.

The nodes are public: they are the values declared for the columns of the ends. What one edge can move is derived from
the plan that counts edges by node (``plan.readings.GroupSizes``): 4 for undirected edges, 2 for one end alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from sfumato.curator.context import Context
from sfumato.curator.previews.explaining import Explanation, Operator
from sfumato.curator.proposals.priced_by_epsilon import PricedByEpsilon
from sfumato.curator.proposals.questions import Question
from sfumato.errors import InvalidParameter, Unsupported
from sfumato.mechanisms import Laplace
from sfumato.plan.canonical import digest
from sfumato.plan.nodes import GroupKey
from sfumato.plan.readings.total_readings import GroupSizes, GroupTotals, Integers, Totals
from sfumato.plan.written_names import quoted
from sfumato.policy import Type
from sfumato.privacy import codec
from sfumato.privacy.calibration import least
from sfumato.privacy.numbers import CONFIDENCE, POSITIVE, Number, exact, percent, whole
from sfumato.release.answers.answer_columns import AnswerColumn, Columns
from sfumato.release.answers.receipts import INVENTED, Receipt
from sfumato.release.comparisons import OneReading
from sfumato.release.measurement import Batch, Measurement
from sfumato.release.payers import NOT_BOUGHT, Purchase, purchase
from sfumato.release.prices import Price, rounded_up
from sfumato.release.proposal import receipt
from sfumato.release.releasing import StoredResult

MOST_DEGREE = 100_000
"""No histogram is longer."""


@codec.value("degrees")
@dataclass(frozen=True)
class Degrees:
    """Degrees are shown as a noisy histogram: ``counts[d]`` nodes have d edges, the last one as many or more."""

    counts: tuple[int, ...]
    noise: Laplace | None = field(default=None, repr=False)
    purchase: Purchase = field(default=NOT_BOUGHT, repr=False)
    receipt: Receipt | None = field(default=None, repr=False, compare=False)
    """What it cost and whom it protects; not stored with the counts, since it says what is left now."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "counts", tuple(self.counts))
        codec.check_fields(self)
        if not self.counts or not all(type(count) is int for count in self.counts):
            raise InvalidParameter("counts", "something else", "whole numbers")

    @property
    def rehearsed(self) -> bool:
        """Return whether it was invented from the policy alone: nothing was read, charged or written down."""
        return self.receipt is not None and self.receipt.rehearsed

    def __repr__(self) -> str:
        return f"Degrees(counts={self.counts!r}){INVENTED if self.rehearsed else ''}"

    def error(self, confidence: Number = "0.95") -> Fraction | None:
        """Each number is within this of the exact one, with this confidence."""
        return None if self.noise is None else Fraction(self.noise.error(confidence))

    @property
    def columns(self) -> tuple[str, str]:
        return "edges", "nodes"

    @property
    def intervals(self) -> Mapping[str, tuple[tuple[float, float], ...]]:
        """The range of every number, with the confidence of the receipt; none where the noise is not known."""
        error = self.error(self._confidence)
        return {} if error is None else {"nodes": tuple((float(n - error), float(n + error)) for n in self.counts)}

    def cells(self) -> list[tuple[str, str]]:
        """Write one row for each degree, with the range of its number; the last counts all above it too."""
        last, error = len(self.counts) - 1, self.error(self._confidence)
        around = "" if error is None else f" ± {float(error):g}"
        names = [*map(str, range(last)), f"{last} or more"]
        return [(name, f"{count}{around}") for name, count in zip(names, self.counts, strict=True)]

    @property
    def _confidence(self) -> Number:
        return "0.95" if self.receipt is None else self.receipt.confidence or "0.95"

    def to_json(self) -> str:
        """Write the histogram as JSON text, with a kind and a version."""
        return codec.dumps(self)

    @classmethod
    def from_json(cls, source: str) -> Degrees:
        """Read back what ``to_json`` wrote; any other text is refused."""
        return codec.loads_as(cls, source)

    def nonnegative(self) -> Degrees:
        """Raise numbers below 0 to 0: this is free, since it looks at noisy numbers alone."""
        return replace(self, counts=tuple(max(0, count) for count in self.counts))


@dataclass(frozen=True)
class _DegreesDraw(OneReading[Degrees]):
    """A histogram of degrees is released as noise on its counts."""

    batch: Batch
    groups: tuple[GroupKey, ...]
    total: Price
    version: str

    @property
    def noise(self) -> Laplace:
        found: Laplace = self.batch.mechanisms[0]
        return found

    @property
    def good_enough(self) -> Mapping[str, Number]:
        """A stored histogram is as good if its numbers are as close."""
        return {"nodes": self.noise.error("0.95")}

    @property
    def reading(self) -> GroupTotals:
        return GroupTotals(self.batch.bounded, self.groups)

    def made(self, totals: Integers) -> Degrees:
        (measurement,) = self.batch.measurements
        noisy = measurement.draw(measurement.reading.of(totals))
        terms = purchase([self.batch.bounded], self.total, self.version)
        return Degrees(tuple(int(each) for each in noisy), self.noise, terms)


@dataclass(frozen=True)
class DegreeHistogram(PricedByEpsilon[Degrees]):
    """A proposal: only ``release`` spends."""

    _context: Context = field(repr=False)
    question: Question = field(repr=False)
    ends: tuple[str, ...]
    most: int

    def __repr__(self) -> str:
        return f"<{self.text}: .explain() .error() .price() are free, .release() asks>"

    @property
    def text(self) -> str:
        return self.question.text

    @property
    def identity(self) -> str:
        return digest("degrees", self.question.identity, self.most)

    @property
    def columns(self) -> Columns:
        """List what is released: how many nodes have each degree."""
        return AnswerColumn("degree", Type.INTEGER), AnswerColumn("nodes", Type.INTEGER)

    @property
    def _where(self) -> Context:
        return self._context

    @property
    def nodes(self) -> tuple[GroupKey, ...]:
        """List the declared nodes; what is missing is no node."""
        return tuple(group for group in self.question.groups if group != (None,))

    @property
    def reading(self) -> GroupSizes:
        return GroupSizes(Totals(self.question.options[0]), self.most)

    def explain(self, epsilon: Number, confidence: Number = "0.95") -> Explanation:
        """Describe what is done at this price, step by step. This is free."""
        policy, noise = self._context.policy, self._draw(epsilon).noise
        moved, sure = self.reading.sensitivity, percent(exact(confidence, "confidence", CONFIDENCE))
        plan = self.question.query.plan
        operators = (
            Operator("scan", plan.table, f"protects {policy.unit}, {policy.neighbours.value}"),
            Operator("count", f"edges by {' and '.join(self.ends)}, for {len(self.nodes)} nodes", "exact, not shown"),
            Operator(
                "histogram", f"degrees 0 to {self.most} or more", f"one unit moves it by at most {moved.l1} in all"
            ),
            Operator("noise", noise.words(), f"±{noise.error(confidence)} with {sure} confidence"),
        )
        reason = "whole numbers from a bounded sum of changes: Laplace noise is the least"
        return Explanation(self.question.text, str(Price(epsilon)), operators, reason, self.question.warnings)

    def error(self, epsilon: Number, confidence: Number = "0.95") -> float:
        """Each number is within this of the exact one, with this confidence. Free."""
        return float(self._draw(epsilon).noise.error(confidence))

    def price(self, within: Number, confidence: Number = "0.95") -> float:
        """Find the least ε at which each number is within this of the exact one, with this confidence. This is free."""
        wanted = exact(within, "within", POSITIVE)
        return float(rounded_up(least(lambda epsilon: self.error(epsilon, confidence) <= wanted, "within")))

    def _draw(self, epsilon: Number) -> _DegreesDraw:
        paid, reading = exact(epsilon, "epsilon", POSITIVE), self.reading
        batch = Batch((Measurement(reading, Laplace(reading.sensitivity.l1 / paid)),))
        return _DegreesDraw(batch, self.nodes, Price(epsilon), self._context.version)

    def _shown(self, found: StoredResult[Degrees], confidence: Number) -> Degrees:
        known, here, said = found.value, self._context, self.question.text
        words = () if known.noise is None else (known.noise.words(),)
        told = receipt(found, known.purchase, words, question=said, here=here, confidence=confidence)
        return replace(known, purchase=known.purchase.public, receipt=told)


def degree_histogram(
    context: Context, ask: Callable[[str], Question], table: str, ends: str | Sequence[str], most: int | None
) -> DegreeHistogram:
    """Make the proposal for a table of edges; the names are looked up in the policy before they become a question."""
    named = (ends,) if isinstance(ends, str) else tuple(ends)
    declared = context.policy.tables.get(table)
    if declared is None or declared.public or not declared.every_row:
        raise InvalidParameter(
            "table",
            table,
            "a private table whose rows are edges, each a unit",
            fix='declare it with id = "row": a row with two owners has no person as its unit',
        )
    if not 1 <= len(named) <= 2 or any(each not in declared.columns for each in named) or len(set(named)) < len(named):
        raise InvalidParameter("ends", ends, f"one or two columns of {table}: " + ", ".join(declared.columns))
    parts = " UNION ALL ".join(f"SELECT {quoted(each)} AS node FROM {quoted(table)}" for each in named)
    found = DegreeHistogram(
        context, ask(f"SELECT node, COUNT(*) AS edges FROM ({parts}) AS ends GROUP BY node"), named, 1
    )
    if found.question.found:
        raise Unsupported(
            "unknown-nodes",
            "a histogram of degrees counts nodes without edges too, so all nodes are declared values",
            fix="declare the values, or the bounds of whole numbers, of every end in the policy",
        )
    longest = len(found.nodes) - 1 if most is None else whole(most, "most", at_least=1)
    if longest > MOST_DEGREE:
        raise InvalidParameter("most", longest, f"at most {MOST_DEGREE:,}")
    return replace(found, most=max(1, longest))
