from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given

import sfumato as sf
from privacy.families import lists_of_curves
from sfumato.privacy import codec

VALUES = [
    sf.Guarantee("1/3", 1e-9),
    sf.PrivacyUnit("patient"),
    sf.PrivacyUnit("patient", period="day", path=("visit_id", "patient_id")),
    sf.PrivacyUnit("visit", every_row=True),
    sf.Sensitivity(4, 2, total=5, neighbours="replace"),
    sf.Curve.pair({"a": "1/3", "b": "2/3"}, {"b": 0.5, "c": 0.5}),
    sf.Curve.randomized_response("0.5", 7),
    sf.Budget(1, 1e-6).charge(sf.Curve.gaussian(30)),
    sf.Budget("0.7").cost(sf.Curve.pure("0.1")),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda v: type(v).__name__)
def test_round_trip(value: object) -> None:
    text = sf.dumps(value)
    assert sf.loads(text) == value
    assert sf.dumps(sf.loads(text)) == text
    assert hash(sf.loads(text)) == hash(value)


@given(lists_of_curves)
def test_every_kind_of_curve_round_trips(parts: list[tuple[sf.Curve, int]]) -> None:
    curve = sf.compose(parts)
    assert sf.loads(sf.dumps(curve)) == curve


def test_the_form_is_a_contract() -> None:
    assert sf.dumps(sf.Guarantee(0.1)) == '{"delta":"0","epsilon":"0.1","kind":"guarantee/1"}'


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "[]",
        "{",
        "1" * 10,
        '{"version":1}',
        '{"kind":"guarantee","epsilon":"1","delta":"0"}',
        '{"kind":"guarantee/2","epsilon":"1","delta":"0"}',
        '{"kind":"Guarantee/1","epsilon":"1","delta":"0"}',
        '{"kind":"guarantee/1","epsilon":"1","delta":"0","version":2}',
        '{"kind":"guarantee/1","epsilon":"-1","delta":"0"}',
        '{"kind":"guarantee/1","epsilon":"NaN","delta":"0"}',
        '{"kind":"guarantee/1","epsilon":NaN,"delta":"0"}',
        '{"kind":"guarantee/1","delta":"0"}',
        '{"kind":"guarantee/1","epsilon":[],"delta":"0"}',
        '{"kind":"guarantee/1","epsilon":"1","delta":"0","more":1}',
        '{"kind":"os/1"}',
        '{"kind":["guarantee/1"]}',
        '{"kind":"curve/1","neighbours":"add-remove","parts":[1]}',
        '{"kind":"curve/1","neighbours":"add-remove","parts":7}',
        '{"kind":"budget/1","epsilon":"1","spent_pure":"-1"}',
        '{"version":1,"kind":"curve/1","parts":' + "[" * 100000 + "]" * 100000 + "}",
    ],
)
def test_hostile_text_is_refused(text: str) -> None:
    with pytest.raises(sf.InvalidParameter):
        sf.loads(text)


def test_only_our_values_are_written() -> None:
    for item in (1, "x", None, object(), {"a": 1}, [sf.Guarantee(1)]):
        with pytest.raises(sf.InvalidParameter):
            sf.dumps(item)


def test_a_renamed_class_and_a_new_optional_field_change_no_written_text(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    @codec.value("test-written-before")
    @dataclass(frozen=True)
    class Before:
        size: int
        note: str = ""

    @dataclass(frozen=True)
    class Renamed:
        size: int
        note: str = ""
        colour: str | None = None

    written = codec.dumps(Before(3))
    assert written == '{"kind":"test-written-before/1","size":3}'
    with pytest.raises(ValueError, match="already"):
        codec.value("test-written-before")(Renamed)
    monkeypatch.setattr(codec, "_types", {})
    codec.value("test-written-before")(Renamed)
    assert codec.loads(written) == Renamed(3)
    assert codec.dumps(Renamed(3)) == written


def test_only_a_field_with_its_very_default_is_left_out() -> None:
    @codec.value("test-default")
    @dataclass(frozen=True)
    class Held:
        count: object = 0

    assert codec.dumps(Held()) == '{"kind":"test-default/1"}'
    assert codec.dumps(Held(False)) == '{"count":false,"kind":"test-default/1"}'
    assert codec.loads(codec.dumps(Held(False))).count is False
