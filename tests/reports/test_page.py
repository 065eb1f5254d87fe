"""The page names nobody that its owner did not choose to name, and loads nothing."""

from __future__ import annotations

import hashlib
import itertools
import re
from pathlib import Path

import pytest

import sfumato as sf
from reports.accounts import ALIAS, PERSON, PLAIN, QUESTION, SECRETS, asked
from sfumato.release.answers.answer_pages import render_belief_changes, render_protection
from sfumato.reports import report
from sfumato.reports.account_reports import collect_report, parse_questions_option, salted_hash

HASH = re.compile(r"\b[0-9a-f]{64}\b")


def _leaks(page: str) -> list[str]:
    spellings = [(each, re.escape(each)) for each in SECRETS]
    return [each for each, pattern in spellings if re.search(pattern, page, re.I)]


def test_without_the_flag_nothing_of_a_question_is_told(policy: Path) -> None:
    page = report(policy).html
    assert _leaks(page) == []
    assert PLAIN not in page
    assert "EWR" not in page
    assert page.count("<li>Line ") == 3


def test_questions_that_are_not_chosen_stay_hidden(policy: Path) -> None:
    page = report(policy, questions=[_line(policy, PLAIN)]).html
    assert _leaks(page) == []
    assert PLAIN in page
    assert "EWR" in page


def test_chosen_questions_are_told_with_answers_and_pictures(policy: Path) -> None:
    page = report(policy, questions=True).html
    assert PERSON in page
    assert ALIAS in page
    assert page.count("<svg") == 2 + 3  # budget and attacker, and each answer
    assert _leaks(page) == [PERSON, "Zdenka", "Quxov", ALIAS]  # never the analyst, the request, files or reasons


def test_an_answer_can_be_named_by_its_own_line(policy: Path) -> None:
    number = _line(policy, PLAIN)
    assert report(policy, questions=[number]).html.count("<pre>SELECT") == 1
    assert report(policy, questions=[number + 1]).html.count("<pre>SELECT") == 1
    with pytest.raises(sf.InvalidParameter, match="the line numbers of questions in the ledger"):
        report(policy, questions=[10_000])


def _line(policy: Path, question: str) -> int:
    return next(each.number for each in collect_report(policy, questions=True).questions if each.question == question)


# ── salted hashes ──────────────────────────────────────────────────────────────────────────────


def test_a_guess_cannot_be_tested(policy: Path) -> None:
    """Every hash on the page is compared with hashes of the right guess under every salt that the page has."""
    page = report(policy).html
    hashes = set(HASH.findall(page))
    numbers = [str(each) for each in range(50)]
    for guess, salt in itertools.product((QUESTION, PLAIN), ["", *hashes, *numbers, "flights", "plane"]):
        for joined in (guess, salt + guess, f"{salt}\0{guess}", guess + salt, f"{guess}\0{salt}"):
            assert hashlib.sha256(joined.encode()).hexdigest() not in hashes


def test_salts_of_shown_lines_open_no_other(policy: Path) -> None:
    found = collect_report(policy, questions=[_line(policy, QUESTION)])
    shown = [each for each in found.questions if each.salt]
    assert [each.question for each in shown] == [QUESTION]
    hidden = {each.hash for each in found.questions if each.salt is None}
    assert salted_hash(shown[0].salt or "", PLAIN) not in hidden


def test_equal_questions_have_hashes_of_their_own(policy: Path) -> None:
    found = [each for each in collect_report(policy, questions=True).questions if each.question == PLAIN]
    assert len(found) == 2
    assert len({each.hash for each in found}) == 2


def test_the_owner_can_show_later_what_was_asked(policy: Path) -> None:
    before = [each.hash for each in collect_report(policy).questions]
    later = collect_report(policy, questions=True).questions
    assert [salted_hash(each.salt or "", each.question or "") for each in later] == before


def test_another_ledger_has_other_hashes(policy: Path, tmp_path: Path) -> None:
    other = collect_report(asked(tmp_path / "flights")).questions
    assert not {each.hash for each in other} & {each.hash for each in collect_report(policy).questions}


# ── the page itself ────────────────────────────────────────────────────────────────────────────


def test_nothing_is_loaded_and_nothing_runs(policy: Path) -> None:
    page = report(policy, questions=True).html
    addresses = set(re.findall(r"https?://[^\s\"'<>]+", page))
    assert addresses == {"http://www.w3.org/2000/svg"}  # a name, not an address that is fetched
    assert not re.search(r"<script|<link|<img|<iframe|\bsrc=|\bhref=|@import|url\(|\son\w+=", page, re.I)
    assert "default-src 'none'" in page


def test_other_peoples_texts_stay_texts(tmp_path: Path) -> None:
    policy = sf.example(tmp_path / "flights")
    hostile = "</pre><script>alert(1)</script>\u202e"
    with sf.open(policy) as flights:
        flights.sql(f"SELECT COUNT(*) AS \"{hostile}\" FROM flights WHERE carrier = '{hostile}'").release(epsilon=0.5)
    page = report(policy, questions=True, title=hostile).html
    assert "<script" not in page
    assert "\u202e" not in page
    assert "&lt;script&gt;" in page


def test_it_says_what_matters_in_words(policy: Path) -> None:
    page = report(policy).html.replace("\u00a0", " ")
    assert "all rows of one plane" in page
    assert "ε = 4, δ = 1e-06" in page
    assert "ε = 3.125 of 4" in page
    assert "ε of the budget: 3, then 4" in page
    reading = sf.reading(sf.Guarantee(4, "1e-6"), "0.01")
    assert reading.membership is not None
    assert f"<td class=number>{-(-reading.membership * 1000 // 1) / 10:.1f} %</td>" in page


def test_what_was_not_asked_is_not_told(tmp_path: Path) -> None:
    policy = sf.example(tmp_path / "flights")
    with pytest.raises(sf.SfumatoError, match="nothing has been asked yet"):
        report(policy)
    assert not (policy.parent / "sfumato.ledger").exists()


def test_a_damaged_ledger_is_told_nothing_of(tmp_path: Path) -> None:
    import sqlite3

    policy = asked(tmp_path / "flights")
    file = sqlite3.connect(policy.parent / "sfumato.ledger")
    file.execute("DROP TRIGGER no_update")
    file.execute("UPDATE lines SET cost = '0 - 0' WHERE kind = 'charge'")
    file.commit()
    file.close()
    with pytest.raises(sf.LedgerDamaged):
        report(policy)


def test_gaussian_answers_and_units_that_are_replaced(tmp_path: Path) -> None:
    policy = sf.example(tmp_path / "flights")
    policy.write_text(policy.read_text().replace('"add-remove"', '"replace"\nsize = 2000'))
    with sf.open(policy) as flights:
        flights.sql(PLAIN).release(epsilon=0.5, delta=1e-7, mechanism="gaussian")
    page = report(policy, questions=True).html.replace("\u00a0", " ")
    assert "had been replaced by any others" in page
    assert "is in the data, at most" not in page
    assert "at δ = 1e-06" in page


@pytest.mark.parametrize("written", ["x", "4;7", "-1", "4,", "clinic.toml", ""])
def test_lines_are_named_by_numbers(written: str) -> None:
    with pytest.raises(sf.InvalidParameter):
        parse_questions_option(written)
    assert parse_questions_option(None) is False
    assert parse_questions_option("all") is True
    assert parse_questions_option("4, 7") == (4, 7)


# ── one answer ─────────────────────────────────────────────────────────────────────────────────


def test_one_answer_is_a_page(tmp_path: Path) -> None:
    with sf.open(sf.example(tmp_path / "flights")) as flights:
        answer = flights.sql(QUESTION).release(epsilon=0.5)
        constant = flights.sql("SELECT COUNT(*) AS n, 19850412 AS born FROM flights").release(epsilon=0.5)
    hidden = answer.report(tmp_path / "answer.html").html
    assert (tmp_path / "answer.html").read_text(encoding="utf-8") == hidden
    assert _leaks(hidden) == []
    assert "other" not in re.sub(r"any other|or what other|to others|others", "", hidden.split("<h2>")[1])
    assert "group 2" in hidden
    assert "19850412" not in constant.report().html
    assert "19,850,412" not in constant.report().html
    shown = answer.report(questions=True).html
    assert PERSON in shown
    assert ALIAS in shown
    assert "ε = 0.5" in hidden.replace("\u00a0", " ")


def test_a_page_is_saved_as_html_alone(policy: Path, tmp_path: Path) -> None:
    page = report(policy)
    with pytest.raises(sf.SfumatoError, match=r"saved as \.html"):
        page.save(tmp_path / "page.txt")
    with pytest.raises(sf.SfumatoError, match="cannot be written"):
        page.save(tmp_path / "missing" / "page.html")
    assert repr(page).startswith("<Page 'What was asked about planes")
    assert "<iframe" in page._repr_html_()


@pytest.mark.parametrize("promise", [sf.Guarantee(1), sf.Guarantee(3, "1e-6"), sf.Guarantee("0.1"), sf.Guarantee(40)])
@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
def test_what_an_attacker_gains_is_never_told_too_small(promise: sf.Guarantee, neighbours: str) -> None:
    page = render_belief_changes(promise, neighbours, "this")
    cells = [float(each) / 100 for each in re.findall(r"<td class=number>([\d.]+) %</td>", page)]
    rows = len(cells) // 4
    for place, prior in enumerate(("0.001", "0.01", "0.1", "0.5")):
        read = sf.reading(promise, prior, neighbours=neighbours)
        told_of = cells[place * rows + 1 : (place + 1) * rows]
        exact = [each for each in (read.membership, read.attribute) if each is not None]
        assert all(each <= said <= each + 0.00101 for each, said in zip(exact, told_of, strict=True))


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
def test_delta_is_not_called_the_probability_that_the_guarantee_fails(neighbours: str) -> None:
    """(ε, δ)-DP bounds probabilities of outcomes, not that of a loss above ε (``privacy.reading``)."""
    text = render_protection("all rows of one plane", neighbours)
    assert "at most e^ε times" in text
    assert "plus δ" in text
    assert "fail" not in text
