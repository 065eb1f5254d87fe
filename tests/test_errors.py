"""Every error has a stable code, and one table says how it ends."""

from __future__ import annotations

import json
import math
import pickle
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import pytest

from sfumato import errors
from sfumato.errors import OUTCOMES, AnswerPending, SfumatoError, Unanswered, Unsupported, outcome


def kinds(kind: type[SfumatoError] = SfumatoError) -> Iterator[type[SfumatoError]]:
    yield kind
    for each in kind.__subclasses__():
        yield from kinds(each)


def test_every_error_has_a_code_of_its_own_and_a_line_in_the_table() -> None:
    codes = [kind.code for kind in kinds()]
    assert len(set(codes)) == len(codes)
    assert {*codes, Unanswered(1, charged=False).code} == set(OUTCOMES)


@pytest.mark.parametrize("kind", sorted(kinds(), key=lambda kind: kind.__name__), ids=lambda kind: kind.__name__)
def test_the_docstring_draws_every_error(kind: type[SfumatoError]) -> None:
    assert kind.__name__ in (errors.__doc__ or "")


def test_a_refused_question_keeps_the_code_of_its_rule() -> None:
    refused = Unsupported("star", "rows are never shown", fix="ask for COUNT(*)")
    assert refused.code == "star"
    assert outcome(refused) == OUTCOMES["unsupported"]
    assert pickle.loads(pickle.dumps(refused)).code == "star"


def test_only_what_was_charged_ends_as_charged() -> None:
    assert outcome(Unanswered(1)).exit_code == 4
    for waited in (Unanswered(1, charged=False), AnswerPending(1)):
        assert outcome(waited).exit_code == 75
        assert outcome(pickle.loads(pickle.dumps(waited))) == outcome(waited)
        assert "this request was not charged" in str(waited)


# ── as JSON ────────────────────────────────────────────────────────────────────────────────────

_SAID = {"place": "the place", "fix": "do this"}


def _waiting() -> errors.ApprovalNeeded:
    refusal = errors.ApprovalNeeded("a rule", **_SAID)
    refusal.state = "filed"
    return refusal


EXAMPLES: dict[type[SfumatoError], list[SfumatoError]] = {
    SfumatoError: [SfumatoError("a rule", **_SAID), SfumatoError("a rule", **_SAID).within("question 2")],
    errors.InvalidParameter: [
        errors.InvalidParameter("epsilon", value, "a number > 0", fix="give one")
        for value in (-1, "x" * 100, "0.5", Fraction(1, 3), 2**600, math.nan, 0.5, None, True, [1, 2], {"a": {1: 2}})
    ],
    errors.NeighboursDiffer: [errors.NeighboursDiffer("add-remove", "replace", **_SAID)],
    errors.InvalidPolicy: [errors.InvalidPolicy("a rule", **_SAID)],
    errors.SourceChanged: [errors.SourceChanged("visits")],
    errors.EngineFailed: [errors.EngineFailed()],
    errors.EngineClosed: [errors.EngineClosed()],
    Unsupported: [
        Unsupported("star", "rows are never shown", fix="ask for COUNT(*)"),
        Unsupported("star", "rows are never shown", fix="ask for COUNT(*)", line=2, column=7),
    ],
    Unanswered: [Unanswered(7), Unanswered(7, charged=False)],
    AnswerPending: [AnswerPending(7)],
    errors.Draining: [errors.Draining()],
    errors.EntropyStuck: [errors.EntropyStuck()],
    errors.SessionClosed: [errors.SessionClosed(3)],
    errors.SessionInterrupted: [errors.SessionInterrupted(7)],
    errors.Overspent: [
        errors.Overspent({"pure": Fraction(2), "renyi": None}, {"pure": Fraction(1, 3)}, Fraction("0.3")),
        errors.Overspent({"pure": Fraction(1)}, {"pure": Fraction(1, 10**30)}, Fraction(0), place="the share"),
    ],
    errors.AccountDiffers: [errors.AccountDiffers("a rule", **_SAID)],
    errors.AlreadyAnswered: [errors.AlreadyAnswered("a rule", **_SAID)],
    errors.RequestDiffers: [errors.RequestDiffers("a rule", **_SAID)],
    errors.ApprovalNeeded: [errors.ApprovalNeeded("a rule", **_SAID), _waiting()],
    errors.RequestDecided: [errors.RequestDecided("a rule", **_SAID)],
    errors.SourceTaken: [errors.SourceTaken("a rule", **_SAID)],
    errors.SynopsisDamaged: [errors.SynopsisDamaged("a rule", **_SAID)],
    errors.BundleDamaged: [errors.BundleDamaged("a rule", **_SAID)],
    errors.TabClosed: [errors.TabClosed("it is closed")],
    errors.InvalidSettings: [errors.InvalidSettings("a rule", **_SAID)],
    errors.NotSignedIn: [errors.NotSignedIn()],
    errors.NotAllowed: [errors.NotAllowed("auditor", "asking")],
    errors.InvalidRequest: [errors.InvalidRequest("what is sent is JSON", place="the body", fix="send JSON")],
    errors.BodyTooLarge: [errors.BodyTooLarge(65536)],
    errors.NotThere: [errors.NotThere("policy clinic"), errors.NotThere("policy " + "x" * 10_000)],
    errors.Paused: [errors.Paused("clinic")],
    errors.TooManyRequests: [errors.TooManyRequests("one user asks at most 20 questions a second", 3)],
    errors.ServerUnavailable: [
        errors.ServerUnavailable("the server does not answer", place="https://example.org"),
        errors.ServerUnavailable("the server does not answer", place="https://example.org", request_id="a-1"),
    ],
    errors.LedgerUnavailable: [errors.LedgerUnavailable("a rule", **_SAID)],
    errors.LedgerDamaged: [errors.LedgerDamaged(7, "its seal is broken"), errors.LedgerDamaged(None, "no file")],
    errors.LedgerInDoubt: [errors.LedgerInDoubt(7, 8, "r"), errors.LedgerInDoubt(7, 7, None)],
    errors.LedgerBehind: [errors.LedgerBehind(7)],
}
"""Of every class at least one error that is as they are raised."""


def test_every_class_has_an_example() -> None:
    own = {kind for kind in kinds() if kind.__module__ == errors.__name__}
    assert own == set(EXAMPLES)


@pytest.mark.parametrize(
    "error",
    [each for examples in EXAMPLES.values() for each in examples],
    ids=lambda each: f"{type(each).__name__}-{each.code}",
)
def test_an_error_reads_back_as_itself(error: SfumatoError) -> None:
    written = errors.to_json(error)
    read = errors.from_json(written)
    assert type(read) is type(error)
    assert [getattr(read, name) for name in ("code", "rule", "place", "fix", "facts")] == [
        getattr(error, name) for name in ("code", "rule", "place", "fix", "facts")
    ]
    assert str(read) == str(error)
    assert outcome(read) == outcome(error)
    assert errors.to_json(read) == written
    json.loads(written, parse_constant=pytest.fail)
    assert json.loads(json.dumps(error.facts)) == error.facts


@pytest.mark.parametrize("error", EXAMPLES[errors.Overspent])
def test_amounts_are_exact_numbers_again(error: errors.Overspent) -> None:
    read = errors.from_json(errors.to_json(error))
    assert isinstance(read, errors.Overspent)
    assert (read.requested, read.remaining, read.difference) == (error.requested, error.remaining, error.difference)
    assert read.largest == error.largest
    assert error.facts["remaining"]["pure"] in ("1/3", "0." + "0" * 29 + "1")


def test_a_problem_with_more_names_is_read_and_an_unknown_kind_is_a_plain_refusal() -> None:
    written = json.loads(errors.to_json(AnswerPending(7))) | {"status": 503, "type": "about:blank"}
    assert isinstance(errors.from_json(json.dumps(written)), AnswerPending)
    newer = errors.from_json(json.dumps(written | {"kind": "of-tomorrow", "code": "of-tomorrow"}))
    assert type(newer) is SfumatoError
    assert newer.code == "of-tomorrow"


def test_facts_show_no_more_of_a_parameter_than_the_text_does() -> None:
    refused = errors.InvalidParameter("name", "s" * 50 + "secret" * 20, "short")
    assert len(refused.facts["value"]) <= 60
    assert refused.facts["value"][1:-1] in str(refused)
    inner = errors.InvalidParameter("rows", {"a": "x" * 500}, "short")
    assert len(inner.facts["value"]) <= 60


GOOD = json.loads(errors.to_json(AnswerPending(7)))
SPENT = json.loads(errors.to_json(EXAMPLES[errors.Overspent][0]))


@pytest.mark.parametrize(
    "hostile",
    [
        "",
        "[]",
        "no JSON",
        "[" * 100_000,
        " " * (1 << 21),
        json.dumps({name: each for name, each in GOOD.items() if name != "rule"}),
        json.dumps(GOOD | {"rule": 7}),
        json.dumps(GOOD | {"facts": []}),
        json.dumps(GOOD | {"facts": {"facts": 1}}),
        json.dumps(GOOD | {"facts": {"within": 1}}),
        json.dumps(GOOD | {"facts": {"rule": 1}}),
        json.dumps(GOOD | {"facts": {"__class__": 1}}),
        json.dumps(GOOD | {"facts": {"_hidden": 1}}),
        json.dumps(GOOD | {"facts": {"with_traceback": 1}}),
        json.dumps(SPENT | {"facts": {"largest": "1e9999999"}}),
        json.dumps(SPENT | {"facts": {"largest": "1/0"}}),
        json.dumps(SPENT | {"facts": {"largest": 0.1}}),
        json.dumps(SPENT | {"facts": {"remaining": {"pure": "inf"}}}),
    ],
    ids=lambda each: each[:30],
)
def test_any_other_text_is_refused(hostile: str) -> None:
    with pytest.raises(errors.InvalidParameter):
        errors.from_json(hostile)


def test_what_is_not_written_is_not_told() -> None:
    try:
        try:
            raise KeyError("a private row")
        except KeyError:
            raise errors.EngineFailed  # noqa: B904 - chained on purpose
    except errors.EngineFailed as failed:
        failed.add_note("a private note")
        written = errors.to_json(failed)
    assert "private" not in written


@pytest.mark.parametrize(
    ("value", "allowed", "fix"),
    [
        (1, "left out, since rho is given", "leave out either limit or rho"),
        ("aim ", "one of aim, mst, mwem", "did you mean aim?"),
        ("best", "one of aim, mst, mwem", "for example, set limit to aim"),
        ("yes", "true or false", "set limit to true"),
        (0, "True or False", "set limit to False"),
        (7, "True or False", "for example, set limit to True"),
        ("maybe", "on or off", "for example, set limit to on"),
        (1_000_000, "a whole number from 2 to 1,000", "for example, set limit to 1000"),
        (1, "a whole number from 2 to 1,000", "for example, set limit to 2"),
        ("7", "a whole number from 1 to 5, the number of columns", "for example, set limit to 5"),
        (10**9, "a whole number of at most 10,000,000", "for example, set limit to 10000000"),
        (1.5, "a whole number of at most 2^62 in absolute value", "for example, set limit to 10"),
        (0, 'an amount such as "1 GiB" or "500 MB"', 'for example, set limit to "1 GiB"'),
        ("x", "an aggregation, such as sf.count(), or SQL", "for example, set limit to sf.count()"),
        ("wards", "one of the private tables: visits", "for example, set limit to visits"),
        (["x"], "a list of columns of t: sex, age", 'for example, set limit to ["sex"]'),
        (["sex", "sex"], "a list of different columns", "remove the second 'sex' from limit"),
        ((2, 1), "a list of column indices in increasing order", "sort the values of limit"),
        (0, "a finite number > 0", "for example, set limit to 1"),
        (2, "a number in (0, 1)", "for example, set limit to 0.5"),
        (0, "a whole number ≥ 1", "for example, set limit to 1"),
        ("x", "a whole number ≥ 1", "for example, set limit to 10"),
        (19, "between 20 and 10,000", "for example, set limit to 20"),
        (4, "at most 3, the number of columns", "for example, set limit to 3"),
        (1, "at least 250, the number of units", "for example, set limit to 250"),
        ([], 'a list of names such as ["sex", "age"]', 'for example, set limit to ["sex", "age"]'),
        ([3], 'a mapping to numbers, such as {"income": 3}', 'for example, set limit to {"income": 3}'),
        ("2024-13", "a month such as 2024-04", "for example, set limit to 2024-04"),
        ("x", "a list of names", 'set limit to ["x"]'),
        (7, "a list of names", "write limit as a list in square brackets, with commas between the values"),
        ((), "a mapping from names to numbers", "write limit as {name: value, …}"),
        (7, "a string", 'set limit to "7", in quotes'),
        ((2, 3), "an array of shape (3, 2)", ""),
        ([1, 1], "a list of 3 numbers, one for each marginal", "for example, set limit to [1, 1, 1]"),
        ((1, 2), "a list of length 1, with a number for each set", "for example, set limit to [1]"),
        ("x", "a time such as 2024-01-31T12:00:00+00:00", "for example, set limit to 2024-01-31T12:00:00+00:00"),
        ((0, 9), "a list of column indices, each from 0 to 3", "for example, set limit to [0, 3]"),
        (["1"], "a list of dates such as 2024-01-31 and null", "for example, set limit to [2024-01-31, null]"),
        ((7,), "a list of strings", "write every entry of limit in quotes"),
        (0, "1", ""),
        (0, "higher", ""),
        (object(), "a plan with one total", ""),
        (errors.ValueWords("words"), "a list of names", ""),
        ((1.5,), "a tuple of numbers from 0 to 1", "replace 1.5 by a number from 0 to 1"),
        ([3, 0.5], "a list of whole numbers", "replace 0.5 by a whole number"),
        ([0, -1], "a tuple of numbers ≥ 0", "replace -1 by a number ≥ 0"),
        ([0, 1], "a list of whole numbers from 1 to 1,000,000", "replace 0 by a whole number from 1 to 1,000,000"),
        ((), "a tuple of one or more findings", "give limit at least one entry"),
        ("circle", "one of 'tree', 'each day'", "for example, set limit to 'tree'"),
    ],
)
def test_a_refused_parameter_has_an_example_or_a_correction(value: object, allowed: str, fix: str) -> None:
    assert errors.InvalidParameter("limit", value, allowed).fix == fix


class Unprintable:
    def __repr__(self) -> str:
        raise RuntimeError("printed")

    def __eq__(self, _: object) -> bool:
        raise RuntimeError("compared")

    __lt__ = __eq__
    __hash__ = object.__hash__


@pytest.mark.parametrize("allowed", ["a string", "a list of different names in increasing order", "one of add, remove"])
@pytest.mark.parametrize(
    "value",
    [
        np.array(["a", "b"]),
        [np.array([1, 2]), np.array([1, 2])],
        10**5000,
        [10**5000, 10**5000],
        (10**5000,),
        [(Unprintable(),), (Unprintable(),)],
        [Unprintable(), Unprintable()],
        Unprintable(),
    ],
    ids=["array", "arrays", "digits", "list of digits", "tuple of digits", "tuples", "objects", "object"],
)
def test_no_value_stops_its_refusal(value: object, allowed: str) -> None:
    """A fix is suggested from values that are plain: others are neither compared nor printed."""
    refused = errors.InvalidParameter("name", value, allowed)
    assert refused.code == "invalid-parameter"
    assert refused.fix or allowed.startswith("a list")


@pytest.mark.parametrize(("parameter", "usual"), [("epsilon", "0.5"), ("rho", "0.01"), ("delta", "1e-9")])
def test_a_privacy_loss_has_a_usual_value_as_example(parameter: str, usual: str) -> None:
    assert (
        errors.InvalidParameter(parameter, -1, "a finite number ≥ 0").fix == f"for example, set {parameter} to {usual}"
    )


def test_a_parameter_that_reads_as_a_word_of_the_sentence_is_quoted() -> None:
    assert errors.InvalidParameter("by", 1, "a list of names").rule.startswith('"by" must be a list of names')
    assert errors.InvalidParameter("k", 1, "left out if y is given").fix == 'leave out either "k" or "y"'
    assert errors.InvalidParameter("columns", 1, "left out").rule.startswith("columns must be left out")


def test_a_description_has_no_quotes_and_an_exact_number_is_digits() -> None:
    """A caller's own text is quoted, so that words about a value that is not shown are not taken for it."""
    values = "an array", errors.ValueWords("an array"), Fraction(1, 4), Fraction(1, 3)
    rules = [errors.InvalidParameter("x", value, "a number").rule for value in values]
    assert [rule.partition("; got ")[2] for rule in rules] == ["'an array'", "an array", "0.25", "1/3"]


def test_lists_of_exact_numbers_are_shown_as_they_are_typed() -> None:
    for value, shown in (
        ((Fraction(10), Fraction(1, 3)), "(10, 1/3)"),
        ([Fraction(1, 2), "x"], "[0.5, 'x']"),
        ((Fraction(1),), "(1,)"),
        ((1, 2), "(1, 2)"),
    ):
        assert f"got {shown}\n" in str(errors.InvalidParameter("x", value, "else"))
    assert "…" in str(errors.InvalidParameter("x", [Fraction(1)] * 30, "else"))
