"""`dataclass` whose methods are shared, or compiled when they are first needed, so that many classes import quickly.

The standard decorator compiles up to six methods of every class while it is imported: for the classes that a first
question needs, that took longer than everything else. Here it collects the fields when they are first read, and
`__init__` is compiled when the class is called for the fifth time, or inspected; `fields`, `replace`, `asdict` and
`match` work as ever. `repr`, comparison, hash and the refusal to assign are plain functions. A mistake among the fields
(a list as a default, a field without one behind a default) is therefore refused at the first use of the class.

Not supported, and refused: `InitVar`, `slots` and ordering. Such a class takes `dataclasses.dataclass`.
"""

from __future__ import annotations

import dataclasses
import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from operator import attrgetter
from reprlib import recursive_repr
from threading import RLock
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(cls=None, /, **options):
        """Make a dataclass of a class, as `dataclasses.dataclass` does; see this module for what differs."""
        if cls is None:
            return lambda decorated: _build_dataclass(decorated, **options)
        return _build_dataclass(cls)


def _build_dataclass(
    cls: type[Any],
    *,
    init: bool = True,
    repr: bool = True,  # noqa: A002 - the names of dataclasses.dataclass
    eq: bool = True,
    frozen: bool = False,
    kw_only: bool = False,
) -> type[Any]:
    _check_fields(cls)
    postponed = _PostponedFields(cls, frozen, kw_only)
    for name in _COLLECTED:
        _add_unless_defined(cls, name, _CollectOnRead(name, postponed))
    if init:
        _add_unless_defined(cls, "__init__", _LazyInit(cls, frozen))
    if repr:
        _add_unless_defined(cls, "__repr__", _repr)
    if eq:
        _add_comparison(cls, frozen)
    if frozen:
        _freeze(cls)
    return cls


_BUILDING = RLock()
_COLLECTED = ("__dataclass_fields__", "__dataclass_params__", "__match_args__")
"""What the standard decorator sets. A placeholder stands for each until one of them is read."""


class _PostponedFields:
    """The fields of a class that the standard decorator has not collected yet: most classes of a process are never
    called.

    Meanwhile the class attribute of a field is its default, as it will be afterwards.
    """

    def __init__(self, cls: type[Any], frozen: bool, kw_only: bool) -> None:
        self.cls, self._frozen, self._kw_only = cls, frozen, kw_only
        self._specified = {name: value for name, value in vars(cls).items() if type(value) is dataclasses.Field}
        for name, specified in self._specified.items():
            if specified.default is dataclasses.MISSING:
                delattr(cls, name)
            else:
                setattr(cls, name, specified.default)

    def collect(self) -> None:
        """Let the standard decorator collect the fields, once. The placeholders stay until it has: threads that read
        one meanwhile wait for it.
        """
        with _BUILDING:
            cls = self.cls
            if not isinstance(vars(cls)["__dataclass_fields__"], _CollectOnRead):
                return
            for base in cls.__mro__[1:]:
                getattr(base, "__dataclass_fields__", None)  # collects those of the base
            for name, specified in self._specified.items():
                setattr(cls, name, specified)
            documented = cls.__doc__
            cls.__doc__ = documented or cls.__name__  # else the signature would be computed for it
            with _thawed_bases(cls):
                dataclasses.dataclass(init=False, repr=False, eq=False, kw_only=self._kw_only)(cls)
            cls.__doc__ = documented
            cls.__dataclass_params__.frozen = self._frozen
            if isinstance(vars(cls)["__match_args__"], _CollectOnRead):
                fields = dataclasses.fields(cls)
                names = tuple(field.name for field in fields if field.init and not field.kw_only)
                cls.__match_args__ = names  # type: ignore[misc]


class _CollectOnRead:
    """A placeholder of what the standard decorator sets: reading it collects the fields."""

    def __init__(self, name: str, postponed: _PostponedFields) -> None:
        self._name, self._postponed = name, postponed

    def __get__(self, instance: object, owner: type) -> Any:
        self._postponed.collect()
        return getattr(self._postponed.cls, self._name)


@contextmanager
def _thawed_bases(cls: type[Any]) -> Iterator[None]:
    """Let a class have frozen bases while its fields are collected, without compiling that it is frozen too."""
    params = [base.__dict__["__dataclass_params__"] for base in cls.__mro__[1:] if "__dataclass_params__" in vars(base)]
    frozen = [param for param in params if param.frozen]
    try:
        for param in frozen:
            param.frozen = False
        yield
    finally:
        for param in frozen:
            param.frozen = True


def _check_fields(cls: type[Any]) -> None:
    """Refuse the fields that only the standard decorator knows."""
    annotations = vars(cls).get("__annotations__")
    if annotations is None:
        annotations = inspect.get_annotations(cls)
    if "InitVar" in str(annotations):
        raise TypeError(f"{cls.__qualname__} has an InitVar: use dataclasses.dataclass")


def _add_unless_defined(cls: type[Any], name: str, value: object) -> None:
    """Add a method unless the class's own body defines it."""
    if name not in cls.__dict__:
        setattr(cls, name, value)


@recursive_repr()
def _repr(self: Any) -> str:
    field_texts = ", ".join(
        f"{field.name}={getattr(self, field.name)!r}" for field in dataclasses.fields(self) if field.repr
    )
    return f"{type(self).__qualname__}({field_texts})"


def _add_comparison(cls: type[Any], frozen: bool) -> None:
    """Compare and hash by the tuple of fields; what can change has no hash."""
    has_own_hash = cls.__dict__.get("__hash__") is not None
    _add_unless_defined(cls, "__eq__", _LazyMethod(cls, "__eq__", lambda: _comparison_of_fields(cls)))
    if not has_own_hash:
        hash_by_fields = _LazyMethod(cls, "__hash__", lambda: _hash_of_fields(cls))
        cls.__hash__ = hash_by_fields if frozen else None  # type: ignore[assignment]


def _comparison_of_fields(cls: type[Any]) -> Callable[[object, object], Any]:
    compared = _tuple_getter([field.name for field in dataclasses.fields(cls) if field.compare])

    def equal(self: object, other: object) -> Any:
        if other.__class__ is self.__class__:
            return compared(self) == compared(other)
        return NotImplemented

    return equal


def _hash_of_fields(cls: type[Any]) -> Callable[[object], int]:
    fields = dataclasses.fields(cls)
    hashed = _tuple_getter([field.name for field in fields if (field.compare if field.hash is None else field.hash)])

    def hash_of_fields(self: object) -> int:
        return hash(hashed(self))

    return hash_of_fields


def _tuple_getter(names: list[str]) -> Callable[[object], tuple[object, ...]]:
    """Return a function from an object to the tuple of these attributes."""
    if len(names) > 1:
        return attrgetter(*names)
    if not names:
        return lambda _: ()
    only = attrgetter(names[0])
    return lambda instance: (only(instance),)


def _freeze(cls: type[Any]) -> None:
    """Refuse to assign or delete fields; a subclass that is no dataclass may have attributes of its own."""

    def is_refused(self: object, name: str) -> bool:
        return type(self) is cls or any(name == field.name for field in dataclasses.fields(cls))

    def refuse_to_set(self: object, name: str, value: object) -> None:
        if is_refused(self, name):
            raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    def refuse_to_delete(self: object, name: str) -> None:
        if is_refused(self, name):
            raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    cls.__setattr__ = refuse_to_set  # type: ignore[assignment]
    cls.__delattr__ = refuse_to_delete  # type: ignore[assignment]


class _LazyMethod:
    """A method that builds itself, and takes its own place, when it is first looked up."""

    def __init__(self, cls: type[Any], name: str, build: Callable[[], Any]) -> None:
        self._cls, self._name, self._build = cls, name, build

    def __get__(self, instance: object, owner: type) -> Any:
        method = self._build()
        if self._cls.__dict__.get(self._name) is self:
            setattr(self._cls, self._name, method)
        return method if instance is None else method.__get__(instance, owner)


_FEW_CALLS = 4
"""Calls of a class before its ``__init__`` is compiled, which takes as long as a hundred that are not: of the classes
of a short command, three in four are called no more often."""


class _LazyInit(_LazyMethod):
    """An ``__init__`` that assigns field by field in its first calls, and is then compiled."""

    def __init__(self, cls: type[Any], frozen: bool) -> None:
        super().__init__(cls, "__init__", lambda: _compile_init(cls, frozen))
        self._is_frozen, self._calls = frozen, 0

    def __get__(self, instance: object, owner: type) -> Any:
        self._calls += 1
        if instance is None or self._calls > _FEW_CALLS:
            return super().__get__(instance, owner)
        return partial(self._assign_fields, instance)

    def _assign_fields(self, instance: Any, /, *args: Any, **kwargs: Any) -> None:
        """Assign the arguments and defaults as the compiled method does, which also refuses those that do not fit."""
        fields = dataclasses.fields(self._cls)
        positional = [field.name for field in fields if field.init and not field.kw_only]
        given = {**dict(zip(positional, args, strict=False)), **kwargs}
        fits = len(args) <= len(positional) and len(given) == len(args) + len(kwargs)
        assigned = {}
        for field in fields:
            if field.init and field.name in given:
                assigned[field.name] = given.pop(field.name)
            elif field.default_factory is not dataclasses.MISSING:
                assigned[field.name] = field.default_factory()
            elif field.init and field.default is not dataclasses.MISSING:
                assigned[field.name] = field.default
            elif field.init:
                fits = False
        if given or not fits:
            self._build()(instance, *args, **kwargs)
            return
        if self._is_frozen:
            vars(instance).update(assigned)
        else:
            for name, value in assigned.items():
                setattr(instance, name, value)
        if hasattr(self._cls, "__post_init__"):
            instance.__post_init__()


def _compile_init(cls: type[Any], frozen: bool) -> Any:
    fields = dataclasses.fields(cls)
    positional = [field for field in fields if field.init and not field.kw_only]
    keyword = [field for field in fields if field.init and field.kw_only]
    parameters = [*map(_parameter, positional), *(["*"] if keyword else []), *map(_parameter, keyword)]
    body = [*_assignments(fields, frozen), *(["self.__post_init__()"] if hasattr(cls, "__post_init__") else [])]
    lines = [f"def __init__({', '.join(['self', *parameters])}):", *(f" {line}" for line in body or ["pass"])]
    constants: dict[str, Any] = {"_MISSING": _MISSING}
    constants |= {f"_default_{field.name}": field.default for field in fields}
    constants |= {f"_factory_{field.name}": field.default_factory for field in fields}
    source = "\n ".join([f"def make({', '.join(constants)}):", *lines, "return __init__"])
    scope: dict[str, Any] = {}
    exec(source, vars(sys.modules[cls.__module__]), scope)  # in the module, where its annotations have a meaning
    init = scope["make"](**constants)
    init.__qualname__, init.__module__ = f"{cls.__qualname__}.__init__", cls.__module__
    init.__annotations__ = {field.name: field.type for field in fields if field.init} | {"return": None}
    return init


class _FilledByFactory:
    """Stands for an argument that a factory fills in."""

    def __repr__(self) -> str:
        return "<factory>"


_MISSING = _FilledByFactory()


def _parameter(field: dataclasses.Field[Any]) -> str:
    if field.default is not dataclasses.MISSING:
        return f"{field.name}=_default_{field.name}"
    return f"{field.name}=_MISSING" if field.default_factory is not dataclasses.MISSING else field.name


def _assignments(fields: tuple[dataclasses.Field[Any], ...], frozen: bool) -> Iterator[str]:
    """Return the lines of ``__init__``. The fields of a frozen instance are set at once.

    One by one, past the refusal to set them, each would take as long as three.
    """
    assigned = []
    for field in fields:
        value = field.name
        if field.default_factory is not dataclasses.MISSING:
            factory_call = f"_factory_{field.name}()"
            value = f"{factory_call} if {field.name} is _MISSING else {field.name}" if field.init else factory_call
        elif not field.init:
            continue  # the class attribute is its value
        assigned.append((field.name, value))
    if frozen and assigned:
        yield f"self.__dict__.update({', '.join(f'{name}={value}' for name, value in assigned)})"
    else:
        yield from (f"self.{name} = {value}" for name, value in assigned)
