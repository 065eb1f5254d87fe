"""What the rest of the system asks of a place where rows live."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sfumato.plan.bounding import Bounded
from sfumato.plan.catalog import Catalog
from sfumato.plan.keys import World
from sfumato.plan.nodes import GroupKey


class Engine(Protocol):
    """Four questions, of which one reads private rows."""

    def catalog(self) -> Catalog:
        """What questions may refer to."""
        ...

    def values(self, world: World) -> Sequence[GroupKey]:
        """Distinct results of expressions on declared values: no table is read."""
        ...

    def check(self, bounded: Bounded) -> None:
        """Bind the statement, and see that the engine is open and the sources are those that were opened.

        Called before every charge, the thousandth of a question like the first: no row is read.
        """
        ...

    def totals(self, bounded: Bounded, groups: Sequence[GroupKey], key: int) -> NDArray[np.int64]:
        """Exact totals, groups × coordinates: the one call that reads private rows, made after the charge."""
        ...

    def identity(self) -> str:
        """The data version."""
        ...

    def interrupt(self, thread: int | None = None) -> None:
        """End what is being read, by every thread or by this one alone."""
        ...

    def close(self) -> None: ...
