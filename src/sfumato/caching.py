"""A lock-free cached property, for values that threads and forked processes share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar, overload

T = TypeVar("T")


class cached_property(Generic[T]):  # noqa: N801 - it is written like the one in functools
    """A property that is computed once per instance, without a lock.

    Before Python 3.12, ``functools.cached_property`` holds a lock of the class while it computes: one instance's long
    computation then blocks every other instance's, and a process forked meanwhile waits for ever. Without a lock two
    threads may compute the same value at once; cached values depend on a frozen instance alone, so both are right.

    >>> class Square:
    ...     side = 3
    ...     @cached_property
    ...     def area(self):
    ...         return self.side**2
    >>> Square().area
    9
    """

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute = compute
        self.__doc__ = compute.__doc__

    def __set_name__(self, _: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: object | None, owner: type) -> Self | T:
        if instance is None:
            return self
        return instance.__dict__.setdefault(self._name, self._compute(instance))
