"""Many kinds of release read the totals of known groups once, and make all that they show from these."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, TypeVar

import numpy as np

from sfumato.plan.readings.total_readings import GroupTotals, Integers
from sfumato.policy.domains import LARGEST_INTEGER
from sfumato.release.releasing import Read

T = TypeVar("T", covariant=True)


class OneReading(ABC, Generic[T]):
    """This is a release of one reading: it says what is read and what is made of the totals."""

    @property
    @abstractmethod
    def reading(self) -> GroupTotals:
        """Say what is read."""

    @abstractmethod
    def made(self, totals: Integers) -> T:
        """Draw what is written down: measurements on these totals, and nothing else."""

    @property
    def readings(self) -> tuple[GroupTotals]:
        return (self.reading,)

    def draw(self, read: Read) -> T:
        return self.made(read(self.reading))

    def rehearsal(self) -> T:
        """Try what becomes of the largest totals there can be."""
        return self.made(np.full(self.reading.shape, LARGEST_INTEGER, np.int64))
