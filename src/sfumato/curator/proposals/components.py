"""A proposal of principal components: the moments of some columns, measured once as for a regression."""

from __future__ import annotations

from collections.abc import Sequence

from sfumato.curator.context import Context
from sfumato.curator.policy_account import explain_period_charges
from sfumato.curator.previews.explaining import Explanation, PlanStep
from sfumato.curator.proposals.moment_proposals import (
    DEFAULT_DELTA,
    AssumedPrice,
    MomentsProposal,
    moment_question_and_design,
)
from sfumato.errors import InvalidParameter
from sfumato.inference.assumed import assumed_moments
from sfumato.inference.components import (
    ComponentsAnswer,
    ComponentsFit,
    components_answer,
    components_answer_columns,
    components_design,
)
from sfumato.inference.moment_releases import MomentsRelease
from sfumato.inference.moments import MomentEstimates, NoisyMoments
from sfumato.plan.sql.building import RowSelection
from sfumato.privacy.numbers import CONFIDENCE, DEFAULT_CONFIDENCE, POSITIVE, Number, exact, format_number
from sfumato.quick_dataclass import dataclass
from sfumato.release.answers.answer_columns import Columns
from sfumato.release.releasing import StoredResult


@dataclass(frozen=True, repr=False)
class ComponentsProposal(MomentsProposal[ComponentsAnswer]):
    """A proposal of principal components; only ``release`` spends."""

    @property
    def columns(self) -> Columns:
        """The columns of the answer with their types."""
        return components_answer_columns(self.design.names)

    def explain(
        self,
        epsilon: Number | None = None,
        *,
        delta: Number = 0,
        rho: Number | None = None,
        confidence: Number = DEFAULT_CONFIDENCE,
    ) -> Explanation:
        """Explain the release at this price, step by step; at ε = 1 and δ = 1e-6 if none is given. This is free."""
        assumed = AssumedPrice.from_arguments(epsilon, delta, rho)
        draw = self._strategy_at(assumed.price)
        error = format_number(self._variance_error(draw, confidence), 3)
        rows = self.assumed_rows
        operators = (
            *self._explain_moments(draw),
            PlanStep("rotate", f"{len(self.design.names)} components", f"variances ±{error} for {rows:,} rows; free"),
            *explain_period_charges(self._context),
        )
        reason = "one discrete Gaussian noise for each different sum"
        notes = (*assumed.notes, *self.question.warnings, *self._context.epsilon_total_warnings(draw.batch.curve))
        return Explanation(self.question.text, str(draw.total), operators, reason, notes)

    def error(
        self,
        epsilon: Number | None = None,
        *,
        delta: Number = 0,
        rho: Number | None = None,
        confidence: Number = DEFAULT_CONFIDENCE,
    ) -> float:
        """Return the ± of every variance at this price, of columns scaled to [−1, 1], for assumed rows. Free."""
        return self._variance_error(
            self._strategy_at(AssumedPrice.from_arguments(epsilon, delta, rho).price), confidence
        )

    def _variance_error(self, draw: MomentsRelease, confidence: Number) -> float:
        values = assumed_moments(self.design, self.assumed_rows)
        fit = ComponentsFit(self.design, MomentEstimates.assumed(values, draw.mechanism, self.design))
        return fit.covariance_error(float(exact(confidence, "confidence", CONFIDENCE)))

    def price(self, within: Number, *, delta: Number = DEFAULT_DELTA, confidence: Number = DEFAULT_CONFIDENCE) -> float:
        """Find the least ε, at this δ, at which the forecast ± of every variance is at most this. This is free."""
        limit = float(exact(within, "within", POSITIVE))

        return self._least_epsilon(delta, lambda draw: self._variance_error(draw, confidence) <= limit)

    def build_answer(self, result: StoredResult[NoisyMoments], confidence: Number) -> ComponentsAnswer:
        """Build the table from released moments."""
        noisy = result.value
        fit = ComponentsFit(self.design, MomentEstimates.from_noisy_moments(noisy, self.design))
        return components_answer(
            fit, self.receipt(result, confidence), float(exact(confidence, "confidence")), self.question.warnings
        )


def propose_components(
    context: Context, rows: RowSelection, columns: Sequence[str], row_limit: int | None = None
) -> ComponentsProposal:
    """Propose the principal components of some columns of these rows, which need declared bounds."""
    is_list = isinstance(columns, Sequence) and not isinstance(columns, (str, bytes))
    if not is_list or len({str(column).lower() for column in columns}) != len(columns) or len(columns) < 2:
        raise InvalidParameter("columns", columns, 'two or more different columns, such as ["age", "hours"]')
    domains = rows.columns
    question, design = moment_question_and_design(
        context,
        rows,
        lambda scale: components_design(columns, domains, scale),
        f"COMPONENTS {', '.join(columns)}",
        row_limit,
    )
    return ComponentsProposal(context, question, design)
