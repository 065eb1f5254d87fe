"""The types that fields of specs and terms of a price have: what JSON can hold, with the lengths that are accepted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from sfumato.privacy.numbers import Number


@dataclass(frozen=True)
class Size:
    """Least and greatest length of a text or list, or value of a whole number."""

    least: int
    most: int


Name = Annotated[str, Size(1, 200)]
Text = Annotated[str, Size(1, 65536)]
Count = Annotated[int, Size(1, 10**9)]
Names = Annotated[Sequence[Name], Size(1, 1000)]
NameSets = Annotated[Sequence[Names], Size(1, 10000)]
Cell = str | int | float | bool | None


def option(text: str, default: Any = ..., *, local: bool = False) -> Any:
    """Describe a field of a spec; one without a default is required, a ``local`` one exists in Python alone."""
    metadata = {"help": text, "local": local}
    return field(metadata=metadata) if default is ... else field(default=default, metadata=metadata)


@dataclass(frozen=True)
class Term:
    """Something that is said of a price."""

    name: str
    annotation: Any
    help: str


_COLUMN_WIDTHS = Mapping[str, Number] | Number
_QUESTION_WIDTHS = Mapping[str, Number | Mapping[str, Number]] | Number

TERMS: Mapping[str, Term] = {
    "epsilon": Term("epsilon", Number, "The price: by itself the release is ε-private."),
    "delta": Term("delta", Number, "With epsilon: (ε, δ)-private, Gaussian noise allowed."),
    "rho": Term("rho", Number, "The price in zero-concentrated terms, instead of epsilon."),
    "within": Term("within", Number, "The error to stay within, instead of a price."),
    "column widths": Term("within", _COLUMN_WIDTHS, "The half-width to stay within, or one for each column."),
    "question widths": Term("within", _QUESTION_WIDTHS, "The half-widths to stay within, by question and column."),
    "confidence": Term("confidence", Number, "The confidence of every range."),
    "mechanism": Term("mechanism", Literal["laplace", "gaussian"], "The noise, instead of the one that errs least."),
    "weights": Term("weights", Mapping[str, Number], "How much the error of each column counts."),
    "joint": Term("joint", bool, "All ranges hold together with this confidence, not each by itself."),
    "fresh": Term("fresh", bool, "Buy a new draw even if the same release is stored, which is free."),
    "for": Term("for_", Names, "The marginal that the error is of."),
    "rows": Term("rows", Annotated[int, Size(1, 10**6)], "How many rows a preview invents."),
    "values_epsilon": Term("values_epsilon", Number, "The part of the price that pays for values."),
    "counting": Term("counting", Number, "The share of the price that counts the buyers."),
}
"""What may be said of a price. All but the last four are fields of ``release.requests.Request`` or of a call."""


@dataclass(frozen=True)
class FieldForm:
    """How a person gives a field: on a command line or in a form."""

    name: Literal["text", "number", "count", "flag", "choice", "list"]
    choices: tuple[str, ...] = ()


def field_form(annotation: Any) -> FieldForm:
    """Return the form of a field; a type that has none is an error, and its kind is offered by hand."""
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
    """One type, a number in any of its types, or a text or several of them."""
    if Fraction in parts:
        return FieldForm("number")
    forms = {field_form(part) for part in parts}
    if len(forms) > 1 and forms != {FieldForm("text"), FieldForm("list")}:
        raise TypeError(f"no form for a field of several types: {parts}")
    return max(forms, key=lambda form: form.name == "list")
