"""The methods that propose a release, the same for a curator in this process and for one at a server.

Each builds the spec of one kind; ``propose`` does the rest. A new kind needs no method: ``curator.propose(spec)`` is
enough.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, overload

from sfumato.errors import InvalidParameter
from sfumato.privacy.numbers import Number

if TYPE_CHECKING:
    from sfumato.curator.kinds.marginals import Objective
    from sfumato.curator.kinds.mwem import Queries
    from sfumato.curator.kinds.synthesis import Method
    from sfumato.curator.proposals.degrees import DegreesProposal
    from sfumato.curator.proposals.hypothesis_tests import TestProposal
    from sfumato.curator.proposals.limit_proposals import LimitsProposal
    from sfumato.curator.proposals.linked_tables import LinkedTablesProposal
    from sfumato.curator.proposals.logistic import LogisticProposal
    from sfumato.curator.proposals.marginals import MarginalsProposal, Ways, Weights
    from sfumato.curator.proposals.moment_proposals import ComponentsProposal
    from sfumato.curator.proposals.mwem import ColumnWeights, MwemProposal
    from sfumato.curator.proposals.online import OnlineProposal
    from sfumato.curator.proposals.private_bounds import BoundsProposal
    from sfumato.curator.proposals.questions import Question
    from sfumato.curator.proposals.regressions import RegressionProposal
    from sfumato.curator.proposals.running_counts import RunningTotalsProposal
    from sfumato.curator.proposals.scores import ScoreProposal
    from sfumato.curator.proposals.sessions import ListedSessionProposal, SessionProposal
    from sfumato.curator.proposals.survival import SurvivalProposal
    from sfumato.curator.proposals.synthesis import SynthesisProposal
    from sfumato.curator.proposals.table_auctions import AuctionProposal
    from sfumato.curator.release_kinds import Spec
    from sfumato.inference.names_of_tests import TestName
    from sfumato.plan.sql.parameters import Parameters

P = TypeVar("P")


class Proposing(ABC):
    """Proposes releases. Proposing is free: only ``release`` of what is returned spends."""

    @abstractmethod
    def propose(self, spec: Spec[P]) -> P:
        """Propose what a spec describes: ``curator.propose(BoundsSpec("visits", "cost"))``. This is free."""

    @abstractmethod
    def sql(self, question: str, parameters: Parameters | None = None) -> Any:
        """Parse a question in SQL. This is free."""

    def auction(
        self, table: str | None = None, column: str | None = None, *, prices: Sequence[Number]
    ) -> AuctionProposal:
        """Propose to sell a digital good to the bidders in a column, at one of these public prices. This is free.

        Table and column may be omitted if the policy declares only one private column of numbers.
        """
        from sfumato.curator.kinds.auctions import AuctionSpec

        return self.propose(AuctionSpec(prices, table, column))

    def degrees(self, table: str, ends: str | Sequence[str], most: int | None = None) -> DegreesProposal:
        """Propose a degree histogram of a table whose rows are edges. This is free.

        ``ends`` names the columns of both endpoints, or of one to count incoming or outgoing edges. The nodes are their
        declared values. Degrees of ``most`` and above are counted together.
        """
        from sfumato.curator.kinds.degrees import DegreesSpec

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
    ) -> SessionProposal: ...

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
    ) -> ListedSessionProposal: ...

    def above(
        self,
        threshold: Number,
        positives: int = 1,
        *,
        sensitivity: Number | None = None,
        tables: Sequence[str] | None = None,
        monotone: bool | None = None,
        questions: Sequence[str] | None = None,
    ) -> SessionProposal | ListedSessionProposal:
        """Propose a session that compares many questions with a threshold for one price. This is free.

        It ends after this many ``positives``. ``sensitivity`` is the most that one unit can change any of the
        questions; by default that of counting rows of these ``tables``, or of all private ones. With ``questions``,
        ``release`` asks them one after the other and closes the session.
        """
        from sfumato.curator.kinds.open_sessions import OpenSessionSpec
        from sfumato.curator.kinds.sessions import SessionSpec

        if questions is None:
            return self.propose(OpenSessionSpec(threshold, positives, sensitivity, tables, monotone))
        return self.propose(SessionSpec(threshold, questions, positives, sensitivity, tables, monotone))

    def running(self, question: str | Question, parameters: Parameters | None = None) -> RunningTotalsProposal:
        """Propose running totals of a count or sum by day, week, month or integer: one total up to each of them, at one
        price for all. This is free.
        """
        from sfumato.curator.kinds.running import RunningSpec

        parsed = question if parameters is None or not isinstance(question, str) else self.sql(question, parameters)
        return self.propose(RunningSpec(parsed))

    def regress(
        self,
        formula: str | None = None,
        table: str | None = None,
        *,
        target: str | None = None,
        on: Sequence[str] | None = None,
        where: str | None = None,
        rows: int | None = None,
        robust: bool = False,
    ) -> RegressionProposal:
        """Propose a linear regression: ``regress("hours ~ age + C(sex) + age:sex", "people")``. This is free.

        Instead of a formula, name the ``target`` and the columns that explain it, ``on``. Columns of numbers need
        declared bounds, categories declared values; rows with a missing value are left out. ``where`` selects rows,
        ``rows`` lowers the limit of rows per unit. ``robust`` buys sampling errors that allow unequal variances, and
        correlated rows of a unit, for a fifth of ρ.
        """
        from sfumato.curator.kinds.regressions import RegressionSpec

        if table is None:
            fix = 'write regress("hours ~ age + sex", "people")'
            raise InvalidParameter("table", table, "the name of a private table", fix=fix)
        return self.propose(RegressionSpec(table, formula, target, on, where, rows, robust))

    def logistic(
        self,
        formula: str | None = None,
        table: str | None = None,
        *,
        target: str | None = None,
        on: Sequence[str] | None = None,
        event: str | None = None,
        where: str | None = None,
        rows: int | None = None,
    ) -> LogisticProposal:
        """Propose a logistic regression: ``logistic("died ~ age + C(arm)", "patients")``. This is free.

        The target has two declared values, of which the last is the event, or ``event`` names one. All else is as in
        ``regress``.
        """
        from sfumato.curator.kinds.logistic import LogisticSpec

        if table is None:
            fix = 'write logistic("died ~ age + sex", "patients")'
            raise InvalidParameter("table", table, "the name of a private table", fix=fix)
        return self.propose(LogisticSpec(table, formula, target, on, event, where, rows))

    def components(
        self, columns: Sequence[str], table: str, *, where: str | None = None, rows: int | None = None
    ) -> ComponentsProposal:
        """Propose the principal components of columns with declared bounds: ``components(["age", "cost"], "visits")``.
        This is free.

        Columns are scaled by their bounds to [−1, 1]; rows with a missing value are left out.
        """
        from sfumato.curator.kinds.components import ComponentsSpec

        return self.propose(ComponentsSpec(table, columns, where, rows))

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
        """Propose to measure marginals of a table once: the counts of all cells, for all sets of this many columns or
        for these sets. Questions to them afterwards are free. This is free.

        ``weights`` are the weights of the marginals' errors; the ``objective`` minimises the sum of all variances or
        the largest one; ``where`` selects rows, ``rows`` lowers the limit of rows per unit.
        """
        from sfumato.curator.kinds.marginals import MarginalsSpec

        return self.propose(MarginalsSpec(table, ways, weights, objective, where, columns, rows))

    def histogram(
        self, table: str, columns: Sequence[str], *, where: str | None = None, rows: int | None = None
    ) -> MarginalsProposal:
        """Propose to count the rows in every cell of these columns together. This is free."""
        from sfumato.curator.kinds.marginals import MarginalsSpec

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
        update: str | None = None,
        where: str | None = None,
        rows: int | None = None,
    ) -> MwemProposal:
        """Propose to fit a model of some columns by MWEM: each round selects and measures what the model gets most
        wrong, among the marginals of this many columns, of these sets, or the counts of ``queries``. This is free.

        ``textbook`` measures single counts and uses each once, as published; by default whole marginals are measured,
        and all are used again after every round. ``update="notes"`` measures single counts with Laplace noise, and
        changes the model only where one is off by more than a threshold (``theorems.multiplicative_weights``).
        ``rows`` lowers the limit of rows per unit.
        """
        from sfumato.curator.kinds.mwem import MwemSpec

        return self.propose(MwemSpec(table, columns, ways, queries, rounds, textbook, where, rows, update))

    @overload
    def synthesize(
        self,
        table: str | None = None,
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
        target: str | None = None,
    ) -> SynthesisProposal: ...

    @overload
    def synthesize(
        self,
        table: list[str] | tuple[str, ...],
        *,
        ways: int = 3,
        columns: Sequence[str] | None = None,
        given: Sequence[str] | None = None,
        order: str | Sequence[str] | Mapping[str, str] | None = None,
        memory: str | int = "1 GiB",
        ends: bool = False,
    ) -> LinkedTablesProposal: ...

    def synthesize(
        self,
        table: str | list[str] | tuple[str, ...] | None = None,
        method: Method = "aim",
        ways: Any = 3,
        *,
        columns: Sequence[str] | None = None,
        weights: ColumnWeights | None = None,
        where: str | None = None,
        rows: int | None = None,
        one_row_per: str | None = None,
        order: Any = None,
        given: Sequence[str] | None = None,
        memory: str | int = "1 GiB",
        target: str | None = None,
        ends: bool = False,
    ) -> SynthesisProposal | LinkedTablesProposal:
        """Propose a synthetic table: rows drawn from a model that is fitted to noisy marginals, of a table or of a
        SELECT that maps and filters single rows. This is free.

        The workload is all marginals of ``ways`` columns, or of these sets. The ``method`` is aim, mst, mwem or
        independent. ``weights`` are weights of columns, such as ``{"income": 3}``; ``where`` selects rows, ``rows``
        lowers the limit of rows per unit; ``one_row_per="unit", order="date"`` uses the first row of each unit, or the
        last with ``"date DESC"``; ``memory`` bounds the model. The table may be omitted if only one is private. With
        ``target`` AIM measures the pairs of this column with all others first, for four fifths of the price: rows from
        which that column is to be learned.

        A list of a parent and tables below it, such as ``["patients", "visits"]``, proposes all, for one price: with
        ``given`` the columns of parents that children depend on, with ``order`` the column that orders the children
        of one parent, or one of each table, ``{"visits": "day", "tests": "taken"}``, and with ``columns`` those of a
        table, such as ``"visits.ward"``. ``ends=True`` keeps which children are a parent's first, last or only one.
        """
        from sfumato.curator.kinds.linked_tables import LinkedTablesSpec
        from sfumato.curator.kinds.synthesis import SynthesisSpec

        if isinstance(table, (list, tuple)):
            refused = {"weights": weights, "where": where, "rows": rows, "one_row_per": one_row_per, "target": target}
            for name, option in {**refused, "method": None if method == "aim" else method}.items():
                if option is not None:
                    fix = f"leave out {name}, or synthesize each table by itself"
                    raise InvalidParameter(name, option, "left out, because there are several tables", fix=fix)
            if isinstance(order, Mapping):
                order = tuple(f"{name}.{column}" for name, column in order.items())
            return self.propose(LinkedTablesSpec(tuple(table), ways, columns, given, order, ends, memory))
        if given is not None or ends:
            name = "ends" if given is None else "given"
            raise InvalidParameter(
                name,
                ends if given is None else given,
                "left out, because there is only one table",
                fix=f'leave out {name}, or name several tables: synthesize(["patients", "visits"], {name}=…)',
            )
        options = method, ways, columns, weights, where, rows
        return self.propose(SynthesisSpec(table, *options, one_row_per, order, target, memory))

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
        """Propose to score a candidate table, made by any tool: how close its marginals of ``k`` columns are to those
        of a private table, from 0 to 1000 as NIST counts it. This is free.

        The candidate is public: a path, or an Arrow, pandas or polars table with the columns to compare. With ``worst``
        the worst marginal is scored instead of the mean. ``total`` is the number of private rows if it is already
        public, such as that of a synthetic table; otherwise a third of the price pays for it. ``where`` selects private
        rows, ``rows`` lowers the limit of rows per unit.
        """
        from sfumato.curator.kinds.scores import ScoreSpec

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
    ) -> OnlineProposal:
        """Propose an online session: a synopsis of all marginals of this many columns, and for questions outside it a
        hypothesis, which is checked and up to ``rounds`` times updated. Its questions are free. So is this.

        ``textbook`` measures the number of rows only, and starts from a uniform table (Hardt & Rothblum 2010).
        """
        from sfumato.curator.kinds.online import OnlineSpec

        return self.propose(OnlineSpec(table, columns, ways, rounds, where, rows, textbook))

    def bounds(self, table: str, column: str, *, cover: Number = "0.99") -> BoundsProposal:
        """Propose to find bounds for a column of numbers or dates that cover this share of its values, among steps that
        depend only on its type. This is free.
        """
        from sfumato.curator.kinds.bounds import BoundsSpec

        return self.propose(BoundsSpec(table, column, cover))

    def limits(self, table: str, *, by: str | Sequence[str] = (), share: Number = "0.95") -> LimitsProposal:
        """Propose to find limits on rows per unit, and on groups ``by`` these columns, that leave this share of the
        units whole. This is free.
        """
        from sfumato.curator.kinds.limits import LimitsSpec

        return self.propose(LimitsSpec(table, by, share))

    def survival(
        self,
        table: str,
        time: str,
        event: str,
        by: str | None = None,
        *,
        event_is: str | None = None,
        every: Number | None = None,
        where: str | None = None,
    ) -> SurvivalProposal:
        """Propose survival curves of a table with one row per unit: Kaplan & Meier's, with bands, medians and the
        log-rank test between the groups of ``by``. This is free.

        ``time`` is a bounded number: when the event happened, or when the unit was last seen without it. ``event`` is
        boolean, or has declared values of which ``event_is`` marks the event. Periods are ``every`` long.
        """
        from sfumato.curator.kinds.survival import SurvivalSpec

        return self.propose(SurvivalSpec(table, time, event, by, event_is, every, where))

    def test(
        self,
        test: TestName,
        question: str | Question,
        column: str | None = None,
        *,
        outcome: str | None = None,
        shares: Sequence[Number] | None = None,
        scores: Sequence[Number] | None = None,
        of: int | None = None,
        equals: Number = "0.5",
    ) -> TestProposal:
        """Propose to ask a question and test its answer; ``power`` tells beforehand what the test would find. This is
        free. Answers that were bought are tested with ``answer.test``, which is free, too.
        """
        from sfumato.curator.kinds.hypothesis_tests import TestSpec

        return self.propose(TestSpec(test, question, column, outcome, shares, scores, of, equals))
