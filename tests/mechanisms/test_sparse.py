"""Above threshold: the right one holds, six wrong ones are caught, four of which were published."""

from __future__ import annotations

import copy
import math
import os
import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import sfumato as sf
from refusals import assert_refused
from sfumato.mechanisms import laplace

Bits = NDArray[np.int64]


def test_a_session_from_start_to_end() -> None:
    mechanism = sf.AboveThreshold(10, threshold=1000, positives=2)
    session = mechanism.start()
    assert session.remaining == 2
    assert not session.ask(0)
    assert session.ask(10**6)
    assert session.remaining == 1
    assert session.ask(np.int64(10**6))  # type: ignore[arg-type]
    assert session.remaining == 0
    with pytest.raises(sf.SessionClosed, match="after 2 answers above the threshold"):
        session.ask(0)
    receipt = session.receipt
    assert (receipt.asked, receipt.positives, receipt.open) == (3, 2, False)
    assert receipt.mechanism is mechanism


def test_a_closed_session_says_nothing_more() -> None:
    with sf.AboveThreshold(1, 10).start() as session:
        session.ask(0)
    with pytest.raises(sf.SessionClosed):
        session.ask(0)
    assert session.remaining == 0


def test_there_is_only_one_of_a_session() -> None:
    session = sf.AboveThreshold(1, 10, positives=2).start()
    for attempt in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="secret"):
            attempt(session)
    child = os.fork()
    if child == 0:
        try:
            session.ask(0)
        except sf.SessionClosed:
            os._exit(7)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    session.close()
    assert session._threshold is None


def test_threads_cannot_get_more_than_was_paid_for() -> None:
    session = sf.AboveThreshold(10, 0, positives=5).start()

    def ask(_: int) -> bool:
        try:
            return session.ask(10**6)
        except sf.SessionClosed:
            return False

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(ask, range(200))) == 5


def test_the_last_positive_ends_it_even_if_something_breaks(monkeypatch: pytest.MonkeyPatch) -> None:
    session = sf.AboveThreshold(1, 0, positives=2, values_epsilon=1).start()
    assert session.ask(10**6)
    monkeypatch.setattr(laplace, "draw_one", _interrupted)
    with pytest.raises(KeyboardInterrupt):
        session.ask(10**6)
    monkeypatch.undo()
    assert session.remaining == 0
    with pytest.raises(sf.SessionClosed):
        session.ask(10**6)


def _interrupted(_: Fraction) -> int:
    raise KeyboardInterrupt


def test_closing_while_others_ask_is_clean() -> None:
    session = sf.AboveThreshold(1, 10**9).start()

    def ask(i: int) -> bool:
        if i == 500:
            session.close()
        try:
            return session.ask(0)
        except sf.SessionClosed:
            return False

    with ThreadPoolExecutor(8) as pool:
        assert not any(pool.map(ask, range(2000)))


def test_values_at_positives() -> None:
    mechanism = sf.AboveThreshold(20, 100, positives=1, values_epsilon=20)
    session = mechanism.start()
    assert session.ask(500)
    assert session.value is not None
    assert abs(session.value - 500) < 20
    assert mechanism.curve().epsilon(0) == 40
    plain = sf.AboveThreshold(20, 100).start()
    plain.ask(500)
    assert plain.value is None


@pytest.mark.parametrize("monotone", [False, True])
@pytest.mark.parametrize("positives", [1, 3, 50])
def test_the_split_is_optimal_and_exact(monotone: bool, positives: int) -> None:
    mechanism = sf.AboveThreshold("0.7", 0, positives, sensitivity=2, monotone=monotone)
    first, second, _ = mechanism.scales
    factor = 1 if monotone else 2
    assert 2 / first + factor * positives * 2 / second == Fraction(7, 10)
    assert float((factor * positives * 2 / second) / (2 / first)) == pytest.approx(
        (factor * positives) ** (2 / 3), rel=1e-6
    )
    assert mechanism.curve() == sf.Curve.pure("0.7")


def test_errors_hold() -> None:
    mechanism = sf.AboveThreshold(1, 1000, positives=1)
    width = math.ceil(mechanism.error(20, "0.9"))
    wrong = 0
    for _ in range(400):
        session = mechanism.start()
        low = any(session.ask(1000 - width) for _ in range(19))
        wrong += low or not session.ask(1000 + width)
    assert wrong <= 40 + 5 * math.sqrt(40)


# ── the right one and six wrong ones, as vectors of many runs ──────────────────────────────────


def _noise(scale: float, shape: tuple[int, ...]) -> Bits:
    count = math.prod(shape)
    step = Fraction(scale).limit_denominator(1000)
    return np.concatenate([laplace.draw(step, min(1 << 16, count - i)) for i in range(0, count, 1 << 16)]).reshape(
        shape
    )


def _answers(values: Bits, threshold: Any, noise: Bits, cut: int | None) -> Bits:
    """Above or not, stopping (−1) after the cut-th positive; as one number per run."""
    above = values + noise >= threshold
    if cut is not None:
        done = np.cumsum(above, axis=1) - above >= cut
        answers = np.where(done, 2, above)
    else:
        answers = above.astype(np.int64)
    return answers @ (3 ** np.arange(answers.shape[1]))


Variant = Callable[[Bits, int, float], Bits]


def _right(values: Bits, runs: int, epsilon: float) -> Bits:
    first, second, _ = (float(s) for s in sf.AboveThreshold(str(epsilon), 0).scales)
    return _answers(values, _noise(first, (runs, 1)), _noise(second, (runs, values.size)), 1)


def _no_question_noise(values: Bits, runs: int, epsilon: float) -> Bits:
    """Stoddard, Chen & Machanavajjhala 2014: noise on the threshold only, and no end."""
    return _answers(values, _noise(2 / epsilon, (runs, 1)), np.zeros((runs, values.size), np.int64), None)


def _no_end(values: Bits, runs: int, epsilon: float) -> Bits:
    """Chen et al. 2015: right noise for one positive, but it never stops."""
    return _answers(values, _noise(2 / epsilon, (runs, 1)), _noise(2 / epsilon, (runs, values.size)), None)


def _no_threshold_noise(values: Bits, runs: int, epsilon: float) -> Bits:
    return _answers(values, 0, _noise(2 / epsilon, (runs, values.size)), None)


def _not_scaled_by_positives(values: Bits, runs: int, epsilon: float) -> Bits:
    """Lee & Clifton 2014: c positives with the noise of one."""
    return _answers(values, _noise(4 / epsilon, (runs, 1)), _noise(4 / (3 * epsilon), (runs, values.size)), values.size)


def _value_with_its_own_noise(values: Bits, runs: int, epsilon: float) -> Bits:
    """Roth's lecture notes 2011: the noisy value that passed is released too, and bounds the threshold from above."""
    noise = _noise(2 / epsilon, (runs, values.size))
    threshold = _noise(2 / epsilon, (runs, 1))
    noisy = values + noise
    above = noisy >= threshold
    first = above.argmax(1)
    shown = np.where(above.any(1), noisy[np.arange(runs), first], -(10**6))
    return first * 100 + np.clip(shown, -40, 40)  # one number: which question, and its value


def _half_noise(values: Bits, runs: int, epsilon: float) -> Bits:
    return _answers(values, _noise(1 / epsilon, (runs, 1)), _noise(1 / epsilon, (runs, values.size)), 1)


PREY: dict[str, tuple[Variant, list[int], list[int], float]] = {
    "no noise on questions": (_no_question_noise, [0, 1], [1, 0], 1),
    "no end": (_no_end, [0] * 5 + [1] * 5, [1] * 5 + [0] * 5, 1),
    "no noise on the threshold": (_no_threshold_noise, [0] * 10, [1] * 10, 1),
    "noise not scaled by the positives": (_not_scaled_by_positives, [0] * 5 + [1] * 5, [1] * 5 + [0] * 5, 1),
    "the value with its own noise": (_value_with_its_own_noise, [0] * 5, [1] * 4 + [0], 1),
    "half the noise": (_half_noise, [0] * 8 + [1], [1] * 8 + [0], 1),
}


def _audited(variant: Variant, one: list[int], other: list[int], epsilon: float, samples: int) -> sf.audit.Verdict:
    def world(values: list[int]) -> Callable[[int], Bits]:
        return lambda n: variant(np.array(values), n, epsilon)

    return sf.audit.falsify((world(one), world(other)), sf.Guarantee(str(epsilon)), samples, "0.999999")


@pytest.mark.parametrize("name", PREY)
def test_each_wrong_variant_is_caught(name: str) -> None:
    verdict = _audited(*PREY[name], 200_000)
    assert not verdict.holds, str(verdict)


@pytest.mark.parametrize("name", PREY)
def test_the_right_one_passes_where_they_fail(name: str) -> None:
    _, one, other, epsilon = PREY[name]
    verdict = _audited(_right, one, other, epsilon, 100_000)
    assert verdict.holds, str(verdict)


@pytest.mark.parametrize(
    "call",
    [
        lambda: sf.AboveThreshold(0, 1),
        lambda: sf.AboveThreshold(math.nan, 1),
        lambda: sf.AboveThreshold(1e-20, 1),
        lambda: sf.AboveThreshold(1, 1.5),  # type: ignore[arg-type]
        lambda: sf.AboveThreshold(1, None),  # type: ignore[arg-type]
        lambda: sf.AboveThreshold(1, 1, positives=0),
        lambda: sf.AboveThreshold(1, 1, sensitivity=0),
        lambda: sf.AboveThreshold(1, 1, sensitivity=1.5),  # type: ignore[arg-type]
        lambda: sf.AboveThreshold(1, 1, monotone=True, neighbours="replace"),
        lambda: sf.AboveThreshold(1, 1, values_epsilon=-1),
        lambda: sf.AboveThreshold(1, 1).start().ask(1.5),  # type: ignore[arg-type]
        lambda: sf.AboveThreshold(1, 1).start().ask(None),  # type: ignore[arg-type]
        lambda: sf.AboveThreshold(1, 1).error(0),
    ],
)
def test_hostile_parameters(call: object) -> None:
    assert_refused(call)


def test_written_and_read_back() -> None:
    mechanism = sf.AboveThreshold("0.5", 7, 3, 2, monotone=True, values_epsilon="0.1")
    assert sf.loads(sf.dumps(mechanism)) == mechanism
    assert "threshold=7" in repr(mechanism)


def test_what_is_no_whole_number_is_not_asked() -> None:
    session = sf.AboveThreshold(10, threshold=1000).start()
    for value in (3.5, "7", None):
        with pytest.raises(sf.InvalidParameter, match="whole number"):
            session.ask(value)  # type: ignore[arg-type]
    assert session.receipt.asked == 0


def test_an_epsilon_below_all_denominators_is_refused_for_its_scale() -> None:
    assert_refused(lambda: sf.AboveThreshold("1e-27", threshold=0), "between 0.001 and 1e12")
