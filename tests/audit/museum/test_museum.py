"""The museum: every broken mechanism is caught, and every correct twin passes, at a false-alarm rate of 1e-6 each."""

from __future__ import annotations

import importlib.util
import math
import re
from collections import Counter
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import sfumato as sf
from refusals import assert_refused
from sfumato.audit import museum
from sfumato.audit.museum import EXHIBITS, ROOMS, Catch, Exhibit, Tour, revealing_groups
from sfumato.audit.museum.exhibits import DemonstrationNoise
from sfumato.mechanisms.confidence_limits import lower_confidence_limit, upper_confidence_limit

ROOT = Path(__file__).parents[3]
FIGURE = re.compile(r"(?m)^(\| \[(.+?)\]\(#.*\) \| .* \|) (\d+\.\d\d) \| (\d+\.\d\d) \|$")


@cache
def caught(exhibit: Exhibit) -> Catch:
    """The catch with as many runs as the exhibit asks for, each verdict wrong with probability at most 1e-6."""
    return sf.audit.catch(exhibit)


@pytest.mark.parametrize("exhibit", EXHIBITS, ids=lambda exhibit: exhibit.name)
def test_the_broken_one_is_caught_and_its_correct_twin_passes(exhibit: Exhibit) -> None:
    """The noise has a seed, so this either holds for ever or fails for ever; with another seed it raises a false alarm,
    for a twin that keeps its claim, with probability at most 1e-6."""
    found = caught(exhibit)
    assert found.broken.confidence == found.correct.confidence == 0.999999
    assert found.caught, str(found)
    assert found.passes, str(found)


@pytest.mark.long
@pytest.mark.parametrize("exhibit", EXHIBITS, ids=lambda exhibit: exhibit.name)
def test_the_same_with_many_runs_and_another_seed(exhibit: Exhibit) -> None:
    found = sf.audit.catch(exhibit, 300_000, seed=2)
    assert found.caught, str(found)
    assert found.passes, str(found)


def test_there_are_many_of_every_kind() -> None:
    names = [exhibit.name for exhibit in EXHIBITS]
    assert len(set(names)) == len(names) >= 40
    assert sum(len(room.exhibits) for room in ROOMS) == len(names)
    assert {exhibit.neighbours for exhibit in EXHIBITS} == set(sf.Neighbours)
    assert any(exhibit.claim.delta for exhibit in EXHIBITS)
    sparse = next(room for room in ROOMS if room.title == "Sparse vectors")
    assert len(sparse.exhibits) >= 6


def test_every_exhibit_says_what_is_wrong_and_where_it_was_published() -> None:
    for exhibit in EXHIBITS:
        for text in (exhibit.wrong, exhibit.mended, exhibit.seen):
            assert re.fullmatch(r"\S.*[.)'’]", text), (exhibit.name, text)
        assert re.search(r"\b(19|20)\d\d\b|issues? \d+|seen in|PipelineDP", exhibit.source), exhibit.name
        assert exhibit.name in str(exhibit)
        assert exhibit.source in str(exhibit)


def test_a_twin_that_is_broken_and_an_exhibit_that_is_not_are_told() -> None:
    """The tour is not content by itself: with the two exchanged it says so, in words that cannot be overlooked."""
    shown = museum.exhibit_audits._find_exhibit("Half the noise")
    fine = caught(shown)
    exchanged = sf.audit.catch(replace(shown, broken=shown.correct, correct=shown.broken))
    assert Tour((fine,)).holds
    assert not exchanged.caught
    assert not exchanged.passes
    assert not Tour((fine, exchanged)).holds
    assert "NOT CAUGHT, AND ITS TWIN IS REFUTED" in str(Tour((fine, exchanged)))
    assert not Tour((sf.audit.catch(replace(shown, broken=shown.correct)),)).holds
    assert not Tour((sf.audit.catch(replace(shown, correct=shown.broken)),)).holds


def test_correct_twins_that_use_their_whole_claim_are_seen_to() -> None:
    """An audit without power would let every twin pass: a third of them reach four fifths of their claim."""
    near = [
        each for each in map(caught, EXHIBITS) if each.correct.lower_bound > 0.8 * float(each.exhibit.claim.epsilon)
    ]
    assert len(near) > len(EXHIBITS) / 3


@pytest.mark.parametrize(
    ("name", "truth"),
    [
        ("Half the noise", 2),
        ("ε where 1/ε belongs", 2),
        ("Success with probability ε", math.log(2)),
        ("Zero drawn twice", 1 + math.log(2)),
        ("Drawn again until it looks right", math.log((1 + math.exp(-1) - math.exp(-2)) / math.exp(-1))),
        ("A tree with noise for one level", 4),
        ("The wrong norm", 2),
        ("One row too many", 4 / 3),
        ("Replaced, but priced as removed", 2),
        ("A join that multiplies", 3),
        ("A limit for each group, none over all", 2),
        ("Two aggregates at the price of one", 2),
        ("Lazy noise", 2),
        ("Parallel composition under replacement", 2),
        ("Sampling that is counted twice", math.log1p(0.5 * math.expm1(1) / 0.25)),
        ("The coin for two answers, with four", 1 + math.log(3)),
        ("The whole ε for every bit", 2),
        ("Fresh coins every day", 5),
        ("Three winners at the price of one", 3),
    ],
)
def test_no_more_is_proven_than_what_is_true(name: str, truth: float) -> None:
    """Where theory tells how much really leaks, the bound is below it (false alarm 1e-6) and not far below."""
    found = caught(museum.exhibit_audits._find_exhibit(name))
    assert float(found.exhibit.claim.epsilon) < found.broken.lower_bound <= truth


def test_what_is_caught_can_be_seen_again() -> None:
    first, again, other = (sf.audit.catch("Half the noise", 5_000, seed=seed) for seed in (1, 1, 2))
    assert first.broken.lower_bound == again.broken.lower_bound != other.broken.lower_bound
    assert first.correct.lower_bound == again.correct.lower_bound


def test_the_two_worlds_have_noise_of_their_own() -> None:
    """An audit takes the runs of both worlds to be independent, also where the two inputs are the same."""
    shown = replace(museum.exhibit_audits._find_exhibit("Half the noise"), inputs=(0, 0))
    first, second = (world(1_000) for world in museum.exhibit_audits._samplers_of(shown.correct, shown, "correct"))
    assert (first != second).any()
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.2


def test_the_table_reads_well() -> None:
    found = Tour(tuple(map(caught, EXHIBITS[:2])))
    first, second, third = str(found).splitlines()
    assert first.split() == ["exhibit", "claimed", "ε", "proven", "ε", "of", "its", "twin"]
    assert re.fullmatch(r"Half the noise +1 +1\.\d\d +0\.\d\d +caught", second)
    assert "ε where 1/ε belongs" in third
    assert "<table>" in found._repr_html_()
    assert repr(found) == str(found)
    assert "caught" in repr(found.catches[0])
    assert repr(EXHIBITS[0]) == "Exhibit('Half the noise')"


@pytest.mark.parametrize(
    "call",
    [
        lambda: sf.audit.catch("Half the nois"),
        lambda: sf.audit.catch("no such thing at all"),
        lambda: sf.audit.catch(None),  # type: ignore[arg-type]
        lambda: sf.audit.catch("Half the noise", 10),
        lambda: sf.audit.catch("Half the noise", 10**12),
        lambda: sf.audit.catch("Half the noise", confidence=1),
        lambda: sf.audit.catch("Half the noise", seed=-1),
    ],
)
def test_hostile_parameters(call: object) -> None:
    assert_refused(call)


def test_a_name_that_is_nearly_right_is_proposed() -> None:
    with pytest.raises(sf.InvalidParameter, match="did you mean 'Half the noise'"):
        sf.audit.catch("Half the nois")


# ── what the demonstrations rest on ────────────────────────────────────────────────────────────


@pytest.mark.parametrize("scale", [0.5, 1, 4])
def test_demonstration_noise_has_the_law_it_says(scale: float) -> None:
    """Each of nine frequencies lies within limits that a true law leaves with probability 1e-7."""
    drawn = Counter(DemonstrationNoise.from_labels("law", scale).laplace(scale, 20_000).tolist())
    ratio = math.exp(-1 / scale)
    for x in range(-4, 5):
        chance = (1 - ratio) / (1 + ratio) * ratio ** abs(x)
        assert (
            lower_confidence_limit(drawn[x], 20_000, 5e-8) <= chance <= upper_confidence_limit(drawn[x], 20_000, 5e-8)
        )


def test_noise_of_scale_zero_is_none_and_labels_tell_draws_apart() -> None:
    noise = DemonstrationNoise.from_labels("a", 1)
    assert not noise.laplace(0, 3, 2).any()
    same, other = DemonstrationNoise.from_labels("a", 1), DemonstrationNoise.from_labels("a", 2)
    assert (same.laplace(9, 20) == DemonstrationNoise.from_labels("a", 1).laplace(9, 20)).all()
    assert (same.laplace(9, 20) != other.laplace(9, 20)).any()


@pytest.mark.parametrize("scale", [1, 5])
@pytest.mark.parametrize("delta", [0.0134, 0.002])
def test_the_threshold_of_keys_is_the_least_that_keeps_delta(scale: float, delta: float) -> None:
    def passing(threshold: int) -> float:
        ratio = math.exp(-1 / scale)
        return ratio ** (threshold - 1) / (1 + ratio)

    threshold = revealing_groups._threshold(scale, delta)
    assert passing(threshold) <= delta < passing(threshold - 1)


def test_deviations_of_gaussian_exhibits_keep_what_they_claim_or_do_not() -> None:
    from sfumato.audit.museum import broken_arithmetic, too_little_noise

    for deviation in (too_little_noise._GRADIENT_DEVIATION, broken_arithmetic._DEVIATION):
        assert sf.Curve.gaussian(str(deviation)).delta(1) <= 1e-5
    assert sf.Curve.gaussian(str(too_little_noise._ANALYTIC_DEVIATION)).delta(6) <= 0.5
    assert sf.Curve.gaussian(str(round(too_little_noise._CLASSICAL_DEVIATION, 6))).delta(6) > 0.7


def test_rows_of_digits_are_one_number() -> None:
    assert museum.exhibits.encode_digits(np.array([[True, False, True], [False, False, True]])).tolist() == [5, 1]
    assert museum.exhibits.row_minimum(np.array([[3, 1, 2], [5, 7, 6]])).tolist() == [1, 5]


# ── the page ───────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def made() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_museum", ROOT / "docs/reference/make_museum.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_up_to_date_but_for_its_figures(made: ModuleType) -> None:
    said, now = (
        FIGURE.sub(r"\1", text) for text in (made.PAGE.read_text(), made.page(Tour(tuple(map(caught, EXHIBITS)))))
    )
    assert said == now, "run .venv/bin/python docs/reference/make_museum.py"


def test_the_figures_of_the_page_refute_each_claim_and_no_twin(made: ModuleType) -> None:
    """What many runs prove is at least what few prove, but for a tenth: limits are closer, events others."""
    figures = {name: (float(broken), float(twin)) for _, name, broken, twin in FIGURE.findall(made.PAGE.read_text())}
    assert list(figures) == [exhibit.name for exhibit in EXHIBITS]
    for found in map(caught, EXHIBITS):
        broken, twin = figures[found.exhibit.name]
        assert twin <= float(found.exhibit.claim.epsilon) < broken
        assert broken >= found.broken.lower_bound - 0.1


@pytest.mark.long
def test_the_figures_of_the_page_are_what_a_tour_finds(made: ModuleType) -> None:
    now = FIGURE.findall(made.page(museum.tour(made.RUNS)))
    for said, found in zip(FIGURE.findall(made.PAGE.read_text()), now, strict=True):
        assert said[1] == found[1]
        assert float(said[2]) == pytest.approx(float(found[2]), abs=0.05), said[1]
        assert float(said[3]) == pytest.approx(float(found[3]), abs=0.05), said[1]
