"""Every error has a stable code, and one table says how it ends."""

from __future__ import annotations

import pickle
from collections.abc import Iterator

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
        assert "nothing was charged" in str(waited)
