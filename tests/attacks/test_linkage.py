"""Linkage: names are put back, groups of three tell nearly as much, and private counts do not."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

import sfumato as sf
from sfumato.attacks import Person, guess_ceiling, homogeneous, linkage, linkage_people, max_correct
from sfumato.attacks.linkage import anonymity_level, link_diagnoses, resample_diagnoses

ANN = Person("Ann", "F", 34, "12345", "Stroke", "025", "recovered")
BEA = replace(ANN, name="Bea", age=39, zip="12399", treatment="026")
CLEO = replace(BEA, name="Cleo", age=31, diagnosis="Cancer")


def test_the_bundled_table_is_three_anonymous() -> None:
    people = linkage_people()
    assert len(people) == 1500
    assert set(Counter(each.coarse for each in people).values()) == {3}
    assert anonymity_level(people) == 3
    assert len({each.public for each in people}) == 1500
    assert len({each.diagnosis for each in people}) == 10


def test_groups_alike_tell_all_and_what_is_known_beside_narrows_them() -> None:
    assert homogeneous((ANN, BEA)) == (ANN, BEA)
    assert homogeneous((ANN, BEA, CLEO)) == ()
    assert link_diagnoses((ANN, BEA, CLEO), lambda each: each.public) == ["Stroke", "Stroke", "Cancer"]
    assert link_diagnoses((ANN, BEA, CLEO), lambda each: each.coarse) == ["Stroke"] * 3
    assert link_diagnoses((ANN, BEA, CLEO), lambda each: (each.coarse, each.treatment))[0] == "Stroke"


def test_anonymity_in_groups_of_three_hides_little_and_private_counts_much() -> None:
    """Diagnoses are drawn anew for each person, so that the ceiling is exact: false alarm 10⁻⁶. Groups of three tell
    663 of 1,500 with a standard deviation of 20, blind guesses 240: below 525 lies 7 of these off. At ε = 0.5 up to 438
    would be explained, and what groups of three tell lies 9 standard deviations of the difference above.
    """
    people = resample_diagnoses(linkage_people())
    found = linkage("0.5", people)
    assert found["names removed"].success == 1
    assert found["3-anonymous"].success > 0.35
    assert found["3-anonymous, treatment known"].success > 0.9
    private = found["private"]
    assert found.holds
    chance = max(Counter(each.diagnosis for each in people).values()) / 1500
    assert private.chance == pytest.approx(chance)
    assert private.ceiling == pytest.approx(guess_ceiling(sf.Guarantee("0.5"), chance, 10))
    assert found["3-anonymous"].right > max_correct(
        1500, private.ceiling or 0
    )  # what a table without noise would reach


def test_groups_in_which_all_are_alike_are_told_completely() -> None:
    """Eighteen of the bundled people are in such a group, and one more group is not alike."""
    alike = homogeneous(linkage_people())
    others = [each for each in linkage_people() if each not in alike]
    people = (*alike, *(each for each in others if each.coarse == others[0].coarse))
    found = linkage(1, people)["3-anonymous, uniform groups"]
    assert len(people) == 21
    assert (found.right, found.trials) == (18, 18)


def test_add_remove_neighbours_have_the_ceiling_of_two_units() -> None:
    few = linkage_people()[:9]
    private = linkage("0.5", few, neighbours="add-remove")["private"]
    chance = max(Counter(each.diagnosis for each in few).values()) / 9
    kinds = len({each.diagnosis for each in few})
    assert private.ceiling == pytest.approx(guess_ceiling(sf.Guarantee(1), chance, kinds))


def test_bad_input_is_refused() -> None:
    for people in ((), ("Ann",), None):
        with pytest.raises(sf.InvalidParameter, match="people"):
            homogeneous(people)  # type: ignore[arg-type]
    with pytest.raises(sf.InvalidParameter, match="epsilon"):
        linkage(0)
