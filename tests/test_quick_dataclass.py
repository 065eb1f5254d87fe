"""A class behaves the same whether this package's decorator or the standard one made it a dataclass."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import field
from typing import Any, ClassVar, Generic, TypeVar, get_type_hints

import pytest

from sfumato.quick_dataclass import dataclass

T = TypeVar("T")
Decorator = Callable[..., Any]
BOTH = pytest.mark.parametrize("decorator", [dataclasses.dataclass, dataclass], ids=["standard", "quick"])


def point(decorator: Decorator) -> Any:
    @decorator(frozen=True)
    class Point:
        """A place."""

        x: int
        y: int = 2
        tags: list[str] = field(default_factory=list, compare=False)
        note: str = field(default="", repr=False, hash=False)
        unit: ClassVar[str] = "m"

    return Point


def described(act: Callable[[], object]) -> object:
    """Return what an act gives, or the kind and text of what it raises."""
    try:
        return act()
    except Exception as error:
        return type(error), str(error).replace("__create_fn__.<locals>.", "")


ACTS: dict[str, Callable[[Any], object]] = {
    "signature": lambda cls: str(inspect.signature(cls)),
    "hints": lambda cls: str(inspect.get_annotations(cls.__init__)),
    "qualname": lambda cls: cls.__init__.__qualname__.rpartition(".")[2],
    "repr": lambda cls: repr(cls(1, tags=["a"])).rpartition(".")[2],
    "equal": lambda cls: (cls(1) == cls(1), cls(1) == cls(2), cls(1, tags=["a"]) == cls(1), cls(1) == 1),
    "hash": lambda cls: hash(cls(1)) == hash(cls(1, note="other")) == hash((1, 2)),
    "set": lambda cls: setattr(cls(1), "x", 5),
    "add": lambda cls: setattr(cls(1), "other", 5),
    "delete": lambda cls: delattr(cls(1), "x"),
    "replace": lambda cls: dataclasses.astuple(dataclasses.replace(cls(1), y=7)),
    "fields": lambda cls: [each.name for each in dataclasses.fields(cls)],
    "match": lambda cls: cls.__match_args__,
    "factory": lambda cls: cls(1).tags is cls(1).tags,
    "too few": lambda cls: cls(),
    "too many": lambda cls: cls(1, 2, [], "", 5),
    "unknown": lambda cls: cls(1, z=5),
    "doc": lambda cls: cls.__doc__,
    "copied": lambda cls: copy.deepcopy(cls(1, tags=["a"])) == cls(1),
    "class attribute": lambda cls: (cls.unit, cls(1).unit, cls.y),
    "default of a field, before anything is called": lambda cls: (cls.note, hasattr(cls, "tags")),
    "parameters": lambda cls: (cls.__dataclass_params__.frozen, dataclasses.is_dataclass(cls)),
    "nan": lambda cls: (cls(NAN) == cls(NAN), cls(NAN) == cls(float("nan"))),
}
NAN = float("nan")


@pytest.mark.parametrize("act", ACTS.values(), ids=ACTS)
def test_a_frozen_class_is_as_the_standard_one(act: Callable[[Any], object]) -> None:
    expected, actual = (described(lambda made=made: act(point(made))) for made in (dataclasses.dataclass, dataclass))
    assert actual == expected


@BOTH
def test_a_subclass_inherits_fields_and_calls_its_parents_init(decorator: Decorator) -> None:
    @decorator(frozen=True)
    class Parent:
        first: int

        def __post_init__(self) -> None:
            if self.first < 0:
                raise ValueError("negative")

    @decorator(frozen=True, kw_only=True)
    class Child(Parent):
        second: int = 5

    class Plain(Parent):
        def __init__(self) -> None:
            super().__init__(3)
            self.extra = 4

    child = Child(1, second=2)
    assert (child.first, child.second, child == Child(1, second=2)) == (1, 2, True)
    assert Parent(1) != Child(1)
    with pytest.raises(TypeError):
        Child(1, 2)
    with pytest.raises(ValueError, match="negative"):
        Child(-1)
    plain = Plain()
    assert (plain.first, plain.extra) == (3, 4)
    with pytest.raises(dataclasses.FrozenInstanceError):
        plain.first = 5


@BOTH
def test_fields_are_collected_from_the_first_base_on_however_they_are_first_read(decorator: Decorator) -> None:
    @decorator(frozen=True)
    class Base:
        first: int
        second: int = field(default=2, compare=False)

    @decorator(frozen=True)
    class Middle(Base):
        third: int = 3

    @decorator(frozen=True)
    class Last(Middle):
        second: int = 5

    class Plain(Last):
        pass

    assert [each.name for each in dataclasses.fields(Plain)] == ["first", "second", "third"]
    assert (Plain(1), Plain(1).second, Last.__match_args__) == (Plain(1, 5, 3), 5, ("first", "second", "third"))
    match Last(4):
        case Middle(first, second, 3):
            assert (first, second) == (4, 5)
        case _:
            pytest.fail("a subclass has no fields by position")
    assert (Base(1) == Base(1, 9), Last(1) == Last(1, 9)) == (True, False)


def test_threads_that_meet_a_new_class_at_once_all_find_its_fields() -> None:
    for _ in range(20):
        classes = [
            dataclass(type(f"C{i}", (), {"__annotations__": {"x": "int", "y": "int"}, "y": i})) for i in range(8)
        ]
        gate, found = threading.Barrier(4), []

        def use(gate: threading.Barrier = gate, classes: list[Any] = classes, found: list[Any] = found) -> None:
            gate.wait()
            found.extend((cls(7).x, cls(7).y, len(dataclasses.fields(cls))) for cls in classes)

        threads = [threading.Thread(target=use) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(found) == sorted((7, i, 2) for i in range(8) for _ in range(4))


@BOTH
def test_a_class_that_can_change_has_no_hash(decorator: Decorator) -> None:
    @decorator
    class Counter:
        number: int = 0
        seen: list[int] = field(init=False, default_factory=list)
        total: int = field(init=False, default=9)

    counter = Counter()
    counter.number += 1
    assert counter == Counter(1)
    assert (counter.seen, counter.total) == ([], 9)
    with pytest.raises(TypeError, match="unhashable"):
        hash(counter)


@BOTH
def test_methods_of_the_class_body_stay(decorator: Decorator) -> None:
    @decorator(frozen=True)
    class Own:
        x: int

        def __repr__(self) -> str:
            return "own"

        def __eq__(self, other: object) -> bool:
            return True

        def __hash__(self) -> int:
            return 7

    @decorator(frozen=True, eq=False)
    class Identity:
        x: int

    assert (repr(Own(1)), Own(1) == Own(2), hash(Own(1))) == ("own", True, 7)
    assert Identity(1) != Identity(1)


@BOTH
def test_a_frozen_class_with_its_own_comparison_is_hashed_by_its_fields(decorator: Decorator) -> None:
    @decorator(frozen=True)
    class Own:
        x: int

        def __eq__(self, other: object) -> bool:
            return True

    assert hash(Own(3)) == hash((3,))


@pytest.mark.parametrize("other", [dataclasses.dataclass, dataclass], ids=["standard", "quick"])
@BOTH
def test_a_frozen_class_may_have_a_frozen_base_of_the_other_kind(decorator: Decorator, other: Decorator) -> None:
    @decorator(frozen=True)
    class Base:
        first: int

    @other(frozen=True)
    class Derived(Base):
        second: int

    made = Derived(1, 2)
    assert (made.first, made.second, made) == (1, 2, Derived(1, 2))
    for name in ("first", "second", "third"):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(made, name, 5)
    with pytest.raises(dataclasses.FrozenInstanceError):
        Base(1).first = 5


@dataclass(frozen=True)
class Node(Generic[T]):
    value: T
    children: list[Node[T]] = field(default_factory=list)


def test_recursion_generics_and_pickles() -> None:
    node = Node[int](1)
    node.children.append(node)
    assert repr(node) == "Node(value=1, children=[...])"
    assert pickle.loads(pickle.dumps(Node("a"))) == Node("a")
    assert get_type_hints(Node.__init__)["children"] == list[Node[T]]


@pytest.mark.parametrize("option", [{"slots": True}, {"order": True}])
def test_what_it_does_not_do_is_refused(option: dict[str, bool]) -> None:
    with pytest.raises(TypeError):
        dataclass(**option)(type("Plain", (), {"__annotations__": {"x": "int"}}))


def test_an_initvar_is_refused() -> None:
    with pytest.raises(TypeError, match=r"Plain has an InitVar: use dataclasses\.dataclass"):
        dataclass(type("Plain", (), {"__annotations__": {"x": "InitVar[int]"}}))


def test_nothing_is_compiled_before_a_class_is_called_often() -> None:
    program = (
        "import builtins, dataclasses\n"
        "from sfumato.quick_dataclass import dataclass\n"
        "compiled = []\n"
        "ran = exec\n"
        "builtins.exec = lambda *given: (compiled.append(given[0]), ran(*given))[1]\n"
        "@dataclass(frozen=True)\n"
        "class Point:\n"
        "    x: int\n"
        "    y: int = 2\n"
        "before = len(compiled)\n"
        "for _ in range(4):\n"
        "    Point(1)\n"
        "print(before, len(compiled))\n"
        "Point(1), Point(2)\n"
        "print(len(compiled))\n"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["0", "0", "1"]


CALLS: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    ((1,), {}),
    ((1, 2), {"only": 3}),
    ((), {"first": 1, "tags": ["a"]}),
    ((), {}),
    ((), {"only": 3}),
    ((1, 2, [], 4), {}),
    ((1,), {"first": 1}),
    ((1,), {"computed": 5}),
    ((1,), {"other": 5}),
    ((-1,), {}),
]


@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize(("args", "kwargs"), CALLS)
def test_first_calls_assign_what_the_compiled_method_assigns(
    args: tuple[Any, ...], kwargs: dict[str, Any], frozen: bool
) -> None:
    def made(decorator: Decorator) -> Any:
        @decorator(frozen=frozen)
        class Record:
            first: int
            second: Any = None
            tags: list[str] = field(default_factory=list)
            only: int = field(default=7, kw_only=True)
            computed: int = field(default=8, init=False)
            filled: list[int] = field(default_factory=list, init=False)

            def __post_init__(self) -> None:
                if self.first < 0:
                    raise ValueError(f"negative: {vars(self)}")

        return Record

    standard, quick = made(dataclasses.dataclass), made(dataclass)
    expected = described(lambda: list(vars(standard(*args, **kwargs)).items()))
    results = [described(lambda: list(vars(quick(*args, **kwargs)).items())) for _ in range(7)]
    assert all(_without_names(result) == _without_names(expected) for result in results)


def _without_names(result: object) -> object:
    """Leave out a class's place and what only the class holds."""
    if isinstance(result, list):
        return [pair for pair in result if pair[0] != "computed"]
    error, text = result  # type: ignore[misc]
    return error, text.rpartition("Record.")[2].replace("'computed': 8, ", "")
