"""The registry of release kinds: for each, its spec, its proposal, its price terms and the skins that offer it.

Every module of ``sfumato.curator.kinds`` holds one ``KIND``. The command line, REST, the client, the page and the
reference read it from here; a new kind needs no other line. Nothing here imports an engine or a skin.

Fields of specs and terms of a price have the types that JSON can hold, with limits on their lengths.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, field
from fractions import Fraction
from importlib import import_module
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Generic, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from sfumato.errors import InvalidParameter, Unsupported
from sfumato.privacy.numbers import Number
from sfumato.quick_dataclass import dataclass

if TYPE_CHECKING:
    from sfumato.curator.context import Context
    from sfumato.curator.proposals.questions import Question
    from sfumato.plan.catalog import Catalog
    from sfumato.plan.sql.parameters import Parameters


@dataclass(frozen=True)
class SizeBounds:
    """Bounds on the length of a text or list, or on the value of an integer."""

    least: int
    most: int


Name = Annotated[str, SizeBounds(1, 200)]
Text = Annotated[str, SizeBounds(1, 65536)]
Count = Annotated[int, SizeBounds(1, 10**9)]
Names = Annotated[Sequence[Name], SizeBounds(1, 1000)]
NameSets = Annotated[Sequence[Names], SizeBounds(1, 10000)]
Cell = str | int | float | bool | None
ROWS = "rows"
"""Marks a field that also accepts rows selected step by step in Python: over REST, a view and its steps."""
Rows = Annotated[str | Any, SizeBounds(1, 65536), ROWS]
"""The rows of a model: the name of a private table, a SELECT, or in Python a ``RowSelection``."""


ROWS_HELP = "A private table, or a SELECT, which may have joins, UNION ALL, or GROUP BY the unit's id."


def option_field(help_text: str, default: Any = ..., *, local: bool = False) -> Any:
    """Declare a field of a spec; without a default it is required, a ``local`` one exists only in Python."""
    metadata = {"help": help_text, "local": local}
    return field(metadata=metadata) if default is ... else field(default=default, metadata=metadata)


@dataclass(frozen=True)
class PriceTerm:
    """One argument of a price, such as ``epsilon``."""

    name: str
    annotation: Any
    help: str


_COLUMN_WIDTHS = Mapping[str, Number] | Number
_QUESTION_WIDTHS = Mapping[str, Number | Mapping[str, Number]] | Number

TERMS: Mapping[str, PriceTerm] = {
    "epsilon": PriceTerm("epsilon", Number, "The price ε: this release, taken alone, is ε-differentially private."),
    "delta": PriceTerm(
        "delta",
        Number,
        "With epsilon: the δ of the price, making the release (ε, δ)-differentially private; allows Gaussian noise.",
    ),
    "rho": PriceTerm(
        "rho", Number, "The price in ρ, the loss of zero-concentrated differential privacy (zCDP), instead of epsilon."
    ),
    "within": PriceTerm("within", Number, "The largest acceptable error, instead of a price."),
    "column widths": PriceTerm("within", _COLUMN_WIDTHS, "The largest acceptable ±, for all columns or by column."),
    "question widths": PriceTerm("within", _QUESTION_WIDTHS, "The largest acceptable ±, by question and column."),
    "confidence": PriceTerm(
        "confidence", Number, "The confidence level of the range given for each number, such as 0.95."
    ),
    "mechanism": PriceTerm(
        "mechanism",
        Literal["laplace", "gaussian"],
        "The noise distribution, instead of the one with the smallest error.",
    ),
    "weights": PriceTerm("weights", Mapping[str, Number], "The weight of each column's error."),
    "joint": PriceTerm("joint", bool, "Whether the confidence holds for all ranges together, not for each by itself."),
    "fresh": PriceTerm(
        "fresh", bool, "Buy a new answer even if the same release is stored and could be returned for free."
    ),
    "for": PriceTerm("for_", Names, "The marginal whose error is forecast."),
    "rows": PriceTerm("rows", Annotated[int, SizeBounds(1, 10**6)], "The number of rows that a preview invents."),
    "values_epsilon": PriceTerm("values_epsilon", Number, "The part of the price that pays for noisy values."),
    "counting": PriceTerm("counting", Number, "The share of the price that pays for the number of buyers."),
    "sizes": PriceTerm(
        "sizes",
        Sequence[Number] | Number,
        "For power: the assumed size of each group; for a correlation, the number of all rows.",
    ),
    "shares": PriceTerm("shares", Sequence[Number], "For power: the assumed share of the outcome in each group."),
    "means": PriceTerm("means", Sequence[Number], "For power: the assumed mean of each group, or of both columns."),
    "deviation": PriceTerm(
        "deviation",
        Sequence[Number] | Number,
        "For power, with means: the standard deviation of the values; for a correlation, one for each column.",
    ),
    "counts": PriceTerm("counts", Sequence[Number], "For power: the assumed count of each group."),
    "correlation": PriceTerm("correlation", Number, "For power: the assumed correlation."),
    "level": PriceTerm(
        "level", Number, "For power: the significance level, the largest p-value at which a test rejects."
    ),
}
"""All price terms. Those up to ``fresh`` are fields of ``release.requests.Request`` or of a call."""


@dataclass(frozen=True)
class FieldForm:
    """How a person enters a field on a command line or in a form."""

    name: Literal["text", "number", "count", "flag", "choice", "list"]
    choices: tuple[str, ...] = ()


def field_form(annotation: Any) -> FieldForm:
    """Return the input form of a field's type.

    Raises TypeError for a type without one: such a kind needs a hand-written command.
    """
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return field_form(parts[0])
    if origin in (Union, UnionType):
        return _union_form(tuple(part for part in parts if part not in (NoneType, Any)))
    if origin is Literal:
        return FieldForm("choice", parts)
    if origin is Sequence and field_form(parts[0]).name in ("text", "number"):
        return FieldForm("list")
    plain = {str: FieldForm("text"), int: FieldForm("count"), bool: FieldForm("flag")}
    if annotation not in plain:
        raise TypeError(f"no form for a field of type {annotation}: text, number, flag, choice, or a list of texts")
    return plain[annotation]


def _union_form(parts: tuple[Any, ...]) -> FieldForm:
    """Return the form of a union: of a single type, of a number's types, or of a text and a list of texts."""
    if Fraction in parts:
        return FieldForm("number")
    forms = {field_form(part) for part in parts}
    if len(forms) > 1 and forms != {FieldForm("text"), FieldForm("list")}:
        raise TypeError(f"no form for a field of several types: {parts}")
    return max(forms, key=lambda form: form.name == "list")


P = TypeVar("P", covariant=True)
Skin = Literal["command", "rest", "page"]


KINDS = "sfumato.curator.kinds"
"""The package with one module per kind."""


class Spec(Generic[P]):
    """Base class of the frozen specs; ``P`` is the class of the proposal."""


@dataclass(frozen=True)
class Workspace:
    """What a proposal is built from: a curator's context, its catalog and its question parser."""

    context: Context
    catalog: Catalog
    sql: Callable[[str, Parameters | None], Any]
    question: Callable[..., Question]
    """Like ``sql``, but refuses SHOW TABLES and DESCRIBE."""


@dataclass(frozen=True)
class SkinRefusal:
    """Why a skin does not offer a kind, and what to do instead."""

    rule: str
    fix: str


@dataclass(frozen=True)
class ReleaseKind:
    """One kind of release."""

    name: str
    """The name in URLs, in ledgers and on the command line."""
    spec: type[Spec[Any]]
    propose: Callable[[Workspace, Any], Any]
    proposal: str
    """``module:Class`` of the proposal, imported on use."""
    answer: str
    """``module:Class`` of the released value, which writes and reads its own JSON."""
    price_terms: tuple[str, ...]
    """Keys of ``TERMS`` that its methods accept."""
    example: Spec[Any]
    positional: tuple[str, ...] = ()
    """Terms after the first that methods accept positionally as well as by name."""
    roles: tuple[str, ...] = ("owner", "analyst")
    refusal_by_skin: Mapping[Skin, SkinRefusal] = field(default_factory=dict)
    """The skins that do not offer it, with the reason."""
    needs_delta: bool = False
    """Whether its noise is Gaussian, so that a price names a δ or a ρ."""
    contains: tuple[str, ...] = ()
    """The kinds whose releases it can make as a part of its own: what a rule says about them, it says about this."""
    assumed_terms: tuple[str, ...] = ()
    """Keys of ``TERMS`` that free calls alone accept, over REST and from a client: what an analyst assumes."""
    cost_class: int = 0
    """The server's ``answer_after`` is multiplied by 2 to this power."""

    def require_offered_in(self, skin: Skin) -> None:
        """Raise Unsupported if this skin does not offer the kind."""
        refusal = self.refusal_by_skin.get(skin)
        if refusal is not None:
            raise Unsupported(f"not-at-{'a-server' if skin == 'rest' else skin}", refusal.rule, fix=refusal.fix)

    @property
    def terms(self) -> tuple[PriceTerm, ...]:
        return tuple(TERMS[key] for key in self.price_terms)

    @property
    def summary(self) -> str:
        """The first line of the spec's docstring."""
        return (self.spec.__doc__ or "").partition("\n")[0].rstrip(".")

    def proposal_class(self) -> type[Any]:
        return _import_object(self.proposal)

    def answer_class(self) -> type[Any]:
        return _import_object(self.answer)


@dataclass(frozen=True)
class SpecField:
    """A field of a spec as skins see it."""

    name: str
    annotation: Any
    required: bool
    default: Any
    help: str


def spec_fields(spec: type[Spec[Any]]) -> tuple[SpecField, ...]:
    """List the fields of a spec that can be sent, without the local ones."""
    hints = get_type_hints(spec, include_extras=True)
    dataclass_fields = spec.__dataclass_fields__.values()  # type: ignore[attr-defined]
    return tuple(
        SpecField(
            spec_field.name,
            hints[spec_field.name],
            spec_field.default is MISSING,
            None if spec_field.default is MISSING else spec_field.default,
            spec_field.metadata["help"],
        )
        for spec_field in dataclass_fields
        if not spec_field.metadata.get("local")
    )


def kind_module_names() -> Iterator[str]:
    """Yield the names of the modules that hold a kind."""
    return (module.name for module in pkgutil.iter_modules(import_module(KINDS).__path__))


def load_kind(module: str) -> ReleaseKind:
    """Import the kind of one module."""
    kind: ReleaseKind = import_module(f"{KINDS}.{module}").KIND
    return kind


def all_kinds() -> dict[str, ReleaseKind]:
    """Import every kind, by name."""
    kinds = (load_kind(module) for module in kind_module_names())
    return {kind.name: kind for kind in kinds}


QUESTIONS = "questions"
"""The name of single questions among the kinds of release."""


def require_known_kinds(names: Sequence[str], parameter: str) -> None:
    """Refuse the name of a kind that does not exist: a rule about it would never hold."""
    kind_names = (QUESTIONS, *all_kinds()) if names else ()
    for name in names:
        if name not in kind_names:
            raise InvalidParameter(parameter, name, f"a list of kinds of release: {', '.join(kind_names)}")


def contained_kinds(name: str) -> tuple[str, ...]:
    """Return the kinds that a kind of release contains; a question contains none."""
    return () if name == QUESTIONS else all_kinds()[name].contains


def kind_for_spec(spec: Spec[Any]) -> ReleaseKind:
    """Return the kind whose spec this is: its module holds both."""
    kind = getattr(import_module(type(spec).__module__), "KIND", None)
    if not isinstance(kind, ReleaseKind) or type(spec) is not kind.spec:
        rule = 'a spec from sfumato.curator.kinds, such as BoundsSpec("visits", "cost")'
        raise InvalidParameter("spec", spec, rule)
    return kind


def _import_object(path: str) -> Any:
    module, _, name = path.partition(":")
    return getattr(import_module(f"sfumato.{module}"), name)
