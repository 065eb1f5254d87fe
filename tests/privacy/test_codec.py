from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings, strategies as st

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


@settings(max_examples=40)
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
    @codec.serialisable("test-written-before")
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
        codec.serialisable("test-written-before")(Renamed)
    monkeypatch.setattr(codec, "_class_by_kind", {})
    codec.serialisable("test-written-before")(Renamed)
    assert codec.loads(written) == Renamed(3)
    assert codec.dumps(Renamed(3)) == written


def test_a_renamed_field_keeps_its_written_name() -> None:
    @codec.serialisable("test-renamed-field")
    @dataclass(frozen=True)
    class Renamed:
        row_count: int = field(metadata=codec.stored_name_metadata("rows"))
        after: int = 0

    written = codec.dumps(Renamed(3, 4))
    assert written == '{"after":4,"kind":"test-renamed-field/1","rows":3}'
    assert codec.loads(written) == Renamed(3, 4)
    for text in (written.replace("rows", "row_count"), written[:-1] + ',"row_count":3}'):
        with pytest.raises(sf.InvalidParameter, match="rows, after"):
            codec.loads(text)


def test_only_a_field_with_its_very_default_is_left_out() -> None:
    @codec.serialisable("test-default")
    @dataclass(frozen=True)
    class Held:
        count: object = 0

    assert codec.dumps(Held()) == '{"kind":"test-default/1"}'
    assert codec.dumps(Held(False)) == '{"count":false,"kind":"test-default/1"}'
    assert codec.loads(codec.dumps(Held(False))).count is False


@codec.serialisable("test-mapping")
@dataclass(frozen=True)
class Mapped:
    sizes: Mapping[str, object] = field(metadata=codec.MAPPING)

    def __post_init__(self) -> None:
        if not isinstance(self.sizes, Mapping):
            raise sf.InvalidParameter("sizes", self.sizes, "a mapping")


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3).map(tuple) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=25)
@given(st.dictionaries(st.text() | st.sampled_from(["kind", "version", "sizes"]), plain, max_size=4))
def test_a_mapping_has_any_names_and_reads_back_equal(sizes: dict[str, object]) -> None:
    written = codec.dumps(Mapped(sizes))
    assert codec.loads(written) == Mapped(sizes)
    assert codec.dumps(codec.loads(written)) == written


def test_a_mapping_is_a_plain_object() -> None:
    written = codec.dumps(Mapped({"kind": "guarantee/1", "n": {1000: 2.5, 10: math.inf}}))
    assert json.loads(written)["sizes"] == {"kind": "guarantee/1", "n": {"1000": 2.5, "10": "Infinity"}}
    assert '{"1000":2.5,"10":"Infinity"}' in written


@pytest.mark.parametrize(
    "sizes", [{1.5: 1}, {True: 1}, {None: 1}, {"a": sf.Guarantee(1)}, {"a": object()}, {"a": {(): 1}}]
)
def test_only_plain_values_are_written_in_a_mapping(sizes: dict[str, object]) -> None:
    with pytest.raises(sf.InvalidParameter):
        codec.dumps(Mapped(sizes))


@pytest.mark.parametrize(
    "text",
    [
        '{"kind":"test-mapping/1","sizes":[]}',
        '{"kind":"test-mapping/1","sizes":7}',
        '{"kind":"test-mapping/1","sizes":{"a":1,"a":2}}',
        '{"kind":"test-mapping/1","sizes":' + '{"a":' * 100_000 + "1" + "}" * 100_001,
        '{"kind":"test-mapping/1","sizes":' + "[" * 100_000 + "]" * 100_000 + "}",
        '{"kind":"test-mapping/1"}',
        '{"kind":"test-mapping/1","sizes":{},"more":{}}',
        '{"kind":"guarantee/1","epsilon":{"kind":"x"},"delta":"0"}',
        '{"kind":"guarantee/1","epsilon":{},"delta":"0"}',
    ],
)
def test_hostile_mappings_are_refused(text: str) -> None:
    with pytest.raises(sf.InvalidParameter):
        codec.loads(text)


def test_an_object_in_a_mapping_never_becomes_a_value_of_ours() -> None:
    found = codec.loads('{"kind":"test-mapping/1","sizes":{"a":{"kind":"guarantee/1","epsilon":"1","delta":"0"}}}')
    assert found.sizes == {"a": {"kind": "guarantee/1", "epsilon": "1", "delta": "0"}}


@given(st.floats(allow_nan=False))
def test_every_float_reads_back_from_its_text(number: float) -> None:
    found = codec.loads(codec.dumps(Mapped({"a": number}))).sizes["a"]
    assert codec.parse_float(found, "a") == number


@pytest.mark.parametrize(
    "found", ["", "nan", "inf", "1e999", "1_0", " 1", "0x1", "1/2", True, None, math.nan, 10**400, [], {}]
)
def test_what_is_no_number_is_refused(found: object) -> None:
    with pytest.raises(sf.InvalidParameter):
        codec.parse_float(found, "a")
    with pytest.raises(sf.InvalidParameter):
        codec.dumps(Mapped({"a": math.nan}))


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ('{"kind":"guarantee/1","delta":"0"}', "that lacks epsilon"),
        ('{"kind":"guarantee/1","epsilon":"1","colour":3}', "that has the unknown field 'colour'"),
        ('{"kind":"terms/1","colour":3}', "that lacks unit, budget and has the unknown field 'colour'"),
    ],
)
def test_missing_and_unknown_fields_are_named(source: str, problem: str) -> None:
    with pytest.raises(sf.InvalidParameter) as refused:
        sf.loads(source)
    assert refused.value.rule.endswith(f"; got an object {problem}")
