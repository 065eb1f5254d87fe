"""Seeded bugs where groups are found in the data: which are shown, who is counted for it, what is drawn."""

from __future__ import annotations

from mutants.running import Kind, Mutant, suite

_LAW = "safety/test_unknown_keys.py::test_the_law_of_the_whole_release_is_within_the_charge"
_REPLAY = "safety/test_unknown_keys.py::test_what_neighbours_hold_differs_by_at_most_the_claim"
_FOUND = "engine/test_found_totals.py"
MUTANTS = (
    Mutant(
        "a threshold is one too low",
        Kind.KEYS,
        "mechanisms.key_thresholds:KeyThreshold.threshold",
        "return _laplace_threshold(self.scale, self.delta, self.max_groups, self.weighted)",
        "return _laplace_threshold(self.scale, self.delta, self.max_groups, self.weighted) - 1",
        (_LAW,),
    ),
    Mutant(
        "a replaced unit moves two decisions and each spends all of delta",
        Kind.KEYS,
        "mechanisms.key_thresholds:KeyThreshold._decision_budget",
        "self.delta / self._changed_unit_count",
        "self.delta",
        ("mechanisms/test_key_thresholds.py::test_a_replaced_unit_on_small_worlds",),
    ),
    Mutant(
        "a unit is said to hold one key",
        Kind.KEYS,
        "release.pricing:_group_selection",
        "key_threshold(epsilon, delta, holders.max_keys_per_unit, holders.is_weighted, holders.neighbours)",
        "key_threshold(epsilon, delta, 1, holders.is_weighted, holders.neighbours)",
        (_LAW,),
    ),
    Mutant(
        "groups are counted before they are crossed",
        Kind.LIMITS,
        "engine.lowering.sampled_rows:rank_rows",
        "(Reference('s'), *keys)",
        "(Reference('k0'),)",
        (_REPLAY, f"{_FOUND}::test_a_unit_beyond_its_limits_holds_no_more_keys_than_it_may"),
    ),
    Mutant(
        "all rows decide who holds a key, not those that count",
        Kind.LIMITS,
        "engine.lowering.bounded_totals:_sample_discovered",
        "_sampling_change(part, StageReference('s'), is_kept)",
        "_sampling_change(part, StageReference('s'), "
        "is_kept if part is by_all else apply(ScalarFunction.OR, is_kept, apply(ScalarFunction.NOT, is_kept)))",
        (_REPLAY, f"{_FOUND}::test_a_unit_beyond_its_limits_holds_no_more_keys_than_it_may"),
    ),
    Mutant(
        "the noise of the selection is used for the count again",
        Kind.REUSE,
        "release.discovered_groups:DiscoveredGroupsRelease.draw",
        "return self._noisy_measurements(draw_noisy_numbers(self.prepared, tuple(groups), read_selected), groups)",
        "again = self._noisy_measurements(draw_noisy_numbers(self.prepared, tuple(groups), read_selected), groups)\n"
        "    lift = max(0, self._threshold.threshold - int(discovered.holders.max(initial=0)))\n"
        "    risen = tuple((tuple((abs(each) + lift for each in column)) for column in again.columns))\n"
        "    return replace(again, columns=risen)",
        ("safety/test_unknown_keys.py::test_a_count_of_units_has_noise_of_its_own",),
    ),
    Mutant(
        "keys are ordered by who holds them",
        Kind.KEYS,
        "release.discovered_groups:DiscoveredGroupsRelease.draw",
        "group_sort_key(keys[index])",
        "-discovered.holders[selected[index]]",
        ("safety/test_unknown_keys.py::test_as_many_keys_as_fit_are_the_first_by_value",),
    ),
    Mutant(
        "keys of one unit are left out exactly",
        Kind.KEYS,
        "release.discovered_groups:DiscoveredGroupsRelease.draw",
        "selected = np.flatnonzero(selection.draw(selection.reading.extract(discovered.holders)))",
        "selected = np.flatnonzero(\n"
        "        selection.draw(selection.reading.extract(discovered.holders)) & (discovered.holders > 1))",
        ("safety/test_unknown_keys.py::test_a_key_is_shown_as_often_as_its_threshold_says",),
    ),
    Mutant(
        "too many keys make a release fail",
        Kind.KEYS,
        "release.discovered_groups:DiscoveredGroupsRelease.draw",
        "selected = np.flatnonzero(selection.draw(selection.reading.extract(discovered.holders)))",
        "selected = np.flatnonzero(selection.draw(selection.reading.extract(discovered.holders)))\n"
        "    assert len(selected) <= max_keys_in_answer(self.reading)",
        ("curator/previews/test_unknown_groups.py::test_as_many_keys_are_shown_as_an_answer_has",),
    ),
    Mutant(
        "only groups with rows are shown",
        Kind.KEYS,
        "release.discovered_groups:DiscoveredGroupsRelease.draw",
        "return totals[group_order] if isinstance(reading, GroupTotals) else read(reading)",
        "return totals[group_order] if isinstance(reading, GroupTotals) else read(reading)\n"
        "    group_order = group_order[totals[group_order].any(axis=1)]\n"
        "    groups = groups[:len(group_order)]",
        ("safety/test_unknown_keys.py::test_every_kept_key_has_all_declared_values",),
    ),
    Mutant(
        "a threshold does not pay for every key of a unit and nobody notices",
        Kind.KEYS,
        "release.measurement:_require_covered_keys",
        "covers_keys = mechanism.max_groups >= reading.max_keys_per_unit and mechanism.weighted >= reading.is_weighted",
        "covers_keys = True",
        ("release/test_pricing.py::test_a_threshold_pays_for_every_key_of_a_unit",),
    ),
    Mutant(
        "a stored answer with a higher threshold is good enough",
        Kind.REUSE,
        "release.discovered_groups:DiscoveredGroupsRelease.accuracy_for_reuse",
        "{'keys': int(self._threshold.error()), **accuracy_for_reuse(self.prepared)}",
        "accuracy_for_reuse(self.prepared)",
        ("curator/previews/test_unknown_groups.py::test_a_stored_answer_is_as_good_only_if_it_shows_groups_as_small",),
    ),
    Mutant(
        "a group is said to be shown rarely where it is shown often",
        Kind.KEYS,
        "curator.previews.explaining:discovery_warning",
        "rare_size = int(threshold.error(_UNLIKELY))",
        "rare_size = int(threshold.error(_LIKELY))",
        ("curator/previews/test_unknown_groups.py::test_who_asks_is_told_before_spending_which_groups_will_not_show",),
    ),
    Mutant(
        "an answer that was bought is warned of as if it were to be paid again",
        Kind.KEYS,
        "curator.proposals.questions:Question.error",
        "not stored",
        "True",
        ("curator/previews/test_unknown_groups.py::test_an_answer_that_was_bought_is_not_warned_of",),
    ),
)

test_the_tests_of_unknown_keys_notice = suite(MUTANTS)
