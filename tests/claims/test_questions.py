"""What questions of every shape claim, release and read from the clinic is as it was when last read by a person."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache

import pytest

from claims.claimed_questions import (
    Claims,
    TitledQuestion,
    bounding_claims,
    noise_claims,
    release_claims,
    statement_claims,
    titled_questions,
    total_claims,
    with_prefix,
)
from claims.clinic import clinic
from claims.recorded import check_claims
from sfumato.audit.asked_questions.release_sampling import temporary_curator
from sfumato.curator import Curator, Question
from sfumato.errors import Unsupported
from sfumato.privacy import Neighbours
from sfumato.release.requests import PriceRequest

_QUESTIONS = tuple(titled_questions())
_SECTIONS = tuple(dict.fromkeys(each.section for each in _QUESTIONS))
_ROUNDED = ("sums", "sums of expressions", "means", "moments", "sums of patients", "sums of real values per patient")
"""Sections whose values may be rounded: their claims are in a folder of their own."""


@pytest.fixture(scope="module")
def patients() -> Iterator[Curator]:
    with temporary_curator(clinic()) as opened:
        yield opened


@pytest.fixture(scope="module")
def replaced() -> Iterator[Curator]:
    with temporary_curator(clinic(Neighbours.REPLACE)) as opened:
        yield opened


@pytest.fixture(scope="module")
def rows() -> Iterator[Curator]:
    with temporary_curator(clinic(every_row=True)) as opened:
        yield opened


@cache
def _question(curator: Curator, text: str) -> Question:
    """Read a question once for all of its aspects."""
    return curator.sql(text)


def _checked(
    aspect: str, section: str, curator: Curator, claimed: Callable[[Question, TitledQuestion], Claims]
) -> None:
    """Compare the claims of all questions of a section; a refusal is a claim, too."""
    claims: Claims = {}
    for asked in _QUESTIONS:
        if asked.section == section:
            try:
                question = _question(curator, asked.text)
                made = {} if question.free else claimed(question, asked)
            except Unsupported as refused:
                made = {"refused": refused.code}
            claims |= with_prefix(asked.title, made)
    folder = "sums" if section in _ROUNDED else "questions"
    check_claims(f"{folder}/{section} {aspect}", claims)


@pytest.mark.parametrize("section", _SECTIONS)
def test_boundings(section: str, patients: Curator) -> None:
    _checked("bounded", section, patients, lambda question, _: bounding_claims(question))


@pytest.mark.parametrize("section", _SECTIONS)
def test_boundings_of_replaced_patients(section: str, replaced: Curator) -> None:
    _checked("bounded replaced", section, replaced, lambda question, _: bounding_claims(question))


@pytest.mark.parametrize("section", ["counts", "found groups", "sums", "moments", "public joins", "lists and patients"])
def test_boundings_of_rows(section: str, rows: Curator) -> None:
    _checked("bounded rows", section, rows, lambda question, _: bounding_claims(question))


@pytest.mark.parametrize("section", _SECTIONS)
def test_laplace_noise(section: str, patients: Curator) -> None:
    def noise(question: Question, _: TitledQuestion) -> Claims:
        return noise_claims(question.price_release(PriceRequest(1, "1e-6" if question.discovered_keys else 0)))

    _checked("noise", section, patients, noise)


@pytest.mark.parametrize("section", ["counts", "found groups", "quantiles", "sums"])
def test_gaussian_noise(section: str, replaced: Curator) -> None:
    def noise(question: Question, _: TitledQuestion) -> Claims:
        price = (
            PriceRequest(1, "1e-6", mechanism="gaussian")
            if question.discovered_keys
            else PriceRequest(rho="0.1", mechanism="gaussian")
        )
        return noise_claims(question.price_release(price))

    _checked("noise replaced", section, replaced, noise)


@pytest.mark.parametrize("section", ["shown groups", "quantiles"])
def test_noise_for_a_price_of_two_numbers(section: str, rows: Curator) -> None:
    def noise(question: Question, _: TitledQuestion) -> Claims:
        return noise_claims(question.price_release(PriceRequest(1, "1e-6")))

    _checked("noise rows", section, rows, noise)


@pytest.mark.parametrize("section", _SECTIONS)
def test_statements(section: str, patients: Curator) -> None:
    _checked("statements", section, patients, lambda question, _: statement_claims(question))


@pytest.mark.parametrize("section", ["counts", "found groups", "sums", "private joins", "sums of patients"])
def test_exact_totals(section: str, patients: Curator) -> None:
    def totals(question: Question, asked: TitledQuestion) -> Claims:
        return total_claims(question, len(asked.title))

    _checked("totals", section, patients, totals)


_RELEASED_TOGETHER = ("counts", "noisy rows", "noisy arithmetic", "moments", "quantiles", "shown groups")
_RELEASED_ALONE = [each for each in _SECTIONS if each not in _RELEASED_TOGETHER[1:]]
"""Of these every second one is released by default; what all sections claim before that is compared anyway."""


@pytest.mark.parametrize(
    "section",
    [pytest.param(each, marks=[] if each in _RELEASED_ALONE[::2] else [pytest.mark.long]) for each in _SECTIONS],
)
def test_released_rows(section: str, patients: Curator) -> None:
    def released(question: Question, asked: TitledQuestion) -> Claims:
        return release_claims(
            question, question.price_release(PriceRequest(100, "1e-6" if question.discovered_keys else 0)), asked.title
        )

    _checked("released", section, patients, released)


@pytest.mark.parametrize("section", _RELEASED_TOGETHER)
def test_rows_released_together(section: str, rows: Curator) -> None:
    def released(question: Question, asked: TitledQuestion) -> Claims:
        return release_claims(
            question,
            question.price_release(PriceRequest(2, "1e-6" if question.discovered_keys else 0)),
            asked.title,
            joint=True,
        )

    _checked("released rows", section, rows, released)


@pytest.mark.parametrize("section", ["quantiles", "further choices"])
def test_ranges_around_quantiles(section: str, patients: Curator) -> None:
    def released(question: Question, asked: TitledQuestion) -> Claims:
        prepared = question.price_release(PriceRequest(30, "1e-6" if question.discovered_keys else 0, range="value"))
        return noise_claims(prepared) | release_claims(question, prepared, asked.title)

    _checked("ranges", section, patients, released)
