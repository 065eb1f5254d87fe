"""Refusals: a rule that looks at the rows tells by withholding; one that looks at the question alone does not."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import sfumato as sf
from sfumato.attacks import ExactAnswers, SuppressedAnswers, information_recovery, read_refusal, refusals
from sfumato.attacks.ceilings import guess_ceiling


@pytest.mark.parametrize("least", [2, 5])
def test_withholding_tells_the_bit_for_every_table(least: int) -> None:
    """All tables of the target, the accomplices and two others: the refusal is the target's bit, whoever the others
    are; from answers that are never withheld it is always 1.
    """
    for bit, *others in product((0, 1), repeat=3):
        values = np.array([1] * (least - 1) + [bit, *others])
        target = least - 1
        assert read_refusal(SuppressedAnswers(values, least), target, least - 1) == bit
        assert read_refusal(ExactAnswers(values), target, least - 1) == 1


def test_a_curator_refuses_by_the_question_alone() -> None:
    """The guess from refusals is one constant, so of 300 fair coins it is right by chance; 6 standard deviations."""
    found = refusals(towns=300)
    assert found["below 5 withheld"].success == 1
    assert found["below 5 withheld"].ceiling is None
    told = found["private, ε = 1: refused"]
    assert abs(told.right - 150) < 6 * np.sqrt(300 / 4)
    assert found["private, ε = 1: its answer"].ceiling == guess_ceiling(sf.Guarantee(1))
    assert found.holds


def test_the_law_of_information_recovery() -> None:
    """Accurate answers give nearly all bits away once there are many; from one budget the error of each answer grows
    with their number, and no more is right than the ceiling allows (each of 5 × 40 guesses, false alarm below 1e-6).
    """
    swept = information_recovery(people=40, most=256, epsilon=1)
    assert swept.attack == "information recovery"
    assert swept.at == (8, 16, 32, 64, 128, 256)
    assert swept["noise of scale ½ each"][-1] > 0.95
    assert swept["error of an answer ÷ people"] == (0.2, 0.4, 0.8, 1.0, 1.0, 1.0)
    assert swept["ceiling"] == (guess_ceiling(sf.Guarantee(1)),) * 6
    assert max(swept["from one budget"]) <= swept["ceiling"][0] + 4.9 * np.sqrt(0.2 / 200)


def test_bad_input_is_refused() -> None:
    answers = SuppressedAnswers([1, 1, 0])
    for accomplices in (0, 3, "x"):
        with pytest.raises(sf.InvalidParameter, match="accomplices"):
            read_refusal(answers, 0, accomplices)  # type: ignore[arg-type]
    with pytest.raises(sf.InvalidParameter, match="target"):
        read_refusal(answers, 9, 1)
    with pytest.raises(sf.InvalidParameter, match="towns"):
        refusals(towns=0)
    with pytest.raises(sf.InvalidParameter, match="most"):
        information_recovery(most=4)
