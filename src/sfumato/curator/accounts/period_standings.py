"""A standing is told for each period that was asked about, where every period has an account of its own."""

from __future__ import annotations

from dataclasses import dataclass

from sfumato.curator.accounts.standings import CURRENCIES, Standing
from sfumato.errors import InvalidParameter
from sfumato.notebook_html import folded, preformatted, table
from sfumato.plan import account_periods
from sfumato.privacy import codec


@codec.value("period-standings")
@dataclass(frozen=True)
class PeriodStandings:
    """These are the standings of the accounts of all periods that were asked about, and of one that was not yet."""

    per: str
    promise: str
    """What the accounts promise, in words."""
    fresh: Standing
    """Of a period of which nothing was asked."""
    periods: tuple[str, ...] = ()
    standings: tuple[Standing, ...] = ()

    def __post_init__(self) -> None:
        codec.check_fields(self)
        known = (*self.standings, self.fresh) if type(self.standings) is tuple else (None,)
        if not all(isinstance(each, Standing) for each in known) or len(known) != len(self.periods) + 1:
            raise InvalidParameter("standings", self.standings, "a standing for each period")

    def __getitem__(self, period: str) -> Standing:
        """Give the standing of one period, such as "2024-03"."""
        account_periods.counted(period, self.per)
        return dict(zip(self.periods, self.standings, strict=True)).get(period, self.fresh)

    def to_json(self) -> str:
        """Write the standings as JSON text; amounts are exact, and so written as strings."""
        return codec.dumps(self)

    @classmethod
    def from_json(cls, source: str) -> PeriodStandings:
        """Read back what ``to_json`` wrote; any other text is refused."""
        return codec.loads_as(cls, source)

    def rows(self) -> list[tuple[str, ...]]:
        """Write period, currency, allowed, spent and left of each currency of each period, as text."""
        every = [*zip(self.periods, self.standings, strict=True), (f"any other {self.per}", self.fresh)]
        return [(period, *row) for period, standing in every for row in standing.rows()]

    @property
    def lines(self) -> list[str]:
        """Say in words what is left for ordinary answers of each period, and what is promised."""
        every = [*zip(self.periods, self.standings, strict=True), (f"any other {self.per}", self.fresh)]
        left = [f"  {period}: {standing.ordinary}" for period, standing in every]
        return ["budget left for ordinary answers:", *left, f"an account for each {self.per}; {self.promise}"]

    def details(self) -> list[str]:
        """Say how the currencies of all periods are meant."""
        return [f"each {self.per} has these currencies of its own"]

    def __str__(self) -> str:
        return "\n".join(self.lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """Show the words first, and the currencies of each period folded away."""
        counted = table(("period", *CURRENCIES), self.rows(), CURRENCIES[1:])
        return preformatted(str(self)) + folded("details", counted)
