"""What every kind of release says of itself, and what is refused where it says too little."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, Literal

import click
import pytest

from sfumato.cli.common.kind_commands import build_command
from sfumato.curator.kinds.bounds import BoundsSpec
from sfumato.curator.release_kinds import (
    QUESTIONS,
    Count,
    FieldForm,
    Name,
    Names,
    Spec,
    all_kinds,
    contained_kinds,
    field_form,
    kind_for_spec,
    spec_fields,
)
from sfumato.errors import InvalidParameter, Unsupported
from sfumato.privacy.numbers import Number
from sfumato.release.requests import PriceRequest

KINDS = all_kinds()


@pytest.mark.parametrize("name", KINDS)
def test_a_kind_is_whole(name: str) -> None:
    kind = KINDS[name]
    assert isinstance(kind.example, kind.spec)
    assert kind_for_spec(kind.example) is kind
    assert kind.summary
    assert all(field.help.endswith(".") for field in spec_fields(kind.spec))
    assert all(hasattr(kind.proposal_class(), method) for method in ("explain", "release"))
    assert kind.answer_class() is not None
    local = {"fresh", "for_", "rows", "values_epsilon", "counting"}
    assert {term.name for term in kind.terms} <= set(PriceRequest.__dataclass_fields__) | local


@pytest.mark.parametrize("name", [name for name, kind in KINDS.items() if "command" not in kind.refusal_by_skin])
def test_a_command_is_made_of_every_field(name: str) -> None:
    command = build_command(KINDS[name])
    assert {field.name for field in spec_fields(KINDS[name].spec)} <= {each.name for each in command.params}
    assert "Example:" in command.get_help(click.Context(command))


def test_a_skin_that_does_not_offer_a_kind_says_what_to_do() -> None:
    with pytest.raises(Unsupported, match="limits") as refused:
        KINDS["limits"].require_offered_in("rest")
    assert refused.value.code == "not-at-a-server"
    KINDS["bounds"].require_offered_in("rest")


@pytest.mark.parametrize("name", KINDS)
def test_a_kind_that_asks_questions_contains_them(name: str) -> None:
    asks = {field.name for field in spec_fields(KINDS[name].spec)} & {"question", "questions"}
    assert not asks or QUESTIONS in contained_kinds(name)
    assert set(contained_kinds(name)) <= {QUESTIONS, *KINDS} - {name}
    assert contained_kinds(QUESTIONS) == ()


class Other(Spec[Any]):
    """A spec of no kind."""


@pytest.mark.parametrize("spec", ["bounds", 3, None, Other(), BoundsSpec])
def test_what_is_no_spec_of_a_kind_is_refused(spec: Any) -> None:
    with pytest.raises(InvalidParameter, match="spec"):
        kind_for_spec(spec)


@pytest.mark.parametrize(
    ("annotation", "form"),
    [
        (Name, FieldForm("text")),
        (Name | None, FieldForm("text")),
        (Number, FieldForm("number")),
        (Number | None, FieldForm("number")),
        (Count, FieldForm("count")),
        (bool, FieldForm("flag")),
        (Literal["a", "b"], FieldForm("choice", ("a", "b"))),
        (Names, FieldForm("list")),
        (Name | Sequence[Name], FieldForm("list")),
    ],
)
def test_forms_of_fields(annotation: Any, form: FieldForm) -> None:
    assert field_form(annotation) == form


@pytest.mark.parametrize("annotation", [Fraction, dict[str, int], Count | Names, Sequence[Sequence[Name]], object])
def test_a_type_without_a_form_is_an_error(annotation: Any) -> None:
    with pytest.raises(TypeError, match="no form"):
        field_form(annotation)
