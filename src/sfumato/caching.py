"""A lock-free cached property, for values that threads and forked processes share, and texts that are written when they
are read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import wraps
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, overload

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T")
S = TypeVar("S")
A = TypeVar("A")
D = TypeVar("D", bound="DataclassInstance")


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


def once_per_instance(compute: Callable[[S], T]) -> Callable[[S], T]:
    """Compute a function of a frozen instance once, like a ``cached_property`` of a class that cannot know it."""
    name = f"_{compute.__module__}.{compute.__qualname__}"

    @wraps(compute)
    def compute_once(instance: S) -> T:
        known: dict[str, T] = instance.__dict__
        return known[name] if name in known else known.setdefault(name, compute(instance))

    return compute_once


def once_per_last_argument(compute: Callable[[S, A], T]) -> Callable[[S, A], T]:
    """Compute a function of a frozen instance and another frozen object once, while that object stays the same one.

    Only the last object is kept, so that a search over many of them keeps no more than one result.

    >>> class Line:
    ...     slope = 3
    ...     @once_per_last_argument
    ...     def at(self, point):
    ...         return self.slope * point
    >>> Line().at(2)
    6
    """
    name = f"_last_{compute.__module__}.{compute.__qualname__}"

    @wraps(compute)
    def compute_unless_last(instance: S, argument: A) -> T:
        last: tuple[A, T] | None = instance.__dict__.get(name)
        if last is None or last[0] is not argument:
            last = instance.__dict__[name] = argument, compute(instance, argument)
        return last[1]

    return compute_unless_last


class LazyText:
    """The default of a dataclass's text field: empty, or computed when the field is first read (``defer_text``).

    A text that takes long and is seldom read costs nothing until then. Like ``cached_property`` it has no lock: two
    threads may compute the same text at once.

    >>> class Note:
    ...     text = LazyText()
    >>> note = Note()
    >>> defer_text(note, "text", lambda: "written now")
    >>> Note().text, note.text
    ('', 'written now')
    """

    def __set_name__(self, _: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: object | None, owner: type) -> str:
        if instance is None:
            return ""
        compute = instance.__dict__.get(f"_late_{self._name}")
        text: str = instance.__dict__.setdefault(self._name, "" if compute is None else compute())
        instance.__dict__.pop(f"_late_{self._name}", None)  # last: whoever finds it gone finds the text
        return text


def defer_text(instance: object, name: str, compute: Callable[[], str]) -> None:
    """Let a ``LazyText`` be computed by this when it is first read."""
    instance.__dict__.pop(name, None)
    instance.__dict__[f"_late_{name}"] = compute


def replace_keeping_lazy(late: str, instance: D, changes: Mapping[str, Any]) -> D:
    """Return a dataclass with other fields; a ``LazyText`` that was put off and is not among them stays put off."""
    compute = None if late in changes else instance.__dict__.get(f"_late_{late}")
    if compute is None:
        return replace(instance, **changes)
    changed = replace(instance, **{**changes, late: ""})
    defer_text(changed, late, compute)
    return changed
