"""Seeded bugs of wide and linked syntheses: what a round compares, what a target costs, which rows a seed draws."""

from __future__ import annotations

from mutants.running import Kind, Mutant, suite

_COMPARED = "publish/synthesis/test_compared_sets.py::"
_TARGET = "publish/synthesis/test_target.py::"
_AMOUNTS = "publish/synthesis/test_amounts.py::"
_FITS = _AMOUNTS + "test_every_step_fits_whatever_is_drawn"
_CHEAPEST = _AMOUNTS + "test_a_price_that_is_accepted_pays_for_the_cheapest_choice"
_LINKED = "curator/proposals/test_linked_tables.py::"

MUTANTS = (
    Mutant(
        "one set too few is compared where all fit",
        Kind.AUDIT,
        "publish.synthesis.state:compared_sets",
        "if len(candidates) <= limit:",
        "if len(candidates) < limit:",
        (_COMPARED + "test_all_sets_are_compared_while_they_are_few",),
    ),
    Mutant(
        "more sets are compared than the limit allows",
        Kind.AUDIT,
        "publish.synthesis.state:compared_sets",
        "room -= len(share)",
        "room -= len(share) // 2",
        (_COMPARED + "test_no_more_are_compared_than_the_limit_allows",),
    ),
    Mutant(
        "the same part of the sets is compared in all rounds",
        Kind.REUSE,
        "publish.synthesis.state:_evenly_spaced",
        "(start + index * len(sets) // count)",
        "(index * len(sets) // count)",
        (_COMPARED + "test_every_set_has_its_turn",),
    ),
    Mutant(
        "a choice among a subset moves half as much",
        Kind.SENSITIVITY,
        "plan.readings.cell_rows:ColumnSetDistances.sensitivity",
        "cells_sensitivity(self.bounded, 1 + has_several_cells).total",
        "cells_sensitivity(self.bounded, 1 + has_several_cells).total / 2",
        (_COMPARED + "test_a_choice_among_a_subset_is_as_likely_on_neighbours_as_its_price_says",),
    ),
    Mutant(
        "pairs with a target cost half of what they move",
        Kind.SENSITIVITY,
        "publish.synthesis.budget:Concentrated.noise_cost",
        "(2 * sigma_or_scale(noise) ** 2)",
        "(4 * sigma_or_scale(noise) ** 2)",
        (_TARGET + "test_the_targets_pairs_cost_what_all_neighbours_can_move_them",),
    ),
    Mutant(
        "the share of the first pair is kept back for nothing",
        Kind.CHARGE_ORDER,
        "publish.synthesis.methods:first_sets_and_amount",
        "remaining * FOR_TARGET / len(pairs)",
        "remaining * FOR_TARGET / (len(pairs) + 1)",
        (_TARGET + "test_the_targets_pairs_cost_what_all_neighbours_can_move_them",),
    ),
    Mutant(
        "a synthesis for a target is stored as one without",
        Kind.REUSE,
        "curator.proposals.synthesis:SynthesisProposal.plan_key",
        "if self.target is None else",
        "if True else",
        (_TARGET + "test_a_release_for_a_target_is_charged_as_any_other",),
    ),
    Mutant(
        "children are drawn without the seed",
        Kind.REUSE,
        "publish.synthetic_tables:LinkedModels.draw",
        "self.models[link.child], self.source)",
        "self.models[link.child])",
        (_LINKED + "test_a_seed_draws_the_same_tables_again",),
    ),
    Mutant(
        "the card of one table promises its own share of the price",
        Kind.AUDIT,
        "publish.synthetic_tables:SyntheticTables.cards",
        "replace(card, guarantee=guarantee)",
        "card",
        (_LINKED + "test_each_table_has_a_card_with_the_guarantee_of_all",),
    ),
    Mutant(
        "totals of rows hold the batches they came in",
        Kind.AUDIT,
        "plan.readings.cell_rows:CellRows.store_batches",
        "totals.append(np.array(batch_totals))",
        "totals.append(batch_totals)",
        ("plan/readings/test_reading_edges.py::test_a_batch_is_freed_once_it_is_stored",),
    ),
    Mutant(
        "batches of wide tables are as long as those of narrow ones",
        Kind.AUDIT,
        "engine.arrays:keyed_batch_rows",
        "min(KEYED_BATCH, MAX_BATCH_CELLS // max(1, len(reading.cells)))",
        "KEYED_BATCH",
        ("engine/test_dense_arrays.py::test_batches_of_many_keys_have_fewer_rows",),
    ),
    Mutant(
        "a pair of the star that is implied is paid for twice",
        Kind.CHARGE_ORDER,
        "publish.synthesis.state:SynthesisSetting.target_and_implied_pairs",
        "tuple(dict.fromkeys((*self.target_pairs, *self.pairs)))",
        "(*self.target_pairs, *self.pairs)",
        (_FITS, _AMOUNTS + "test_a_pair_of_the_star_that_is_implied_too_has_the_noise_of_the_star"),
    ),
    Mutant(
        "implied pairs beside a star have no share of it",
        Kind.CHARGE_ORDER,
        "publish.synthesis.methods:first_sets_and_amount",
        "remaining * FOR_TARGET / len(pairs)",
        "remaining * FOR_TARGET / len(setting.target_pairs)",
        (_FITS,),
    ),
    Mutant(
        "a star leaves out the other pairs of which one column decides the other",
        Kind.KEYS,
        "publish.synthesis.state:SynthesisSetting.target_and_implied_pairs",
        "(*self.target_pairs, *self.pairs)",
        "self.target_pairs or self.pairs",
        (_FITS,),
    ),
    Mutant(
        "MST measures pairs that memory does not hold",
        Kind.AUDIT,
        "publish.synthesis.methods:_fitting_pairs",
        "sizes[first] * sizes[second] <= room",
        "True",
        ("publish/synthesis/test_tree_memory.py::test_no_pair_is_measured_that_the_model_cannot_hold",),
    ),
    Mutant(
        "MST chooses among pairs that its reading does not count, and fails after the charge",
        Kind.CHARGE_ORDER,
        "publish.synthesis.methods:_fitting_pairs",
        "attribute_set in setting.reading.distinct_sets",
        "attribute_set",
        ("publish/synthesis/test_tree_memory.py::test_a_pair_that_fits_only_the_bought_cells_is_left_out",),
    ),
    Mutant(
        "a price is tried before the charge as if cells were free",
        Kind.CHARGE_ORDER,
        "curator.proposals.synthesis:SynthesisProposal._first_round_amounts",
        "Fraction(199, 200) - bought",
        "Fraction(199, 200) - 0 * bought",
        (_CHEAPEST,),
    ),
    Mutant(
        "a round begins that costs more than is left",
        Kind.CHARGE_ORDER,
        "publish.synthesis.methods:aim",
        "course.budget.remaining < 2 * amounts.total",
        "course.budget.remaining < amounts.total / 2",
        (_FITS,),
    ),
    Mutant(
        "a star is not compared with the model beside what is implied",
        Kind.AUDIT,
        "curator.proposals.synthesis:_target_index",
        "(*pairs_with(target, len(sizes)), *fixed_sets)",
        "(*pairs_with(target, len(sizes)),)",
        (_AMOUNTS + "test_a_star_is_refused_that_the_model_cannot_hold_beside_what_is_implied",),
    ),
)

test_the_tests_of_wide_syntheses_notice = suite(MUTANTS)
