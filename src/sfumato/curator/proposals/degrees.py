"""A proposal of a degree histogram, over a table whose rows are edges, each a unit of its own.

The nodes are public: they are the declared values of the endpoint columns. The sensitivity to one edge is derived from
the plan that counts edges by node (``GroupSizeHistogram``): 4 for undirected edges, 2 for one endpoint only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from fractions import Fraction

from sfumato.array_types import Integers
from sfumato.curator.context import Context
from sfumato.curator.previews.explaining import Explanation, PlanStep
from sfumato.curator.proposals.priced_by_epsilon import EpsilonPricedProposal
from sfumato.curator.proposals.questions import Question
from sfumato.errors import InvalidParameter, Unsupported, ValueWords
from sfumato.mechanisms import Laplace
from sfumato.plan.canonical import PlanKey, digest
from sfumato.plan.nodes import GroupValues
from sfumato.plan.quoting import quoted
from sfumato.plan.readings.total_readings import GroupSizeHistogram, GroupTotals, MeasureTotals
from sfumato.policy import Type
from sfumato.privacy import codec
from sfumato.privacy.numbers import (
    CONFIDENCE,
    DEFAULT_CONFIDENCE,
    POSITIVE,
    Number,
    exact,
    exact_integer,
    format_percent,
)
from sfumato.quick_dataclass import dataclass
from sfumato.release.answers.answer_columns import AnswerColumn, Columns
from sfumato.release.answers.receipts import PREVIEW_MARK, Receipt
from sfumato.release.comparisons import GroupTotalsRelease
from sfumato.release.measurement import Batch, Measurement
from sfumato.release.payers import NOT_BOUGHT, PurchaseTerms, purchase_terms
from sfumato.release.prices import Price, least_epsilon
from sfumato.release.proposal import make_receipt
from sfumato.release.releasing import StoredResult

MAX_DEGREE = 100_000
"""The longest histogram."""


@codec.serialisable("degrees")
@dataclass(frozen=True)
class Degrees:
    """A noisy degree histogram: ``counts[d]`` nodes have d edges; the last entry counts that many or more."""

    counts: tuple[int, ...]
    noise: Laplace | None = field(default=None, repr=False)
    purchase: PurchaseTerms = field(default=NOT_BOUGHT, repr=False)
    receipt: Receipt | None = field(default=None, repr=False, compare=False)
    """What it cost and whom it protects; not stored with the counts, since it quotes the current remaining budget."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "counts", tuple(self.counts))
        codec.check_simple_fields(self)
        if not self.counts or not all(type(count) is int for count in self.counts):
            raise InvalidParameter(
                "counts",
                ValueWords("values that are not whole numbers" if self.counts else "an empty list"),
                "a non-empty list of whole numbers",
            )

    @property
    def is_preview(self) -> bool:
        """Whether it was invented from the policy alone: nothing was read, charged or stored."""
        return self.receipt is not None and self.receipt.is_preview

    def __repr__(self) -> str:
        return f"Degrees(counts={self.counts!r}){PREVIEW_MARK if self.is_preview else ''}"

    def error(self, confidence: Number = DEFAULT_CONFIDENCE) -> Fraction | None:
        """Return the half-width of each number with this confidence; None if the noise is unknown."""
        return None if self.noise is None else Fraction(self.noise.error(confidence))

    @property
    def columns(self) -> tuple[str, str]:
        return "edges", "nodes"

    @property
    def intervals(self) -> Mapping[str, tuple[tuple[float, float], ...]]:
        """The interval of every number at the receipt's confidence; empty if the noise is unknown."""
        error = self.error(self._confidence)
        return {} if error is None else {"nodes": tuple((float(n - error), float(n + error)) for n in self.counts)}

    def cells(self) -> list[tuple[str, str]]:
        """Return one row per degree, its number with ±; the last counts all higher degrees too."""
        last, error = len(self.counts) - 1, self.error(self._confidence)
        plus_minus = "" if error is None else f" ± {float(error):g}"
        names = [*map(str, range(last)), f"{last} or more"]
        return [(name, f"{count}{plus_minus}") for name, count in zip(names, self.counts, strict=True)]

    @property
    def _confidence(self) -> Number:
        return DEFAULT_CONFIDENCE if self.receipt is None else self.receipt.confidence or DEFAULT_CONFIDENCE

    def to_json(self) -> str:
        """Write the histogram as JSON text, with a kind and a version."""
        return codec.dumps(self)

    @classmethod
    def from_json(cls, source: str) -> Degrees:
        """Read back what ``to_json`` wrote; any other text is refused."""
        return codec.loads_as(cls, source)

    def nonnegative(self) -> Degrees:
        """Clip negative numbers to 0. Free: it is post-processing."""
        return replace(self, counts=tuple(max(0, count) for count in self.counts))


@dataclass(frozen=True)
class _DegreesRelease(GroupTotalsRelease[Degrees]):
    """The release of a degree histogram: Laplace noise on its counts."""

    batch: Batch
    groups: tuple[GroupValues, ...]
    total: Price
    version: str

    @property
    def noise(self) -> Laplace:
        mechanism: Laplace = self.batch.mechanisms[0]
        return mechanism

    @property
    def accuracy_for_reuse(self) -> Mapping[str, Number]:
        """The widths that a stored histogram must reach to be returned instead."""
        return {"nodes": self.noise.error(DEFAULT_CONFIDENCE)}

    @property
    def reading(self) -> GroupTotals:
        return GroupTotals(self.batch.bounded, self.groups)

    def draw_from(self, totals: Integers) -> Degrees:
        (measurement,) = self.batch.measurements
        noisy_counts = measurement.draw(measurement.reading.extract(totals))
        terms = purchase_terms([self.batch.bounded], self.total, self.version)
        return Degrees(tuple(int(count) for count in noisy_counts), self.noise, terms)


@dataclass(frozen=True)
class DegreesProposal(EpsilonPricedProposal[Degrees]):
    """A proposal of a degree histogram; only ``release`` spends."""

    _context: Context = field(repr=False)
    question: Question = field(repr=False)
    end_columns: tuple[str, ...]
    max_degree: int

    def __repr__(self) -> str:
        return f"<{self.text}: .explain() .error() .price() are free, .release() spends>"

    @property
    def text(self) -> str:
        return self.question.text

    @property
    def plan_key(self) -> PlanKey:
        """The key of what is measured."""
        return self.question.plan_key.derive(lambda key: digest("degrees", key, self.max_degree))

    @property
    def columns(self) -> Columns:
        """The released columns: degrees and numbers of nodes."""
        return AnswerColumn("degree", Type.INTEGER), AnswerColumn("nodes", Type.INTEGER)

    @property
    def _paying_context(self) -> Context:
        return self._context

    @property
    def nodes(self) -> tuple[GroupValues, ...]:
        """The declared nodes; NULL is not a node."""
        return tuple(group for group in self.question.groups if group != (None,))

    @property
    def reading(self) -> GroupSizeHistogram:
        return GroupSizeHistogram(MeasureTotals(self.question.bounding_options[0]), self.max_degree)

    def explain(self, epsilon: Number, confidence: Number = DEFAULT_CONFIDENCE) -> Explanation:
        """Explain the release at this price, step by step. This is free."""
        policy, noise = self._context.policy, self._strategy_at(epsilon).noise
        sensitivity, confidence_text = (
            self.reading.sensitivity,
            format_percent(exact(confidence, "confidence", CONFIDENCE)),
        )
        plan = self.question.query.plan
        operators = (
            PlanStep("scan", plan.table, f"protects {policy.unit}, {policy.neighbours.value}"),
            PlanStep(
                "count", f"edges by {' and '.join(self.end_columns)}, for {len(self.nodes)} nodes", "exact, not shown"
            ),
            PlanStep(
                "histogram",
                f"degrees 0 to {self.max_degree} or more",
                f"one unit changes it by at most {sensitivity.l1} in total",
            ),
            PlanStep("noise", noise.words(), f"±{noise.error(confidence)} with {confidence_text} confidence"),
        )
        reason = "counts with a bounded total change: Laplace noise has the smallest error"
        return Explanation(self.question.text, str(Price(epsilon)), operators, reason, self.question.warnings)

    def error(self, epsilon: Number, confidence: Number = DEFAULT_CONFIDENCE) -> float:
        """Return the half-width of each number at this price and confidence. Free."""
        return float(self._strategy_at(epsilon).noise.error(confidence))

    def price(self, within: Number, confidence: Number = DEFAULT_CONFIDENCE) -> float:
        """Find the least ε at which each number has at most this half-width. This is free."""
        return least_epsilon(lambda epsilon: self.error(epsilon, confidence), within)

    def _strategy_at(self, epsilon: Number) -> _DegreesRelease:
        exact_epsilon, reading = exact(epsilon, "epsilon", POSITIVE), self.reading
        batch = Batch((Measurement(reading, Laplace(reading.sensitivity.l1 / exact_epsilon)),))
        return _DegreesRelease(batch, self.nodes, Price(epsilon), self._context.version)

    def _with_receipt(self, result: StoredResult[Degrees], confidence: Number) -> Degrees:
        histogram, context, question_text = result.value, self._context, self.question.text
        words = () if histogram.noise is None else (histogram.noise.words(),)
        histogram_receipt = make_receipt(
            result, histogram.purchase, words, question=question_text, context=context, confidence=confidence
        )
        return replace(histogram, purchase=histogram.purchase.without_salt, receipt=histogram_receipt)


def propose_degrees(
    context: Context, ask: Callable[[str], Question], table: str, ends: str | Sequence[str], most: int | None
) -> DegreesProposal:
    """Propose a histogram of a table of edges; the names are checked against the policy first."""
    end_columns = (ends,) if isinstance(ends, str) else tuple(ends)
    edge_table = context.policy.tables.get(table)
    if edge_table is None or edge_table.public or not edge_table.every_row:
        raise InvalidParameter(
            "table",
            table,
            "a private table with one edge in each row and every row as a unit",
            fix='declare the table with id = "row": an edge belongs to two people, so each row is a unit of its own',
        )
    if (
        not 1 <= len(end_columns) <= 2
        or any(column not in edge_table.columns for column in end_columns)
        or len(set(end_columns)) < len(end_columns)
    ):
        raise InvalidParameter(
            "ends",
            ends,
            f"one or two columns of {table}: " + ", ".join(edge_table.columns),
            fix=f"name one or two of these columns: {', '.join(edge_table.columns)}",
        )
    endpoints_sql = " UNION ALL ".join(
        f"SELECT {quoted(column)} AS node FROM {quoted(table)}" for column in end_columns
    )
    proposal = DegreesProposal(
        context, ask(f"SELECT node, COUNT(*) AS edges FROM ({endpoints_sql}) AS ends GROUP BY node"), end_columns, 1
    )
    if proposal.question.discovered_keys:
        raise Unsupported(
            "unknown-nodes",
            "a degree histogram also counts nodes without edges, so all nodes must be declared",
            fix="in the policy, declare values, or integer bounds, for every endpoint column",
        )
    max_degree = len(proposal.nodes) - 1 if most is None else exact_integer(most, "most", at_least=1)
    if max_degree > MAX_DEGREE:
        raise InvalidParameter("most", max_degree, f"a whole number up to {MAX_DEGREE:,}")
    return replace(proposal, max_degree=max(1, max_degree))
