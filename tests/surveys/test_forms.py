"""A form keeps its word: the exact law of every report, and what is refused."""

from __future__ import annotations

import datetime as dt
import json
import math
import zipfile
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from itertools import permutations, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sfumato as sf
from sfumato.publish.files import sealed_files
from sfumato.publish.marginals.attributes import Attribute, ListedCell, OtherCell
from sfumato.surveys import Form, Report, counts, encodings, forms
from sfumato.surveys.encodings import Encoding
from sfumato.surveys.forms import code_answer, parse_questions
from surveys.executions import CONTEXT, law, small_hashes

YES_NO = parse_questions({"smokes": ["yes", "no"]})
TWO = parse_questions({"smokes": ["yes", "no"], "pet": [True]})
FORMS = {
    "response": Form(YES_NO, "1", False, (Encoding.RESPONSE,)),
    "unary": Form(YES_NO, "1", False, (Encoding.UNARY,)),
    "hashing": Form(YES_NO, "1/2", False, (Encoding.HASHING,)),
    "split": Form(TWO, "1", False, (Encoding.RESPONSE, Encoding.UNARY)),
    "sampled": Form(TWO, "1", True, (Encoding.UNARY, Encoding.RESPONSE)),
    "sampled hashes": Form(TWO, "3/2", True, (Encoding.HASHING, Encoding.HASHING)),
}


def every_answer(form: Form) -> list[dict[str, object]]:
    cells = [[getattr(cell, "value", None) for cell in each.cells] for each in form.questions]
    return [dict(zip((each.name for each in form.questions), found, strict=True)) for found in product(*cells)]


def worst(laws: list[dict[Report, Decimal]]) -> float:
    """The largest ln(P/P') over all reports and all pairs of answers."""
    assert all(set(each) == set(laws[0]) for each in laws)
    ratios = (CONTEXT.divide(a[report], b[report]) for a, b in permutations(laws, 2) for report in a)
    return float(max(ratios).ln(CONTEXT))


@pytest.mark.parametrize("name", FORMS)
def test_no_answer_changes_the_chance_of_a_report_by_more_than_the_guarantee(name: str) -> None:
    """All pairs of answers, all reports, exactly; and the whole ε is used."""
    form = FORMS[name]
    laws = [law(form, answers) for answers in every_answer(form)]
    assert all(abs(sum(map(Fraction, each.values())) - 1) < Fraction(1, 10**40) for each in laws)
    assert worst(laws) == pytest.approx(float(form.epsilon), abs=1e-14)
    assert form.curve().epsilon(0) == pytest.approx(float(form.epsilon))
    assert form.curve().neighbours is sf.Neighbours.REPLACE


def test_a_form_that_gives_every_question_the_whole_budget_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The broken twin of the test above."""
    form = Form(TWO, "1", False, (Encoding.RESPONSE, Encoding.UNARY))
    whole = tuple(each.mechanism(form.epsilon, q.size) for each, q in zip(form.encodings, TWO, strict=True))
    monkeypatch.setitem(form.__dict__, "mechanisms", whole)
    assert worst([law(form, answers) for answers in every_answer(form)]) > 1.99


@pytest.mark.parametrize("name", FORMS)
def test_estimates_are_exactly_unbiased(name: str) -> None:
    """Of one respondent, over all reports that answer a question: one for the cell that is held, zero for others."""
    form = FORMS[name]
    for answers in every_answer(form):
        drawn = law(form, answers)
        with small_hashes():
            for place, question in enumerate(form.questions):
                asked = {each: chance for each, chance in drawn.items() if each.question in (None, place)}
                mechanism = form.mechanisms[place]
                mean = np.zeros(question.size)
                for report, chance in asked.items():
                    found = counts.support_counts(mechanism, [report.answers[0 if form.sampled else place]])
                    mean += float(chance) * counts.unbiased_counts(
                        found, 1, 1, encodings.support_probabilities(mechanism)
                    )
                held = np.arange(question.size) == code_answer(question, answers[question.name])
                assert mean / float(sum(asked.values())) == pytest.approx(held.astype(float), abs=1e-11)


def test_pairs_are_exactly_unbiased() -> None:
    form = FORMS["split"]
    for answers in every_answer(form):
        mean = np.zeros(6)
        for report, chance in law(form, answers).items():
            mean += float(chance) * np.array(form.estimate([report], pairs=[("smokes", "pet")])["smokes", "pet"].counts)
        place = 2 * code_answer(TWO[0], answers["smokes"]) + code_answer(TWO[1], answers["pet"])
        assert mean == pytest.approx((np.arange(6) == place).astype(float), abs=1e-11)


def test_answers_of_many_people_are_found_again() -> None:
    """All ranges at once, wrong with probability below 1e-7."""
    form = sf.collect({"smokes": ["yes", "no"], "age": {"bins": [0, 30, 60]}}, 3, split=True)
    people = [{"smokes": "yes", "age": 20}] * 150 + [{"smokes": "no", "age": 60}] * 100 + [{"smokes": None}] * 50
    reports = [form.answer(each) for each in people]
    found = form.estimate(
        [each.to_json() for each in reports], confidence="0.9999999", together=True, pairs=[("smokes", "age")]
    )
    assert found.respondents == 300
    assert not found.refused
    truths = {("smokes",): [150, 100, 50], ("age",): [150, 100, 50]}
    truths[("smokes", "age")] = [150, 0, 0, 0, 100, 0, 0, 0, 50]
    for table in found.tables:
        for truth, (low, high) in zip(truths[table.questions], table.intervals, strict=True):
            assert low <= truth <= high
    assert "ranges hold with 99.99999 % confidence, all at once" in str(found)


def test_cells_of_answers() -> None:
    (age,) = parse_questions({"age": {"bins": [0, 18, 65]}})
    assert [code_answer(age, each) for each in (0, 17, 18, 65, 66, -1, None, "x", 17.5, True, math.nan)] == [
        *(0, 0, 1, 1, 2, 2, 2, 2, 2, 2, 2)
    ]
    (day,) = parse_questions({"day": {"bins": [dt.date(2024, 1, 1), dt.date(2024, 2, 1)]}})
    assert [code_answer(day, each) for each in (dt.date(2024, 1, 5), dt.date(2025, 1, 1), 3)] == [0, 1, 1]
    (pet,) = parse_questions({"pet": [1, 2]})
    assert [code_answer(pet, each) for each in (1, 2, True, object(), [1])] == [0, 1, 2, 2, 2]
    given = Attribute("pet", "text", (ListedCell("cat"), OtherCell()))
    assert parse_questions({"pet": given}) == (given,)


@pytest.mark.parametrize("name", FORMS)
def test_forms_and_reports_are_read_back(name: str) -> None:
    form = FORMS[name]
    again = Form.from_json(form.to_json())
    assert again == form
    assert again.form_id == form.form_id
    report = form.answer({"smokes": "yes"})
    assert Report.from_json(report.to_json()) == report
    assert Report.from_json(json.dumps(json.loads(report.to_json()), indent=2)) == report
    assert again.check(report.to_json()) == report
    assert len(report.to_json()) < 200
    assert sf.loads(report.to_json()) == report


def edits(report: Report) -> list[object]:
    text = report.to_json()
    fields = json.loads(text)
    changed: list[dict[str, Any]] = [
        {**fields, "form": "0" * 16},
        {**fields, "form": 7},
        {**fields, "question": 9},
        {**fields, "question": -1},
        {**fields, "question": True},
        {**fields, "question": "0"},
        {**fields, "answers": []},
        {**fields, "answers": fields["answers"] * 3},
        {**fields, "answers": {"kind": "guarantee/1", "epsilon": "1"}},
        {**fields, "kind": "survey-report/2"},
        {**fields, "kind": "guarantee/1"},
        {**fields, "more": 1},
        *(
            {**fields, "answers": [bad] * len(fields["answers"])}
            for bad in (-1, 99, 10**30, 0.5, None, True, "", "ff", "FF", "zz", [1], [0, 0, 0], [1, 2, 99], [[[]]], {})
        ),
    ]
    if "question" in fields:
        changed.append({name: each for name, each in fields.items() if name != "question"})
    else:
        changed.append({**fields, "question": 0})
    texts = [json.dumps(each) for each in changed]
    long = '{"kind":"survey-report/1","answers":[' + "9" * 5000 + "]}"
    return [*texts, text[:-1], text + "x", "", "[" * 5000, long, "x" * (1 << 17), None, 3, b"x", {}, object(), fields]


@pytest.mark.parametrize("name", FORMS)
def test_hostile_reports_are_refused_one_by_one(name: str) -> None:
    form = FORMS[name]
    good = form.answer({"smokes": "no"})
    bad = edits(good)
    found = form.estimate([good, *bad, good])  # type: ignore[list-item]
    assert found.respondents == 2
    assert [each.place for each in found.refused] == list(range(1, len(bad) + 1))
    assert all(" must be " in each.reason and len(each.reason) < 400 for each in found.refused)
    assert f"refused {len(bad)} of the reports" in str(found)


def test_nobody_answered() -> None:
    for form in FORMS.values():
        found = form.estimate([])
        assert all(each.intervals == ((0.0, 0.0),) * len(each.counts) for each in found.tables)
        assert all(set(each.counts) == {0.0} for each in found.tables)


def test_reports_of_another_form_are_refused() -> None:
    one, two = sf.collect({"a": [1, 2]}, 1), sf.collect({"a": [1, 2]}, 2)
    assert one.form_id != two.form_id
    assert two.estimate([one.answer({"a": 1})]).refused


@pytest.mark.parametrize(
    "call",
    [
        lambda: sf.collect({}, 1),
        lambda: sf.collect([], 1),
        lambda: sf.collect({"a": []}, 1),
        lambda: sf.collect({"a": [1, "x"]}, 1),
        lambda: sf.collect({"a": [1, 1]}, 1),
        lambda: sf.collect({"a": "xy"}, 1),
        lambda: sf.collect({1: ["x"]}, 1),
        lambda: sf.collect({"a": {"bins": [3, 1]}}, 1),
        lambda: sf.collect({"a": {"bins": [3]}}, 1),
        lambda: sf.collect({"a": {"bins": 3}}, 1),
        lambda: sf.collect({"a": {"bins": ["x", "y"]}}, 1),
        lambda: sf.collect({"a": Attribute("b", "text", (ListedCell("x"), OtherCell()))}, 1),
        lambda: sf.collect({"a": list(range(5000))}, 1),
        lambda: sf.collect({str(i): [1] for i in range(101)}, 1),
        lambda: sf.collect({"a": [1]}, 0),
        lambda: sf.collect({"a": [1]}, 51),
        lambda: sf.collect({"a": [1]}, 1, split="yes"),
        lambda: Form(YES_NO, 1, 0, (Encoding.RESPONSE,)),  # type: ignore[arg-type]
        lambda: Form(YES_NO, 1, False, ("coin",)),  # type: ignore[arg-type]
        lambda: Form(YES_NO, 1, False, ()),
        lambda: Form((*YES_NO, *YES_NO), 1, False, (Encoding.RESPONSE,) * 2),
        lambda: Form((), 1, False, ()),
        lambda: Form(YES_NO, 20, False, (Encoding.HASHING,)),
        lambda: FORMS["split"].estimate([], confidence=2),
        lambda: FORMS["split"].estimate([], together=1),
        lambda: FORMS["split"].estimate("x"),
        lambda: FORMS["split"].estimate(3),
        lambda: FORMS["split"].estimate([], pairs=[("smokes", "smokes")]),
        lambda: FORMS["split"].estimate([], pairs=[("smokes", "x")]),
        lambda: FORMS["split"].estimate([], pairs=["ab"]),
        lambda: FORMS["split"].error(0),
        lambda: FORMS["split"].error(10**10),
        lambda: Form.from_json("{}"),
        lambda: Form.from_json(FORMS["split"].to_json().replace('"1"', '"-1"')),
    ],
)
def test_wrong_forms_and_calls_are_refused(call: Any) -> None:
    with pytest.raises(sf.InvalidParameter):
        call()


class Hostile:
    """Refuses whatever it is asked."""

    def __getattr__(self, name: str) -> object:
        raise RuntimeError(name)

    def __eq__(self, other: object) -> bool:
        raise RuntimeError

    def __hash__(self) -> int:
        raise RuntimeError

    def __repr__(self) -> str:
        raise RuntimeError


def test_no_answer_makes_answering_fail() -> None:
    """Of every type of question, whatever the answer is."""
    day, noon = dt.date(2024, 1, 1), dt.datetime(2024, 1, 1, 12)
    questions = parse_questions(
        {
            "text": ["x", "y"],
            "whole": [1, 2],
            "real": {"bins": [0.5, 1.5]},
            "flag": [True],
            "day": {"bins": [day, day + dt.timedelta(9)]},
            "time": {"bins": [noon, noon + dt.timedelta(9)]},
        }
    )
    answers = (
        *(None, True, 1, -1, 10**400, 0.5, math.nan, math.inf, -0.0, 1j, "x", "", "\ud800", "\0", "x" * 10**6, b"x"),
        *("1", "1/0", "nan", "1e999999999", "2024-01-01", "2024-13-01", "9" * 5000, Decimal("sNaN"), Decimal("1e9")),
        *(Fraction(1, 3), np.float64("nan"), np.int8(1), np.array([1, 2]), np.datetime64("NaT"), np.str_("x")),
        *(day, noon, noon.replace(tzinfo=dt.UTC), dt.time(1), dt.timedelta(1), [], {}, (), object(), Hostile(), sf),
    )
    for question in questions:
        for answer in answers:
            assert 0 <= code_answer(question, answer) < question.size
    assert code_answer(questions[1], "1") == code_answer(questions[1], 1) == 0


def test_only_names_can_be_refused_of_answers() -> None:
    form = FORMS["split"]
    for answers in ({}, {"smokes": object()}, {"smokes": "maybe", "pet": 10**400}):
        assert form.check(form.answer(answers))
    with pytest.raises(sf.SfumatoError, match="use only these names as keys: smokes, pet"):
        form.answer({"smoke": "yes"})
    with pytest.raises(sf.SfumatoError, match="mapping whose keys are names of this form's questions"):
        form.answer("yes")  # type: ignore[arg-type]


def test_pairs_of_sampled_questions_are_refused() -> None:
    with pytest.raises(sf.SfumatoError, match="each respondent of this form answers one question only"):
        FORMS["sampled"].estimate([], pairs=[("smokes", "pet")])


def test_a_question_that_was_not_estimated_is_refused_by_name() -> None:
    with pytest.raises(sf.InvalidParameter, match="smokes, pet"):
        FORMS["split"].estimate([])["pets"]


def test_what_is_promised_in_words() -> None:
    said = sf.collect({"a": ["x"]}, "0.5").guarantee
    assert "0.5-differentially private" in said
    assert "more than 1.649 times" in said  # e^0.5 = 1.6487…, never rounded down
    assert "replace neighbours" in said


def test_a_form_is_kept_in_a_file(tmp_path: Path) -> None:
    for name, form in FORMS.items():
        form.save(tmp_path / f"{name}.sfu")
        assert sf.form(tmp_path / f"{name}.sfu") == form
        assert zipfile.ZipFile(tmp_path / f"{name}.sfu").namelist() == ["manifest.json"]
    assert forms.form_bytes(form) == forms.form_bytes(Form.from_json(form.to_json()))
    for path in (tmp_path, tmp_path / "none.sfu", 3):
        with pytest.raises(sf.SfumatoError):
            sf.form(path)  # type: ignore[arg-type]
    with pytest.raises(sf.SfumatoError, match="cannot be written"):
        form.save(tmp_path / "no" / "form.sfu")


def test_every_edit_of_a_file_is_found() -> None:
    """Each byte changed in turn, and every end cut off."""
    content = forms.form_bytes(FORMS["response"])
    assert forms.parse_form(content) == FORMS["response"]
    edited = [content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :] for place in range(len(content))]
    for each in (*edited, *(content[:place] for place in range(0, len(content), 7)), content + b"x", b""):
        with pytest.raises(sf.errors.SynopsisDamaged):
            forms.parse_form(each)


def test_careful_edits_of_a_file_are_found() -> None:
    """The zip is right and only the manifest was changed, with and without the right hash."""

    def edited(change: Callable[[dict[str, Any]], object], *, right: bool) -> bytes:
        text = dict(sealed_files.iterate_members(forms.form_bytes(FORMS["response"]), ""))["manifest.json"]
        manifest = json.loads(text)
        change(manifest)
        if right:
            manifest["members"]["manifest.json"] = ""
        again = json.dumps(manifest, separators=(",", ":"))
        return sealed_files.build_zip(
            {"manifest.json": (sealed_files.seal_manifest(again) if right else again).encode()}
        )

    assert forms.parse_form(edited(lambda found: found, right=True)) == FORMS["response"]
    hostile: list[tuple[Callable[[dict[str, Any]], object], bool]] = [
        (lambda found: found["form"].update(epsilon="9"), False),
        (lambda found: found.update(format=2), True),
        (lambda found: found.update(format="1"), True),
        (lambda found: found.update(form=None), True),
        (lambda found: found.update(members={}), False),
        (lambda found: found["form"].update(encodings=["coin"]), True),
    ]
    for change, right in hostile:
        with pytest.raises(sf.errors.SynopsisDamaged):
            forms.parse_form(edited(change, right=right))


@pytest.mark.parametrize("answers", [["x", "x"], {"bins": [3, 1]}, {"bins": [1, 1]}, {"bins": [0, 18, 18]}])
def test_refused_answers_are_named_by_their_question(answers: Any) -> None:
    with pytest.raises(sf.InvalidParameter, match="smokes must be"):
        sf.collect({"smokes": answers}, 1)


def test_a_form_says_what_it_is() -> None:
    assert repr(FORMS["split"]).startswith("<Form of ")
    assert "all are answered" in repr(FORMS["split"])


def test_a_form_is_no_synopsis_and_the_fix_says_how_to_read_it(tmp_path: Path) -> None:
    FORMS["split"].save(tmp_path / "form.sfu")
    with pytest.raises(sf.SfumatoError, match=r"sf\.form"):
        sf.synopsis(tmp_path / "form.sfu")


def test_a_synopsis_is_no_form_and_the_fix_says_how_to_read_it() -> None:
    with pytest.raises(sf.SfumatoError, match=r"sf\.synopsis"):
        sf.form(Path(__file__).parent.parent / "publish" / "people.sfu")
