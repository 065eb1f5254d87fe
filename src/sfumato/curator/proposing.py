"""The methods that propose a release, the same for a curator in this process and for one at a server.

Each writes the spec of one kind; ``propose`` does the rest. A new kind needs none: ``curator.propose(spec)`` is enough.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar, overload

from sfumato.curator.kinds.auctions import AuctionSpec
from sfumato.curator.kinds.bounds import BoundsSpec
from sfumato.curator.kinds.degrees import DegreesSpec
from sfumato.curator.kinds.limits import LimitsSpec
from sfumato.curator.kinds.marginals import MarginalsSpec, Objective
from sfumato.curator.kinds.mwem import MwemSpec, Queries
from sfumato.curator.kinds.online import OnlineSpec
from sfumato.curator.kinds.open_sessions import OpenSessionSpec
from sfumato.curator.kinds.running import RunningSpec
from sfumato.curator.kinds.scores import ScoreSpec
from sfumato.curator.kinds.sessions import SessionSpec
from sfumato.curator.kinds.synthesis import Method, SynthesisSpec
from sfumato.curator.release_kinds import Spec
from sfumato.errors import InvalidParameter
from sfumato.privacy.numbers import Number

if TYPE_CHECKING:
    from sfumato.curator.proposals.asked_sessions import AskedSession
    from sfumato.curator.proposals.degrees import DegreeHistogram
    from sfumato.curator.proposals.marginals import MarginalsProposal, Ways, Weights
    from sfumato.curator.proposals.mwem import ColumnWeights, MwemProposal
    from sfumato.curator.proposals.online import ProposedOnline
    from sfumato.curator.proposals.private_bounds import BoundsSearch
    from sfumato.curator.proposals.private_limits import LimitsSearch
    from sfumato.curator.proposals.questions import Question
    from sfumato.curator.proposals.running_counts import RunningTotals
    from sfumato.curator.proposals.scores import ScoreProposal
    from sfumato.curator.proposals.sessions import ProposedSession
    from sfumato.curator.proposals.synthesis import SynthesisProposal
    from sfumato.curator.proposals.table_auctions import TableAuction
    from sfumato.plan.sql.parameters import Parameters

P = TypeVar("P")


class Proposing(ABC):
    """Proposes releases. Proposing is free: only ``release`` of what is returned spends."""

    @abstractmethod
    def propose(self, spec: Spec[P]) -> P:
        """Propose what a spec describes: ``curator.propose(BoundsSpec("visits", "cost"))``. This is free."""

    @abstractmethod
    def sql(self, question: str, parameters: Parameters | None = None) -> Any:
        """Read a question in SQL. This is free."""

    def auction(self, table: str | None = None, column: str | None = None, *, prices: Sequence[Number]) -> TableAuction:
        """Propose to sell a digital good to whoever bid in a column, at one of these public prices. This is free.

        Table and column may be left out where the policy declares one private column of numbers.
        """
        return self.propose(AuctionSpec(prices, table, column))

    def degrees(self, table: str, ends: str | Sequence[str], most: int | None = None) -> DegreeHistogram:
        """Propose a histogram of degrees: how many nodes have how many edges, in a table whose rows are edges. This is
        free.

        ``ends`` names the columns of both ends, or of one to count edges that arrive or leave. The nodes are the values
        declared for them. Degrees of ``most`` and above are counted together.
        """
        return self.propose(DegreesSpec(table, ends, most))

    @overload
    def above(
        self,
        threshold: Number,
        positives: int = 1,
        *,
        sensitivity: Number | None = None,
        tables: Sequence[str] | None = None,
        monotone: bool | None = None,
        questions: None = None,
    ) -> ProposedSession: ...

    @overload
    def above(
        self,
        threshold: Number,
        positives: int = 1,
        *,
        sensitivity: Number | None = None,
        tables: Sequence[str] | None = None,
        monotone: bool | None = None,
        questions: Sequence[str],
    ) -> AskedSession: ...

    def above(
        self,
        threshold: Number,
        positives: int = 1,
        *,
        sensitivity: Number | None = None,
        tables: Sequence[str] | None = None,
        monotone: bool | None = None,
        questions: Sequence[str] | None = None,
    ) -> ProposedSession | AskedSession:
        """Propose a session: of many questions each is told to be above a threshold or below it, for one price. This is
        free.

        It ends after so many ``positives``. ``sensitivity`` is what one unit may change in any of the questions;
        without it, that of counting rows of these ``tables``, or of all private ones. With all its ``questions`` known,
        it asks them one after the other when it is released, and is over.
        """
        if questions is None:
            return self.propose(OpenSessionSpec(threshold, positives, sensitivity, tables, monotone))
        return self.propose(SessionSpec(threshold, questions, positives, sensitivity, tables, monotone))

    def running(self, question: str | Question, parameters: Parameters | None = None) -> RunningTotals:
        """Propose running totals of a question that counts or adds up by days, weeks, months or whole numbers: how much
        there was up to each of them, at one price for all. This is free.
        """
        asked = question if parameters is None or not isinstance(question, str) else self.sql(question, parameters)
        return self.propose(RunningSpec(asked))

    def marginals(
        self,
        table: str,
        ways: Ways = 2,
        *,
        weights: Weights = None,
        objective: Objective = "total",
        where: str | None = None,
        columns: Sequence[str] | None = None,
        rows: int | None = None,
    ) -> MarginalsProposal:
        """Propose to measure marginals of a table once: counts of all cells of every so many columns, or of these sets
        of columns. Whatever is asked of them afterwards costs nothing more. This is free.

        ``weights`` say how much each marginal counts, the ``objective`` whether the sum of all variances or the largest
        is to be least; ``where`` keeps the rows that meet a condition, ``rows`` tightens how many of one unit count.
        """
        return self.propose(MarginalsSpec(table, ways, weights, objective, where, columns, rows))

    def histogram(
        self, table: str, columns: Sequence[str], *, where: str | None = None, rows: int | None = None
    ) -> MarginalsProposal:
        """Propose to count the rows in every cell of these columns together. This is free."""
        if isinstance(columns, (str, bytes)) or not isinstance(columns, Sequence) or not columns:
            raise InvalidParameter("columns", columns, 'a list of names such as ["sex", "age"]')
        return self.propose(MarginalsSpec(table, [columns], where=where, rows=rows))

    def mwem(
        self,
        table: str,
        columns: Sequence[str] | None = None,
        ways: Ways | None = None,
        *,
        queries: Queries | None = None,
        rounds: int = 10,
        textbook: bool = False,
        where: str | None = None,
        rows: int | None = None,
    ) -> MwemProposal:
        """Propose to fit a model of some columns to the marginals of every so many of them, or of these sets, or to
        the counts of ``queries``: in each round what it gets most wrong is chosen and measured (MWEM). This is free.

        ``textbook`` chooses and measures single counts and uses each once, as it was published; otherwise whole
        marginals, all used again after every round. ``rows`` tightens how many rows of one unit count.
        """
        return self.propose(MwemSpec(table, columns, ways, queries, rounds, textbook, where, rows))

    def synthesize(
        self,
        table: str,
        method: Method = "aim",
        ways: Ways = 3,
        *,
        columns: Sequence[str] | None = None,
        weights: ColumnWeights | None = None,
        where: str | None = None,
        rows: int | None = None,
        one_row_per: str | None = None,
        order: str | None = None,
        memory: str | int = "1 GiB",
    ) -> SynthesisProposal:
        """Propose a synthetic table: a model of these columns that has every marginal of so many of them, or of these
        sets, as right as the price allows, and rows drawn from it; of a table, or of a SELECT that treats every row by
        itself. This is free.

        The ``method`` is aim, mst, mwem or independent. ``weights`` say how much columns count, such as
        ``{"income": 3}``; ``where`` keeps the rows that meet a condition, ``rows`` tightens how many of one unit count;
        ``one_row_per="unit", order="date"`` lets the first row of each unit stand for it, or the last by
        ``"date DESC"``; ``memory`` bounds the model.
        """
        chosen = method, ways, columns, weights, where, rows
        return self.propose(SynthesisSpec(table, *chosen, one_row_per, order, memory))

    def score(
        self,
        candidate: Any,
        table: str | None = None,
        *,
        k: int = 3,
        worst: bool = False,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        rows: int | None = None,
        total: Number | None = None,
    ) -> ScoreProposal:
        """Propose to score a candidate table, made by any tool: how close its marginals of all ``k`` columns are to
        those of a private table, from 0 to 1000 as NIST counts it. This is free.

        The candidate is public: a path, or an Arrow, pandas or polars table with the columns that are compared. With
        ``worst`` the worst marginal decides, not the mean. ``total`` is the number of private rows where it is public
        already, such as that of a synthetic table; otherwise a third of the price buys it. ``where`` keeps the private
        rows that meet a condition, ``rows`` tightens how many of one unit count.
        """
        return self.propose(ScoreSpec(candidate, table, k, worst, columns, where, rows, total))

    def online(
        self,
        table: str,
        columns: Sequence[str],
        ways: int = 3,
        rounds: int = 20,
        *,
        where: str | None = None,
        rows: int | None = None,
        textbook: bool = False,
    ) -> ProposedOnline:
        """Propose an online session: a synopsis of all marginals of so many of these columns, and for questions outside
        it a hypothesis, which is checked and up to ``rounds`` times mended. Its questions are free. So is this.

        ``textbook`` measures the number of rows alone, and starts from an even table (Hardt & Rothblum 2010).
        """
        return self.propose(OnlineSpec(table, columns, ways, rounds, where, rows, textbook))

    def bounds(self, table: str, column: str, *, cover: Number = "0.99") -> BoundsSearch:
        """Propose to find bounds for a column of numbers or dates that cover this share of its values, chosen from
        steps that its type alone decides. This is free.
        """
        return self.propose(BoundsSpec(table, column, cover))

    def limits(self, table: str, *, by: str | Sequence[str] = (), share: Number = "0.95") -> LimitsSearch:
        """Propose to find limits that hold this share of the units whole: of rows, and of groups ``by`` these columns.
        This is free.
        """
        return self.propose(LimitsSpec(table, by, share))
