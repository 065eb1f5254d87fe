"""Who is asked: what is told, what is withheld, and what a real curator charges for it."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sfumato as sf
from sfumato.attacks import (
    ExactAnswers,
    NoisyAnswers,
    RoundedAnswers,
    SuppressedAnswers,
    UncountedAnswers,
    private_answers,
)
from sfumato.attacks.answerers import even_share, random_groups

VALUES = np.array([1, 0, 1, 1, 0, 1])
GROUPS = np.array([[True] * 6, [True, True, False, False, False, False], [False] * 6])


def test_coarse_answers_are_the_true_sums_rounded_or_withheld() -> None:
    assert ExactAnswers(VALUES).sums(GROUPS).tolist() == [4, 1, 0]
    assert RoundedAnswers(VALUES, 4).sums(GROUPS).tolist() == [4, 0, 0]
    assert RoundedAnswers(VALUES, 2).sums(GROUPS).tolist() == [4, 2, 0]  # halves go up
    told = SuppressedAnswers(VALUES, 4).sums(GROUPS)
    assert told[0] == 4
    assert np.isnan(told[1:]).all()


def test_values_may_be_several_for_each_person() -> None:
    both = np.column_stack([VALUES, 1 - VALUES])
    assert ExactAnswers(both).sums(GROUPS).tolist() == [[4, 2], [1, 1], [0, 0]]


def test_noise_is_of_the_scale_that_all_questions_together_need() -> None:
    both = np.column_stack([VALUES, VALUES])
    assert NoisyAnswers(VALUES, 2, 10).noise == sf.Laplace(5)
    assert NoisyAnswers(both, 2, 10).noise == sf.Laplace(10)  # both values of one person change
    assert NoisyAnswers(both, 2, 10, towns=True).noise == sf.Laplace(5)  # a person is in one town
    assert NoisyAnswers(3 * VALUES, 2, 10, max_value=3).noise == sf.Laplace(15)
    assert NoisyAnswers(VALUES, 2, 10).promise == sf.Guarantee(2)
    assert UncountedAnswers(VALUES, 2).noise == sf.Laplace("0.5")
    assert UncountedAnswers(VALUES, 2).promise is None


def test_each_sum_has_noise_of_its_own() -> None:
    """The same group forty times: one draw for all would give one answer; of their own draws, all are equal with a
    probability below 1e-30.
    """
    told = NoisyAnswers(VALUES, 1, 40).sums(np.ones((40, len(VALUES)), bool))
    assert len(np.unique(told)) > 1


def test_the_question_after_the_last_is_refused() -> None:
    noisy = NoisyAnswers(VALUES, 1, 4)
    assert noisy.sums(GROUPS).shape == (3,)
    with pytest.raises(sf.InvalidParameter, match="a list of at most 1 group, because each uses up a question"):
        noisy.sums(GROUPS)
    noisy.sums(GROUPS[:1])
    with pytest.raises(sf.InvalidParameter, match="a list of at most 0 groups, because each uses up a question"):
        noisy.sums(GROUPS[:1])


def test_a_real_curator_charges_its_whole_budget_and_refuses_one_question_more() -> None:
    """Three questions cost ε = 1, although a third of it has no end of digits."""
    with private_answers(VALUES, 1, 3) as private:
        assert private.promise == sf.Guarantee(1)
        assert private.sums(GROUPS[:2]).shape == (2,)
        again = private.sums(GROUPS[:2])
        assert again.tolist() == private.sums(GROUPS[:2]).tolist()  # asked before: the same, for nothing
        private.sums(GROUPS[2:])
        with pytest.raises(sf.Overspent):
            private.sums(np.array([[True, False, True, False, True, False]]))


def test_an_account_is_thrown_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with private_answers(VALUES, 1, 1):
        assert list(tmp_path.glob("*/thrown-away.ledger"))
    assert not list(tmp_path.iterdir())


def test_a_real_curator_sells_new_draws_until_the_budget_is_gone() -> None:
    with private_answers(VALUES, 1, 2, fresh=True) as private:
        private.sums(GROUPS[:1])
        private.sums(GROUPS[:1])
        with pytest.raises(sf.Overspent):
            private.sums(GROUPS[:1])


@pytest.mark.filterwarnings("ignore::sfumato.WeakPrivacy")
def test_a_real_curator_answers_truly_but_for_noise() -> None:
    """At ε = 600 for each answer the noise is 0 but with a probability below 10⁻¹⁰⁰."""
    both = np.column_stack([VALUES, 1 - VALUES])
    with private_answers(both, 2000, 3, towns=True) as private:
        assert private.sums(GROUPS).tolist() == [[4, 2], [1, 1], [0, 0]]
    with private_answers(both, 2000, 3, neighbours="add-remove") as private:
        assert private.sums(GROUPS[:2]).tolist() == [[4, 2], [1, 1]]
        assert private.promise == sf.Guarantee(4000)


def test_groups_are_written_as_the_shorter_list() -> None:
    with private_answers(VALUES, 1, 3) as private:
        few, many = np.arange(6) == 2, np.arange(6) != 2
        assert private.sums_sql(few).endswith('WHERE "person" IN (2)')
        assert private.sums_sql(many).endswith('WHERE "person" NOT IN (2)')
        assert private.sums_sql(np.ones(6, bool)).endswith("WHERE TRUE")


def test_a_curator_of_ones_own_is_asked_by_its_own_names() -> None:
    """A name with a quotation mark stays one name."""
    with private_answers(VALUES, 1, 3) as private:
        odd = replace(private, columns=('a"b',), table='c"', person='d"e', epsilon_per_question="0.1")
        assert odd.epsilon_per_question == sf.Guarantee("0.1").epsilon
        assert odd.sums_sql(np.arange(6) == 2) == 'SELECT SUM("a""b") AS "a""b" FROM "c""" WHERE "d""e" IN (2)'
        for wrong in (
            {"epsilon_per_question": 0},
            {"people": 0},
            {"columns": ()},
            {"town": "t", "columns": ("a", "b")},
        ):
            with pytest.raises(sf.InvalidParameter):
                replace(private, **wrong)


def test_one_town_is_a_town_too() -> None:
    with private_answers(VALUES[:, None], 1, 1, towns=True) as private:
        assert private.sums(GROUPS[:1]).shape == (1, 1)


@pytest.mark.parametrize("values", [[], [[]], [0.5, 1.0], ["a"], [[1], [1, 2]], [-1, 0], np.zeros((2, 2, 2), int)])
def test_values_that_are_no_whole_numbers_are_refused(values: Any) -> None:
    with pytest.raises(sf.InvalidParameter, match="values"):
        ExactAnswers(values)


def test_whole_numbers_that_are_stored_as_reals_are_refused_with_what_converts_them() -> None:
    """So a table reads them that has missing cells elsewhere."""
    with pytest.raises(sf.InvalidParameter) as refusal:
        ExactAnswers(np.array([1.0, 0.0]))
    assert refusal.value.fix == "convert it with values.astype(int)"


def test_values_above_the_bound_are_refused_where_it_decides_the_noise() -> None:
    with pytest.raises(sf.InvalidParameter, match="integers from 0 to 1"):
        NoisyAnswers([0, 2], 1, 1)
    assert NoisyAnswers([0, 2], 1, 1, max_value=2).people == 2


@pytest.mark.parametrize("groups", [GROUPS[0], GROUPS[:, :5], GROUPS.astype(int), GROUPS[:0]])
def test_groups_of_another_shape_are_refused(groups: Any) -> None:
    for answerer in (ExactAnswers(VALUES), NoisyAnswers(VALUES, 1, 9)):
        with pytest.raises(sf.InvalidParameter, match="groups"):
            answerer.sums(groups)


def test_groups_are_fair_and_shares_add_up_to_no_more() -> None:
    """4 million fair coins lie within 6 standard deviations of half: false alarm 2·10⁻⁹."""
    groups = random_groups(2000, 2000)
    assert abs(int(groups.sum()) - 2_000_000) <= 6 * 1000
    assert 7 * even_share(sf.Guarantee(1).epsilon, 7) <= 1
